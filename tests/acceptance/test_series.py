"""The daily series of a real grid's log, and the figures made of it, against the raw lines of the log alone.

The reckoning here knows the log's file and nothing of ours: lines, hours, halving with time and shares are worked out
once more with Python's own numbers. The log is LCG 2005 of the Parallel Workloads Archive (provider: Hui Li).
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

import numpy as np
import pytest
from django.core.management import call_command

from apps import clock
from apps.accounts.actor import COMMAND
from apps.engine import convergence
from apps.engine.arrays import FloatArray
from apps.engine.convergence import DayState
from apps.policies.at_once import publish_operations
from apps.policies.models import Policy
from apps.policies.trees import load_tree
from apps.priorities.series import runs
from apps.priorities.series.columns import DailySeries
from apps.priorities.series.reading import load_children, load_series, series_state
from apps.priorities.services import propose_policy
from apps.runs.services import work_run_now
from tests import oracles_convergence as twin

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

FIRST_ON, LAST_ON = date(2005, 11, 20), date(2005, 12, 5)
DAY = timedelta(days=1)
DAYS = [FIRST_ON + n * DAY for n in range((LAST_ON - FIRST_ON).days + 1)]
HALF_LIFE_S = 604_800
WINDOW = {"length_s": 90 * 86_400, "aging": "exponential", "half_life_s": HALF_LIFE_S}
RELATIVE, POINTS = 0.1, 0.5
# Days of the log (the first is 1), and shares in units of what everybody used, as the test sets them.
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


@pytest.fixture
def raw(shared_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Raw:
    """The log imported when it was complete, a policy of its first day, and three changes since."""
    path = shared_dir / "traces" / "LCG-2005-1.swf.gz"
    log = read_log(path)
    whole = sum(sum(log.of_group(group).values()) for group in log.groups) / 3600
    set_clock(monkeypatch, datetime(2005, 12, 6, 12, tzinfo=UTC))
    call_command("import_usage", "--source", "lcg", "--format", "swf", str(path), stdout=StringIO())
    set_clock(monkeypatch, datetime(2005, 11, 20, 0, 30, tzinfo=UTC))
    propose_policy(
        policy_slug="lcg", source_slug="lcg", proportional=True, settings={"window": WINDOW}, publish=True,
        reason="As it was used.", at=clock.now(), actor=COMMAND,
    )  # fmt: skip
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


def test_series_and_figures_are_those_of_the_raw_records(raw: Raw) -> None:
    policy = Policy.objects.get(slug="lcg")
    (asked,) = runs.build_series_stale(at=clock.now())
    assert work_run_now(asked).state == "succeeded"
    state = series_state(policy)
    assert (state.first_on, state.through_on, state.stale_from_on) == (FIRST_ON, LAST_ON, None)
    tree = load_tree(policy)
    series = load_children(policy, tree.uuid(0), from_on=FIRST_ON, to_on=LAST_ON)
    names = [tree.node(tree.index_of_uid(uid) or 0).name for uid in series.uids]
    assert (len(names), sorted(names)) == (28, raw.groups)
    assert list(series.days.on) == DAYS
    assert len(set(series.days.revision.tolist())) == 4
    assert not series.days.is_before_first.any()
    _groups_agree(raw, series, names)
    _users_agree(raw, policy, "4")
    _figures_agree(raw, series, names)


def _groups_agree(raw: Raw, series: DailySeries, names: list[str]) -> None:
    hours = {group: raw.of_group(group) for group in names}
    wanted = targets(raw)
    for day, on in enumerate(DAYS):
        used = [used_on(hours[name], on) for name in names]
        decayed = [decayed_at_end_of(hours[name], on) for name in names]
        assert series.used[:, day].tolist() == used
        assert series.peers_used[:, day].tolist() == [sum(used)] * len(names)
        assert series.decayed[:, day] == pytest.approx(decayed, rel=1e-9)
        assert series.peers_decayed[:, day] == pytest.approx([sum(decayed)] * len(names), rel=1e-9)
        assert series.target[:, day] == pytest.approx([wanted[name][day] for name in names], rel=1e-9)
        members = [
            [used_on(mine, on) for (group, _user), mine in raw.by_hour.items() if group == name] for name in names
        ]
        assert series.n_active[:, day].tolist() == [sum(n > 0 for n in each) for each in members]
        assert series.largest[:, day].tolist() == [max(each) for each in members]


def _users_agree(raw: Raw, policy: Policy, group: str) -> None:
    tree = load_tree(policy)
    at = tree.index_of_path(f"/{group}")
    assert at is not None
    users = [tree.name[i] for i in tree.children(at)]
    series = load_series(policy, [tree.uuid(i) for i in tree.children(at)], from_on=FIRST_ON, to_on=LAST_ON)
    assert len(users) > 50
    for place, user in enumerate(users):
        hours = raw.by_hour[group, user]
        assert series.used[place].tolist() == [used_on(hours, on) for on in DAYS]
        assert series.decayed[place] == pytest.approx([decayed_at_end_of(hours, on) for on in DAYS], rel=1e-9)


def _figures_agree(raw: Raw, series: DailySeries, names: list[str]) -> None:
    """Of the decayed share, as the policy counts it, and of the last three days' use."""
    hours = {group: raw.of_group(group) for group in names}
    target = [targets(raw)[name] for name in names]
    band = [[twin.tolerance(each, RELATIVE, POINTS) for each in row] for row in target]
    tolerance = convergence.tolerance_of(series.target, relative=RELATIVE, points=POINTS)
    used = [[float(used_on(hours[name], on)) for on in DAYS] for name in names]
    peers = [sum(row[day] for row in used) for day in range(len(DAYS))]
    decayed = [[decayed_at_end_of(hours[name], on) for on in DAYS] for name in names]
    whole = [sum(row[day] for row in decayed) for day in range(len(DAYS))]
    ours = {
        "decayed": convergence.actual_share(series.decayed, series.peers_decayed),
        "windowed": convergence.windowed_share(series.used, series.peers_used, 3),
    }
    theirs = {
        "decayed": [[each / below for each, below in zip(row, whole, strict=True)] for row in decayed],
        "windowed": [twin.share(row, peers, 3) for row in used],
    }
    everybody = [[below > 0 for below in peers] for _ in names]  # nobody ran anything on the last days
    counts = series.competes & (series.peers_used > 0)
    assert counts.tolist() == everybody
    assert 0 < sum(everybody[0]) < len(DAYS)
    for way, actual in ours.items():
        expected = theirs[way]
        assert actual == pytest.approx(np.array(expected), rel=1e-9, abs=1e-15)
        gaps = [[abs(a - t) for a, t in zip(*rows, strict=True)] for rows in zip(expected, target, strict=True)]
        mean, _there = convergence.mean_deviation(actual, series.target, counts)
        wanted = [each or 0.0 for each in twin.weighted(gaps, target, everybody)]
        assert mean == pytest.approx(wanted, rel=1e-9)
        inside = convergence.is_inside(actual, series.target, tolerance)
        part, n_days = convergence.time_inside(inside, counts)
        rows = zip(expected, target, band, everybody, strict=True)
        assert part == pytest.approx([twin.inside(*row) for row in rows], rel=1e-9)
        assert n_days.tolist() == [sum(everybody[0])] * len(names)
        for place in range(len(names)):
            found = convergence.half_times(actual[place], series.target[place], tolerance[place])
            assert len(found) == 3
            assert [(each.at, each.outcome, each.days) for each in found] == twin.half_times(
                expected[place], target[place], band[place]
            )
        _demand_agrees(series, actual, tolerance, expected, target, band, used)


