"""Allocations of SAM's groups beside what they got under load."""

from __future__ import annotations

import json

import pytest

from apps.contrib.lab.scenario_files import SHIPPED
from apps.contrib.lab.simulation import simulate
from tests.papers_by_claim import PaperValue

ALLOCATIONS = {"/g1": 50, "/g2": 30, "/g3": 20}


@pytest.mark.deep
@pytest.mark.paper("3.16")
@pytest.mark.parametrize("name", ["saturated-equal-load-start", "with-priority-group-start"])
def test_booked_benefit_settles_at_the_allocations(name: str, paper_value: PaperValue) -> None:
    scenario = json.loads((SHIPPED / f"sam-{name}.json").read_text(encoding="utf-8"))
    booked = simulate(scenario)["booked_share"]
    whole = sum(booked[group] for group in ALLOCATIONS)
    for group, allocation in ALLOCATIONS.items():
        share = 100 * booked[group] / whole
        paper_value("3.16", f"{name}, {group[1:]}", round(share, 2), allocation, "%")
        assert share == pytest.approx(allocation, abs=1)
