"""What follows by hand of a site is advised, and its distance is that at the true number of processors."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest

from apps.contrib.lab.advisor.advise import advise
from apps.contrib.lab.comparison import replayed_settings
from apps.contrib.lab.comparison.replay import Replay, Variant
from apps.contrib.lab.comparison.replayed_settings import Split
from apps.engine.algorithms import read_algorithm
from apps.priorities.metering import window_of
from tests.contrib.lab.advisor.known_sites import N_DAYS, KnownSite, Stream, evidence_of

deep = pytest.mark.deep


@pytest.fixture(autouse=True)
def _half_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayed_settings, "HALF_LIVES_S", tuple(days * 86_400 for days in (2, 7, 30)))


def overloaded(times: float, **fields: object) -> KnownSite:
    """60, 30 and 10 shares; the group with 60 never submits. Fair use of the others is 75 and 25 %."""
    streams = (Stream(2, times / 2), Stream(3, times / 2))
    return KnownSite((60, 30, 10), streams, **{"operator": "absolute", **fields})  # type: ignore[arg-type]


HALF_LIFE_TOO_LONG = KnownSite((50, 50), (Stream(1, 1.2, days=((22, N_DAYS),)), Stream(2, 1.2)), half_life_days=60)
BURSTS = KnownSite(
    (50, 50),
    (Stream(2, 1.2), Stream(1, 1.2, days=tuple((day, day + 4.0) for day in range(2, N_DAYS - 3, 8)))),
    half_life_days=60,
)
AT_TARGET = KnownSite((1, 1, 1), (Stream(1, 0.4), Stream(2, 0.4), Stream(3, 0.4)))
ONE_FLOODS = KnownSite((1, 1), (Stream(1, 0.6), Stream(2, 0.02, hours=(0.02, 0.04)), Stream(2, 0.6)))
IDLE_MACHINE = KnownSite((3, 1), (Stream(1, 0.2), Stream(2, 0.2)), operator="absolute")
WIDE_JOBS = KnownSite((60, 30, 10), (Stream(2, 0.9, cpus=4), Stream(3, 0.9)), operator="absolute")


@pytest.mark.parametrize(
    ("site", "changes"),
    [
        pytest.param(overloaded(1.8), {"operator"}, id="an idle group's share, 80 % too much work"),
        pytest.param(overloaded(1.25), {"operator"}, id="an idle group's share, 25 % too much work", marks=deep),
        pytest.param(WIDE_JOBS, {"operator"}, id="an idle group's share, wide jobs", marks=deep),
        pytest.param(HALF_LIFE_TOO_LONG, {"half_life"}, id="a half-life far too long", marks=deep),
        pytest.param(BURSTS, {"half_life"}, id="bursts under a long half-life", marks=deep),
        pytest.param(AT_TARGET, set(), id="three groups on target", marks=deep),
        pytest.param(ONE_FLOODS, set(), id="one user with thousands of short jobs", marks=deep),
        pytest.param(IDLE_MACHINE, set(), id="a machine that is never full", marks=deep),
    ],
)
def test_the_setting_that_follows_by_hand_is_advised(site: KnownSite, changes: set[str]) -> None:
    evidence = evidence_of(site)
    found = advise(evidence)
    changed = {choice.subject: choice.recommended for choice in found.choices if choice.is_change}
    assert set(changed) == changes, found.sentence
    if "operator" in changes:
        assert found.algorithm["operator"] == "relative"
    if "half_life" in changes:
        assert found.half_life_s == 2 * 86_400
    if found.is_change:
        assert found.held_back is not None
        assert found.held_back.recommended_points < found.held_back.now_points


@pytest.mark.parametrize("times", [pytest.param(1.05, marks=deep), pytest.param(1.25, marks=deep), 1.8])
def test_the_distance_is_that_of_the_true_number_of_processors(times: float) -> None:
    """Not of a machine on which all that was submitted would have run."""
    site = overloaded(times)
    jobs = site.jobs()
    replay = Replay.of(site.tree, jobs)
    assert replay is not None
    true = Replay(replay.tree, replay.jobs, None, np.full((1, N_DAYS), site.cpus), 0, 0.0)
    variant = Variant(read_algorithm(site.settings["algorithm"]), window_of(site.settings["window"]))
    split = Split(N_DAYS)
    found, expected = (split.means(each.deviations(variant)) for each in (replay, true))
    assert fmean(found) == pytest.approx(fmean(expected), abs=0.2)
    if times == 1.8:
        assert found.training == pytest.approx(15.0, abs=1.0)  # 60 and 40 % where 75 and 25 % are fair


def test_waits_that_no_number_of_processors_explains_leave_nothing_to_compare() -> None:
    """Each job waited half an hour for something else, on a machine that was never full."""
    jobs = IDLE_MACHINE.jobs()
    held = jobs.__class__(**{**vars(jobs), "started_s": jobs.started_s + 1_800.0})
    evidence = evidence_of(IDLE_MACHINE, held)
    assert not evidence.sample.meets_history
    assert advise(evidence).sentence.startswith("Operator, half-life and algorithm can't be compared: jobs waited 30")
