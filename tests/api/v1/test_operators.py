"""Operators and resolution by REST: the check, the choices and every figure, and refusals with a place."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.analytics.operators.records import FigureQuery
from apps.analytics.operators.selectors import FIGURES, get_figure, get_operators_page
from tests.api.small_site import Site

PATH = "/api/v1/policies/grid/operators"
pytestmark = pytest.mark.django_db


@pytest.fixture
def read(computed: Site) -> Client:
    return Client(headers={"authorization": f"Bearer {computed.token('policies:read')}"})


def test_the_response_equals_the_selector(read: Client) -> None:
    answer = read.get(f"{PATH}?operator=absolute&resolution=10")
    assert answer.status_code == 200
    query = FigureQuery(operator="absolute", resolution=10)
    found = get_operators_page(policy_slug="grid", query=query, actor=COMMAND).json()
    body = answer.json()
    assert body["check"].pop("as_of").endswith("Z")
    found["check"].pop("as_of")
    assert body == found


@pytest.mark.parametrize("name", list(FIGURES))
def test_each_figure_has_the_numbers_of_the_selector(read: Client, name: str) -> None:
    answer = read.get(f"{PATH}/figures/{name}?target=0.25&nodes=50")
    assert answer.status_code == 200
    query = FigureQuery(target=0.25, nodes=50)
    assert answer.json() == get_figure(policy_slug="grid", figure=name, query=query, actor=COMMAND).json()


@pytest.mark.parametrize(
    ("query", "status", "where"),
    [("?nodes=1e30", 422, "nodes"), ("?target=2", 422, "target"), ("?colour=red", 400, "colour")],
)
def test_invalid_parameters_are_refused_by_name(read: Client, query: str, status: int, where: str) -> None:
    answer = read.get(f"{PATH}/figures/profiles{query}")
    assert answer.status_code == status, answer.content
    assert where in answer.content.decode()


def test_an_unknown_figure_is_not_found(read: Client) -> None:
    assert read.get(f"{PATH}/figures/pie").status_code == 404
