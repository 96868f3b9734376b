"""A token in words: its state, where it is valid, when it was used, and a command that uses it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from apps.accounts.models import Token
from apps.pages.tokens.presenters import example, shown_as, summary, token_row
from tests.instants import AT
from tests.pages.page import names_in

DAY = timedelta(days=1)


def token(**more: Any) -> Token:
    given = {"name": "laptop", "scopes": ["self:read"], "created_at": AT - DAY, "expires_at": AT + 90 * DAY}
    return Token(public_id="abc", last_four="wxyz", **(given | more))


def test_a_token_without_a_policy_is_valid_for_all_of_them() -> None:
    everywhere, bound = (token_row(token(policy_slug=slug), AT).place for slug in ("", "grid"))
    assert "grid" in bound
    assert everywhere not in ("", bound)


@pytest.mark.parametrize(
    ("more", "state", "days"),
    [
        ({}, "active", ""),
        ({"expires_at": AT + 3 * DAY}, "ending", "3"),
        ({"expires_at": AT + timedelta(hours=5)}, "ending", ""),
        ({"expires_at": AT}, "ended", ""),
        ({"expires_at": AT + 3 * DAY, "revoked_at": AT - DAY}, "revoked", ""),
    ],
)
def test_a_token_has_one_state_and_counts_its_last_days(more: dict[str, Any], state: str, days: str) -> None:
    row = token_row(token(**more), AT)
    assert row.state == state
    assert "".join(letter for letter in row.words if letter.isdigit()) == days


@pytest.mark.parametrize(
    ("hours", "more", "is_shown"), [(5, {}, True), (-1, {}, False), (5, {"revoked_at": AT}, False)]
)
def test_an_old_secret_is_mentioned_while_it_works(hours: int, more: dict[str, Any], is_shown: bool) -> None:
    until = AT + timedelta(hours=hours)
    assert token_row(token(previous_until=until, **more), AT).old_until == (until if is_shown else None)


def test_a_token_that_ends_soon_is_named_in_the_summary() -> None:
    rows = [token_row(token(name=name, expires_at=AT + n * DAY), AT) for name, n in (("a", 90), ("b", 5), ("c", 2))]
    assert names_in(summary(rows), "3", "c", "2")
    assert not names_in(summary(rows[:1]), "a")
    assert names_in(summary(rows[:1]), "1")
    ended = token_row(token(expires_at=AT), AT)
    assert summary([ended]) == summary([]) != summary(rows)


def test_a_token_states_each_place_that_it_is_bound_to() -> None:
    everywhere = token_row(token(), AT).place
    policy, subtree = (token_row(token(policy_slug="grid", subtree_uid=uid), AT).place for uid in (None, uuid4()))
    both = token_row(token(policy_slug="grid", source_slug="c1"), AT).place
    assert len({everywhere, policy, subtree, both}) == 4
    assert names_in(both, "grid", "c1")
    assert both.startswith(policy)
    assert not names_in(everywhere, "grid")


def test_the_last_use_is_less_exact_the_longer_ago_it_was() -> None:
    ago = [None, timedelta(seconds=59), timedelta(minutes=7), timedelta(days=2)]
    used = [token_row(token(last_used_at=None if one is None else AT - one), AT).last_used for one in ago]
    assert len(set(used)) == 4
    assert [names_in(text, "7") for text in used] == [False, False, True, False]
    assert names_in(used[3], "18"), "the day"


@pytest.mark.parametrize(
    ("scopes", "bound", "target"),
    [
        (["usage:write"], {}, "usage/records?source=SOURCE"),
        (["usage:write", "self:read"], {"source_slug": "c1"}, "usage/records?source=c1"),
        (["self:read"], {}, "policies/POLICY/priorities?account=eva"),
        (["priorities:read"], {"policy_slug": "grid"}, "policies/grid/priorities?account=eva"),
        (["priorities:read", "admin"], {"policy_slug": "grid"}, "policies/grid/tree"),
        (["policy:read"], {}, "policies"),
    ],
)
def test_the_example_calls_what_the_token_may_do_and_does_not_contain_it(
    scopes: list[str], bound: dict[str, str], target: str
) -> None:
    text = example(token(scopes=scopes, **bound), "https://fair.example/", "eva")
    assert f"'https://fair.example/api/v1/{target}'" in text
    assert ("--data-binary" in text) == ("usage:write" in scopes)
    assert "fsh_" not in text


def test_a_token_is_shown_by_its_ends() -> None:
    shown = shown_as(token())
    assert (shown.startswith("fsh_abc"), shown.endswith("wxyz")) == (True, True)
    assert token_row(token(), AT).shown == shown
