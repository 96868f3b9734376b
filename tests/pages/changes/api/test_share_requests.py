"""Asking upward by REST: a change set that `asks`, proposed; granted by publishing it from above."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pages.changes.api.test_changesets import PATH, draft, shares
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture


@pytest.fixture
def pia(site: Site) -> Caller:
    return Caller(user=site.pia)


def ask(caller: Caller, value: Any = 70, **more: Any) -> Any:
    return draft(caller, shares("/physics", value), **{"asks": "/physics", **more})


def test_a_request_is_proposed_from_below_and_published_from_above(site: Site, pia: Caller, admin: Caller) -> None:
    made = ask(pia)
    assert made.status_code == 201, made.content
    assert made.json()["asks"] == str(site.uid("/physics"))
    number = made.json()["id"]
    assert pia.post(f"{PATH}/{number}/publish").status_code == 403
    proposed = pia.post(f"{PATH}/{number}/propose")
    assert (proposed.status_code, proposed.json()["state"]) == (200, "proposed")
    assert admin.post(f"{PATH}/{number}/publish").json()["state"] == "published"
    seen = pia.get(f"{PATH}/{number}").json()
    assert (seen["state"], seen["revision"]) == ("published", 3)


def test_a_second_request_for_the_same_entry_conflicts(pia: Caller) -> None:
    first, second = (ask(pia, value).json()["id"] for value in (70, 80))
    assert pia.post(f"{PATH}/{first}/propose").status_code == 200
    again = pia.post(f"{PATH}/{second}/propose")
    assert (again.status_code, again.json()["code"]) == (409, "asked")


@pytest.mark.parametrize(
    ("value", "asks", "answer"),
    [
        (50, "/physics", (422, "not_a_request", ["shares"])),
        (70, "/physics/bob", (422, "not_a_request", ["operations[0]"])),
    ],
)
def test_a_change_set_without_a_request_is_not_proposed_as_one(
    pia: Caller, value: Any, asks: str, answer: tuple[int, str, list[str]]
) -> None:
    number = ask(pia, value, asks=asks).json()["id"]
    assert refused(pia.post(f"{PATH}/{number}/propose")) == answer
    assert pia.get(f"{PATH}/{number}").json()["state"] == "draft"


@pytest.mark.parametrize(
    ("asks", "answer"), [("/biology", (404, "not_found", [])), ("nonsense", (422, "invalid", ["asks"]))]
)
def test_a_request_for_an_invisible_entry_is_refused(
    pia: Caller, asks: str, answer: tuple[int, str, list[str]]
) -> None:
    assert refused(ask(pia, asks=asks)) == answer
    assert pia.get(PATH).json()["results"] == []


def test_other_change_sets_are_not_requests(pia: Caller) -> None:
    assert draft(pia, shares("/physics/bob", 5)).json()["asks"] is None
