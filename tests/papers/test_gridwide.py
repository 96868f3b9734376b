"""Shares that the grid-wide paper says its evaluation ends with, beside those of the shipped scenarios."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from apps.contrib.lab.scenario_files import SHIPPED
from apps.contrib.lab.simulation import simulate
from tests.papers_by_claim import PaperValue

PROJECTS_A = {"/VO-A/P-A1": 50, "/VO-A/P-A2": 30, "/VO-A/P-A3": 20}
PROJECTS_B = {"/VO-B/P-B1": 60, "/VO-B/P-B2": 40}
USERS = {"/VO-B/P-B1/U-B11": 50, "/VO-B/P-B1/U-B12": 30, "/VO-B/P-B1/U-B13": 20}
IDLE = {"/VO-B/P-B1/U-B11": 65, "/VO-B/P-B1/U-B12": 0, "/VO-B/P-B1/U-B13": 35}
HISTORICAL, ACTIVE, PREDICTIVE = "converge-historical", "converge-active", "converge-predictive"


@cache
def simulated(name: str) -> dict[str, Any]:
    result: dict[str, Any] = simulate(json.loads((SHIPPED / f"{name}.json").read_text(encoding="utf-8")))
    return result


@pytest.mark.paper("4.44", "4.45", "4.46", "4.47", "4.53", "4.54", "4.55", "4.56")
@pytest.mark.parametrize(
    ("claim", "scenario", "published", "tolerance"),
    [
        ("4.44", HISTORICAL, {"/VO-A": 30, "/VO-B": 70}, 0.5),
        ("4.45", HISTORICAL, PROJECTS_A, 1),
        ("4.46", HISTORICAL, PROJECTS_B, 1),
        ("4.47", HISTORICAL, USERS, 2),
        ("4.53", "imbalanced-local", {"/VO-A/P-A1": 75, "/VO-A/P-A2": 15, "/VO-A/P-A3": 10}, 1),
        ("4.54", "imbalanced-global-predictive", PROJECTS_A, 1),
        ("4.55", "idle-U-B12", IDLE, 1),
        ("4.56", "idle-U-B12", PROJECTS_B, 0.5),
    ],
)
def test_shares_at_72_hours(
    claim: str, scenario: str, published: dict[str, float], tolerance: float, paper_value: PaperValue
) -> None:
    report = simulated(scenario)["reports"][-1]
    assert report["hour"] == 72
    for path, share in published.items():
        ours = report["share_of_parent"][path]
        paper_value(claim, path.rpartition("/")[2], round(ours, 2), share, "%")
        assert ours == pytest.approx(share, abs=tolerance)


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
