"""The page of operators and resolution by request: finding, choices, figures as tables and CSV, and what it refuses."""

from __future__ import annotations

import csv
import io

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import COMMAND
from apps.contrib.lab.operators.records import FigureQuery
from apps.contrib.lab.operators.selectors import FIGURES, get_figure, get_operators_page
from apps.core import clock
from apps.engine.operators import all_operators
from apps.policies.services import change_settings
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read
from tests.sign_in import sign_in

PAGE = reverse("dashboard:operators", kwargs={"policy": SLUG})


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def page(client: Client, query: str = "", status: int = 200) -> Page:
    return read(client.get(PAGE + query), status)


def test_the_page_has_the_check_every_operator_and_every_figure_with_a_sentence(admin: Client) -> None:
    shown = page(admin)
    check = get_operators_page(policy_slug=SLUG, query=FigureQuery(), actor=COMMAND).check
    assert check.sentence in shown.item("check").text()
    assert shown.values("data-key", "table.operators") == [operator.name for operator in all_operators()]
    assert [node.attributes["data-key"] for node in shown.items("operator") if "data-state" in node.attributes] == [
        "relative"
    ]
    assert [f"fig-{name}" for name in FIGURES] == [node.attributes["id"] for node in shown.all("[data-figure]")]
    for name in FIGURES:
        assert shown.text(f"#fig-{name} .fig-say"), name
        assert shown.has(f"#fig-{name} table tbody tr"), name


def test_parameters_are_in_the_address_and_in_the_links(admin: Client) -> None:
    shown = page(admin, "?operator=absolute&resolution=10&nodes=1%20000&target=0,5")
    asked = FigureQuery(operator="absolute", resolution=10, nodes=1000, target=0.5)
    check = get_operators_page(policy_slug=SLUG, query=asked, actor=COMMAND).check
    assert shown.item("check").attributes["data-value"] == str(check.n_misplaced)
    csv_link = shown.one("#fig-profiles [data-figure-csv]").attributes["href"] or ""
    assert csv_link.startswith(f"{PAGE}figures/profiles.csv?operator=absolute&resolution=10")
    assert shown.one('form[data-operators] [name="target"]').attributes["value"] == "0,5"
    assert shown.each("#fig-profiles [aria-current]", "data-choice") == ["operator-absolute", "target-0.5"]


def test_an_invalid_value_is_reported_at_its_field_and_in_place_of_each_figure(admin: Client) -> None:
    shown = page(admin, "?nodes=-3&operator=cosine", status=422)
    assert shown.has("#id_nodes_error")
    assert shown.has("#id_operator_error")
    assert shown.one("#id_nodes").attributes["value"] == "-3"
    assert len(shown.all("[data-figure] .fig-state")) == len(FIGURES)
    answer = admin.get(f"{PAGE}figures/profiles?bits=99", headers={"Accept": "application/json"})
    assert answer.status_code == 422
    assert "bits" in answer.json()["detail"]


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_csv_rest_and_figure_have_the_same_records(admin: Client, name: str) -> None:
    answer = admin.get(f"{PAGE}figures/{name}.csv")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer).decode())))
    found = get_figure(policy_slug=SLUG, figure=name, query=FigureQuery(), actor=COMMAND).json()
    assert len(rows) == len(found["rows"])
    for row, record in zip(rows, found["rows"], strict=True):
        for column, value in record.items():
            shown = row[column]
            assert (float(shown) == value) if isinstance(value, int | float) else (shown == (value or ""))
    drawn = admin.get(f"{PAGE}figures/{name}").json()
    assert drawn["sentence"] == found["sentence"]
    assert drawn["name"] == name


def test_a_policy_without_vectors_shows_the_effect_of_vectors(admin: Client, grid: Grid) -> None:
    change_settings(
        policy_slug=SLUG,
        settings={"algorithm": {"name": "gridwide"}},
        reason="try",
        base_revision=None,
        at=clock.now(),
        actor=COMMAND,
    )
    grid.recompute()
    shown = page(admin)
    assert shown.item("check").attributes["data-state"] in ("same", "misplaced")
    assert not any("data-state" in node.attributes for node in shown.items("operator"))


def test_an_unknown_figure_is_not_found(admin: Client) -> None:
    assert [admin.get(f"{PAGE}figures/pie{form}").status_code for form in ("", ".csv")] == [404, 404]
    assert admin.get(f"{PAGE}figures/profiles.xml").status_code == 404