def _demand_agrees(
    series: DailySeries,
    actual: FloatArray,
    tolerance: FloatArray,
    expected: list[list[float]],
    target: list[list[float]],
    band: list[list[float]],
    used: list[list[float]],
) -> None:
    """The log doesn't tell when jobs were submitted: who is under and ran something has inferred demand."""
    assert not series.knows_waiting.any()
    assert not series.waited_core_s.any()
    states = convergence.day_states(
        actual=actual, target=series.target, tolerance=tolerance, used=series.used, waited=series.waited_core_s,
        knows_waiting=series.knows_waiting, competes=series.competes,
    )  # fmt: skip
    names = [
        [
            twin.state(actual=a, target=t, band=b, used=u, waited=0, knows=False, competes=True)
            for a, t, b, u in zip(*rows, strict=True)
        ]
        for rows in zip(expected, target, band, used, strict=True)
    ]
    assert [[DayState(code).name for code in row] for row in states.tolist()] == names
    assert {"NO_DEMAND", "INFERRED", "OVER"} <= {name for row in names for name in row}
    gaps = [
        twin.demand_gap([row[day] for row in expected], [row[day] for row in target], [row[day] for row in names])
        for day in range(len(DAYS))
    ]
    wanted = twin.weighted([list(row) for row in zip(*gaps, strict=True)], target, [[True] * len(DAYS)] * len(target))
    error, _there = convergence.demand_aware_error(actual, series.target, states, series.competes)
    assert error == pytest.approx(wanted, rel=1e-9, abs=1e-15)
