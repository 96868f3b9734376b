"""What the lab is given and can't use: each says what it can't tell, at its place, and leaves nothing half stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.lab.experiments.asked import ask
from apps.contrib.lab.experiments.presets import best_operator
from apps.contrib.lab.experiments.selectors import get_variant_report
from apps.contrib.lab.experiments.services import create_experiment
from apps.contrib.lab.experiments_api import ExperimentDetailSerializer, VariantReportSerializer
from apps.contrib.lab.models import Experiment, ExperimentInputs, VariantResult
from apps.contrib.lab.pages.questions import estimated
from apps.core.errors import Invalid
from apps.policies.changesets.change_sets import settings_of
from apps.runs.models import Run
from tests.contrib.lab.experiments.test_replay import (
    DAYS,
    FROM_AT,
    SETTINGS,
    TO_AT,
    detail,
    history_of_a_simulation,
    replay,
)
from tests.priority_site import AS_OF, PROJECTS, Site, children, finished, new_site

pytestmark = pytest.mark.django_db
SITES = [{"name": "R1", "cpus": 20}]
STREAM: dict[str, Any] = {"entry": "/physics/alice", "load": 0.6}
DRAWN: dict[str, Any] = {"kind": "synthetic", "hours": 24, "sites": SITES, "streams": [STREAM]}


def nothing_is_stored() -> bool:
    tables = (Experiment, ExperimentInputs, VariantResult, Run.objects.filter(kind__startswith="lab_"))
    return not any(each.exists() if hasattr(each, "exists") else each.objects.exists() for each in tables)


@pytest.fixture
def bare(make_site: Callable[..., Site]) -> Site:
    """A policy without a record."""
    site = make_site(at=FROM_AT - timedelta(days=2))
    site.publish(PROJECTS, SETTINGS, at=FROM_AT - timedelta(days=1))
    site.map(at=FROM_AT - timedelta(days=1))
    return site


def test_records_of_another_policy_alone_are_no_jobs_of_this_one(bare: Site) -> None:
    other = new_site("other", at=FROM_AT - timedelta(days=2), namespace="c2")
    other.publish(children(chemistry={"eva": 1}), SETTINGS, at=FROM_AT - timedelta(days=1))
    other.map(at=FROM_AT - timedelta(days=1))
    begun = timedelta(minutes=90)
    rows = [finished("eva", "chemistry", 1, ago_h=14 + number, job=str(number)) for number in range(9)]
    other.jobs([row._replace(submit_at=row.submit_at - begun) for row in rows if row.submit_at is not None])
    with pytest.raises(Invalid, match="No job of these days has an entry in the policy") as refusal:
        replay(bare)
    assert (refusal.value.code, [each.where for each in refusal.value.fields]) == ("no_jobs", ["workload.days"])
    assert nothing_is_stored()
    settings = settings_of(bare.policy, bare.policy.head_number)
    question = estimated(bare.policy, best_operator(settings), at=AS_OF, actor=COMMAND)
    assert question.is_drawn, "the question is asked of drawn jobs, and says so"
    assert ask(other.policy, {"workload": {"kind": "replay", "days": DAYS}}, at=AS_OF).estimate.n_jobs == 9


def test_one_job_has_a_wait_and_compares_nothing(bare: Site) -> None:
    """Numbers that one job can't have are null, and no number is NaN."""
    row = finished("alice", "physics", 1, ago_h=20)
    assert row.submit_at is not None
    bare.jobs([row._replace(submit_at=row.submit_at - timedelta(hours=2))])
    made = replay(bare, variants=[{"settings": {"algorithm": {"operator": "absolute"}}}])
    shown = detail(bare, made)
    assert (shown.row.state, shown.estimate.n_jobs) == ("done", 1)
    base, variant = (each.headline for each in shown.variants)
    assert base is not None
    assert variant == base, "one job has no order"
    assert (base.n_jobs, base.n_started, base.wait_median_s) == (1, 1, 0.0)
    json.dumps(ExperimentDetailSerializer(shown).data, allow_nan=False, default=str)
    report = get_variant_report(policy_slug="grid", experiment_id=made.pk, index=1, at=AS_OF, actor=COMMAND)
    json.dumps(VariantReportSerializer(report).data, allow_nan=False, default=str)
    assert shown.history is not None
    assert shown.history.wait_median_s == 7_200.0
    assert not shown.explains_waits, "it waited two hours for something else than processors"
    assert shown.closest is None


