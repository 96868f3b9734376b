"""Drafts as variants, evidence on a review, failures of one variant, and that nothing of it reaches priorities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.records import ExperimentDetail, VariantRow
from apps.contrib.lab.experiments.runs import PREPARE, VARIANT
from apps.contrib.lab.experiments.selectors import get_experiment, get_variant_report, list_evidence
from apps.contrib.lab.experiments.services import attach_experiment, create_experiment, remove_experiment
from apps.contrib.lab.models import Experiment
from apps.core.errors import Conflict, NotFound
from apps.policies.models import ChangeSet
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set, publish_document, withdraw_change_set
from apps.runs.services import work_due_runs
from tests.contrib.lab.experiments.test_drawn import SPEC, STREAMS
from tests.examples import first
from tests.instants import AT
from tests.priorities.recompute.test_packages import moody  # noqa: F401 - fixture
from tests.small_site import TREE, Site

pytestmark = pytest.mark.django_db
WORKLOAD = SPEC["workload"]


def manager(site: Site) -> Actor:
    return Actor(user=site.admin, via="page")


@pytest.fixture
def draft(computed: Site) -> ChangeSet:
    """Biology gets 80 instead of 40 shares, and the half-life is a day."""
    operations: list[dict[str, Any]] = [
        {"op": "set_shares", "entry": "/biology", "shares": 80},
        {"op": "set_policy", "settings": {"window": {"half_life_s": 86_400}}},
    ]
    new = NewChangeSet(operations=operations, reason="Biology grows.")
    return make_change_set(policy_slug="grid", new=new, at=AT, actor=manager(computed))


def made(site: Site, *variants: dict[str, Any], **more: Any) -> Experiment:
    spec = {"workload": WORKLOAD, "variants": list(variants), "seed": 3, **more}
    return create_experiment(policy_slug="grid", name="drafts", spec=spec, at=AT, actor=manager(site))


def work() -> None:
    work_due_runs(clock=lambda: AT, of_kinds=[PREPARE, VARIANT])


def detail(site: Site, experiment: Experiment) -> ExperimentDetail:
    return get_experiment(policy_slug="grid", experiment_id=experiment.pk, at=AT, actor=manager(site))


def rows(site: Site, experiment: Experiment) -> tuple[VariantRow, ...]:
    return detail(site, experiment).variants


def test_a_draft_is_simulated_with_its_tree_and_settings(computed: Site, draft: ChangeSet) -> None:
    experiment = made(computed, {"change_set": draft.pk})
    work()
    row = rows(computed, experiment)[1]
    assert (row.state, row.change_set, row.title) == ("done", draft.pk, f"Draft change set {draft.pk}")
    report = get_variant_report(
        policy_slug="grid", experiment_id=experiment.pk, index=1, at=AT, actor=manager(computed)
    )
    biology = {each.path: each for each in report.entries}["/biology"]
    assert biology.target == pytest.approx(80 / 140)
    assert biology.target_was == 0.4
    same = made(
        computed,
        {
            "entries": [{"entry": "/biology", "shares_times": 2}],
            "settings": {"window": {"half_life_s": 86_400}},
        },
    )
    work()
    assert rows(computed, same)[1].headline == row.headline


def test_a_decided_draft_is_refused_before_the_start(computed: Site, draft: ChangeSet) -> None:
    withdraw_change_set(id=draft.pk, version=draft.version, at=AT, actor=manager(computed))
    with pytest.raises(Conflict) as refusal:
        made(computed, {"change_set": draft.pk})
    assert (refusal.value.code, refusal.value.fields[0].where) == ("decided", "variants[0].change_set")


def test_a_draft_that_is_withdrawn_meanwhile_ends_its_variant_alone(computed: Site, draft: ChangeSet) -> None:
    experiment = made(computed, {"change_set": draft.pk})
    withdraw_change_set(id=draft.pk, version=draft.version, at=AT, actor=manager(computed))
    work()
    shown = detail(computed, experiment)
    assert shown.row.state == "done"
    assert [row.state for row in shown.variants] == ["done", "failed"]
    assert "is published or withdrawn" in shown.variants[1].problem


def test_evidence_is_attached_shown_and_kept_with_the_decision(computed: Site, draft: ChangeSet) -> None:
    experiment = made(computed, {"settings": {"window": {"half_life_s": 3600}}}, {"change_set": draft.pk})
    work()
    where: dict[str, Any] = {"policy_slug": "grid", "experiment_id": experiment.pk, "at": AT}
    for _each in range(2):
        attach_experiment(**where, change_set_id=draft.pk, actor=manager(computed))
    (evidence,) = list_evidence(change_set=draft, at=AT, actor=manager(computed))
    assert (evidence.attached_by, evidence.detail.row.id) == ("admin", experiment.pk)
    assert evidence.report is not None
    assert evidence.report.index == 2  # the draft itself
    assert list_evidence(change_set=draft, at=AT, actor=Actor(user=computed.pia, via="page")) == []
    with pytest.raises(Conflict, match="detach it first"):
        remove_experiment(**where, actor=manager(computed))
    publish_change_set(id=draft.pk, version=draft.version, at=AT, actor=manager(computed))
    with pytest.raises(Conflict, match="evidence stays"):
        attach_experiment(**where, change_set_id=None, actor=manager(computed))
    assert len(list_evidence(change_set=draft, at=AT, actor=manager(computed))) == 1


def test_evidence_is_attached_to_change_sets_of_its_policy_alone(computed: Site, draft: ChangeSet) -> None:
    experiment = made(computed)
    where: dict[str, Any] = {"policy_slug": "grid", "experiment_id": experiment.pk, "at": AT}
    publish_document(policy_slug="other", document={"root": TREE}, reason="A tree.", at=AT, actor=manager(computed))
    operations = [{"op": "set_shares", "entry": "/biology", "shares": 80}]
    other = make_change_set(
        policy_slug="other", new=NewChangeSet(operations=operations, reason="x"), at=AT, actor=manager(computed)
    )
    for change_set_id in (other.pk, 9_999):
        with pytest.raises(NotFound):
            attach_experiment(**where, change_set_id=change_set_id, actor=manager(computed))


def test_an_operator_of_a_package_that_fails_ends_its_variant_alone(
    moody: Callable[[], None],  # noqa: F811 - the fixture
    computed: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moods = {"settings": {"algorithm": {"name": "aequus", "operator": "sulking"}}}
    experiment = made(computed, moods, {"settings": {"window": {"half_life_s": 3600}}})
    monkeypatch.setenv("MOODY", "raises")
    work()
    assert [row.state for row in rows(computed, experiment)] == ["done", "failed", "done"]
    assert "package moody-package: operator 'sulking' failed" in rows(computed, experiment)[1].problem
    assert detail(computed, experiment).row.state == "done"


@pytest.mark.parametrize(
    "name", first(1, ["gridwide", "slurm-fair-tree", "slurm-classic", "slurm-depth-oblivious", "flux"])
)
def test_every_algorithm_can_be_a_variant(computed: Site, name: str) -> None:
    experiment = made(computed, {"settings": {"algorithm": {"name": name}}})
    work()
    row = rows(computed, experiment)[1]
    assert (row.state, row.problem) == ("done", "")
    assert row.headline is not None
    assert row.headline.busy > 0.9


@pytest.mark.parametrize(
    "changes",
    [
        {"refresh_s": 3600},
        {"scope": "local"},
        {"noise": {"usage_delay_s": 3600, "loss": 0.2, "resolution": 10}},
        {"imbalance": 0.9},
        {"jobs_times": 1.5},
        {"backfill": True},
        {"priority_refresh_s": 600},
        {"entries": [{"entry": "/physics/bob", "jobs_times": 3}]},
        {"settings": {"approach": {"local": "predictive", "global": "predictive"}}},
        {"settings": {"window": {"half_life_s": 1800}}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_change_is_named_and_has_an_effect(computed: Site, changes: dict[str, Any]) -> None:
    """On two sites that compare by global usage, with less than all can do there."""
    sites = [{"name": "R1", "cpus": 10}, {"name": "R2", "cpus": 12}]
    streams = [{**stream, "cpus": 1 + 2 * (i == 1)} for i, stream in enumerate(STREAMS)]
    workload = WORKLOAD | {"sites": sites, "streams": streams}
    experiment = made(computed, changes, workload=workload, base={"scope": "global", "backfill": False})
    work()
    base, variant = rows(computed, experiment)
    assert (base.state, variant.state, variant.problem) == ("done", "done", "")
    assert variant.changes
    assert variant.title != "Nothing changed"
    assert variant.headline != base.headline


def test_no_number_that_is_served_changes(computed: Site, draft: ChangeSet) -> None:
    """Every table but those of experiments, runs and the audit log has the same rows as before, and priorities the same
    bytes.
    """
    client = Client(headers={"authorization": f"Bearer {computed.token('priorities:read')}"})
    before = _served(client), _tables()
    experiment = made(computed, {"change_set": draft.pk}, {"jobs_times": 2})
    work()
    assert [row.state for row in rows(computed, experiment)] == ["done"] * 3
    after = _served(client), _tables()
    assert before[0] == after[0]
    assert b"alice" in before[0]
    changed = {name for name, state in after[1].items() if before[1][name] != state}
    assert changed == {"lab_experiment", "lab_experimentinputs", "lab_variantresult", "runs_run", "accounts_auditevent"}


def _served(client: Client) -> bytes:
    answer: Any = client.get("/api/v1/policies/grid/priorities/all")
    assert answer.status_code == 200
    return b"".join(answer.streaming_content)


def _tables() -> dict[str, str]:
    """A digest of all rows, by table."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1")
        names = [name for (name,) in cursor.fetchall()]
        digests = {}
        for name in names:
            cursor.execute(f"SELECT md5(COALESCE(string_agg(t::text, chr(10) ORDER BY t::text), '')) FROM \"{name}\" t")  # noqa: S608 - names of tables
            digests[name] = cursor.fetchone()[0]
    return digests


def test_no_table_of_usage_or_priorities_refers_to_the_lab() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f'"
        )
        pairs = cursor.fetchall()
        cursor.execute("SELECT event_object_table FROM information_schema.triggers")
        triggered = {name for (name,) in cursor.fetchall()}
    into_lab = {child for child, parent in pairs if parent.startswith("lab_")}
    assert all(child.startswith("lab_") for child in into_lab)
    of_lab = {parent for child, parent in pairs if child.startswith("lab_") and not parent.startswith("lab_")}
    assert of_lab == {"policies_policy", "policies_changeset", "accounts_user", "runs_run"}
    assert not {name for name in triggered if name.startswith("lab_")}
