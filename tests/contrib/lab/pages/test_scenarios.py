"""The shipped scenarios as pages: each is listed, opens the builder filled in, and is posted without loss."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.contrib.lab.experiments.scenario_base import compared_spec, scenario_spec, scenario_tree
from apps.contrib.lab.experiments.scenario_titles import SCENARIO_GROUPS
from apps.contrib.lab.experiments.spec import ExperimentSpec, read_spec
from apps.contrib.lab.experiments.variant_trees import with_uids
from apps.contrib.lab.models import Experiment
from apps.contrib.lab.pages.builder_form import BuilderForm, form_of_spec
from apps.contrib.lab.scenario_files import shipped_scenarios
from tests.each_case import each_case
from tests.pages.page import read
from tests.sign_in import sign_in
from tests.small_site import Site

NEW = reverse("pages:lab-new", kwargs={"policy": "grid"})
NAMES = sorted(shipped_scenarios())


@pytest.fixture
def manager(computed: Site, client: Client) -> Client:
    sign_in(client, computed.admin)
    return client


def posted(form: BuilderForm) -> dict[str, str]:
    return form.values | {"kind": "synthetic", "n_variants": str(form.n_variants)}


def asked(name: str, data: object) -> ExperimentSpec:
    return with_uids(read_spec(data), scenario_tree(name))


@each_case("name", NAMES)
def test_the_form_of_a_scenario_is_the_scenario(name: str) -> None:
    """Jobs, sites, data and seed, as `manage.py simulate` runs them."""
    form = form_of_spec(scenario_spec(name), scenario_tree(name))
    form.values["kind"] = "synthetic"
    assert asked(name, form.spec(None)) == asked(name, scenario_spec(name))
    assert not form.problems


def test_streams_of_a_scenario_are_short_lines() -> None:
    form = form_of_spec(scenario_spec("imbalanced-local"), scenario_tree("imbalanced-local"))
    lines = form.value("streams").splitlines()
    assert lines[:2] == ["/VO-A/P-A1 every 15", "/VO-A/P-A2 every 15 at R1, R2, R3"]
    assert (form.value("run_from_h"), form.value("run_to_h")) == ("0.6", "1.4")
    assert (form.value("requested_from"), form.value("requested_to")) == ("1.2", "1.4")


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("/physics 0,6", {"entry": "/physics", "load": 0.6}),
        ("/physics 0", {"entry": "/physics", "load": 0}),
        ("/two words 7 load 1.5", {"entry": "/two words 7", "load": 1.5}),
        ("/a every 15 from 1 until 24.5", {"entry": "/a", "every_s": 15, "from_h": 1, "until_h": 24.5}),
        ("/a poisson 30 cpus 4 priority 10", {"entry": "/a", "poisson_s": 30, "cpus": 4, "priority": 10}),
        ("/a 1 run 2", {"entry": "/a", "load": 1, "run_h": [2, 2]}),
        (
            "/a 1 requested 1 to 2 at north cluster, R2",
            {"entry": "/a", "load": 1, "requested_factor": [1, 2], "sites": ["north cluster", "R2"]},
        ),
    ],
)
def test_a_line_is_a_stream(line: str, row: dict[str, object]) -> None:
    form = BuilderForm({"kind": "synthetic", "streams": line})
    assert form.spec(None)["workload"]["streams"] == [row]
    assert not form.problems


@pytest.mark.parametrize("line", ["/physics", "/physics often", "physics 1", "/a every", "/a 1 run"])
def test_a_line_that_is_none_is_refused_at_the_field(line: str) -> None:
    form = BuilderForm({"kind": "synthetic", "streams": f"/physics 1\n{line}"})
    form.spec(None)
    assert set(form.problems) == {"streams"}


@pytest.mark.django_db
def test_every_scenario_is_listed_and_opens_the_builder_filled_in_with_its_estimate(manager: Client) -> None:
    listed = read(manager.get(reverse("pages:lab-scenarios", kwargs={"policy": "grid"})))
    assert sorted(listed.each("[data-testid=scenario]", "data-key")) == NAMES
    links = [url for url in listed.each("[data-testid=scenario] a", "href") if url]
    assert len(links) == len(NAMES)
    for url in links:
        shown = read(manager.get(url))
        name = url.rpartition("=")[2]
        assert shown.one("[name=scenario]").attributes["value"] == name
        assert shown.one("[name=kind][checked]").attributes["value"] == "synthetic"
        assert shown.one("#id_hours").attributes["value"] == f"{scenario_spec(name)['workload']['hours']:g}"
        assert shown.one("#id_name").attributes["value"]
        assert not shown.has("#fig-tree")
        form = form_of_spec(scenario_spec(name), scenario_tree(name))
        estimated = read(manager.post(f"{NEW}_estimate", posted(form) | {"scenario": name}))
        assert "processor time" in estimated.item("estimate").text()
    assert not Experiment.objects.exists()


@pytest.mark.django_db
def test_what_the_builder_opens_with_is_the_experiment_that_it_starts(manager: Client) -> None:
    group = SCENARIO_GROUPS[0]
    shown = read(manager.get(f"{NEW}?compare={group.key}"))
    assert shown.each("fieldset.variant", "data-prefix") == ["base-", "v1-", "v2-"]
    form = form_of_spec(compared_spec(group.compared), scenario_tree(group.compared[0]))
    typed = posted(form) | {"name": "Figures 5 to 10", "step": "start"}
    for name, text in posted(form).items():
        if name in ("kind", "n_variants"):
            continue
        (field,) = shown.all(f"[name='{name}']")
        chosen = field.css_first("option[selected]")
        assert text in (chosen and chosen.attributes["value"], field.attributes.get("value"), field.text().strip()), (
            name
        )
    assert manager.post(NEW, typed).status_code == 303
    made = Experiment.objects.get()
    assert read_spec(made.spec) == asked(group.compared[0], compared_spec(group.compared))
    shown = read(manager.get(f"{NEW}?from={made.pk}"))
    assert shown.one("[name=kind][checked]").attributes["value"] == "kept"
    assert shown.one("[name=scenario]").attributes["value"] == "converge-historical"


@pytest.mark.django_db
def test_an_entry_of_the_scenario_is_chosen_in_its_builder(manager: Client) -> None:
    form = form_of_spec(scenario_spec("idle-U-B12"), scenario_tree("idle-U-B12"))
    picked = posted(form) | {"step": "shares", "entry": "/VO-A/P-A1", "entry_for": "base-"}
    shown = read(manager.post(NEW, picked))
    assert "/VO-A/P-A1 shares 2" in shown.text("#id_base-entries")
    assert "/VO-B/P-B1/U-B12" in shown.each("#entry-paths option", "value")
    assert read(manager.post(NEW, picked | {"entry": "/physics"}), 422).has("#id_entry[aria-invalid]")


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["scenario=nothing", "scenario=..%2Fidle", "compare=operators", "compare=x"])
def test_what_is_no_scenario_is_not_found(manager: Client, query: str) -> None:
    assert manager.get(f"{NEW}?{query}").status_code == 404


@pytest.mark.django_db
def test_a_posted_scenario_that_is_none_is_not_found(manager: Client) -> None:
    assert manager.post(NEW, {"scenario": "nothing", "kind": "synthetic"}).status_code == 404