def test_without_requested_times_those_that_ran_are_replayed_as_they_ran(bare: Site) -> None:
    """And those that wait, of which nobody knows how long they would run, are counted as left out."""
    window = {"aging": "none"}
    rows = [row._replace(requested_s=None) for row in history_of_a_simulation(window)]
    bare.jobs(rows)
    n_waiting = sum(row.state == "pending" for row in rows)
    assert n_waiting > 50
    shown = detail(bare, replay(bare))
    assert shown.row.state == "done"
    assert {each.reason: each.n_jobs for each in shown.left_out} == {"unknown_length": n_waiting}
    assert [each.text for each in shown.left_out] == ["They wait, and their records have no requested time."]
    base = shown.variants[0].headline
    assert base is not None
    assert base.n_jobs == len(rows) - n_waiting == shown.estimate.n_jobs


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("workload.hours", {"workload": DRAWN | {"hours": value}}) for value in (nan, inf, -1, 0, 1e300, "many", None, True)
]
WRONG += [
    ("workload.sites[0].cpus", {"workload": DRAWN | {"sites": [{"name": "R1", "cpus": value}]}})
    for value in (nan, -1, 0, 1e30, 2.5, "x")
]
WRONG += [
    ("workload.streams[0].load", {"workload": DRAWN | {"streams": [STREAM | {"load": value}]}})
    for value in (nan, inf, -0.1, 1e30, "x")
]
WRONG += [
    ("workload.streams[0].run_h", {"workload": DRAWN | {"streams": [STREAM | {"run_h": value}]}})
    for value in ([nan, 1], [2, 1], [-1, 1], [1e300, 1e301], "x", [1])
]
WRONG += [
    ("workload.days", {"workload": {"kind": "replay", "days": value}}) for value in (nan, 0, -1, 10**9, 1.5, "x", None)
]
WRONG += [
    ("workload.cpus", {"workload": {"kind": "replay", "days": 3, "cpus": {"grid-c1": value}}})
    for value in (nan, -1, 0, 1e30, "x")
]
WRONG += [
    (f"variants[0].{name}", {"workload": DRAWN, "variants": [{name: value}]})
    for name in ("jobs_times", "imbalance", "refresh_s", "priority_refresh_s")
    for value in (nan, inf, -1, 1e300, "x")
]
WRONG += [
    ("variants[0].entries[0]", {"workload": DRAWN, "variants": [{"entries": [{"entry": "/physics", name: value}]}]})
    for name in ("shares_times", "jobs_times", "more")
    for value in (nan, inf, -1, 1e300, "x")
]
WRONG += [
    ("variants[0].noise", {"workload": DRAWN, "variants": [{"noise": {name: value}}]})
    for name in ("usage_delay_s", "loss", "resolution", "more")
    for value in (nan, inf, -1, 1e300, "x")
]
WRONG += [
    ("variants[0].settings.window", {"workload": DRAWN, "variants": [{"settings": {"window": {"half_life_s": value}}}]})
    for value in (nan, inf, -1, 0, 1e300, "x")
]
WRONG += [("seed", {"workload": DRAWN, "seed": value}) for value in (nan, -1, 2**70, 0.5, "x")]
WRONG += [("more", {"workload": DRAWN, "more": 1}), ("workload.more", {"workload": DRAWN | {"more": 1}})]
NO_WORKLOADS: list[Any] = [None, [], "replay", 5]
WRONG += [("workload", {"workload": value}) for value in NO_WORKLOADS]


def test_a_wrong_field_is_refused_at_its_place_and_stores_nothing(bare: Site) -> None:
    """Of an unknown name, and of a value that is no number, negative or huge."""
    refused = {}
    for place, spec in WRONG:
        try:
            create_experiment(policy_slug="grid", name="wrong", spec=spec, at=AS_OF, actor=COMMAND)
        except Invalid as refusal:
            refused[place, repr(spec)] = [each.where for each in refusal.fields]
    taken = [(place, spec) for place, spec in WRONG if (place, repr(spec)) not in refused]
    assert taken == []
    elsewhere = {key: fields for key, fields in refused.items() if not any(each.startswith(key[0]) for each in fields)}
    assert elsewhere == {}
    assert nothing_is_stored()


def test_a_day_that_has_not_ended_is_refused(bare: Site) -> None:
    spec = {"workload": {"kind": "replay", "days": 1, "until_on": TO_AT.date().isoformat()}}
    with pytest.raises(Invalid, match="must be a day that has ended") as refusal:
        create_experiment(policy_slug="grid", name="x", spec=spec, at=AS_OF, actor=COMMAND)
    assert [each.where for each in refusal.value.fields] == ["workload.until_on"]
    assert nothing_is_stored()
