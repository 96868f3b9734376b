"""The daily series of a real grid's log, and the figures made of it, against the raw lines of the log alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from apps.core import clock
from apps.engine import convergence
from apps.engine.arrays import FloatArray
from apps.engine.convergence import DayState
from apps.engine.target_state import is_on_target, slack_of
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.runs.services import work_run_now
from apps.series import runs
from apps.series.daily_series import DailySeries
from apps.series.stored_series import load_children, load_series, series_state
from tests.acceptance import lcg_by_hand
from tests.acceptance.lcg_by_hand import (
    DAYS,
    FIRST_ON,
    LAST_ON,
    POINTS,
    RELATIVE,
    Raw,
    decayed_at_end_of,
    targets,
    used_on,
)
from tests.oracles import convergence as twin

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


@pytest.fixture
def raw(traces_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Raw:
    return lcg_by_hand.put_in_place(traces_dir, monkeypatch)


@pytest.mark.deep
def test_series_and_figures_equal_the_raw_records(raw: Raw) -> None:
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
    tolerance = slack_of(series.target, {"relative": RELATIVE, "points": POINTS})
    used = [[float(used_on(hours[name], on)) for on in DAYS] for name in names]
    peers = [sum(row[day] for row in used) for day in range(len(DAYS))]
    decayed = [[decayed_at_end_of(hours[name], on) for on in DAYS] for name in names]
    whole = [sum(row[day] for row in decayed) for day in range(len(DAYS))]
    ours = {
        "decayed": convergence.actual_share(series.decayed, series.peers_decayed),
        "windowed": convergence.actual_share(
            convergence.trailing_sum(series.used, 3), convergence.trailing_sum(series.peers_used, 3)
        ),
    }
    theirs = {
        "decayed": [[each / below for each, below in zip(row, whole, strict=True)] for row in decayed],
        "windowed": [twin.share(row, peers, 3) for row in used],
    }
    everybody = [[below > 0 for below in peers] for _ in names]  # no usage on the last days
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
        inside = is_on_target(actual, series.target, tolerance)
        wanted_inside = np.array(list(map(twin.inside, expected, target, band)))
        assert (inside == wanted_inside)[counts].all()
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
    """The log doesn't say when jobs were submitted: who is under and ran something has inferred demand."""
    assert not series.knows_waiting.any()
    assert not series.waited_core_s.any()
    states = convergence.day_states(
        actual=actual,
        target=series.target,
        tolerance=tolerance,
        used=series.used,
        waited=series.waited_core_s,
        knows_waiting=series.knows_waiting,
        competes=series.competes,
    )
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
