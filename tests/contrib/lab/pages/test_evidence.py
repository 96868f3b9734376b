"""Experiments on the review of a change set: which variant it is, what is stale, and who sees them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.services import attach_experiment, create_experiment
from apps.contrib.lab.models import Experiment
from apps.core import clock
from apps.policies.models import ChangeSet
from apps.policies.records import ChangeSetEdit, NewChangeSet
from apps.policies.services import make_change_set, propose_change_set, update_change_set, withdraw_change_set
from apps.runs.services import work_due_runs
from tests.pages.page import Page, read
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
EDIT = {"op": "set_policy", "settings": {"window": {"half_life_s": 3600}}}
SPEC: dict[str, Any] = {
    "workload": {
        "kind": "synthetic",
        "hours": 24,
        "sites": [{"name": "R1", "cpus": 10}],
        "streams": [{"entry": "/physics/bob", "load": 0.7}, {"entry": "/biology/carol", "load": 0.7}],
    },
    "variants": [{"settings": {"window": {"half_life_s": 7200}}}, {"settings": {"window": {"half_life_s": 3600}}}],
}


@pytest.fixture
def manager(computed: Site, client: Client) -> Client:
    sign_in(client, computed.admin)
    return client


def actor_of(site: Site) -> Actor:
    return Actor(user=site.admin, via="page")


def draft_of(site: Site) -> ChangeSet:
    new = NewChangeSet(operations=[EDIT], reason="A shorter half-life")
    return make_change_set(policy_slug="grid", new=new, at=clock.now(), actor=actor_of(site))


def experiment_of(site: Site, spec: dict[str, Any] = SPEC, change_set: ChangeSet | None = None) -> Experiment:
    made = create_experiment(policy_slug="grid", name="Half-lives", spec=spec, at=clock.now(), actor=actor_of(site))
    if change_set is not None:
        attach_experiment(
            policy_slug="grid",
            experiment_id=made.pk,
            change_set_id=change_set.pk,
            at=clock.now(),
            actor=actor_of(site),
        )
    assert work_due_runs(clock=clock.now) > 0
    return made


def card_of(client: Client, change_set: ChangeSet, status: int = 200) -> Page:
    address = reverse("pages:change-experiments", kwargs={"change_set": change_set.pk})
    return read(client.get(address, headers=HTMX), status)


def test_the_review_asks_for_the_card_and_offers_to_try_the_change_set(manager: Client, computed: Site) -> None:
    draft = draft_of(computed)
    shown = read(manager.get(reverse("pages:change", kwargs={"change_set": draft.pk})))
    address = reverse("pages:change-experiments", kwargs={"change_set": draft.pk})
    assert shown.one("#experiments").attributes["hx-get"] == address
    card = card_of(manager, draft)
    assert "No experiment is attached." in card.text("#experiments")
    assert card.each("#experiments footer a", "href") == [f"/policy/grid/lab/new/?draft={draft.pk}"]
    page = read(manager.get(address))  # without scripts
    assert "LAB" in page.text(".lab-mark")
    withdraw_change_set(id=draft.pk, version=draft.version, at=clock.now(), actor=actor_of(computed))
    shown = read(manager.get(reverse("pages:change", kwargs={"change_set": draft.pk})))
    assert not shown.has("#experiments")


def test_the_variant_with_exactly_its_edits_is_marked(manager: Client, computed: Site) -> None:
    draft = draft_of(computed)
    experiment_of(computed, change_set=draft)
    card = card_of(manager, draft)
    assert "this change set" in card.text("#experiments tr.chosen")
    assert card.one("#experiments tr.chosen").attributes["data-key"] == "2"
    assert not card.has("[data-testid=differs]")
    edit = ChangeSetEdit(operations=[{"op": "set_policy", "settings": {"window": {"half_life_s": 1800}}}])
    update_change_set(id=draft.pk, version=draft.version, edit=edit, at=clock.now(), actor=actor_of(computed))
    assert card_of(manager, draft).has("[data-testid=differs]")


def test_a_draft_that_was_edited_after_its_experiment_is_named(manager: Client, computed: Site) -> None:
    draft = draft_of(computed)
    experiment_of(computed, {**SPEC, "variants": [{"change_set": draft.pk}]}, draft)
    card = card_of(manager, draft)
    assert card.one("#experiments tr.chosen").attributes["data-key"] == "1"
    assert not card.has("[data-testid=edited]")
    edit = ChangeSetEdit(operations=[{"op": "set_policy", "settings": {"window": {"half_life_s": 1800}}}])
    later = clock.now() + timedelta(minutes=1)
    update_change_set(id=draft.pk, version=draft.version, edit=edit, at=later, actor=actor_of(computed))
    assert card_of(manager, draft).has("[data-testid=edited]")


def test_an_experiment_without_a_result_says_its_state(manager: Client, computed: Site) -> None:
    draft = draft_of(computed)
    made = create_experiment(policy_slug="grid", name="Soon", spec=SPEC, at=clock.now(), actor=actor_of(computed))
    attach_experiment(
        policy_slug="grid", experiment_id=made.pk, change_set_id=draft.pk, at=clock.now(), actor=actor_of(computed)
    )
    card = card_of(manager, draft)
    assert "queued" in card.text("[data-testid=evidence]")
    assert "waiting" in card.text("#experiments tr.chosen")


def test_evidence_is_for_those_who_see_all_numbers(computed: Site, client: Client) -> None:
    new = NewChangeSet(operations=[{"op": "set_shares", "entry": "/physics/bob", "shares": 3}], reason="More for bob")
    draft = make_change_set(policy_slug="grid", new=new, at=clock.now(), actor=actor_of(computed))
    experiment_of(computed, change_set=draft)
    propose_change_set(id=draft.pk, version=draft.version, at=clock.now(), actor=actor_of(computed))
    sign_in(client, computed.pia)
    assert not read(client.get(reverse("pages:change", kwargs={"change_set": draft.pk}))).has("#experiments")
    address = reverse("pages:change-experiments", kwargs={"change_set": draft.pk})
    assert client.get(address, headers=HTMX).status_code == 403
    assert client.get(f"/policy/grid/lab/{Experiment.objects.latest('pk').pk}/").status_code == 403
