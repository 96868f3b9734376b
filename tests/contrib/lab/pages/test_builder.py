"""The builder by request: what is typed becomes the experiment, and errors are at their fields."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.services import create_experiment
from apps.contrib.lab.experiments.spec import read_spec
from apps.contrib.lab.experiments.traces import KIND
from apps.contrib.lab.models import Experiment, UploadedTrace
from apps.contrib.lab.pages.builder_form import form_of_spec
from apps.core import clock
from apps.policies.models import Policy
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, withdraw_change_set
from apps.policies.tree.stored import load_tree
from apps.runs.services import work_due_runs
from tests.pages.page import read
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
NEW = reverse("pages:lab-new", kwargs={"policy": "grid"})
HTMX = {"HX-Request": "true"}
TYPED = {
    "name": "Two half-lives",
    "kind": "synthetic",
    "hours": "24",
    "sites": "R1 16\nnorth cluster 4",
    "load": "0,9",
    "run_from_h": "0.5",
    "run_to_h": "1",
    "job_cpus": "1",
    "seed": "3",
    "n_variants": "2",
    "v1-half_life_d": "14",
    "v2-entries": "/physics shares 2 jobs 1.5",
    "v2-loss": "5",
    "v2-refresh_min": "10",
    "v2-more": "window.length_s = 2592000",
}
# Every field that a variant can have.
WHOLE: dict[str, Any] = {
    "name": "all of it",
    "settings": {
        "algorithm": {"name": "aequus", "operator": "absolute", "resolution": 100},
        "window": {"half_life_s": 86_400, "length_s": 864_000},
        "approach": {"local": "active", "global": "predictive"},
    },
    "entries": [{"entry": "/physics", "shares_times": 2.0}, {"entry": "/biology/carol", "jobs_times": 0.5}],
    "refresh_s": 90.0,
    "priority_refresh_s": 300.0,
    "scope": "local",
    "noise": {"usage_delay_s": 60.0, "loss": 0.1, "resolution": 50},
    "imbalance": 0.25,
    "jobs_times": 1.5,
    "backfill": True,
}


@pytest.fixture
def manager(computed: Site, client: Client) -> Client:
    sign_in(client, computed.admin)
    return client


def test_what_is_typed_becomes_the_experiment(manager: Client) -> None:
    answer = manager.post(NEW, TYPED | {"step": "start"})
    experiment = Experiment.objects.get()
    assert answer.status_code == 303
    assert (experiment.name, experiment.seed) == ("Two half-lives", 3)
    spec = read_spec(experiment.spec).to_json()
    physics = experiment.spec["variants"][1]["entries"][0]["entry"]
    assert spec["workload"] == {
        "kind": "synthetic",
        "hours": 24.0,
        "sites": [{"name": "R1", "cpus": 16}, {"name": "north cluster", "cpus": 4}],
        "all_users": {"load": 0.9, "run_h": [0.5, 1.0], "requested_factor": [1.0, 1.5], "cpus": 1},
    }
    assert spec["variants"] == [
        {"settings": {"window": {"half_life_s": 1_209_600}}},
        {
            "settings": {"window": {"length_s": 2_592_000}},
            "entries": [{"entry": physics, "shares_times": 2.0, "jobs_times": 1.5}],
            "refresh_s": 600.0,
            "noise": {"usage_delay_s": 0.0, "loss": 0.05, "resolution": 0},
        },
    ]


def test_errors_are_at_their_fields_and_what_was_typed_stays(manager: Client) -> None:
    wrong = TYPED | {
        "name": "",
        "hours": "many",
        "sites": "R1",
        "v1-half_life_d": "-1",
        "v2-entries": "/nowhere shares 2",
        "v2-loss": "500",
        "v1-resolution": "0",
    }
    shown = read(manager.post(NEW, wrong), 422)
    invalid = {each for each in shown.each("[aria-invalid]", "name") if each}
    assert {"name", "hours", "sites", "v2-loss"} <= invalid
    for name, text in wrong.items():
        if name in ("kind", "n_variants", "step"):
            continue
        (field,) = shown.all(f"[name='{name}']")
        assert text in (field.attributes.get("value") or "", field.text().strip()), name
    assert not Experiment.objects.exists()
    fixed = wrong | {"name": "a", "hours": "24", "sites": "R1 4", "v2-loss": "5"}
    shown = read(manager.post(NEW, fixed), 422)
    assert set(shown.each("[aria-invalid]", "name")) == {"v1-half_life_d", "v1-resolution", "v2-entries"}
    assert "more than 0" in shown.text("#id_v1-half_life_d_error")
    fixed |= {"v1-half_life_d": "", "v1-resolution": ""}
    shown = read(manager.post(NEW, fixed), 422)
    assert set(shown.each("[aria-invalid]", "name")) == {"v2-entries"}


def test_the_estimate_follows_the_form_and_names_what_is_wrong(manager: Client) -> None:
    address = f"{NEW}_estimate"
    part = read(manager.post(address, TYPED, headers=HTMX))
    assert "processor time" in part.item("estimate").text()
    part = read(manager.post(address, TYPED | {"hours": "x"}, headers=HTMX))
    assert "#id_hours" in part.each("[data-testid=problems] a", "href")
    assert not Experiment.objects.exists()
    shown = read(manager.post(NEW, TYPED | {"step": "estimate"}))
    assert "processor time" in shown.item("estimate").text()
    large = read(manager.post(address, TYPED | {"sites": "R1 10000000"}, headers=HTMX))
    assert "at most" in large.item("problems").text()


def test_variants_and_entries_are_added_and_removed_without_scripts(manager: Client) -> None:
    shown = read(manager.post(NEW, TYPED | {"step": "add-variant"}))
    assert shown.each("fieldset.variant", "data-prefix") == ["base-", "v1-", "v2-", "v3-"]
    shown = read(manager.post(NEW, TYPED | {"step": "remove-variant-1"}))
    assert shown.each("fieldset.variant", "data-prefix") == ["base-", "v1-"]
    assert shown.text("#id_v1-entries").strip() == "/physics shares 2 jobs 1.5"
    picked = TYPED | {"step": "jobs", "entry": "/biology", "entry_for": "v2-"}
    shown = read(manager.post(NEW, picked))
    assert shown.text("#id_v2-entries").strip().endswith("/biology jobs 2")
    shown = read(manager.post(NEW, picked | {"entry": "/nowhere"}), 422)
    assert shown.has("#id_entry[aria-invalid]")


def test_an_experiment_is_changed_and_repeated_without_loss(manager: Client, computed: Site) -> None:
    streams = [{"entry": "/physics/bob", "every_s": 600, "from_h": 0.5}]
    spec = {
        "workload": {"kind": "synthetic", "hours": 2, "sites": [{"name": "R1", "cpus": 2}], "streams": streams},
        "base": {"settings": {"window": {"half_life_s": 3_600}}},
        "variants": [WHOLE],
        "seed": 5,
    }
    made = create_experiment(
        policy_slug="grid", name="first", spec=spec, at=clock.now(), actor=Actor(user=computed.admin, via="page")
    )
    tree = load_tree(Policy.objects.get(slug="grid"))
    form = form_of_spec(made.spec, tree)
    shown = read(manager.get(f"{NEW}?from={made.pk}"))
    assert shown.one("[name=kind][checked]").attributes["value"] == "kept"
    posted = form.values | {"name": "second", "kept_from": str(made.pk), "n_variants": "1", "step": "start"}
    assert manager.post(NEW, posted).status_code == 303
    again = Experiment.objects.latest("pk")
    assert again.name == "second"
    assert again.spec == made.spec


def test_a_draft_is_tried_as_a_variant(manager: Client, computed: Site) -> None:
    actor = Actor(user=computed.admin, via="page")
    new = NewChangeSet(operations=[{"op": "set_shares", "entry": "/physics", "shares": 90}], reason="More physics")
    draft = make_change_set(policy_slug="grid", new=new, at=clock.now(), actor=actor)
    shown = read(manager.get(f"{NEW}?draft={draft.pk}"))
    assert shown.one("#id_v1-change_set option[selected]").attributes["value"] == str(draft.pk)
    typed = {name: text for name, text in TYPED.items() if not name.startswith("v")}
    posted = typed | {"n_variants": "1", "v1-change_set": str(draft.pk), "step": "start"}
    assert manager.post(NEW, posted).status_code == 303
    assert Experiment.objects.latest("pk").spec["variants"] == [{"change_set": draft.pk}]
    withdraw_change_set(id=draft.pk, version=draft.version, at=clock.now(), actor=actor)
    shown = read(manager.post(NEW, posted), 409)
    assert set(shown.each("[aria-invalid]", "name")) == {"v1-change_set"}


def test_the_picture_has_every_entry_and_leads_nowhere(manager: Client) -> None:
    shown = read(manager.get(NEW))
    assert shown.one("#fig-tree").attributes["data-src"] == f"{NEW}figures/tree"
    fields = manager.get(f"{NEW}figures/tree", headers={"Accept": "application/json"}).json()["fields"]
    assert {each["name"] for each in fields} >= {"physics", "biology", "alice"}
    assert {each["url"] for each in fields} == {""}


def swf(n_jobs: int = 60) -> bytes:
    rows = [f"{n} {90 * n} 5 3000 1 -1 -1 1 6000 -1 1 {1 + n % 2} 1 -1 1 -1 -1 -1" for n in range(n_jobs)]
    return "\n".join(rows).encode()


def test_a_log_is_uploaded_in_the_form_and_simulated(manager: Client) -> None:
    typed = {
        "name": "A log",
        "kind": "trace",
        "n_variants": "1",
        "v1-half_life_d": "3",
        "trace_sites": "R1 4",
        "map": "/physics/alice = user:1\n/biology/carol",
    }
    shown = read(manager.post(NEW, typed | {"step": "upload"}), 422)
    assert "Choose a file." in shown.text("#id_log_error")
    wrong = SimpleUploadedFile("wrong.swf", b"1 2 3\n")
    manager.post(NEW, typed | {"step": "upload", "log": wrong})
    empty = SimpleUploadedFile("empty.swf", b"; no job\n")
    shown = read(manager.post(NEW, typed | {"step": "upload", "log": empty}), 422)
    assert "has no jobs" in shown.text("#id_log_error")
    shown = read(manager.post(NEW, typed | {"step": "upload", "log": SimpleUploadedFile("small.swf", swf())}))
    trace = shown.one("#id_trace option[selected]")
    assert "small.swf: waits to be read" in trace.text()
    assert shown.one("#id_v1-half_life_d").attributes["value"] == "3"
    assert shown.one("#logs [data-poll]").attributes["hx-get"] == f"{NEW}_logs"
    chosen = typed | {"trace": trace.attributes["value"] or ""}
    waiting = read(manager.post(NEW, chosen | {"step": "start"}), 409)
    assert "wait until it is read" in waiting.text("#id_trace_error")
    work_due_runs(clock=clock.now, of_kinds=[KIND])
    answer = manager.get(f"{NEW}_logs?trace={chosen['trace']}", headers=HTMX)
    part = read(answer)
    assert answer["HX-Trigger"] == "logs-read"
    assert not part.has("[data-poll]")
    assert "small.swf: 60 jobs of 2 users" in part.text("#id_trace option[selected]")
    assert "wrong line 1" in part.item("unread-log").text()
    refused = read(manager.post(NEW, chosen | {"trace_sites": "", "map": "physics", "step": "start"}), 422)
    assert set(refused.each("[aria-invalid]", "name")) == {"trace_sites", "map"}
    assert manager.post(NEW, chosen | {"step": "start"}).status_code == 303
    workload = Experiment.objects.get().spec["workload"]
    assert workload["map"] == [{"entry": "/physics/alice", "user": "1"}, {"entry": "/biology/carol"}]


def test_a_log_is_removed_in_the_form(manager: Client) -> None:
    typed = TYPED | {"kind": "trace"}
    log = SimpleUploadedFile("small.swf", swf())
    shown = read(manager.post(NEW, typed | {"step": "upload", "log": log}))
    chosen = typed | {"trace": shown.one("#id_trace option[selected]").attributes["value"] or ""}
    shown = read(manager.post(NEW, chosen | {"step": "remove-log"}))
    assert "none is uploaded yet" in shown.text("#id_trace")
    assert not UploadedTrace.objects.exists()
    assert shown.one("#id_v1-half_life_d").attributes["value"] == "14"
    assert not shown.each("[value=remove-log]", "name")
    again = read(manager.post(NEW, chosen | {"step": "remove-log"}), 422)
    assert "has no log" in again.text("#id_trace_error")
