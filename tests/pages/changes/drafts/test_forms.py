"""What a form of the editor asks for, as an operation, and which field is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict

from apps.core.errors import Invalid
from apps.pages.changes.drafts.forms import read_operation
from apps.pages.changes.drafts.settings_form import read_settings, typed
from apps.policies.settings import PolicySettings

DATES = {"op": "set_dates", "starts_on": "2027-01-01", "ends_on": "2027-12-31"}


def form(fields: dict[str, str]) -> QueryDict:
    found = QueryDict(mutable=True)
    found.update({"entry": "e", **fields})
    return found


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"op": "add", "parent": "p", "name": " new "}, {"parent": "p", "name": "new", "kind": "group", "shares": 1}),
        (
            {"op": "add", "parent": "p", "name": "new", "kind": "user", "shares": "2,5"},
            {"parent": "p", "name": "new", "kind": "user", "shares": 2.5},
        ),
        ({"op": "move", "parent": "p"}, {"entry": "e", "parent": "p"}),
        ({"op": "move", "parent": "p", "name": " eva2 "}, {"entry": "e", "parent": "p", "name": "eva2"}),
        ({"op": "restore"}, {"entry": "e"}),
        ({"op": "restore", "parent": "p"}, {"entry": "e", "parent": "p"}),
        ({"op": "lock", "locked": "yes"}, {"entry": "e", "locked": True}),
        ({"op": "lock"}, {"entry": "e", "locked": False}),
        (
            {"op": "set_scope", "scope": "sources", "sources": " a, b;c\nd ,"},
            {"entry": "e", "scope": "sources", "sources": ["a", "b", "c", "d"]},
        ),
        ({"op": "set_kind", "kind": " project "}, {"entry": "e", "kind": "project"}),
    ],
)
def test_a_form_becomes_one_operation(fields: dict[str, str], asked: dict[str, Any]) -> None:
    assert read_operation(form(fields)) == {"op": fields["op"], **asked}


@pytest.mark.parametrize(
    ("more", "shares", "at_end"),
    [
        ({}, None, "keep"),
        ({"at_end": "archive"}, None, "archive"),
        ({"starts_shares": "40"}, 40.0, "keep"),
        ({"at_end": "shares", "at_end_shares": "0,5"}, None, 0.5),
    ],
)
def test_dates_have_shares_from_the_first_day_and_after_the_last(
    more: dict[str, str], shares: float | None, at_end: str | float
) -> None:
    dates = {"starts_on": "2027-01-01", "ends_on": "2027-12-31", "shares": shares, "at_end": at_end}
    assert read_operation(form({**DATES, **more})) == {"op": "set_dates", "entry": "e", "dates": dates}


def test_empty_days_remove_the_dates() -> None:
    asked = form({"op": "set_dates", "starts_on": " ", "ends_on": "", "starts_shares": "4"})
    assert read_operation(asked)["dates"] is None


@pytest.mark.parametrize(
    ("fields", "code", "where"),
    [
        ({"op": ""}, "invalid", "op"),
        ({"op": "set_policy"}, "invalid", "op"),
        ({"op": "move"}, "no_parent", "parent"),
        ({"op": "add", "shares": "5 %"}, "percent_of_new", "shares"),
        ({"op": "set_shares", "shares": "inherit %"}, "number", "shares"),
        ({"op": "set_shares", "shares": "101 %"}, "percent", "shares"),
        ({**DATES, "starts_shares": "many"}, "number", "starts_shares"),
        ({**DATES, "at_end": "shares"}, "number", "at_end_shares"),
        ({**DATES, "at_end": "shares", "at_end_shares": "inherit"}, "number", "at_end_shares"),
    ],
)
def test_a_refused_form_names_its_field(fields: dict[str, str], code: str, where: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_operation(form(fields))
    assert (refused.value.code, [problem.where for problem in refused.value.fields]) == (code, [where])


def test_all_wrong_numbers_of_the_settings_are_reported_at_once() -> None:
    wrong = {"fallback_factor": "inherit", "tolerance_points": "many", "weight_cpu_s": "-1", "review_users": "x"}
    base = PolicySettings()
    with pytest.raises(Invalid) as refused:
        read_settings({**typed(base), **wrong}, base)
    assert {problem.where for problem in refused.value.fields} == set(wrong)
