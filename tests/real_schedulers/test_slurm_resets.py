"""A real Slurm sets usage to zero at a midnight, and our numbers afterwards are those of its `sshare`.

The midnight is near because the controller's zone is one whose day, or week, begins within a minute.
"""

from __future__ import annotations

import json
import subprocess
import time
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.policies.models import Policy
from apps.policies.selectors import get_revision
from tests.real_schedulers.beside_sshare import (
    PROGRAMS,
    await_calculation,
    beside_sshare,
    largest,
    run,
    tolerated,
)
from tests.real_schedulers.slurm_site import CLUSTER, TREE, SlurmSite

pytestmark = [
    pytest.mark.schedulers,
    pytest.mark.deep,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(1_200),
]
DAY_S = 86_400
SUNDAY_S = 3 * DAY_S  # 1970-01-04, since 1970
PERIODS = {"daily": (DAY_S, 0), "weekly": (7 * DAY_S, SUNDAY_S)}  # length and one beginning, in local seconds
AHEAD_S = 40  # the controller is up with the zone well before its midnight
ZONE = "Reset/Midnight"


def offset_s(begins_at_s: int, period: str) -> int:
    """Seconds east of Greenwich of a zone where a period begins at this instant; skips where no zone has it."""
    length_s, beginning_s = PERIODS[period]
    east_s = (beginning_s - begins_at_s) % length_s
    offset = east_s if east_s < length_s / 2 else east_s - length_s
    if abs(offset) >= DAY_S:
        pytest.skip("no zone's week begins now: from Saturday 0:00 to Monday 0:00 UTC, one does")
    return offset


def posix_zone(offset: int) -> str:
    """The zone as the variable TZ names it: hours west of Greenwich."""
    minutes, seconds = divmod(abs(offset), 60)
    return f"XXX{'-' if offset >= 0 else '+'}{minutes // 60}:{minutes % 60:02}:{seconds:02}"


@pytest.fixture
def zone_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which Python looks for zones first."""
    zoneinfo.ZoneInfo.clear_cache()
    zoneinfo.reset_tzpath([str(tmp_path), *zoneinfo.TZPATH])
    yield tmp_path
    zoneinfo.reset_tzpath()
    zoneinfo.ZoneInfo.clear_cache()


def make_zone(folder: Path, offset: int) -> None:
    minutes, seconds = divmod(abs(offset), 60)
    clock = f"{'-' if offset < 0 else ''}{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    line = f"Zone\t{ZONE}\t{clock}\t-\tXXX\n"
    subprocess.run(["zic", "-d", str(folder), "-"], input=line, text=True, check=True)


def raw_usage(site: SlurmSite) -> dict[str, int]:
    return {row["Path"]: int(row["RawUsage"]) for row in site.shares() if row["User"] and row["User"] != "root"}


@pytest.mark.parametrize("period", PERIODS)
def test_usage_after_a_reset_is_that_of_sshare(slurm: SlurmSite, zone_folder: Path, period: str, settings: Any) -> None:
    slurm.load(TREE)
    slurm.submit("ann", "hep", cpus=8, seconds=3)
    slurm.submit("dan", "bio", cpus=5, seconds=4)
    slurm.wait_for_jobs()
    midnight_s = int(time.time()) + AHEAD_S
    offset = offset_s(midnight_s, period)
    slurm.zone = posix_zone(offset)
    slurm.configure(PriorityUsageResetPeriod=period.upper())
    # The controller's next calculation is a minute after its start, and midnight 20 seconds before.
    left_s = midnight_s - time.time()
    slurm.submit("bob", "hep", cpus=3, seconds=round(left_s) - 20)  # ends before midnight
    slurm.submit("eve", "bio", cpus=2, seconds=round(left_s) + 7)  # ends after it, before the calculation
    slurm.submit("fay", "lab", cpus=7, seconds=round(left_s) + 150)
    slurm.submit("gus", "lab", cpus=4, seconds=3_000)
    before = raw_usage(slurm)
    assert before["/hep/ann"] > 0
    assert before["/bio/dan"] > 0
    ends = midnight_s + 150
    while raw_usage(slurm)["/hep/ann"]:
        assert time.time() < ends, f"no reset: {slurm.log('slurmctld')}"
        time.sleep(1)
    assert time.time() >= midnight_s
    slurm.submit("cat", "atlas2", cpus=6, seconds=2)

    make_zone(zone_folder, offset)
    settings.TIME_ZONE, settings.FAIRSHARE_TICK_S = ZONE, 1
    settings.FAIRSHARE_COLLECT_COMMANDS = [str(slurm.bin / name) for name in PROGRAMS]
    setup = json.loads(
        run("scheduler", "setup", CLUSTER, "--here", "--json", "--publish", "--collect", "--reason", "x")
    )
    print(f"{setup['equal']} of {setup['users']} factors equal, usage {setup['usage']}")
    policy = Policy.objects.get(slug=CLUSTER)
    window = get_revision(policy=policy).settings["window"]
    assert (window["reset"], window["reset_zone"]) == (period, ZONE)
    for calculation in range(2):
        await_calculation(policy)
        rows = beside_sshare(slurm, policy)
        print(f"calculation {calculation}: {len(rows)} numbers, largest relative differences {largest(rows)}")
        print("\n".join(f"{row.path} {row.column} {row.theirs:g} {row.ours:.6f}" for row in rows))
        assert [row for row in rows if row.difference > tolerated(slurm, policy)] == []
        usage = {row.path: row.theirs for row in rows if row.column == "RawUsage"}
        assert [usage[path] for path in ("/hep/ann", "/hep/bob", "/bio/dan", "/bio/eve")] == [0, 0, 0, 0]
        assert min(usage[path] for path in ("/hep/atlas2/cat", "/bio/lab/fay", "/bio/lab/gus")) > 0
    for job, *_ in slurm.queue("%i"):
        slurm.run("scancel", job)
    slurm.wait_for_jobs()
    assert before.keys() == raw_usage(slurm).keys()
