"""`manage.py simulate` as a command: scenarios in, one JSON list out, one line for each bad one."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.contrib.lab.scenario_files import SHIPPED, shipped_scenarios
from tests.conftest import REPOSITORY


def scenario(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": "two",
        "hours": 10,
        "sites": [{"name": "s", "cpus": 4}],
        "algorithm": {"name": "gridwide"},
        "policy": {"name": "r", "children": [{"name": "a", "shares": 3}, {"name": "b", "shares": 1}]},
        "workload": [{"entry": "/a", "every_s": 600, "run_h": 1}, {"entry": "/b", "every_s": 600, "run_h": 1}],
    }
    return found | changes


def run(*arguments: str, **options: Any) -> tuple[int, str, list[str]]:
    """Status, standard output and error lines."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    try:
        call_command("simulate", *arguments, stdout=out, stderr=err, **options)
    except SystemExit as stopped:
        status = int(str(stopped.code))
    return status, out.getvalue(), err.getvalue().splitlines()


def write(path: Path, content: object) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def test_a_scenario_gives_a_list_with_one_result(tmp_path: Path) -> None:
    status, out, errors = run(write(tmp_path / "two.json", scenario()))
    (result,) = json.loads(out)
    assert (status, errors) == (0, [])
    assert list(result) == ["id", "seed", "jobs", "reports", "rms_points", "events"]
    assert (result["id"], result["seed"]) == ("two", 1)
    assert result["reports"][0]["hour"] == 10
    assert result["reports"][0]["share_of_parent"]["/a"] == pytest.approx(75, abs=5)


def test_the_same_scenario_and_seed_print_the_same_bytes(tmp_path: Path) -> None:
    file = write(tmp_path / "two.json", scenario())
    first, other = run(file, "--seed", "7")[1], run(file, "--seed", "8")[1]
    assert run(file, "--seed", "7")[1] == first != other
    assert json.loads(first)[0]["seed"] == 7
    assert run(write(tmp_path / "own.json", scenario(seed=7)))[1] == first


def test_bad_scenarios_are_named_and_the_others_results_printed(tmp_path: Path) -> None:
    bad = scenario(id="no-sites", sites=[])
    nameless = scenario(hours=0)
    del nameless["id"]
    status, out, errors = run(write(tmp_path / "list.json", [scenario(), bad, scenario(id="last"), nameless]))
    assert status == 2
    assert [result["id"] for result in json.loads(out)] == ["two", "last"]
    assert errors[0].startswith("error: no-sites: sites: ")
    assert errors[1].startswith("error: 3: hours: ")


