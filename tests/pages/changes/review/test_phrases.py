"""Values and operations of a change set as phrases: which key, which numbers, which days; and names that are hidden."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from apps.accounts.actor import Actor
from apps.pages.changes.review.reviewed_change import get_review_page
from apps.pages.changes.review.text import key_of, name_of, settings_lines
from apps.policies import services
from apps.policies.models import Adjustment
from apps.web.shell import presentation
from apps.web.texts.value_texts import amount, date_text, value_text
from tests.pages.changes.review.test_review import AT, MORE, authority, drafted, signed_in
from tests.pages.grid import Grid
from tests.pages.page import names_in, read


@pytest.mark.parametrize(
    ("operation", "key"),
    [
        ({"op": "lock"}, "lock"),
        ({"op": "lock", "locked": True}, "lock"),
        ({"op": "lock", "locked": False}, "unlock"),
        ({"op": "set_shares", "shares": 0}, "set_shares"),
        ({"op": "set_shares", "shares": {"percent": 5}}, "set_percent"),
        ({"op": "set_shares", "shares": {"percent": 5, "from": "reserve"}}, "take_from_reserve"),
    ],
)
def test_an_operation_has_the_key_of_its_sentence(operation: dict[str, Any], key: str) -> None:
    assert key_of(operation) == key


def test_a_switched_setting_is_stated_in_words() -> None:
    ((_name, before, after),) = settings_lines({"window": {"live": True}}, {"window": {"live": False}}, ["window"])
    assert before != after
    assert not {before, after} & {"True", "False", "1", "0", ""}
    assert settings_lines({"window": {"live": True}}, {"window": {"live": True}}, ["window"]) == []


def test_inherited_shares_and_a_missing_entry_are_no_amounts() -> None:
    assert amount(None) == presentation.shares(None)
    assert amount(35.0, is_there=False) == value_text(None)
    assert names_in(amount(35.0), "35")
    assert amount(1.0).removeprefix("1") != amount(0.0).removeprefix("0"), "singular for one alone"


@pytest.mark.parametrize(
    ("dates", "parts"),
    [
        ({"starts_on": "2027-01-01"}, ["1 Jan 2027"]),
        ({"ends_on": "2027-03-31"}, ["31 Mar 2027"]),
        ({"starts_on": "2027-01-01", "shares": 0, "ends_on": "2027-03-31"}, ["1 Jan 2027", "0", "31 Mar 2027"]),
        ({"starts_on": "2027-01-01", "shares": 40, "ends_on": None}, ["1 Jan 2027", "40"]),
    ],
)
def test_dates_are_stated_in_the_order_in_which_they_take_effect(dates: dict[str, Any], parts: list[str]) -> None:
    words = date_text(dates)
    assert names_in(words, *parts)
    assert words.count("2027") == sum("2027" in part for part in parts)


def test_no_dates_are_none() -> None:
    assert date_text(None) == date_text({}) == value_text(None)


@pytest.fixture
def grid(closed_grid: Grid) -> Grid:
    return closed_grid


def test_an_entry_of_a_conflict_is_named_where_it_is_seen(grid: Grid) -> None:
    bob = authority(grid, "bob")
    page = get_review_page(id=drafted(bob, MORE).pk, actor=Actor(user=bob, via="page"), at=AT)
    hidden = name_of(page, str(grid.uid("/cms")))
    assert name_of(page, str(grid.uid("/atlas"))) == "atlas"
    assert "cms" not in hidden
    assert name_of(page, str(uuid4())) == hidden, "an unknown entry looks like a hidden one"
    assert name_of(page, "no uid") == "no uid"


def test_a_revoked_adjustment_names_the_entry_and_no_amount(grid: Grid) -> None:
    adjusted = {"op": "adjust_usage", "entry": "/cms", "resource": "cpu_s", "amount_s": 36000, "at": AT.isoformat()}
    first = drafted(grid.admin, adjusted)
    actor = Actor(user=grid.admin, via="page")
    services.publish_change_set(id=first.pk, version=first.version, at=AT, actor=actor)
    made = Adjustment.objects.get()
    second = drafted(grid.admin, {"op": "adjust_usage", "entry": "/cms", "revokes": str(made.uid)})
    stated = [
        read(signed_in(grid.admin).get(f"/changes/{each.pk}/")).text("#diff tr[data-key=adjust_usage] th b")
        for each in (first, second)
    ]
    assert [names_in(words, "cms") for words in stated] == [True, True]
    assert [names_in(words, "10") for words in stated] == [True, False]
