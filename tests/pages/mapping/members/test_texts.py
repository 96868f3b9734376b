"""Membership rules and their previews in words: each condition, each number, and where a changed rule goes."""

from __future__ import annotations

from typing import Any

import pytest

from apps.pages.mapping.members.forms import initial_of
from apps.pages.mapping.members.presenters import preview_text, rule_text, with_rule
from apps.policies.tree.terms import MembershipRule
from apps.priorities.selectors.members import MembersPreview
from tests.pages.page import names_in

FIRST, SECOND, THIRD = (MembershipRule(group=name) for name in ("a", "b", "c"))


@pytest.mark.parametrize(
    ("conditions", "names"),
    [
        ({"group": "nbis-*"}, ["nbis-*"]),
        ({"fqan": "/cms/*"}, ["/cms/*"]),
        ({"source": "hpc2n"}, ["hpc2n"]),
        ({"people": "physics*"}, ["physics*"]),
        ({"group": "g", "fqan": "/v", "source": "s", "people": "p"}, ["g", "/v", "s", "p"]),
    ],
)
def test_a_rule_names_each_of_its_conditions_and_no_other(conditions: dict[str, Any], names: list[str]) -> None:
    words = rule_text(MembershipRule(**conditions, shares=2.5, kind="guest"))
    assert names_in(words, *names, "2.5", "guest")
    assert len(words.partition(":")[0].split(", ")) == len(names)


def test_a_rule_states_after_how_many_days_members_are_archived() -> None:
    rule = MembershipRule(group="g", archive_after_days=30)
    assert names_in(rule_text(rule), "30")
    assert not names_in(rule_text(MembershipRule(group="g")), "30")


@pytest.mark.parametrize(
    ("counts", "names", "numbers"),
    [
        ({"n_joined": 2}, ["ann", "bo"], ["2", "ann", "bo", "40"]),
        ({"n_joined": 12}, ["ann", "bo"], ["12", "ann", "bo", "10", "40"]),
        ({"n_joined": 12}, [], ["12", "40"]),
        ({"n_joined": 1, "n_back": 3}, ["ann"], ["1", "ann", "3", "40"]),
        ({"n_back": 3}, [], ["0", "3", "40"]),
        ({"n_taken": 5}, [], ["40", "5"]),
    ],
)
def test_a_preview_counts_new_restored_and_moved_users(
    counts: dict[str, int], names: list[str], numbers: list[str]
) -> None:
    given: dict[str, Any] = {"n_joined": 0, "n_back": 0, "n_taken": 0, "n_matched": 40, **counts}
    words = preview_text(MembersPreview(**given, names=names))
    assert names_in(words, *numbers)
    assert sum(word.strip(".,;:").isdigit() for word in words.split()) == len(numbers) - len(names)


@pytest.mark.parametrize(
    ("asked", "rules"),
    [
        ("0", [THIRD, SECOND]),
        ("1", [FIRST, THIRD]),
        ("2", [FIRST, SECOND, THIRD]),
        ("new", [FIRST, SECOND, THIRD]),
        ("-1", [FIRST, SECOND, THIRD]),
    ],
)
def test_a_changed_rule_takes_its_place_and_any_other_is_added(asked: str, rules: list[MembershipRule]) -> None:
    assert with_rule([FIRST, SECOND], asked, THIRD) == rules


def test_the_form_begins_with_the_rule_that_is_changed() -> None:
    assert initial_of(None) == {}
    begun = initial_of(MembershipRule(group="g", shares=2.5, archive_after_days=30))
    assert (begun["group"], begun["shares"], begun["days"]) == ("g", "2.5", 30)
