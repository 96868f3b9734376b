"""Operators and resolution by REST: the check and the choices, and refusals with a place."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.contrib.lab.operators.records import FigureQuery
from apps.contrib.lab.operators.selectors import get_operators_page
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

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
    found.pop("figures")  # for the command, which draws each
    assert body == found


@pytest.mark.parametrize(
    ("query", "status", "where"),
    [("?job_h=1e30", 422, "job_h"), ("?k=2", 422, "k"), ("?colour=red", 400, "colour"), ("?bits=3", 400, "bits")],
)
def test_invalid_parameters_are_refused_by_name(read: Client, query: str, status: int, where: str) -> None:
    answer = read.get(f"{PATH}{query}")
    assert answer.status_code == status, answer.content
    assert where in answer.content.decode()
