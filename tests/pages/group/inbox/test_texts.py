"""What a request asks for, in words."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from apps.pages.group.inbox.forms import AnswerForm
from apps.policies.requests.share_requests import RequestedShares
from apps.web.texts.request_texts import wish_text
from tests.pages.page import names_in

UNTIL = date(2027, 6, 30)


@pytest.mark.parametrize(
    ("shares", "until", "names"),
    [
        (36.0, None, ["36"]),
        (36.0, UNTIL, ["36", "30 June 2027"]),
        ({"percent": 12.5}, None, ["12.5"]),
        ({"percent": 12.5}, UNTIL, ["12.5", "30 June 2027"]),
        (None, UNTIL, ["30 June 2027"]),
    ],
)
def test_a_wish_states_the_shares_and_the_last_day(shares: Any, until: date | None, names: list[str]) -> None:
    words = wish_text(RequestedShares(shares, until))
    assert names_in(words, *names)
    assert ("%" in words) == isinstance(shares, dict)
    assert ("2027" in words) == (until is not None)


def test_a_wish_for_nothing_is_empty() -> None:
    assert wish_text(RequestedShares(None, None)) == ""


@pytest.mark.parametrize(("typed", "code"), [("inherit", "number"), ("many", "number"), ("-1", "negative")])
def test_another_amount_is_a_number(typed: str, code: str) -> None:
    form = AnswerForm({"version": "1", "shares": typed})
    assert [error.code for error in form.errors.as_data()["shares"]] == [code]
