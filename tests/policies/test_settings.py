"""Settings of a policy: complete, checked, merged part by part."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from apps.core.errors import Invalid
from apps.policies.settings import PolicySettings
from tests.each_case import each_case


def test_default_settings_round_trip() -> None:
    assert PolicySettings.from_json(PolicySettings().to_json()) == PolicySettings()
    assert PolicySettings().to_json()["algorithm"] == {
        "name": "aequus",
        "operator": "relative",
        "resolution": 10_000,
        "factor_from": "rank",
    }


def test_omitted_settings_come_from_the_base() -> None:
    base = PolicySettings.from_json({"window": {"length_s": None}, "fallback_factor": 0.25})
    changed = PolicySettings.from_json({"window": {"aging": "step"}}, base=base)
    assert (changed.window["length_s"], changed.window["aging"], changed.fallback_factor) == (None, "step", 0.25)


def test_another_algorithm_or_operator_does_not_inherit_parameters_that_are_not_its_own() -> None:
    combined = PolicySettings.from_json({"algorithm": {"operator": "combined", "k": 0.25}})
    assert combined.algorithm["k"] == 0.25
    relative = PolicySettings.from_json({"algorithm": {"operator": "relative"}}, base=combined)
    assert "k" not in relative.algorithm
    assert PolicySettings.from_json({"algorithm": {"name": "gridwide"}}, base=combined).algorithm["name"] == "gridwide"


def test_decay_functions_of_schedulers_have_their_own_parameters() -> None:
    plain = PolicySettings().window
    lsf = PolicySettings.from_json({"window": {"aging": "lsf"}})
    assert lsf.window == {**plain, "aging": "lsf", "hist_hours": 5.0}
    slower = PolicySettings.from_json({"window": {"hist_hours": 48}}, base=lsf)
    assert slower.window["hist_hours"] == 48.0
    assert PolicySettings.from_json(slower.to_json()) == slower
    assert PolicySettings.from_json({"window": {"aging": "exponential"}}, base=slower).window == plain
    pbs = PolicySettings.from_json({"window": {"aging": "pbs", "decay_time_s": 3600}})
    assert pbs.window == {**plain, "aging": "pbs", "decay_time_s": 3600.0, "decay_factor": 0.5, "phase_s": 0.0}


def test_a_window_has_resets_only_where_they_are_set() -> None:
    assert "reset" not in PolicySettings().window
    yearly = PolicySettings.from_json({"window": {"reset": "yearly"}})
    assert (yearly.window["reset"], yearly.window["reset_zone"]) == ("yearly", settings.TIME_ZONE)
    assert PolicySettings.from_json(yearly.to_json()) == yearly
    moved = PolicySettings.from_json({"window": {"reset_zone": "Asia/Tokyo", "length_s": None}}, base=yearly)
    assert (moved.window["reset"], moved.window["reset_zone"]) == ("yearly", "Asia/Tokyo")
    assert PolicySettings.from_json({"window": {"reset": None, "length_s": 7_776_000}}, base=moved) == PolicySettings()


def test_settings_share_no_mutable_values() -> None:
    PolicySettings().window["length_s"] = 1
    assert PolicySettings().window["length_s"] == 7_776_000


@each_case(
    ("given", "where"),
    [
        ({"colour": 1}, "settings.colour"),
        ({"window": []}, "settings.window"),
        ({"window": {"colour": 1}}, "settings.window.colour"),
        ({"window": {"length_s": 0}}, "settings.window.length_s"),
        ({"window": {"length_s": True}}, "settings.window.length_s"),
        ({"window": {"half_life_s": 1.5}}, "settings.window.half_life_s"),
        ({"window": {"aging": "linear", "length_s": None}}, "settings.window.length_s"),
        ({"window": {"aging": "sudden"}}, "settings.window.aging"),
        ({"window": {"aging": ["pbs"]}}, "settings.window.aging"),
        ({"window": {"aging": "lsf", "hist_hours": -1}}, "settings.window.hist_hours"),
        ({"window": {"aging": "lsf", "hist_hours": "5"}}, "settings.window.hist_hours"),
        ({"window": {"aging": "pbs", "decay_factor": 2}}, "settings.window.decay_factor"),
        ({"window": {"aging": "flux", "periods": 10**400}}, "settings.window.periods"),
        ({"window": {"aging": "slurm", "hist_hours": 5}}, "settings.window.hist_hours"),
        ({"window": {"reset": "hourly"}}, "settings.window.reset"),
        ({"window": {"reset": ["daily"]}}, "settings.window.reset"),
        ({"window": {"reset": "daily", "reset_zone": "Mars/Base"}}, "settings.window.reset_zone"),
        ({"window": {"reset": "daily", "reset_zone": "../../etc/passwd"}}, "settings.window.reset_zone"),
        ({"window": {"reset": "daily", "reset_zone": 5}}, "settings.window.reset_zone"),
        ({"metric": {"weights": {"cpu_s": 0}}}, "settings.metric.weights"),
        ({"metric": {"weights": {"coffee": 1}}}, "settings.metric.weights.coffee"),
        ({"metric": {"weights": {"cpu_s": float("nan")}}}, "settings.metric.weights.cpu_s"),
        ({"metric": {"class_factors": [{"qos": "debug"}]}}, "settings.metric.class_factors[0].factor"),
        ({"metric": {"class_factors": [{"qos": "a\0b", "factor": 1}]}}, "settings.metric.class_factors[0].qos"),
        ({"metric": {"class_factors": {}}}, "settings.metric.class_factors"),
        ({"approach": {"local": "prophetic"}}, "settings.approach.local"),
        ({"fallback_factor": 1.1}, "settings.fallback_factor"),
        ({"fallback_factor": 10**400}, "settings.fallback_factor"),
        ({"tolerance": {"points": -1}}, "settings.tolerance.points"),
        ({"algorithm": {"name": "luck"}}, "settings.algorithm.name"),
        ({"algorithm": {"name": ["aequus"]}}, "settings.algorithm.name"),
        ({"algorithm": {"resolution": 1}}, "settings.algorithm.resolution"),
        ([], "settings"),
    ],
)
def test_invalid_settings_are_rejected_with_their_location(given: Any, where: str) -> None:
    with pytest.raises(Invalid) as refusal:
        PolicySettings.from_json(given)
    assert where in [field.where for field in refusal.value.fields]


def test_all_errors_are_reported_together() -> None:
    with pytest.raises(Invalid) as refusal:
        PolicySettings.from_json({"fallback_factor": 2, "tolerance": {"points": -1}, "window": {"aging": 1}})
    assert len(refusal.value.fields) == 3


def test_zero_shares_return_to_the_default_with_a_new_algorithm() -> None:
    """As a revert and a document give it: what is optional and left out there is at its default."""
    whole = PolicySettings().algorithm
    last = PolicySettings.from_json({"algorithm": {"zero_shares": "last"}})
    assert last.algorithm == {**whole, "zero_shares": "last"}
    assert (
        PolicySettings.from_json({"algorithm": {"operator": "absolute"}}, base=last).algorithm["zero_shares"] == "last"
    )
    assert PolicySettings.from_json({"algorithm": whole}, base=last).algorithm == whole
    assert PolicySettings.from_json({"algorithm": {"zero_shares": "operator"}}, base=last).algorithm == whole
    assert "zero_shares" not in PolicySettings.from_json({"algorithm": {"resolution": 3}}, base=last).algorithm


def test_leaves_can_have_their_own_tolerance() -> None:
    usual = PolicySettings()
    assert "leaves" not in usual.to_json()["tolerance"]
    wide = PolicySettings.from_json({"tolerance": {"leaves": {"relative": 0.5}}}, base=usual)
    assert wide.tolerance == {"relative": 0.1, "points": 0.5, "leaves": {"relative": 0.5, "points": 0.5}}
    assert PolicySettings.from_json({"tolerance": {"relative": 0.2}}, base=wide).tolerance["leaves"]["relative"] == 0.5
    assert "leaves" not in PolicySettings.from_json({"tolerance": {"leaves": None}}, base=wide).tolerance
    with pytest.raises(Invalid) as refused:
        PolicySettings.from_json({"tolerance": {"leaves": {"relative": -1, "width": 2}}})
    assert {problem.where.rpartition(".")[0] for problem in refused.value.fields} == {"settings.tolerance.leaves"}
