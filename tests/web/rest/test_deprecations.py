"""What is deprecated says so in each answer that it is about, and in the description."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator

from apps.web.rest import deprecations
from apps.web.rest.deprecations import PREFIX, Deprecated, braced_route, deprecated, renamed_fields
from tests.rest_document import rest_document
from tests.rest_site import Caller
from tests.small_site import Site
from tests.web.rest.schema_names import components_of_operations

pytestmark = pytest.mark.django_db
_POLICY = "policies/<slug:policy>"
TABLE = (
    Deprecated(_POLICY, date(2026, 1, 31), date(2027, 2, 1), "Use another.", methods=("GET",)),
    Deprecated(f"{_POLICY}/priorities", date(2026, 3, 1), date(2027, 4, 1), "Use groups.", parameter="group"),
    Deprecated(f"{_POLICY}/tree", date(2026, 3, 1), date(2027, 5, 1), "Use more.", field="rank"),
    Deprecated(f"{_POLICY}/tree", date(2026, 2, 1), date(2027, 4, 1), "Use all.", parameter="depth"),
)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecations, "deprecated", lambda: TABLE)
    monkeypatch.setattr(deprecations, "_deprecated_by_word", lambda: deprecations.by_word(TABLE))


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("path", "deprecation", "sunset"),
    [
        ("policies/grid", "@1769817600", "Mon, 01 Feb 2027 00:00:00 GMT"),
        ("policies/none", "@1769817600", "Mon, 01 Feb 2027 00:00:00 GMT"),
        ("policies/grid/priorities?account=bob&group=x", "@1772323200", "Thu, 01 Apr 2027 00:00:00 GMT"),
        ("policies/grid/tree", "@1772323200", "Sat, 01 May 2027 00:00:00 GMT"),
        ("policies/grid/tree?depth=1", "@1769904000", "Thu, 01 Apr 2027 00:00:00 GMT"),
    ],
)
def test_an_answer_names_since_when_and_until_when(computed: Site, path: str, deprecation: str, sunset: str) -> None:
    answer = Caller(token=computed.token("priorities:read", "policies:read")).get(path)
    assert (answer.headers["Deprecation"], answer.headers["Sunset"]) == (deprecation, sunset)
    assert answer.headers["Link"].endswith('</help/rest/#versions>; rel="deprecation"; type="text/html"')


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    "path", ["policies", "policies/grid/priorities?account=bob", "nowhere", "policies/grid/grants"]
)
def test_other_answers_say_nothing(computed: Site, path: str) -> None:
    answer = Caller(token=computed.token("priorities:read", "policies:read")).get(path)
    assert "Deprecation" not in answer.headers


@pytest.mark.usefixtures("table")
def test_the_description_marks_it() -> None:
    paths: Any = SchemaGenerator().get_schema(request=None, public=True)["paths"]  # type: ignore[no-untyped-call]
    policy = paths["/api/v1/policies/{policy}"]
    assert policy["get"]["deprecated"] is True
    assert policy["get"]["description"].endswith("Deprecated: it stays until 2027-02-01 at least. Use another.")
    assert not policy["delete"].get("deprecated")
    look_up = paths["/api/v1/policies/{policy}/priorities"]["get"]
    assert {each["name"]: each.get("deprecated", False) for each in look_up["parameters"]}["group"] is True
    assert "The field `rank` is deprecated" in paths["/api/v1/policies/{policy}/tree"]["get"]["description"]


def test_each_row_of_the_table_is_a_route_and_leaves_a_year() -> None:
    for row in deprecated():
        assert (row.ends_on - row.since).days >= 365, row
        assert row.instead.endswith("."), row


def test_a_renamed_field_is_answered_under_both_names_wherever_its_component_is() -> None:
    document = rest_document()
    places = components_of_operations(document)
    for row in renamed_fields():
        component = row.component if row.component in places else f"{row.component}Request"
        properties = document["components"]["schemas"][component]["properties"]
        for old, name in row.names.items():
            assert (properties[old]["deprecated"], name in properties) == (True, True), (row.component, old)
        where = {place.replace(" ", f" /{PREFIX}") for place in map(braced_route, row.where)}
        assert where == places[component], component


def test_old_names_carry_the_values_of_the_new_ones(computed: Site) -> None:
    answer = Caller(token=computed.token("policies:read")).get("policies/grid/charges?job=1")
    (job,) = answer.json()["results"]
    assert (job["counts_local"], job["counts_global"]) == (job["usage_local"], job["usage_global"])
    assert job["usage_local"] > 0
    assert [line["weighed"] for line in job["resources"]] == [line["weighted"] for line in job["resources"]]
    assert [hour["counted"] for hour in job["hours"]] == [hour["usage"] for hour in job["hours"]]
    assert "Deprecation" in answer.headers


@pytest.mark.parametrize("name", ["source", "source_slug"])
def test_a_request_may_use_either_name(computed: Site, name: str) -> None:
    caller = Caller(user=computed.admin)
    made = caller.post("tokens", {"name": "push", "scopes": ["usage:write"], name: "cluster-a"}).json()
    assert (made["source"], made["source_slug"]) == ("cluster-a", "cluster-a")
