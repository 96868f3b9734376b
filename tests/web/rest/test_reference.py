"""The REST reference: every operation has its page, and a search finds it by its address, texts and parameters."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.web.rest.reference import METHODS, describe_operation, list_parts
from tests.pages.page import Page, read
from tests.rest_document import rest_document
from tests.rest_site import refused

pytestmark = pytest.mark.django_db
TREE = {"type": "object", "required": ["name"], "properties": {}}


@pytest.fixture(scope="module")
def document() -> Any:
    return rest_document()


def _names(page: Page) -> list[str]:
    return [href.rpartition("/")[2] for href in page.each("[data-testid=operation] a", "href")]


def test_the_reference_lists_every_operation_once(client: Client, document: Any) -> None:
    names = _names(read(client.get("/api/v1/docs")))
    stated = [one["operationId"] for path in document["paths"].values() for key, one in path.items() if key in METHODS]
    assert sorted(names) == sorted(stated)


def test_every_operation_is_described_with_all_its_parameters_and_answers(document: Any) -> None:
    for part in list_parts(document):
        for operation in part.operations:
            detail = describe_operation(document, operation.name)
            stated = document["paths"][operation.path][operation.method]
            assert len(detail.parameters) == len(stated.get("parameters", ()))
            assert [answer.status for answer in (*detail.answers, *detail.problems)] == list(stated["responses"])
            assert bool(detail.bodies) == ("requestBody" in stated), operation


@pytest.mark.parametrize(
    ("words", "named"),
    [
        pytest.param("half-life target", "solve_goal", marks=pytest.mark.product),
        ("IDEMPOTENCY-KEY feeds", "make_feed"),
        ("get /audit", "list_audit"),
    ],
)
def test_a_search_takes_words_of_address_text_and_parameters(client: Client, words: str, named: str) -> None:
    whole = _names(read(client.get("/api/v1/docs")))
    names = _names(read(client.get("/api/v1/docs", {"q": words})))
    assert named in names
    assert len(names) < len(whole) / 4


def test_a_search_without_result_offers_all(client: Client) -> None:
    page = read(client.get("/api/v1/docs", {"q": "no such words"}))
    assert not page.has("[data-testid=operation]")
    assert reverse("api:docs") in page.each(".empty a", "href")


def test_fields_of_bodies_carry_the_names_above_them_and_their_bounds(document: Any) -> None:
    fields = {field.name: field for field in describe_operation(document, "list_audit").parameters}
    assert fields["actor"].kind == "string, 1 to 128 characters"
    assert list(fields["outcome"].values) == ["done", "refused", "failed"]
    (content,) = describe_operation(document, "list_audit").answers[0].contents
    assert any(field.name.startswith("results[].") for field in content.fields)


def test_a_schema_that_contains_itself_is_listed_once() -> None:
    tree = {
        **TREE,
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/x/Tree"}}},
    }
    answer = {"description": "", "content": {"application/json": {"schema": {"$ref": "#/x/Tree"}}}}
    operation = {"operationId": "get_tree", "tags": ["t"], "responses": {"200": answer}}
    document = {
        "tags": [{"name": "t", "description": "Trees"}],
        "paths": {"/tree": {"get": operation}},
        "components": {"schemas": {"Tree": tree}},
    }
    detail = describe_operation(document, "get_tree")
    assert [(field.name, field.is_required) for field in detail.answers[0].contents[0].fields] == [
        ("name", True),
        ("children", False),
    ]
    assert detail.needs_no_token


def test_the_command_names_what_the_caller_must_fill_in(client: Client) -> None:
    page = read(client.get("/api/v1/docs/compare_priorities"))
    assert "/api/v1/policies/{policy}/compare?other={other}'" in page.text("pre")
    assert "Authorization: Bearer $TOKEN" in page.text("pre")


def test_an_unknown_operation_is_404_and_an_unknown_parameter_400(client: Client) -> None:
    assert refused(client.get("/api/v1/docs/no_such"))[:2] == (404, "not_found")
    assert refused(client.get("/api/v1/docs/list_audit?lang=de"))[:2] == (400, "unknown_field")


def test_texts_of_the_document_are_escaped_and_code_is_marked(client: Client) -> None:
    answer = client.get("/api/v1/docs", {"q": "<script>"})
    assert b'<script>"' not in answer.content
    assert read(answer).each("#words", "value") == ["<script>"]
    assert read(client.get("/api/v1/docs/put_document")).has(".page-head code")


def test_the_pages_are_small(client: Client) -> None:
    for path in ("/api/v1/docs", "/api/v1/docs/put_document", "/api/v1/docs/compare_priorities"):
        content = client.get(path).content
        assert len(gzip.compress(content)) < 20_000, path
        assert content.count(b"</") < 1_800, path
