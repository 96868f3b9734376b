"""LCG 2005 reckoned by hand: its lines, a policy of its first day and three changes of shares, without our code.

The reckoning knows the log's file and nothing of ours: lines, hours, halving with time and shares are worked out once
more with Python's own numbers. The log is of the Parallel Workloads Archive (provider: Hui Li).
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from apps.accounts.actor import COMMAND
from apps.contrib.onboarding.services import PolicyProposal, propose_policy
from apps.core import clock
from apps.policies.publishing.direct import publish_operations

FIRST_ON, LAST_ON = date(2005, 11, 20), date(2005, 12, 5)
DAY = timedelta(days=1)
DAYS = [FIRST_ON + n * DAY for n in range((LAST_ON - FIRST_ON).days + 1)]
HALF_LIFE_S = 604_800
WINDOW = {"length_s": 90 * 86_400, "aging": "exponential", "half_life_s": HALF_LIFE_S}
RELATIVE, POINTS = 0.1, 0.5
# Days of the log (the first is 1), and shares in units of the usage of all users, as the test sets them.
CHANGES = {3: {"4": Fraction(1, 4), "1": Fraction(1, 4)}, 6: {"16": Fraction(1, 2)}, 9: {"4": Fraction(1, 100)}}


@dataclass
class Raw:
    """The log as it is: core-seconds by group, user and hour since 1970."""

    by_hour: dict[tuple[str, str], dict[int, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )

    def of_group(self, group: str) -> dict[int, int]:
        found: dict[int, int] = defaultdict(int)
        for (mine, _user), hours in self.by_hour.items():
            if mine == group:
                for hour, core_s in hours.items():
                    found[hour] += core_s
        return found

    @property
    def groups(self) -> list[str]:
        return sorted({group for group, _user in self.by_hour})


def read_log(path: Path) -> Raw:
    raw, starts_s = Raw(), 0
    with gzip.open(path, "rt") as lines:
        for line in lines:
            if line.startswith(";"):
                starts_s = int(line.split(":")[1]) if "UnixStartTime" in line else starts_s
                continue
            job = [int(float(text)) for text in line.split()]
            begin = starts_s + job[1] + max(job[2], 0)
            end = begin + max(job[3], 0)
            cores = job[4] if job[4] > 0 else max(job[7], 0)
            hours = raw.by_hour[str(job[12]), str(job[11])]
            for hour in range(begin // 3600, end // 3600 + 1):
                hours[hour] += cores * max(0, min(end, (hour + 1) * 3600) - max(begin, hour * 3600))
    return raw


def used_on(hours: dict[int, int], on: date) -> int:
    first = int(datetime(on.year, on.month, on.day, tzinfo=UTC).timestamp()) // 3600
    return sum(hours.get(hour, 0) for hour in range(first, first + 24))


def decayed_at_end_of(hours: dict[int, int], on: date) -> float:
    end_s = int(datetime(on.year, on.month, on.day, tzinfo=UTC).timestamp()) + 86_400
    ended = [(hour, core_s) for hour, core_s in hours.items() if (hour + 1) * 3600 <= end_s]
    return sum((core_s * 0.5 ** ((end_s - (hour + 1) * 3600) / HALF_LIFE_S) for hour, core_s in ended), 0.0)


def targets(raw: Raw) -> dict[str, list[float]]:
    """Of each group on each day: what it used in all, as the proposal rounds it, changed on three days."""
    shares = {group: float(f"{Decimal(sum(raw.of_group(group).values())) / 3600:.6g}") for group in raw.groups}
    whole = sum(sum(raw.of_group(group).values()) for group in raw.groups) / 3600
    found: dict[str, list[float]] = {group: [] for group in shares}
    for number in range(1, len(DAYS) + 1):
        for group, part in CHANGES.get(number, {}).items():
            shares[group] = share_of(part, whole)
        for group, share in shares.items():
            found[group].append(share / sum(shares.values()))
    return found


def share_of(part: Fraction, whole_core_h: float) -> float:
    return round(float(part) * whole_core_h)


def set_clock(monkeypatch: pytest.MonkeyPatch, instant: datetime) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", instant.isoformat())


def put_in_place(traces_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Raw:
    """The log imported when it was complete, a policy of its first day, and three changes since."""
    path = traces_dir / "LCG-2005-1.swf.gz"
    log = read_log(path)
    whole = sum(sum(log.of_group(group).values()) for group in log.groups) / 3600
    set_clock(monkeypatch, datetime(2005, 12, 6, 12, tzinfo=UTC))
    call_command("import_usage", "--source", "lcg", "--format", "swf", str(path), stdout=StringIO())
    set_clock(monkeypatch, datetime(2005, 11, 20, 0, 30, tzinfo=UTC))
    propose_policy(
        PolicyProposal(
            policy_slug="lcg",
            source_slug="lcg",
            proportional=True,
            settings={"window": WINDOW},
            publish=True,
            reason="As it was used.",
        ),
        at=clock.now(),
        actor=COMMAND,
    )
    for number, parts in CHANGES.items():
        set_clock(monkeypatch, datetime(2005, 11, 19, 10, tzinfo=UTC) + number * DAY)
        operations = [
            {"op": "set_shares", "entry": f"/{group}", "shares": share_of(part, whole)} for group, part in parts.items()
        ]
        publish_operations(
            policy_slug="lcg", operations=operations, reason="Another plan.", at=clock.now(), actor=COMMAND
        )
    set_clock(monkeypatch, datetime(2005, 12, 6, 12, tzinfo=UTC))
    return log