def test_invalid_json_and_missing_files_are_reported(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"id": ')
    status, out, errors = run(str(broken), str(tmp_path / "none.json"))
    assert (status, out.strip()) == (2, "[]")
    assert len(errors) == 2
    assert "JSON" in errors[0]
    assert "none.json" in errors[1]


def test_a_shipped_scenario_runs_by_name() -> None:
    status, out, _ = run("vo-level-any-mode", "--seed", "3")
    (result,) = json.loads(out)
    assert (status, result["id"], result["seed"]) == (0, "vo-level-any-mode", 3)
    assert result["reports"][-1]["share_of_parent"]["/VO-A"] == pytest.approx(30, abs=0.4)


def test_the_list_describes_every_shipped_scenario() -> None:
    status, out, _ = run("--list")
    assert status == 0
    assert {line.split()[0] for line in out.splitlines()} == set(shipped_scenarios())
    assert all(notes for notes in shipped_scenarios().values())


def test_shipped_files_are_named_like_their_scenarios() -> None:
    for path in SHIPPED.glob("*.json"):
        assert json.loads(path.read_text())["id"] == path.stem


@pytest.mark.paper("4.57")
def test_a_curve_has_a_line_per_step_and_entry(tmp_path: Path) -> None:
    path = write(tmp_path / "two.json", scenario(report_h=[2.5, 5, 7.5, 10]))
    (result,) = json.loads(run(path)[1])
    status, out, errors = run(path, "--every", "2.5", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (status, errors) == (0, [])
    collected = [(float(row["hour"]), row["entry"], float(row["share_of_parent"])) for row in rows]
    expected = [
        (one["hour"], entry, share) for one in result["reports"] for entry, share in one["share_of_parent"].items()
    ]
    assert collected == expected
    assert {(row["scenario"], row["seed"]) for row in rows} == {("two", "1")}


def test_steps_end_with_the_scenario(tmp_path: Path) -> None:
    path = write(tmp_path / "two.json", scenario(hours=1))
    for every, hours in (("0.1", 10), ("0.4", 3), ("5", 1)):
        (result,) = json.loads(run(path, "--every", every)[1])
        collected = [report["hour"] for report in result["reports"]]
        assert (len(collected), collected[-1]) == (hours, 1), every
    assert run(path, "--every", "1e-9")[0] == 2
    for bad in ("0", "-1", "nan", "inf"):
        with pytest.raises(CommandError, match="hours above 0"):
            run(path, f"--every={bad}")


def test_nothing_to_simulate_is_bad_input() -> None:
    with pytest.raises(CommandError) as refused:
        call_command("simulate")
    assert refused.value.returncode == 2


LINE = "{job} {at} 0 {run} {cpus} -1 -1 {cpus} {asked} -1 1 {user} {group} 1 1 1 -1 -1"


def trace_lines() -> list[str]:
    """Two users of one group and one of another, a job without run time, one that is too wide, and a comment."""
    jobs = [
        {"job": n, "at": 1000 + 60 * n, "run": 3600, "cpus": 1, "asked": 7200, "user": n % 3, "group": n % 3 // 2}
        for n in range(300)
    ]
    jobs[5]["run"] = -1
    jobs[6]["cpus"] = 64
    return ["; Version: 2.2", *(LINE.format(**job) for job in jobs)]


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_beside_the_scenario_is_read_and_mapped(packed: bool, tmp_path: Path) -> None:
    name = "log.swf.gz" if packed else "log.swf"
    content = "\n".join(trace_lines()).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if packed else content)
    rules = [{"user": 0, "entry": "/a"}, {"group": 0, "entry": "/b"}]
    status, out, errors = run(
        write(tmp_path / "traced.json", scenario(workload=[{"trace": name, "map": rules}], report_h=[5]))
    )
    (result,) = json.loads(out)
    assert (status, errors) == (0, [])
    found = result["traces"]["workload[0]"]
    assert found == {"jobs": 199, "unmapped": 99, "without_run_time": 1, "too_wide": 1}
    assert result["jobs"]["submitted"] == 199
    assert result["reports"][0]["share_of_parent"]["/a"] == pytest.approx(75, abs=10)


def test_a_missing_or_invalid_trace_is_rejected_with_the_field(tmp_path: Path) -> None:
    (tmp_path / "bad.swf").write_text("1 2 3\n")
    for name, named in (("none.swf", r"\bnone\.swf\b"), ("bad.swf", r"\b1\b")):
        line = {"trace": name, "entry": "/a"}
        status, _, errors = run(write(tmp_path / "traced.json", scenario(workload=[line])))
        assert status == 2
        assert errors[0].startswith("error: two: workload[0].trace: ")
        assert re.search(named, errors[0].removeprefix("error: two: workload[0].trace: "))


def test_a_real_log_can_drive_the_sites(traces_dir: Path, tmp_path: Path) -> None:
    log = traces_dir / "SDSC-SP2-1998-first4961.swf.gz"
    lines = [line.split() for line in gzip.decompress(log.read_bytes()).decode().splitlines() if line[:1] not in ";"]
    groups = sorted({int(fields[12]) for fields in lines})
    changes: dict[str, Any] = {
        "hours": 24 * 60,
        "sites": [{"name": "sp2", "cpus": 128}],
        "backfill": True,
        "policy": {"name": "r", "children": [{"name": f"g{group}", "shares": 1} for group in groups]},
        "workload": [{"trace": str(log), "entry": "/g{group}"}],
    }
    status, out, errors = run(write(tmp_path / "sdsc.json", scenario(**changes)))
    (result,) = json.loads(out)
    assert (status, errors) == (0, [])
    ran = [fields for fields in lines if float(fields[3]) > 0]
    assert result["jobs"]["submitted"] == len(ran)
    assert result["jobs"]["finished"] > 0.99 * len(ran)
    used_s = {group: 0.0 for group in groups}
    for fields in ran:
        used_s[int(fields[12])] += float(fields[3]) * float(fields[4] if float(fields[4]) > 0 else fields[7])
    shares = result["reports"][0]["share_of_parent"]
    for group in sorted(used_s, key=lambda each: -used_s[each])[:5]:
        part = 100 * used_s[group] / sum(used_s.values())
        assert shares[f"/g{group}"] == pytest.approx(part, abs=0.5)  # all of it ran in the end


@pytest.mark.deep
def test_the_command_needs_no_instance_and_no_database(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRSHARE", "DJANGO"))}
    environment["DATABASE_URL"] = "postgres://nobody@127.0.0.1:1/none"
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "manage.py"), "simulate", "-"],
        input=json.dumps(scenario()),
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)[0]["id"] == "two"
