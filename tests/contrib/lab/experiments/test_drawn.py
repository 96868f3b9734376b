"""Experiments with drawn jobs: from the request to the report, repeated to the byte, cancelled and removed."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent
from apps.contrib.lab.experiments.inputs import Inputs
from apps.contrib.lab.experiments.records import ExperimentDetail
from apps.contrib.lab.experiments.selectors import (
    estimate_experiment,
    get_experiment,
    get_variant_report,
    list_experiments,
)
from apps.contrib.lab.experiments.services import cancel_experiment, create_experiment, remove_experiment
from apps.contrib.lab.experiments.simulate_variant import simulate_variant
from apps.contrib.lab.models import Experiment, ExperimentInputs, VariantResult
from apps.core.errors import Conflict, Invalid, NotAllowed
from apps.runs.models import Run
from apps.runs.services import work_due_runs
from tests.instants import AT
from tests.small_site import Site

pytestmark = pytest.mark.django_db
STREAMS = [
    {"entry": "/physics/alice", "load": 0.6, "run_h": [0.5, 1.5]},
    {"entry": "/physics/bob", "load": 0.6, "run_h": [0.5, 1.5]},
    {"entry": "/biology/carol", "load": 0.6, "run_h": [0.5, 1.5]},
]
SPEC: dict[str, Any] = {
    "workload": {"kind": "synthetic", "hours": 48, "sites": [{"name": "R1", "cpus": 20}], "streams": STREAMS},
    "variants": [
        {"settings": {"window": {"half_life_s": 3600}}},
        {"entries": [{"entry": "/biology", "shares_times": 2}]},
    ],
    "seed": 7,
}


def manager(site: Site) -> Actor:
    return Actor(user=site.admin, via="page")


def work() -> None:
    assert work_due_runs(clock=lambda: AT) > 0


def made(site: Site, spec: dict[str, Any] = SPEC) -> Experiment:
    return create_experiment(policy_slug="grid", name="Half-life", spec=spec, at=AT, actor=manager(site))


def detail(site: Site, experiment: Experiment) -> ExperimentDetail:
    return get_experiment(policy_slug="grid", experiment_id=experiment.pk, at=AT, actor=manager(site))


def test_an_experiment_is_prepared_simulated_and_reported(computed: Site) -> None:
    experiment = made(computed)
    assert detail(computed, experiment).row.state == "queued"
    work()
    shown = detail(computed, experiment)
    assert (shown.row.state, shown.row.progress, shown.problem) == ("done", 1.0, "")
    assert [row.state for row in shown.variants] == ["done"] * 3
    assert [row.title for row in shown.variants] == [
        "The policy as published",
        "Half-life 1 h",
        "Shares of /biology × 2",
    ]
    report = get_variant_report(
        policy_slug="grid", experiment_id=experiment.pk, index=2, at=AT, actor=manager(computed)
    )
    by_path = {each.path: each for each in report.entries}
    biology, physics = by_path["/biology"], by_path["/physics"]
    assert biology.target == pytest.approx(80 / 140)
    assert biology.target_was == 0.4
    assert biology.core_h > biology.core_h_was > 0
    assert physics.core_h < physics.core_h_was
    assert biology.wait_mean_s is not None
    assert biology.wait_mean_was_s is not None
    assert biology.wait_mean_s < biology.wait_mean_was_s
    assert [each.path for each in report.gains] == ["/biology/carol"]
    assert len(report.at_h) == len(report.curves[0].share) == len(report.curves[0].share_was)
    assert report.headline.core_h <= 20 * 48
    assert sum(each.core_h for each in report.entries if each.depth == 1) == pytest.approx(report.headline.core_h)


def test_a_report_has_the_same_entries_in_every_format(computed: Site) -> None:
    experiment = made(computed)
    work()
    client = Client(headers={"accept": "application/json"})
    client.force_login(computed.admin, backend="django.contrib.auth.backends.ModelBackend")
    url = f"/api/v1/policies/grid/experiments/{experiment.pk}/variants/2"
    as_json = client.get(url).json()["entries"]
    answer = client.get(url, {"format": "csv"})
    body = b"".join(answer) if answer.streaming else answer.content
    rows = list(csv.DictReader(io.StringIO(body.decode("utf-8-sig"))))
    assert [row["path"] for row in rows] == [each["path"] for each in as_json]
    for name in ("core_h", "core_hours"):
        assert [float(row[name]) for row in rows] == [each["core_h"] for each in as_json], name


def test_a_variant_that_is_repeated_gives_the_same_bytes(computed: Site) -> None:
    experiment = made(computed)
    work()
    stored = ExperimentInputs.objects.get(experiment=experiment)
    inputs = Inputs.unpack(bytes(stored.data), stored.digest)
    assert inputs.pack()[1] == stored.digest
    for row in VariantResult.objects.filter(experiment=experiment):
        data, digest = simulate_variant(inputs, row.index, lambda part: None).pack()
        assert row.data is not None
        assert (bytes(row.data), row.digest) == (data, digest)
    again = made(computed)
    work()
    digests = [
        list(VariantResult.objects.filter(experiment=each).order_by("index").values_list("digest", flat=True))
        for each in (experiment, again)
    ]
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 3


def test_the_stored_form_can_be_sent_again(computed: Site) -> None:
    experiment = made(computed)
    assert made(computed, experiment.spec).spec == experiment.spec


def test_an_estimate_stores_nothing(computed: Site) -> None:
    estimate = estimate_experiment(policy_slug="grid", spec=SPEC, at=AT, actor=manager(computed))
    assert (estimate.n_runs, estimate.n_sites, estimate.n_entries) == (3, 1, 6)
    assert 1_700 < estimate.n_jobs < 1_760  # 1.8 × 20 processors × 48 hours, of an hour each
    assert estimate.seconds > 0
    assert estimate.memory_mb > 0
    assert not Experiment.objects.exists()
    assert not Run.objects.filter(kind__startswith="lab").exists()


def test_an_estimate_takes_and_refuses_what_making_does(computed: Site) -> None:
    client = Client(headers={"accept": "application/json"})
    client.force_login(computed.admin, backend="django.contrib.auth.backends.ModelBackend")
    url = "/api/v1/policies/grid/experiments"

    def answers(body: dict[str, Any]) -> tuple[Any, Any]:
        posts = [client.post(address, body, content_type="application/json") for address in (f"{url}/estimate", url)]
        return posts[0], posts[1]

    estimated, made_one = answers({"name": "Two weeks", **SPEC})
    assert (estimated.status_code, made_one.status_code) == (200, 201)
    assert estimated.json() == made_one.json()["estimate"]
    for wrong in ({"name": ""}, {"name": "x" * 201}, {"colour": 1}, {"seed": -1}):
        refused = answers({"name": "Two weeks", **SPEC, **wrong})
        assert [each.status_code for each in refused] in ([400, 400], [422, 422]), wrong
        assert refused[0].json()["fields"] == refused[1].json()["fields"]
    assert client.post(f"{url}/estimate", SPEC, content_type="application/json").status_code == 200


def test_two_people_who_cancel_end_it_once(computed: Site) -> None:
    experiment = made(computed)
    for _each in range(2):
        cancel_experiment(policy_slug="grid", experiment_id=experiment.pk, at=AT, actor=manager(computed))
    shown = detail(computed, experiment)
    assert (shown.row.state, shown.row.cancelled_by) == ("cancelled", "admin")
    assert [row.state for row in shown.variants] == ["cancelled"] * 3
    work_due_runs(clock=lambda: AT)
    assert not ExperimentInputs.objects.exists()
    assert AuditEvent.objects.filter(verb="policy.experiment_cancelled").count() == 1


def test_a_removed_experiment_leaves_nothing_but_the_audit_log(computed: Site) -> None:
    experiment = made(computed)
    work()
    remove_experiment(policy_slug="grid", experiment_id=experiment.pk, at=AT, actor=manager(computed))
    assert not Experiment.objects.exists()
    assert not VariantResult.objects.exists()
    verbs = AuditEvent.objects.filter(verb__startswith="policy.experiment").order_by("id")
    assert list(verbs.values_list("verb", flat=True)) == ["policy.experiment_made", "policy.experiment_removed"]


def test_managers_make_them_and_readers_of_all_numbers_read_them(computed: Site) -> None:
    pia = Actor(user=computed.pia, via="page")
    for ask in (
        lambda: create_experiment(policy_slug="grid", name="x", spec=SPEC, at=AT, actor=pia),
        lambda: estimate_experiment(policy_slug="grid", spec=SPEC, at=AT, actor=pia),
        lambda: list_experiments(policy_slug="grid", at=AT, actor=pia),
    ):
        with pytest.raises(NotAllowed):
            ask()
    experiment = made(computed)
    assert [row.id for row in list_experiments(policy_slug="grid", at=AT, actor=manager(computed))] == [experiment.pk]


def test_a_report_waits_for_the_run(computed: Site) -> None:
    experiment = made(computed)
    with pytest.raises(Conflict, match="no result"):
        get_variant_report(policy_slug="grid", experiment_id=experiment.pk, index=0, at=AT, actor=manager(computed))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"workload": {"kind": "guess"}}, "workload.kind"),
        ({"seed": -1}, "seed"),
        ({"colour": 1}, "colour"),
        ({"variants": [{}] * 5}, "variants"),
        (
            {"variants": [{"settings": {"algorithm": {"operator": "nonsense"}}}]},
            "variants[0].settings.algorithm.operator",
        ),
        ({"variants": [{"entries": [{"entry": "/nowhere"}]}]}, "variants[0].entries[0].entry"),
        ({"variants": [{"change_set": 99}]}, "variants[0].change_set"),
        ({"base": {"change_set": 1}}, "base.change_set"),
        ({"variants": [{"noise": {"loss": 2}}]}, "variants[0].noise.loss"),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(computed: Site, changes: dict[str, Any], where: str) -> None:
    with pytest.raises(Invalid) as refusal:
        made(computed, SPEC | changes)
    assert refusal.value.fields[0].where == where
    assert not Experiment.objects.exists()


def test_a_billion_jobs_are_refused_before_they_start(computed: Site) -> None:
    workload = SPEC["workload"] | {"streams": [{"entry": "/physics/alice", "every_s": 0.001, "run_h": 1}], "hours": 300}
    with pytest.raises(Invalid, match="jobs in each variant; at most") as refusal:
        made(computed, SPEC | {"workload": workload})
    assert refusal.value.code == "too_large"


def test_shares_that_sum_to_nothing_are_refused(computed: Site) -> None:
    nothing = {"entries": [{"entry": path, "shares_times": 0} for path in ("/physics", "/biology")]}
    with pytest.raises(Invalid, match="have no shares") as refusal:
        made(computed, SPEC | {"variants": [nothing]})
    assert (refusal.value.code, refusal.value.fields[0].where) == ("no_shares", "variants[0]")
