"""Entries without jobs as a variant: the grid-wide paper's figures 13 and 14, and groups whose fair use is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.lab.experiments.records import VariantReport
from apps.contrib.lab.experiments.selectors import get_variant_report
from apps.contrib.lab.experiments.services import create_experiment
from apps.contrib.lab.pages.presenters import idle_sentence
from apps.contrib.lab.scenario_files import SHIPPED
from apps.runs.services import work_due_runs
from tests.priority_site import AS_OF, Site, children

pytestmark = pytest.mark.django_db
IDLE = "/VO-B/P-B1/U-B12"


def reports(site: Site, spec: dict[str, Any]) -> list[VariantReport]:
    made = create_experiment(policy_slug=site.slug, name="idle", spec=spec, at=AS_OF, actor=COMMAND)
    work_due_runs(clock=lambda: AS_OF)
    return [
        get_variant_report(policy_slug=site.slug, experiment_id=made.pk, index=index, at=AS_OF, actor=COMMAND)
        for index in range(1 + len(spec["variants"]))
    ]


def last_share(report: VariantReport, path: str) -> float:
    return 100 * next(curve.share[-1] or 0.0 for curve in report.curves if curve.path == path)


def test_an_idle_user_of_the_paper_is_a_variant(make_site: Callable[..., Site]) -> None:
    """Figure 13: its siblings get 65 and 35 % in equal points; figure 14: the project keeps its 60 %."""
    paper = json.loads((SHIPPED / "converge-predictive.json").read_text(encoding="utf-8"))
    site = make_site()
    # Its usage is that of all sites below the root, which the site alone knows.
    settings = {
        "algorithm": {"name": "gridwide"},
        "approach": {"local": "active", "global": "predictive"},
        "window": {"length_s": None, "aging": "none"},
    }
    site.publish(paper["policy"]["children"], settings)
    spec = {
        "workload": {
            "kind": "synthetic",
            "hours": 72,
            "sites": paper["sites"],
            "streams": [{**each, "cpus": 1} for each in paper["workload"]],
        },
        "base": {"scope": "global"},
        "variants": [{"entries": [{"entry": IDLE, "jobs_times": 0}]}],
        "seed": 77,
    }
    base, idle = reports(site, spec)
    assert base.idle == ()
    assert idle_sentence(base) == ""
    users = [last_share(idle, f"/VO-B/P-B1/U-B1{n}") for n in (1, 2, 3)]
    assert users == pytest.approx([65.0, 0.0, 35.0], abs=1.5)
    assert users[1] == 0.0
    assert [last_share(idle, f"/VO-B/P-B{n}") for n in (1, 2)] == pytest.approx([60.0, 40.0], abs=1.5)
    assert [last_share(base, f"/VO-B/P-B1/U-B1{n}") for n in (1, 2, 3)] == pytest.approx([50, 30, 20], abs=1.5)
    assert (idle.idle, idle.n_idle) == ((IDLE,), 1)
    assert idle_sentence(idle) == f"No job of {IDLE} ran or waited."
    by_path = {each.path: each for each in idle.entries}
    assert (by_path[IDLE].n_jobs, by_path[IDLE].core_h, by_path[IDLE].wait_mean_s) == (0, 0.0, None)


def test_fair_use_is_not_kept_where_an_operator_gives_away_equal_points(make_site: Callable[..., Site]) -> None:
    """60, 30 and 10 shares, the first idle, the others with 1.8 times the processors: 75/25 is fair, absolute gives
    60/40 with thousands of jobs waiting.
    """
    site = make_site()
    site.publish(
        children(a={"": 60, "u": 1}, b={"": 30, "v": 1}, c={"": 10, "w": 1}),
        {"algorithm": {"name": "aequus", "operator": "absolute"}, "window": {"length_s": 7 * 86_400, "aging": "none"}},
    )
    run_h = {"run_h": [0.5, 1.5]}
    spec = {
        "workload": {
            "kind": "synthetic",
            "hours": 480,
            "sites": [{"name": "s", "cpus": 20}],
            "streams": [{"entry": "/b/v", "load": 0.9, **run_h}, {"entry": "/c/w", "load": 0.9, **run_h}],
        },
        "variants": [{"settings": {"algorithm": {"operator": "relative"}}}],
    }
    absolute, relative = reports(site, spec)
    assert [part_of_all(absolute, path) for path in ("/b", "/c")] == pytest.approx([60, 40], abs=2)
    assert [part_of_all(relative, path) for path in ("/b", "/c")] == pytest.approx([75, 25], abs=2)
    assert absolute.headline.n_waiting > 4_000
    assert (absolute.headline.is_settled, absolute.headline.settled_h) == (False, None)
    assert relative.headline.is_settled
    assert relative.headline.settled_h is not None
    assert relative.headline.settled_h < 240
    assert absolute.headline.fair_points == pytest.approx(15, abs=2)
    assert relative.headline.fair_points == pytest.approx(0, abs=2)


def part_of_all(report: VariantReport, path: str) -> float:
    return 100 * next(each.core_h for each in report.entries if each.path == path) / report.headline.core_h
