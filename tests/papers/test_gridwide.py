"""Shares that the grid-wide paper says its evaluation ends with, beside those of the shipped scenarios."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from apps.contrib.lab.scenario_files import SHIPPED
from apps.contrib.lab.simulation import simulate
from apps.contrib.lab.simulation.printed_figures import printed_figure
from tests.papers_by_claim import PaperValue

HISTORICAL, ACTIVE, PREDICTIVE = "converge-historical", "converge-active", "converge-predictive"


@cache
def simulated(name: str) -> dict[str, Any]:
    result: dict[str, Any] = simulate(json.loads((SHIPPED / f"{name}.json").read_text(encoding="utf-8")))
    return result


@pytest.mark.paper("4.44", "4.45", "4.46", "4.47", "4.53", "4.54", "4.55", "4.56")
@pytest.mark.parametrize(
    ("claim", "number"),
    [("4.44", 5), ("4.45", 6), ("4.46", 7), ("4.47", 8), ("4.53", 11), ("4.54", 12), ("4.55", 13), ("4.56", 14)],
)
def test_shares_at_72_hours(claim: str, number: int, paper_value: PaperValue) -> None:
    figure = printed_figure(number)
    report = simulated(figure.scenario)["reports"][-1]
    assert report["hour"] == 72
    for path, share in figure.published.items():
        ours = report["share_of_parent"][path]
        paper_value(claim, path.rpartition("/")[2], round(ours, 2), share, "%")
        assert ours == pytest.approx(share, abs=figure.tolerance)


@pytest.mark.paper("4.48", "4.49", "4.50")
def test_distances_from_target(paper_value: PaperValue) -> None:
    historical = simulated(HISTORICAL)["rms_points"]
    for group, level in (("/", "organisations"), ("/VO-B", "projects"), ("/VO-B/P-B1", "users")):
        paper_value("4.48", f"{level}, rms", round(historical[group], 2), unit="points")
    assert historical["/"] < historical["/VO-B"] < historical["/VO-B/P-B1"]
    users = {name: simulated(name)["rms_points"]["/VO-B/P-B1"] for name in (HISTORICAL, ACTIVE, PREDICTIVE)}
    for name, points in users.items():
        paper_value("4.49", f"{name}, rms of users", round(points, 2), unit="points")
    assert users[HISTORICAL] > users[ACTIVE] > users[PREDICTIVE]
    late = simulated("refresh-5min")["rms_points"]["/VO-B/P-B1"]
    paper_value("4.50", "rms of users", round(late, 2), unit="points")
    assert late < users[ACTIVE]
