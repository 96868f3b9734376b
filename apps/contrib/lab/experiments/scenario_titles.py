"""The shipped scenarios by experiment, with a short title each, as pages list and name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Text = str | Promise


@dataclass(frozen=True, slots=True)
class ScenarioGroup:
    """scenarios: titles by name, in the order of their figures. compared: scenarios that differ in the approach to
    global usage alone, so that one experiment shows them beside each other.
    """

    key: str
    title: Text
    paper: Text
    scenarios: Mapping[str, Text]
    compared: Sequence[str] = ()


_GRIDWIDE = _("Grid-wide fairshare")
_OPERATORS = _("Priority operators")
SCENARIO_GROUPS: Sequence[ScenarioGroup] = (
    ScenarioGroup(
        "convergence",
        _("Convergence"),
        _GRIDWIDE,
        {
            "vo-level-any-mode": _("Organisations by local usage"),
            "converge-historical": _("Historical usage"),
            "converge-active": _("Active usage"),
            "converge-predictive": _("Predictive usage"),
            "refresh-5min": _("Predictive usage, five minutes old"),
        },
        ("converge-historical", "converge-active", "converge-predictive"),
    ),
    ScenarioGroup(
        "uneven-load",
        _("Uneven load"),
        _GRIDWIDE,
        {
            "imbalanced-local": _("Half of the sites, local usage"),
            "imbalanced-global-historical": _("Half of the sites, historical usage"),
            "imbalanced-global-predictive": _("Half of the sites, predictive usage"),
            "imbalanced-local-disjoint": _("Different halves, local usage"),
        },
    ),
    ScenarioGroup(
        "idle-member",
        _("Idle member"),
        _GRIDWIDE,
        {
            "idle-U-B12": _("Deviations in points"),
            "idle-U-B12-absolute": _("Operator absolute"),
            "idle-U-B12-relative": _("Operator relative"),
        },
    ),
    ScenarioGroup(
        "data",
        _("Decay and imperfect data"),
        _("Beyond the papers"),
        {
            "half-life-one-day": _("Half-life of one day"),
            "six-sites-stale-and-coarse": _("Late, lost and coarse usage data"),
        },
    ),
    ScenarioGroup(
        "operators",
        _("Operators"),
        _OPERATORS,
        {
            "operator-absolute": _("Absolute"),
            "operator-relative": _("Relative"),
            "operator-relative-2": _("Relative-2"),
            "operator-sigmoid": _("Sigmoid"),
            "operator-sigmoid-2": _("Sigmoid-2"),
            "operator-combined": _("Combined"),
            "operator-slurm": _("Slurm"),
        },
    ),
    ScenarioGroup(
        "sam",
        _("Queue with a front and a back"),
        _("SAM"),
        {
            "sam-saturated-equal-load-start": _("Triple load, booked at start"),
            "sam-saturated-equal-load-end": _("Triple load, booked at end"),
            "sam-saturated-equal-load-submit": _("Triple load, booked at submission"),
            "sam-saturated-heavy-start": _("Ninefold load, booked at start"),
            "sam-saturated-heavy-end": _("Ninefold load, booked at end"),
            "sam-unequal-load-start": _("Unequal load, booked at start"),
            "sam-unequal-load-end": _("Unequal load, booked at end"),
            "sam-g1-below-its-share-start": _("Group below its share"),
            "sam-idle-g2-start": _("Idle group"),
            "sam-fifo-front-start": _("Front in order of arrival"),
            "sam-with-priority-group-start": _("Priority group"),
        },
    ),
)


def title_of_scenario(name: str) -> str:
    return next((str(group.scenarios[name]) for group in SCENARIO_GROUPS if name in group.scenarios), name)
