"""An agent is killed at each step of its pass, and finds a full disk: the scheduler has what was meant."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.loop import STEPS
from tests.agent.fakes import FakeScheduler
from tests.agent.steps import ROOT, Passes

FACTORS = {"ann physics": 0.25, "bob physics": 0.5}
VALUES = {"11": 25_000, "12": 50_000}
SHARE_STEPS = ("restore shares", "shares", "set shares")
LIMIT_STEPS = ("restore limits", "limits", "intend limits", "set limits", "confirm limits")
ORDER: dict[str, Any] = {
    "id": 5,
    "cluster": "demo",
    "lines": [{"line": 0, "group": "physics", "user": "", "before": "60", "after": "61"}],
}


@pytest.fixture
def scheduler(tmp_path: Path) -> FakeScheduler:
    found = FakeScheduler(tmp_path / "bin")
    found.jobs = {"11": {"user": "ann", "group": "physics"}, "12": {"user": "bob", "group": "physics"}}
    found.shares = {"physics//": "60"}
    return found


@pytest.mark.deep
@pytest.mark.parametrize("step", [step for step in STEPS if step not in (*SHARE_STEPS, *LIMIT_STEPS)])
def test_a_killed_priority_pass_is_completed_by_the_next(scheduler: FakeScheduler, tmp_path: Path, step: str) -> None:
    passes = Passes(tmp_path, scheduler.folder, FACTORS)
    assert passes.run(step) == -9
    assert set(scheduler.values().values()) <= {None, *VALUES.values()}, "nothing but what was meant"
    assert passes.run() == 0
    assert scheduler.values() == VALUES
    scheduler.forget_calls()
    assert passes.run() == 0
    assert scheduler.calls("scontrol", "update") == [], "nothing is sent when nothing changed"


@pytest.mark.deep
@pytest.mark.parametrize("step", [*SHARE_STEPS[1:], "queue", "report", "end"])
def test_a_killed_share_pass_is_completed_by_the_next(scheduler: FakeScheduler, tmp_path: Path, step: str) -> None:
    passes = Passes(tmp_path, scheduler.folder, {}, carries="shares", share_order=ORDER)
    assert passes.run(step) == -9
    assert passes.run() == 0
    assert scheduler.shares == {"physics//": "61"}
    (outcome,) = passes.report()["share_order"]["outcomes"]
    assert outcome["code"] in ("done", "already")
    assert len(scheduler.calls("sacctmgr", "--immediate")) == 1, "it is set once"


LIMIT: dict[str, Any] = {
    **{"format": 1, "as_of": "x", "lapse_s": 3600, "percent_a_day": 100, "canary": None, "accounts": ["hep"]},
    "lines": [{"account": "hep", "grp_tres_mins": {"cpu": 0}, "qos": "slow", "reason": "", "since": ""}],
}


@pytest.mark.deep
@pytest.mark.parametrize("step", [*LIMIT_STEPS, "queue", "report", "end"])
def test_a_killed_limit_pass_is_completed_and_restored(scheduler: FakeScheduler, tmp_path: Path, step: str) -> None:
    before: dict[str, tuple[str, dict[str, str], int]] = {"hep": ("root", {"billing": "7"}, 1), "bio": ("root", {}, 1)}
    scheduler.have_accounts(before)
    passes = Passes(tmp_path, scheduler.folder, {}, carries="limits", limit_order=LIMIT)
    assert passes.run(step) == (0 if step == "restore limits" else -9)
    assert passes.run() == 0
    assert scheduler.limits == {"hep": {"billing": "7", "cpu": "0", "qos": "slow"}}
    assert len(scheduler.calls("sacctmgr", "--immediate")) == 1, "it is set once"
    passes.order({}, carries="limits", limit_order={**LIMIT, "lines": []})
    passes.run(step)
    assert passes.run() == 0
    assert scheduler.limits == {"hep": {"billing": "7"}}


@pytest.mark.deep
def test_a_full_disk_keeps_the_last_values_and_the_next_pass_continues(
    scheduler: FakeScheduler, tmp_path: Path
) -> None:
    """The agent's folder is a small tmpfs in a mount namespace of its own."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("a tmpfs needs root and mount namespaces")
    passes, jobs = Passes(tmp_path, scheduler.folder, FACTORS), scheduler.folder / "jobs"
    passes.state.mkdir(mode=0o700)
    run, state = shlex.join(passes.argv()), shlex.quote(str(passes.state))
    other = passes.site.read_text().replace("0.25", "0.75")
    (tmp_path / "other.json").write_text(other)
    script = f"""set -eu
mount -t tmpfs -o size=64k,mode=700 none {state}
{run}
cp {jobs} {tmp_path}/before
cp {tmp_path}/other.json {passes.site}
dd if=/dev/zero of={state}/fill bs=1k 2>/dev/null || true
status=0; {run} || status=$?
echo "full: $status"
cmp {jobs} {tmp_path}/before
cp {passes.site.with_suffix(".report")} {tmp_path}/full.report
rm {state}/fill
{run}
"""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        env=passes.env(), cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "full: 1" in done.stdout
    assert "can't be written" in (tmp_path / "full.report").read_text()
    assert scheduler.values() == {"11": 75_000, "12": 50_000}
