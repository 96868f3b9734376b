"""From evidence to advice: margins decide, and the sentences are made from the numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apps.contrib.lab.advisor.advise import advise
from apps.contrib.lab.advisor.records import AdvisedChoice, Evidence
from apps.contrib.lab.comparison.verdict import is_nearer
from tests.contrib.lab.advisor.made_evidence import AEQUUS, SAMPLE, WINDOW, evidence, operator, replay, resolution


def choice(found: Evidence, subject: str) -> AdvisedChoice:
    return next(each for each in advise(found).choices if each.subject == subject)


def test_nothing_is_changed_where_nothing_is_measurably_better() -> None:
    advice = advise(evidence())
    assert not advice.is_change
    assert advice.sentence.startswith("Keep what you have.")
    assert advice.algorithm == AEQUUS
    assert advice.half_life_s is None
    assert advice.recommended == {
        "operator": "relative",
        "resolution": "2^8",
        "half_life": "7 days",
        "algorithm": "aequus",
    }
    assert advice.held_back is not None
    assert advice.held_back.now_points == advice.held_back.recommended_points == pytest.approx(5.0)


def test_equivalent_operators_are_named() -> None:
    found = choice(evidence(), "operator")
    assert "Alike in order, different in rounding only: sigmoid-2." in found.sentence
    assert [each.orders_like for each in found.candidates] == ["", "relative", ""]


def test_the_least_resolution_within_the_margin_is_advised() -> None:
    rows = (resolution(256, 12.3), resolution(1024, 1.4), resolution(4096, 0.9), resolution(65_536, 0.0))
    found = choice(evidence(resolutions=rows), "resolution")
    assert (found.now, found.recommended) == ("2^8", "2^12")
    assert "misplaces 12.3\u00a0% of the leaves" in found.sentence
    assert advise(evidence(resolutions=rows)).algorithm["resolution"] == 4096


def test_a_resolution_that_loses_less_than_the_margin_is_kept() -> None:
    found = choice(evidence(resolutions=(resolution(256, 0.8), resolution(4096, 0.0))), "resolution")
    assert not found.is_change
    assert "0.8\u00a0%" in found.sentence


def test_an_operator_is_replaced_where_the_replay_shows_its_effect() -> None:
    """Not for its properties alone: what has no effect here is no advice."""
    absolute = {**AEQUUS, "operator": "absolute"}
    now = replay("absolute", 15.0, 15.2, is_now=True, value=absolute)
    own = evidence(algorithm=absolute, tried_operators=(now, replay("relative", 0.7, 0.8, value=AEQUUS)))
    found = choice(own, "operator")
    assert (found.now, found.recommended) == ("absolute", "relative")
    assert advise(own).algorithm["operator"] == "relative"
    same = replace(own, tried_operators=(now, replay("relative", 15.0, 15.2, value=AEQUUS)))
    kept = choice(same, "operator")
    assert not kept.is_change
    assert "The replay shows no effect of it here." in kept.sentence


def test_an_operator_is_not_changed_for_what_the_tree_shows_of_two_leaves() -> None:
    both = (operator("relative", misplaced=0.5, visible=50.0), operator("sigmoid-2", misplaced=0.0, visible=100.0))
    assert choice(evidence(operators=both), "operator").recommended == "relative"


def test_a_finer_resolution_is_advised_before_another_operator() -> None:
    rows = (resolution(256, 12.0), resolution(4096, 0.0))
    both = (operator("relative", misplaced=12.0), operator("sigmoid-2", misplaced=0.0))
    found = advise(evidence(resolutions=rows, operators=both))
    assert [each.subject for each in found.choices if each.is_change] == ["resolution"]


def test_a_half_life_must_be_nearer_on_the_held_back_days_too() -> None:
    now = replay("7 days", 4.0, 5.0, is_now=True)
    better = replay("4 days", 3.4, 4.0, value=345_600)
    found = advise(evidence(half_lives=(now, better)))
    assert found.half_life_s == 345_600
    assert found.held_back is not None
    assert found.held_back.is_better
    assert found.held_back.recommended_points == pytest.approx(4.0)
    assert "recommended settings were 4.0 points" in found.held_back.sentence
    not_later = advise(evidence(half_lives=(now, replace(better, held_back=now.held_back))))
    assert not not_later.is_change
    assert "but on the last 17 days" in next(each for each in not_later.choices if each.subject == "half_life").sentence


def test_a_gain_below_the_margin_or_the_error_counts_as_none() -> None:
    now = replay("7 days", 4.0, 5.0, is_now=True)
    points = now.training
    assert is_nearer(points, replay("4 days", 3.49, 0).training, 0.5)
    assert not is_nearer(points, replay("4 days", 3.51, 0).training, 0.5)
    assert is_nearer(points, replay("4 days", 3.79, 0).training, 0.1)  # 5 %
    assert not is_nearer(points, replay("4 days", 3.81, 0).training, 0.1)
    assert not is_nearer(points, (1.0, 3.0, 6.0), 0.5)


def test_a_gain_below_the_error_of_the_replay_of_history_counts_as_none() -> None:
    now, better = replay("7 days", 4.0, 4.0, is_now=True), replay("4 days", 3.0, 3.0, value=345_600)
    for error, is_change in ((0.9, True), (1.1, False)):
        found = evidence(half_lives=(now, better), sample=replace(SAMPLE, model_error_points=error))
        assert advise(found).is_change == is_change


def test_days_that_tell_nothing_leave_the_choice_to_the_held_back_ones() -> None:
    """And the second half of these must confirm what the first half chose."""
    now = replay("60 days", 0.4, 25.0, is_now=True, value=60 * 86_400)
    two = replay("2 days", 0.3, 1.4, value=2 * 86_400)
    found = advise(evidence(half_lives=(now, two)))
    assert found.half_life_s == 2 * 86_400
    assert "made no difference" in next(each for each in found.choices if each.subject == "half_life").sentence
    unconfirmed = advise(evidence(half_lives=(now, replace(two, latest=now.latest))))
    assert not unconfirmed.is_change
    assert "stays open" in unconfirmed.sentence


def test_held_back_days_that_contradict_the_first_ones_are_in_the_headline() -> None:
    now, other = replay("7 days", 2.0, 20.0, is_now=True), replay("2 days", 9.0, 1.0, value=172_800)
    found = advise(evidence(half_lives=(now, other)))
    assert not found.is_change
    assert "the last 17 days differ from the first 26" in found.sentence
    assert "1.0 points" in found.sentence
    assert "20.0" in found.sentence


def test_of_half_lives_as_near_the_closest_to_the_current_one_is_advised() -> None:
    now = replay("14 days", 9.0, 9.0, is_now=True, value=14 * 86_400)
    others = [
        replay(f"{days} days", points, points, value=days * 86_400) for days, points in ((1, 2.0), (2, 2.1), (7, 6.0))
    ]
    assert advise(evidence(half_lives=(now, *others))).half_life_s == 2 * 86_400


def test_nothing_is_compared_where_the_replay_of_history_is_not_history() -> None:
    """Whatever the numbers of the replays say."""
    sample = replace(SAMPLE, meets_history=False, model_error_points=0.3, wait_s=1_680.0, model_wait_s=0.0)
    found = advise(evidence(sample=sample, tried_operators=(), half_lives=(), algorithms=()))
    assert not found.is_change
    assert found.sentence.startswith("Operator, half-life and algorithm can't be compared: jobs waited 28")


def test_an_algorithm_must_have_the_properties_of_the_current_one() -> None:
    now = replay("aequus", 4.0, 5.0, is_now=True)
    nearer = replay("slurm-classic", 2.0, 2.0, value={"name": "slurm-classic"})
    found = advise(evidence(algorithms=(now, replace(nearer, is_isolated=False))))
    assert not found.is_change
    found = advise(evidence(algorithms=(now, nearer)))
    assert found.algorithm == {"name": "slurm-classic"}
    assert found.sentence == "Change: Algorithm: slurm-classic instead of aequus."


def test_several_changes_are_compared_together() -> None:
    now = replay("7 days", 4.0, 5.0, is_now=True)
    found = evidence(
        half_lives=(now, replay("4 days", 3.4, 4.0, value=345_600)),
        resolutions=(resolution(256, 12.0), resolution(4096, 0.0)),
    )
    assert advise(found).held_back is None  # not replayed yet
    worse = advise(replace(found, combined=replay("combined", 3.0, 5.5)))
    assert worse.held_back is not None
    assert not worse.held_back.is_better
    assert "no nearer" in worse.held_back.sentence


def test_without_a_replay_the_settings_of_the_window_are_not_advised() -> None:
    advice = advise(evidence(current=None, half_lives=(), algorithms=()))
    assert [each.subject for each in advice.choices] == ["operator", "resolution"]
    assert advice.held_back is None
    assert advise(Evidence(AEQUUS, WINDOW, SAMPLE)).choices == ()
