"""Numbers of a real `sshare -l` beside ours, at one instant and within the digits that it prints."""

from __future__ import annotations

import io
import time
from typing import NamedTuple

from django.core.management import call_command

from apps.core.clock import now
from apps.policies.models import Policy
from apps.policies.selectors import get_revision
from apps.priorities.recompute.pipeline import compute, load_inputs
from tests.real_schedulers.slurm_site import CLUSTER, SlurmSite

DIGITS = 1e-6
PROGRAMS = ("scontrol", "sacctmgr", "sshare", "sacct")
_PATIENCE_S = 120.0


def run(*arguments: object) -> str:
    out = io.StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=io.StringIO())
    return out.getvalue()


class Row(NamedTuple):
    """A number of sshare beside ours."""

    path: str
    column: str
    theirs: float
    ours: float

    @property
    def difference(self) -> float:
        """Relative, beyond the digits that sshare prints."""
        if self.theirs == self.ours:
            return 0.0
        cut = 1.0 if self.column == "RawUsage" else DIGITS
        return max(0.0, abs(self.ours - self.theirs) - cut) / max(abs(self.theirs), cut)


def beside_sshare(site: SlurmSite, policy: Policy) -> list[Row]:
    """All numbers at one instant: sshare is asked before and after, so that no tick and no end of a job is between."""
    ends = time.monotonic() + _PATIENCE_S
    while True:
        assert time.monotonic() < ends, "usage of sshare changed between each two calls"
        before = site.shares()
        run("collect_usage", "--source", CLUSTER)
        inputs = load_inputs(policy, as_of=now())
        computed = compute(inputs)
        if [row["RawUsage"] for row in site.shares()] == [row["RawUsage"] for row in before]:
            break
        time.sleep(1)
    tree, result = inputs.tree, computed.result
    place = {tree.path(i) or "/": i for i in range(len(tree))}
    ours = {"RawUsage": result.usage, "FairShare": result.factor, "LevelFS": result.columns["level_fs"].values}
    return [
        Row(row["Path"], column, float(row[column]), float(values[place[row["Path"]]]))
        for row in before
        for column, values in ours.items()
        if row[column] and row["Path"] in place and row["Path"] != "/"
    ]


def largest(rows: list[Row]) -> dict[str, float]:
    columns = ("RawUsage", "LevelFS", "FairShare")
    return {name: max(row.difference for row in rows if row.column == name) for name in columns}


def await_calculation(policy: Policy) -> None:
    """Until some seconds after the controller's next one: LevelFS and FairShare follow RawUsage only then."""
    window = get_revision(policy=policy).settings["window"]
    time.sleep((window["phase_s"] - time.time()) % window["calc_period_s"] + 3)


def tolerated(site: SlurmSite, policy: Policy) -> float:
    """Relative difference that is allowed: DIGITS, or more if a job ended in the second of a calculation.

    Accounting doesn't say which of the two came first: Slurm decays the last slice of such a job by one period more or
    not.
    """
    window = get_revision(policy=policy).settings["window"]
    period_s, phase_s = window["calc_period_s"], window["phase_s"]
    listed = site.run(
        "env", "SLURM_TIME_FORMAT=%s", *["sacct", "-a", "-X", "-n", "-P", "--duplicates", "--format=End"]
    ).split()
    n = sum(end.isdigit() and (int(end) - phase_s) % period_s == 0 for end in listed)
    if n:
        print(f"{n} of {len(listed)} jobs ended in the second of a calculation")
    return 1 - (1 - 0.693 / window["half_life_s"]) ** period_s if n else DIGITS
