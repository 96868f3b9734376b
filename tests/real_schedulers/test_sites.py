"""The sites themselves: what a test can trust, whatever becomes of its process."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.faults.stack import eventually
from tests.real_schedulers.enclosure import HOST, Enclosure, enclosed, require_namespaces
from tests.real_schedulers.gridengine_site import GridEngineSite
from tests.real_schedulers.slurm_site import SlurmSite

pytestmark = pytest.mark.schedulers


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    require_namespaces()


def processes_of(site: Enclosure) -> set[int]:
    """PIDs outside of all processes in the site's PID namespace."""
    namespace = os.readlink(f"/proc/{site.pid}/ns/pid")
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "ns/pid") == namespace:
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def has_text(file: Path) -> bool:
    return file.exists() and file.read_text() != ""


def test_a_site_has_its_own_users_and_host_and_changes_nothing_outside(folder: Path) -> None:
    before = Path("/etc/passwd").read_bytes()
    with enclosed(folder, ["ann"]) as site:
        assert site.run("id", "-un", user="ann").stdout == "ann\n"
        assert site.run("hostname").stdout == f"{HOST}\n"
        assert Path("/etc/passwd").read_bytes() == before
    assert site.folder.exists()


def test_sites_side_by_side_name_temporary_files_alike_and_share_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daemons of two sites have the same PIDs, by which programs name them; $TMPDIR of outside isn't theirs."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    own = 'echo "$0" > "$(dirname "$(mktemp -u)")/file-$$"; exec sleep 600'
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with enclosed(folders[0], ["ann"]) as one, enclosed(folders[1], []) as two:
        pids = [site.start("daemon", ["sh", "-c", own, site.folder.name]) for site in (one, two)]
        assert pids[0] == pids[1]
        for site in (one, two):
            written = site.folder / "tmp" / f"file-{pids[0]}"
            eventually(partial(has_text, written), "the daemon has written")
            assert written.read_text() == f"{site.folder.name}\n"
            assert site.run("ls", "/tmp").stdout == f"{written.name}\n"
        assert one.run("mktemp", user="ann").stdout.startswith("/tmp/")


def test_all_daemons_end_with_the_site(folder: Path) -> None:
    with enclosed(folder, []) as site:
        site.start("daemon", ["sh", "-c", "setsid sleep 600 & exec sleep 600"])
        eventually(lambda: len(processes_of(site)) == 3, "first process, daemon and its child")
        pids = processes_of(site)
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_daemons_end_when_the_test_process_is_killed(folder: Path) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with enclosed(folder, []) as site:
            site.start("daemon", ["sh", "-c", "setsid sleep 600 & exec sleep 600"])
            os.write(writer, " ".join(map(str, processes_of(site))).encode())
            signal.pause()
        os._exit(0)
    os.close(writer)
    pids = [int(pid) for pid in os.read(reader, 1_000).split()]
    os.close(reader)
    assert len(pids) >= 2
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "all processes have ended")


@pytest.mark.deep
def test_slurm_runs_jobs_of_several_users_and_charges_them(slurm: SlurmSite) -> None:
    slurm.add_tree({"physics": (30, {"hep": (10, {"ann": 5})}), "bio": (20, {"bob": 1})})
    jobs = [slurm.submit("ann", "hep", cpus=2), slurm.submit("bob", "bio")]
    slurm.wait_for_jobs()
    ran = slurm.run("sacct", "--allusers", "-X", "--noheader", "--parsable2", "--format=JobID,User,Account,State")
    assert set(ran.splitlines()) == {f"{jobs[0]}|ann|hep|COMPLETED", f"{jobs[1]}|bob|bio|COMPLETED"}
    used = {(row["Account"], row["User"]): int(row["RawUsage"]) for row in slurm.shares()}
    assert used["hep", "ann"] > 0  # 2 CPUs for 1 s, cut to a whole number after a moment of decay
    assert used["physics", ""] >= used["hep", "ann"]
    for parser in slurm.release.parsers:
        assert slurm.rest(f"/slurm/{parser}/ping")["pings"][0]["hostname"] == HOST


def test_commands_of_a_site_run_from_outside(slurm: SlurmSite) -> None:
    done = subprocess.run(
        ["squeue", "--version"], env={"PATH": f"{slurm.bin}:/usr/bin"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("slurm-wlm ")


@pytest.mark.deep
def test_grid_engine_orders_pending_jobs_by_override_tickets_and_accounts_for_them(gridengine: GridEngineSite) -> None:
    gridengine.configure(weight_urgency=0)
    first, second = gridengine.submit("gea", "-pe", "smp", "2", hold_queue=True), gridengine.submit("geb")
    gridengine.run("qalter", "-ot", "1000", second)
    eventually(lambda: [job["JB_job_number"] for job in gridengine.jobs()] == [second, first], "the second goes first")
    gridengine.release()
    gridengine.wait_for_jobs()
    owner_and_slots = {job: gridengine.accounting_of(job)[3:35:31] for job in (first, second)}
    assert owner_and_slots == {first: ["gea", "2"], second: ["geb", "1"]}
