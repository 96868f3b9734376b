"""Experiments on shipped scenarios: the numbers of `manage.py simulate`, in any policy."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.change_set_of_variant import policy_part
from apps.contrib.lab.experiments.outcome import Outcome
from apps.contrib.lab.experiments.prepare import prepare
from apps.contrib.lab.experiments.scenario_base import (
    compared_spec,
    queue_of_base,
    scenario_spec,
    scenario_tree,
    shipped_as,
)
from apps.contrib.lab.experiments.scenario_titles import SCENARIO_GROUPS
from apps.contrib.lab.experiments.selectors import estimate_experiment, get_experiment, get_variant_report
from apps.contrib.lab.experiments.services import attach_experiment, create_experiment
from apps.contrib.lab.experiments.simulate_variant import simulate_variant
from apps.contrib.lab.experiments.spec import ExperimentSpec, read_spec
from apps.contrib.lab.experiments.variant_trees import with_uids
from apps.contrib.lab.scenario_files import SHIPPED, shipped_scenarios
from apps.contrib.lab.simulation import simulate
from apps.contrib.lab.simulation.printed_figures import PRINTED_FIGURES, PrintedFigure
from apps.core.errors import Conflict, Invalid
from apps.policies.models import Policy
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.runs.services import work_due_runs
from tests.each_case import each_case
from tests.instants import AT
from tests.small_site import Site

NAMES = sorted(shipped_scenarios())
OF_FIGURES = tuple(dict.fromkeys(figure.scenario for figure in PRINTED_FIGURES))
# Short enough for every run: 100 processors for 8 hours instead of six sites for three days.
SMALL: dict[str, Any] = {"hours": 8, "sites": [{"name": "R1", "cpus": 100}]}


def asked(data: dict[str, Any]) -> ExperimentSpec:
    return with_uids(read_spec(data), scenario_tree(data["scenario"]))


@cache
def simulated(name: str) -> Outcome:
    inputs = prepare(Policy(), 0, asked(scenario_spec(name)), is_strict=True).inputs
    return simulate_variant(inputs, 0, lambda _part: None)


def shares_at_the_end(outcome: Outcome) -> dict[str, float]:
    return {outcome.path(i): 100 * float(outcome.share[-1, at]) for at, i in enumerate(outcome.shown.tolist()) if i}


def test_every_shipped_scenario_has_a_title() -> None:
    titled = [name for group in SCENARIO_GROUPS for name in group.scenarios]
    assert sorted(titled) == NAMES


@each_case("name", NAMES)
def test_every_shipped_scenario_is_a_complete_experiment(name: str) -> None:
    spec = asked(scenario_spec(name))
    inputs = prepare(Policy(), 0, spec, is_strict=True).inputs
    case = json.loads((SHIPPED / f"{name}.json").read_text(encoding="utf-8"))
    assert (inputs.hours, spec.seed) == (case["hours"], case["seed"])
    assert [(site.name, site.cpus) for site in inputs.sites] == [(each["name"], each["cpus"]) for each in case["sites"]]
    assert (queue_of_base(spec) is not None) == (case.get("dispatch") == "sam")
    assert read_spec(spec.to_json()) == spec


@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_gives_the_numbers_of_the_command(name: str) -> None:
    outcome, case = simulated(name), json.loads((SHIPPED / f"{name}.json").read_text(encoding="utf-8"))
    result = simulate(case)
    totals = {"submitted": "n_submitted", "started": "n_started", "finished": "n_finished"}
    assert {each: outcome.numbers[totals[each]] for each in totals} == result["jobs"]
    if case.get("usage", {}).get("window", {}).get("aging", "none") != "none":
        return  # the experiment's shares are those that the policy compares, with decay
    last = result["reports"][-1]["share_of_parent"]
    if outcome.at_h[-1] == case["hours"]:
        assert shares_at_the_end(outcome) == pytest.approx(last, abs=1e-6)
    if outcome.at_h[0] == 0.5:
        rms = {outcome.path(i): float(outcome.rms[i]) for i in np.flatnonzero(np.isfinite(outcome.rms)).tolist()}
        assert rms == pytest.approx({path: points for path, points in result["rms_points"].items()}, abs=1e-6)


@pytest.mark.deep
@pytest.mark.parametrize("figure", PRINTED_FIGURES, ids=lambda figure: str(figure.number))
def test_an_experiment_gives_the_printed_shares_of_a_figure(figure: PrintedFigure) -> None:
    outcome = simulated(figure.scenario)
    assert outcome.at_h[-1] == 72
    shares = shares_at_the_end(outcome)
    for path, published in figure.published.items():
        assert shares[path] == pytest.approx(published, abs=figure.tolerance)


@pytest.mark.deep
def test_the_comparison_of_approaches_has_a_factor_of_ten_between_each_two_at_the_users() -> None:
    spec = asked(compared_spec(SCENARIO_GROUPS[0].compared))
    inputs = prepare(Policy(), 0, spec, is_strict=True).inputs
    points = []
    for index in range(spec.n_runs):
        outcome = simulate_variant(inputs, index, lambda _part: None)
        users = next(i for i in range(len(outcome.uid)) if outcome.path(i) == "/VO-B/P-B1")
        points.append(round(float(outcome.rms[users]), 2))
        assert shares_at_the_end(outcome) == pytest.approx(
            shares_at_the_end(simulated(SCENARIO_GROUPS[0].compared[index]))
        )
    assert points == [3.38, 1.01, 0.03]


def test_variants_of_the_comparison_are_the_shipped_scenarios() -> None:
    spec = asked(compared_spec(SCENARIO_GROUPS[0].compared))
    assert [shipped_as(spec, index, OF_FIGURES) for index in range(spec.n_runs)] == [
        "converge-historical",
        "converge-active",
        "converge-predictive",
    ]


def test_a_variant_that_changes_anything_else_is_no_shipped_scenario() -> None:
    data = scenario_spec("converge-historical")
    changed = [
        {"settings": {"approach": {"global": "predictive"}}, "refresh_s": 300},
        {"entries": [{"entry": "/VO-A", "shares_times": 2}]},
        {"settings": {"algorithm": {"name": "aequus"}}},
        {"jobs_times": 0.5},
    ]
    spec = asked(data | {"variants": changed, "seed": 77})
    assert [shipped_as(spec, index, OF_FIGURES) for index in range(spec.n_runs)] == ["converge-historical", *[""] * 4]
    workload = data["workload"] | {"hours": 24}
    assert shipped_as(asked(data | {"workload": workload}), 0, OF_FIGURES) == ""


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"scenario": "nobody"}, "scenario"),
        ({"scenario": "../../../etc/passwd"}, "scenario"),
        ({"scenario": 3}, "scenario"),
        ({"workload": {"kind": "replay", "days": 30}}, "workload.kind"),
        ({"variants": [{"change_set": 1}]}, "variants[0].change_set"),
    ],
)
def test_what_no_scenario_can_have_is_refused_at_its_field(change: dict[str, Any], where: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_spec(scenario_spec("converge-active") | change)
    assert [each.where for each in refused.value.fields] == [where]


def test_settings_of_a_queue_without_priorities_are_refused() -> None:
    data = scenario_spec("sam-idle-g2-start") | {"variants": [{"settings": {"algorithm": {"name": "gridwide"}}}]}
    with pytest.raises(Invalid) as refused:
        prepare(Policy(), 0, asked(data), is_strict=True)
    assert [each.where for each in refused.value.fields] == ["variants[0].settings"]


@pytest.mark.django_db
def test_a_scenario_is_simulated_in_any_policy_and_changes_nothing_of_it(computed: Site) -> None:
    actor, before = Actor(user=computed.admin, via="page"), Policy.objects.count()
    data = scenario_spec("idle-U-B12")
    streams = [each for each in data["workload"]["streams"] if each["entry"].startswith("/VO-B")]
    small = data | {"workload": {"kind": "synthetic", "streams": streams} | SMALL}
    assert estimate_experiment(policy_slug="grid", spec=small, at=AT, actor=actor).n_sites == 1
    experiment = create_experiment(policy_slug="grid", name="Figure 13", spec=small, at=AT, actor=actor)
    work_due_runs(clock=lambda: AT)
    detail = get_experiment(policy_slug="grid", experiment_id=experiment.pk, at=AT, actor=actor)
    assert (detail.row.state, detail.variants[0].title) == ("done", "Deviations in points")
    report = get_variant_report(policy_slug="grid", experiment_id=experiment.pk, index=0, at=AT, actor=actor)
    ends = {curve.path: curve.share[-1] for curve in report.curves}
    assert ends["/VO-B/P-B1"] == pytest.approx(0.6, abs=0.02)
    idle, other = ends["/VO-B/P-B1/U-B12"] or 0.0, ends["/VO-B/P-B1/U-B13"] or 0.0
    assert idle < 0.1 < other
    assert Policy.objects.count() == before
    assert not policy_part(computed.policy, read_spec(experiment.spec), 0).operations


@pytest.mark.django_db
def test_an_experiment_on_a_scenario_is_no_evidence_of_a_change_set(computed: Site) -> None:
    actor = Actor(user=computed.admin, via="page")
    data = scenario_spec("converge-active")
    small = data | {"workload": data["workload"] | {"hours": 1}}
    experiment = create_experiment(policy_slug="grid", name="Figure 9", spec=small, at=AT, actor=actor)
    operations = [{"op": "set_shares", "entry": "/physics", "shares": 3}]
    draft = make_change_set(policy_slug="grid", new=NewChangeSet(operations=operations), at=AT, actor=actor)
    with pytest.raises(Conflict) as refused:
        attach_experiment(policy_slug="grid", experiment_id=experiment.pk, change_set_id=draft.pk, at=AT, actor=actor)
    assert refused.value.code == "other_tree"
