"""The agent of each release works with today's server: hosts of a cluster are upgraded when their admin has time."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent import VERSION
from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers import models
from apps.contrib.schedulers.orders import tag_of
from apps.contrib.schedulers.services import change_scheduler, connect_scheduler
from apps.priorities.serving import store
from apps.priorities.serving.leaf_lines import every_leaf
from tests.agent.fakes import FakeScheduler
from tests.cli.release_fixture import AGENT, FOLDER
from tests.instants import AT
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

RELEASES = sorted(path.name.removesuffix(AGENT) for path in FOLDER.glob(f"*{AGENT}"))
JOBS = {"alice": "physics", "bob": "physics", "carol": "biology", "stranger": "nowhere"}
# The program as it is on a host, at the instant of the site.
AT_INSTANT = (
    "import runpy, sys, time; at = float(sys.argv.pop(1)); time.time = lambda: at; del sys.argv[0]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


class Host:
    """A host with the agent of a release, and a scheduler of fake commands."""

    def __init__(self, folder: Path, release: str, url: str, token: str) -> None:
        self.scheduler = FakeScheduler(folder / "bin")
        self.program = folder / "fairshare-agent.pyz"
        self.program.write_bytes(gzip.decompress((FOLDER / f"{release}{AGENT}").read_bytes()))
        (folder / "token").write_text(token)
        (folder / "token").chmod(0o600)
        self._folder = folder
        self._arguments = ["--server", url, "--scheduler", "c1", "--token-file", str(folder / "token")]

    def run(self) -> subprocess.CompletedProcess[str]:
        """One pass."""
        arguments = ["run", "--once", "--state", str(self._folder / "state"), *self._arguments]
        return subprocess.run(
            [sys.executable, "-I", "-c", AT_INSTANT, str(AT.timestamp()), str(self.program), *arguments],
            env={"PATH": f"{self.scheduler.folder}:{os.environ['PATH']}", "TZ": "UTC", "HOME": str(self._folder)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def test_each_release_has_its_agent() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.backup")) == RELEASES
    assert VERSION in {release.rpartition(".")[0] for release in RELEASES}


@pytest.mark.parametrize("release", RELEASES)
def test_the_agent_of_a_release_works_with_this_server(
    release: str, computed_site: Site, live_server: object, tmp_path: Path
) -> None:
    """Orders, look-ups, values, the queue and checks; then other orders, and nothing where nothing changes."""
    store.poll()
    settings = {"mode": "on", "namespace": "a", "limits": {"unmapped_percent": 30, "calls_per_s": 1000}}
    scheduler = connect_scheduler(policy_slug="grid", name="c1", settings=settings, at=AT, actor=SYSTEM)
    host = Host(tmp_path, release, str(live_server), computed_site.token("schedulers", "priorities:read"))
    host.scheduler.jobs = {str(n): {"user": user, "group": group} for n, (user, group) in enumerate(JOBS.items(), 1)}
    done = host.run()
    assert (done.returncode, done.stderr) == (0, "")
    factors = {line["account"]: line["factor"] for line in every_leaf(store.newest("grid"))}
    wanted = [round(100_000 * factors[user]) for user in ("alice", "bob", "carol")]
    assert list(host.scheduler.values().values()) == [*wanted, 50_000]
    first = models.AgentPass.objects.get()
    assert (first.frozen_code, first.pending, first.sent, first.unmapped, first.errors) == ("", 4, 4, 1, [])
    assert first.unmapped_names == [{"user": "stranger", "group": "nowhere", "jobs": 1}]
    assert models.QueueListing.objects.get().n_jobs == 4
    scheduler.refresh_from_db()
    assert {check["severity"] for check in scheduler.checks or ()} <= {"ok", "warning"}
    assert scheduler.checks

    host.scheduler.forget_calls()
    assert host.run().returncode == 0
    assert host.scheduler.calls("scontrol", "update") == []

    scheduler.refresh_from_db()
    change_scheduler(name="c1", tag=tag_of(scheduler), settings={"weight": 50_000}, at=AT, actor=SYSTEM)
    assert host.run().returncode == 0
    assert list(host.scheduler.values().values())[:3] == [
        round(50_000 * factors[user]) for user in JOBS if user in factors
    ]
    assert models.AgentPass.objects.count() == 3
    assert {each.orders_revision for each in models.AgentPass.objects.all()} == {1, 2}
