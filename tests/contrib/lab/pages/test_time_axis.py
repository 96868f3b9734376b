"""The axis of time of an experiment's pictures: it begins where there is something to see."""

from __future__ import annotations

from datetime import date
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from apps.contrib.lab.experiments.records import Curve, ExperimentDetail
from apps.contrib.lab.pages.figures import TimeAxis

AT_H = (24.0, 48.0, 72.0, 96.0)


def curve(*share: float | None) -> Curve:
    return Curve(UUID(int=1), "/a", "a", 0.5, share, (), (), ())


@pytest.mark.parametrize(
    ("curves", "first_h"),
    [
        ([curve(0.1, 0.2, 0.3, 0.4)], 0.0),
        ([curve(None, None, 0.3, 0.4)], 72.0),
        ([curve(None, None, 0.3, 0.4), curve(None, 0.2, 0.3, 0.4)], 48.0),
        ([curve(None, None, None, 0.4)], 72.0),
        ([curve(None, None, None, None)], 0.0),
    ],
    ids=["from the start", "later", "the earliest of two", "a last sample alone", "none"],
)
def test_the_axis_begins_at_the_first_known_sample(curves: list[Curve], first_h: float) -> None:
    drawn = TimeAxis(cast(ExperimentDetail, SimpleNamespace(first_day=None)), AT_H).layout(curves)
    assert drawn["range"] == [first_h, 96.0]
    assert all(first_h <= mark <= 96.0 for mark in drawn["tickvals"])
    replay = TimeAxis(cast(ExperimentDetail, SimpleNamespace(first_day=date(2026, 10, 5))), AT_H).layout(curves)
    assert replay["range"][0].startswith(f"2026-10-0{5 + int(first_h / 24)}")
