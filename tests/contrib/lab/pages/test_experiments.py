"""Pages of experiments by request: the list with its questions, one experiment, and what may be done with it."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.selectors import get_experiment
from apps.contrib.lab.experiments.services import create_experiment
from apps.contrib.lab.models import Experiment
from apps.core import clock
from apps.policies.models import ChangeSet
from apps.policies.services import change_settings, withdraw_change_set
from apps.runs.services import work_due_runs
from tests.pages.page import Page, read
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
LAB = reverse("pages:lab", kwargs={"policy": "grid"})
STREAMS = [
    {"entry": "/physics/alice", "load": 0.6},
    {"entry": "/physics/bob", "load": 0.6},
    {"entry": "/biology/carol", "load": 0.6},
]
SPEC: dict[str, Any] = {
    "workload": {"kind": "synthetic", "hours": 48, "sites": [{"name": "R1", "cpus": 20}], "streams": STREAMS},
    "variants": [
        {"settings": {"window": {"half_life_s": 3600}}},
        {"entries": [{"entry": "/biology", "shares_times": 2, "jobs_times": 2}]},
        {"name": "Late data", "noise": {"usage_delay_s": 3600}},
    ],
    "seed": 7,
}


@pytest.fixture
def manager(computed: Site, client: Client) -> Client:
    sign_in(client, computed.admin)
    return client


def made(site: Site, spec: dict[str, Any] = SPEC, *, is_worked: bool = True) -> Experiment:
    actor = Actor(user=site.admin, via="page")
    experiment = create_experiment(policy_slug="grid", name="Which half-life", spec=spec, at=clock.now(), actor=actor)
    if is_worked:
        work()
    return experiment


def work() -> None:
    assert work_due_runs(clock=clock.now) > 0


def page_of(client: Client, experiment: Experiment, query: str = "", status: int = 200) -> Page:
    return read(client.get(f"{LAB}{experiment.pk}/{query}"), status)


def test_the_lab_without_experiments_says_what_would_be_here(manager: Client) -> None:
    shown = read(manager.get(LAB))
    assert "LAB" in shown.text(".lab-mark")
    assert "Nothing here changes a priority." in shown.text(".lab-mark")
    assert shown.has("[data-testid=no-experiments]")
    assert shown.texts(".question h2") == [
        "Half-life 7 or 14 days?",
        "What if a project doubles?",
        "Which operator would have served best?",
    ]


@pytest.mark.parametrize("question", ["half_life", "project_doubles", "operator"])
def test_a_question_shows_its_estimate_and_starts_with_one_button(manager: Client, question: str) -> None:
    part = read(manager.get(f"{LAB}_question/{question}", headers=HTMX))
    assert "processor time" in part.item("estimate").text()
    assert not Experiment.objects.exists()
    entry = next(iter(part.each("option", "value")), "")
    answer = manager.post(f"{LAB}ask/{question}/", {"entry": entry})
    experiment = Experiment.objects.get()
    assert answer.status_code == 303
    assert answer["Location"] == f"{LAB}{experiment.pk}/"
    shown = page_of(manager, experiment)
    assert shown.item("state").attributes["data-state"] == "queued"
    assert len(shown.items("variant")) == 1 + len(experiment.spec["variants"])


def test_without_scripts_a_question_is_opened_in_the_page(manager: Client) -> None:
    shown = read(manager.get(f"{LAB}?question=half_life"))
    assert "processor time" in shown.text("#question-half_life [data-testid=estimate]")
    assert manager.get(f"{LAB}_question/half_life")["Location"] == f"{LAB}?question=half_life#question-half_life"


def test_a_question_without_a_known_entry_is_refused_on_the_page(manager: Client) -> None:
    shown = read(manager.post(f"{LAB}ask/project_doubles/", {"entry": "/nobody"}), 422)
    assert "names no entry of the policy" in shown.text(".note.bad")
    assert not Experiment.objects.exists()


def test_while_it_runs_the_page_has_progress_and_cancel(manager: Client, computed: Site) -> None:
    experiment = made(computed, is_worked=False)
    shown = page_of(manager, experiment)
    assert shown.item("state").attributes["data-state"] == "queued"
    assert shown.has("[data-poll]")
    listed = read(manager.get(LAB))
    assert listed.has("#experiments [data-poll]")
    part = manager.get(f"{LAB}{experiment.pk}/_now", headers=HTMX)
    assert "HX-Refresh" not in part.headers
    answer = manager.post(f"{LAB}{experiment.pk}/cancel/")
    assert answer.status_code == 303
    shown = page_of(manager, experiment)
    assert shown.item("state").attributes["data-state"] == "cancelled"
    assert not shown.has("[data-poll]")
    part = manager.get(f"{LAB}{experiment.pk}/_now", headers=HTMX)
    assert part["HX-Refresh"] == "true"
    assert manager.post(f"{LAB}{experiment.pk}/cancel/").status_code == 303  # a second person, at once


def test_a_result_has_the_numbers_of_rest_and_both_figures(manager: Client, computed: Site) -> None:
    experiment = made(computed)
    shown = page_of(manager, experiment)
    actor = Actor(user=computed.admin, via="page")
    detail = get_experiment(policy_slug="grid", experiment_id=experiment.pk, at=clock.now(), actor=actor)
    assert len(shown.items("variant")) == len(detail.variants) == 4
    listed = read(manager.get(LAB))
    assert "median wait" in listed.text(f"[data-testid=experiment][data-key='{experiment.pk}'] td.wrap")
    for row in detail.variants:
        assert row.title in shown.text(f"[data-testid=variant][data-key='{row.index}'] th")
    for name in ("share", "waits"):
        assert shown.text(f"#fig-{name} .fig-say"), name
        assert shown.has(f"#fig-{name} table tbody tr"), name
        answer = manager.get(f"{LAB}{experiment.pk}/figures/{name}", headers={"Accept": "application/json"})
        assert len([trace for trace in answer.json()["data"] if trace.get("name")]) == 4
        rows = list(csv.reader(io.StringIO(b"".join(manager.get(f"{LAB}{experiment.pk}/figures/{name}.csv")).decode())))
        assert len(rows) > 2
    links = shown.each("[data-testid=variant][data-key='2'] .links a", "href")
    report = manager.get(links[0]).json()
    assert report["title"] == detail.variants[2].title
    assert manager.get(links[1]).status_code == 200
    other = page_of(manager, experiment, "?variant=2")
    assert "/biology" in [node.attributes["data-key"] for node in other.items("entry")]
    assert "waits less" in other.text("#moved + *") or other.has(".gained-lost")


def test_an_unknown_entry_of_a_figure_is_refused_in_its_place(manager: Client, computed: Site) -> None:
    experiment = made(computed)
    shown = page_of(manager, experiment, "?entry=nowhere&variant=77")
    assert "doesn’t list nowhere" in shown.text("#fig-share .fig-state")
    answer = manager.get(f"{LAB}{experiment.pk}/figures/share?entry=nowhere", headers={"Accept": "application/json"})
    assert answer.status_code == 422
    assert manager.get(f"{LAB}{experiment.pk}/figures/other").status_code == 404


def test_an_experiment_is_repeated_and_removed(manager: Client, computed: Site) -> None:
    experiment = made(computed)
    answer = manager.post(f"{LAB}{experiment.pk}/repeat/")
    again = Experiment.objects.latest("pk")
    assert answer["Location"] == f"{LAB}{again.pk}/"
    assert again.spec == experiment.spec
    assert manager.post(f"{LAB}{experiment.pk}/remove/")["Location"] == LAB
    assert manager.get(f"{LAB}{experiment.pk}/").status_code == 404


def test_a_variant_becomes_a_change_set_with_the_experiment_as_evidence(manager: Client, computed: Site) -> None:
    experiment = made(computed)
    shown = page_of(manager, experiment)
    assert shown.has("[data-testid=draft][data-key='1'] form")
    assert not shown.has("[data-testid=draft][data-key='3'] form")  # late data are no part of a policy
    answer = manager.post(f"{LAB}{experiment.pk}/draft/1/")
    change_set = ChangeSet.objects.latest("pk")
    assert answer["Location"] == reverse("pages:change", kwargs={"change_set": change_set.pk})
    assert change_set.operations == [{"op": "set_policy", "settings": {"window": {"half_life_s": 3600}}}]
    experiment.refresh_from_db()
    assert experiment.change_set_id == change_set.pk
    shares = manager.post(f"{LAB}{experiment.pk}/draft/2/")
    second = ChangeSet.objects.latest("pk")
    assert shares["Location"] == reverse("pages:change", kwargs={"change_set": second.pk})
    (operation,) = second.operations
    assert (operation["op"], operation["entry"], operation["shares"]) == (
        "set_shares",
        str(computed.uid("/biology")),
        80.0,
    )
    experiment.refresh_from_db()
    assert experiment.change_set_id == change_set.pk
    refused = read(manager.post(f"{LAB}{experiment.pk}/draft/3/"), 409)
    assert refused.one(".note.bad").attributes["data-code"] == "nothing_to_change"


def test_it_is_attached_to_a_change_set_and_detached(manager: Client, computed: Site) -> None:
    experiment = made(computed)
    manager.post(f"{LAB}{experiment.pk}/draft/1/")
    change_set = ChangeSet.objects.latest("pk")
    assert manager.post(f"{LAB}{experiment.pk}/attach/", {"change_set": ""}).status_code == 303
    experiment.refresh_from_db()
    assert experiment.change_set_id is None
    assert str(change_set.pk) in page_of(manager, experiment).each("#change-set option", "value")
    manager.post(f"{LAB}{experiment.pk}/attach/", {"change_set": change_set.pk})
    experiment.refresh_from_db()
    assert experiment.change_set_id == change_set.pk
    refused = read(manager.post(f"{LAB}{experiment.pk}/remove/"), 409)
    assert refused.one(".note.bad").attributes["data-code"] == "is_evidence"
    withdraw_change_set(
        id=change_set.pk, version=change_set.version, at=clock.now(), actor=Actor(user=computed.admin, via="page")
    )
    refused = read(manager.post(f"{LAB}{experiment.pk}/attach/", {"change_set": ""}), 409)
    assert refused.one(".note.bad").attributes["data-code"] == "decided"
    refused = read(manager.post(f"{LAB}{experiment.pk}/attach/", {"change_set": "one"}), 422)
    assert "Choose a change set." in refused.text(".note.bad")


def test_titles_stay_after_a_variant_was_published(manager: Client, computed: Site) -> None:
    experiment = made(computed)
    change_settings(
        policy_slug="grid",
        settings={"window": {"half_life_s": 3600}},
        reason="As tried.",
        at=clock.now(),
        actor=Actor(user=computed.admin, via="page"),
    )
    shown = page_of(manager, experiment)
    assert "Half-life 1 h" in shown.text("[data-testid=variant][data-key='1'] th")
    assert "Nothing changed" not in read(manager.get(LAB)).text("#experiments")
    assert "changes nothing of the policy" in shown.text("[data-testid=draft][data-key='1']")
