"""The promise of REST v1: nothing that a client relies on goes without a notice."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from apps.web.rest.deprecations import Deprecated
from tests.each_case import each_case
from tests.web.rest.locked_schema import (
    COMMAND,
    Document,
    breaks,
    broken_promises,
    kept,
    present,
    unannounced,
    written,
)

_REQUEST = "#/components/schemas/Share"
_ANSWER = "#/components/schemas/Entry"


def json_of(schema: Any) -> Document:
    return {"content": {"application/json": {"schema": schema}}}


OLD: Document = {
    "paths": {
        "/entries/{entry}": {
            "get": {
                "operationId": "get_entry",
                "parameters": [
                    {"in": "path", "name": "entry", "required": True, "schema": {"type": "string"}},
                    {"in": "query", "name": "depth", "schema": {"type": "integer", "maximum": 64, "default": 4}},
                ],
                "responses": {"200": json_of({"$ref": _ANSWER})},
            },
            "post": {
                "operationId": "set_shares",
                "requestBody": json_of({"$ref": _REQUEST}),
                "responses": {"201": json_of({"$ref": _ANSWER})},
            },
        }
    },
    "components": {
        "schemas": {
            "Share": {
                "type": "object",
                "properties": {
                    "shares": {"type": "number", "minimum": 0, "nullable": True},
                    "kind": {"type": "string", "enum": ["fixed", "parent"]},
                },
                "required": ["shares"],
            },
            "Entry": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "state": {"type": "string", "enum": ["open", "closed"]},
                    "members": {"type": "array", "items": {"$ref": _ANSWER}},
                },
                "required": ["name"],
            },
        }
    },
}


def operation(document: Document, method: str = "get") -> Document:
    operations: dict[str, Document] = document["paths"]["/entries/{entry}"]
    return operations[method]


def fields(document: Document, name: str) -> Document:
    properties: Document = document["components"]["schemas"][name]["properties"]
    return properties


def required(document: Document, name: str) -> list[str]:
    names: list[str] = document["components"]["schemas"][name]["required"]
    return names


Change = Callable[[Document], Any]
BREAKING: dict[str, Change] = {
    "it is gone": lambda d: d["paths"]["/entries/{entry}"].pop("post"),
    "its name in clients is read_entry, no longer get_entry": lambda d: operation(d).update(operationId="read_entry"),
    "it no longer answers 200": lambda d: operation(d)["responses"].pop("200"),
    "it no longer answers application/json": lambda d: operation(d)["responses"]["200"].update(content={}),
    "parameter depth is gone": lambda d: operation(d)["parameters"].pop(),
    "parameter depth is required": lambda d: operation(d)["parameters"][1].update(required=True),
    "parameter depth has maximum 8, not 64": lambda d: operation(d)["parameters"][1]["schema"].update(maximum=8),
    "parameter depth has minimum 1, not none": lambda d: operation(d)["parameters"][1]["schema"].update(minimum=1),
    "parameter depth has the default 8, not 4": lambda d: operation(d)["parameters"][1]["schema"].update(default=8),
    "parameter site is new and required": lambda d: operation(d)["parameters"].append(
        {"in": "query", "name": "site", "required": True, "schema": {}}
    ),
    "a body is required": lambda d: operation(d, "post")["requestBody"].update(required=True),
    "it no longer takes application/json": lambda d: operation(d, "post")["requestBody"].update(content={}),
    "body.shares is gone": lambda d: fields(d, "Share").pop("shares"),
    "body.shares takes no null": lambda d: fields(d, "Share")["shares"].pop("nullable"),
    "body.shares is integer, no longer number": lambda d: fields(d, "Share")["shares"].update(type="integer"),
    "body.shares has minimum 1, not 0": lambda d: fields(d, "Share")["shares"].update(minimum=1),
    "body.kind no longer takes parent": lambda d: fields(d, "Share")["kind"].update(enum=["fixed"]),
    "body.kind is required": lambda d: required(d, "Share").append("kind"),
    "body.kind has another pattern": lambda d: fields(d, "Share")["kind"].update(pattern="^f"),
    "answer 200.name is gone": lambda d: fields(d, "Entry").pop("name"),
    "answer 200.name is no longer always there": lambda d: required(d, "Entry").remove("name"),
    "answer 200.name is integer, no longer string": lambda d: fields(d, "Entry")["name"].update(type="integer"),
    "answer 200.name may be null": lambda d: fields(d, "Entry")["name"].update(nullable=True),
    "answer 200.members is object, no longer array": lambda d: fields(d, "Entry")["members"].update(type="object"),
}
ALLOWED: dict[str, Change] = {
    "a route": lambda d: d["paths"].update({"/sites": {"get": operation(d)}}),
    "an optional parameter": lambda d: operation(d)["parameters"].append({"in": "query", "name": "x", "schema": {}}),
    "an optional field of a request": lambda d: fields(d, "Share").update(note={"type": "string"}),
    "a field of an answer": lambda d: fields(d, "Entry").update(size={"type": "integer"}),
    "a value of a state": lambda d: fields(d, "Entry")["state"].update(enum=["open", "closed", "moved"]),
    "a field that is always there now": lambda d: required(d, "Entry").append("state"),
    "a wider bound": lambda d: operation(d)["parameters"][1]["schema"].update(maximum=128),
    "a number where an integer was taken": lambda d: operation(d)["parameters"][1]["schema"].update(type="number"),
    "a field of a request that may be left out": lambda d: required(d, "Share").remove("shares"),
}


def changed(change: Change) -> Document:
    new = copy.deepcopy(OLD)
    change(new)
    return new


@each_case("sentence", BREAKING)
def test_what_takes_away_or_narrows_is_named(sentence: str) -> None:
    assert sentence in [each for _, each in breaks(OLD, changed(BREAKING[sentence]))]


@pytest.mark.parametrize("addition", ALLOWED)
def test_what_is_added_breaks_nothing(addition: str) -> None:
    new = changed(ALLOWED[addition])
    assert (breaks(OLD, new), new != OLD) == ([], True)


def test_only_what_the_table_of_deprecations_announces_may_go() -> None:
    new = changed(lambda d: (operation(d)["parameters"].pop(), fields(d, "Entry").pop("state")))
    broken = [(f"{name.partition('/')[0]}/api/v1/entries/{{entry}}", each) for name, each in breaks(OLD, new)]
    announced = Deprecated(
        "entries/<str:entry>", since=date(2027, 1, 1), ends_on=date(2028, 1, 1), instead="Use it.", parameter="depth"
    )
    left = unannounced(broken, (announced,), at=date(2028, 1, 1))
    assert {each for _, each in left} == {"answer 200.state is gone", "answer 201.state is gone"}
    assert len(unannounced(broken, (announced,), at=date(2027, 12, 31))) == len(broken)
    whole = announced._replace(parameter="", methods=("POST",))
    assert {name[:3] for name, _ in unannounced(broken, (whole,), at=date(2028, 1, 1))} == {"GET"}


@pytest.mark.product
def test_this_version_keeps_what_v1_has_promised() -> None:
    now, recorded = present(), written(kept())
    assert broken_promises(now) == []
    assert written(now) == recorded, f"Run `{COMMAND}` for what is new, and commit the file."
