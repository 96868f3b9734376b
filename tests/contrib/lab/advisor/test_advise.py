"""From evidence to advice: margins decide, and the sentences are made from the numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apps.contrib.lab.advisor.advise import advise, is_nearer
from apps.contrib.lab.advisor.records import AdvisedChoice, Evidence, OperatorFacts
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


def test_an_operator_without_the_properties_is_replaced() -> None:
    own = evidence(algorithm={**AEQUUS, "operator": "absolute"})
    found = choice(own, "operator")
    assert (found.now, found.recommended) == ("absolute", "relative")
    assert advise(own).algorithm["operator"] == "relative"


def test_an_operator_is_changed_by_the_margin_alone() -> None:
    def advised(other: OperatorFacts) -> str:
        return choice(evidence(operators=(operator("relative", misplaced=0.5), other)), "operator").recommended

    assert advised(operator("sigmoid-2", misplaced=0.0)) == "relative"
    assert advised(operator("sigmoid-2", misplaced=0.0, visible=96.0)) == "sigmoid-2"
    assert advised(operator("absolute", misplaced=0.0, visible=100.0)) == "relative"


def test_a_finer_resolution_is_advised_before_another_operator() -> None:
    rows = (resolution(256, 12.0), resolution(4096, 0.0))
    both = (operator("relative", misplaced=12.0), operator("sigmoid-2", misplaced=0.0))
    found = advise(evidence(resolutions=rows, operators=both))
    assert [each.subject for each in found.choices if each.is_change] == ["resolution"]


def test_a_half_life_must_be_nearer_on_the_held_back_days_too() -> None:
    now = replay("7 days", 4.0, 5.0, is_now=True)
    better = replay("4 days", 3.5, 4.0, value=345_600)
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
    assert is_nearer(now, replay("4 days", 3.79, 0))
    assert not is_nearer(now, replay("4 days", 3.81, 0))
    scattered = replace(now, training=(1.0, 3.0, 6.0))
    assert not is_nearer(now, scattered)


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
        half_lives=(now, replay("4 days", 3.5, 4.0, value=345_600)),
        resolutions=(resolution(256, 12.0), resolution(4096, 0.0)),
    )
    assert advise(found).held_back is None  # not replayed yet
    worse = advise(replace(found, combined=replay("combined", 3.0, 5.5)))
    assert worse.held_back is not None
    assert not worse.held_back.is_better
    assert "no nearer" in worse.held_back.sentence


def test_without_a_replay_the_settings_of_the_window_are_not_advised() -> None:
    advice = advise(evidence(half_lives=(), algorithms=()))
    assert [each.subject for each in advice.choices] == ["operator", "resolution"]
    assert advice.held_back is None
    assert advise(Evidence(AEQUUS, WINDOW, SAMPLE)).choices == ()
