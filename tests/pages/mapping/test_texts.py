"""Accounts, rules and versions of the mapping in words: what they name, and what stays hidden without rights."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.mapping.changes import Plan
from apps.mapping.moves import Move, ProposedMapping
from apps.mapping.permissions import MapRights
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.mapping.suggestions import Suggestion
from apps.mapping.versions import list_version_rows
from apps.pages.mapping import presenters
from apps.policies import services
from apps.policies.models import Policy
from apps.policies.records import NewChangeSet
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.pages.page import names_in
from tests.sign_in import sign_in

ANY = uuid4()


def rights_of(grid: Grid, user: User) -> MapRights:
    return MapRights(Policy.objects.get(slug=SLUG), grid.tree, Actor(user=user, via="page"), AT)


def index_of(grid: Grid, path: str) -> int:
    found = grid.tree.index_of_path(path)
    assert found is not None
    return found


def rules_to(grid: Grid, *targets: UUID) -> None:
    """One rule to each of these entries."""
    rules = [Rule(kind="glob", target_uid=uid, user_pattern=f"u{uid}*", suffix="/{user}") for uid in targets]
    set_rules(policy_slug=SLUG, rules=rules, at=AT, actor=Actor(user=grid.admin, via="page"))


def archive(grid: Grid, path: str) -> None:
    made: dict[str, Any] = {"at": AT + timedelta(minutes=1), "actor": Actor(user=grid.admin, via="page")}
    new = NewChangeSet(operations=({"op": "archive", "entry": path},), reason="It ended.")
    draft = services.make_change_set(policy_slug=SLUG, new=new, **made)
    services.publish_change_set(id=draft.pk, version=draft.version, at_once=True, **made)


@pytest.mark.parametrize(
    ("key", "name", "details"),
    [
        (AccountKey("hpc", "eva", "lqcd"), "eva", ["hpc", "lqcd"]),
        (AccountKey("hpc", "eva", dn="/CN=Eva"), "eva", ["hpc", "/CN=Eva"]),
        (AccountKey("hpc", dn="/CN=Eva", fqan="/cms"), "/CN=Eva", ["hpc", "/cms"]),
        (AccountKey("hpc", "eva", project="naiss-7"), "eva", ["hpc", "naiss-7"]),
        (AccountKey("hpc", group_name="lqcd"), "lqcd", ["hpc"]),
    ],
)
def test_each_name_of_an_account_is_stated_once(key: AccountKey, name: str, details: list[str]) -> None:
    label = presenters.account_text(key)
    assert label.name == name
    assert [text.split()[-1] for text in label.details.split(", ")] == details


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (Rule(kind="glob", target_uid=ANY, user_pattern="a*", fqan_pattern="/cms/*"), ["a*", "/cms/*"]),
        (Rule(kind="glob", target_uid=ANY, user_pattern="a*", source="c1", namespace="n1"), ["a*", "Cluster 1"]),
        (Rule(kind="glob", target_uid=ANY, user_pattern="a*", source="gone"), ["a*", "gone"]),
        (Rule(kind="glob", target_uid=ANY, user_pattern="a*", namespace="n1"), ["a*", "n1"]),
    ],
)
def test_a_rule_names_its_patterns_and_its_source(rule: Rule, names: list[str]) -> None:
    parts = presenters.rule_text(rule, {"c1": "Cluster 1"}).split(" · ")
    assert [names_in(part, name) for part, name in zip(parts, names, strict=True)] == [True, True]


def test_a_rule_that_adds_users_states_their_shares_and_when_they_are_archived() -> None:
    rule = Rule(kind="each", target_uid=ANY, member_shares=2.5)
    assert names_in(presenters.suffix_text(rule), "{user}", "2.5")
    assert names_in(presenters.suffix_text(replace(rule, suffix="/lqcd/{user}")), "lqcd / {user}", "2.5")
    later = presenters.suffix_text(replace(rule, archive_after_idle_days=30))
    assert names_in(later, "2.5", "30")
    assert presenters.suffix_text(replace(rule, kind="glob", suffix="/{group}/{user}")) == "{group} / {user}"


@pytest.mark.parametrize("path", ["/cms", "/biomed/carol"])
def test_an_entry_outside_the_rights_is_not_named(closed_grid: Grid, path: str) -> None:
    place = presenters.entry_text(rights_of(closed_grid, closed_grid.alice), index_of(closed_grid, path))
    assert (place.is_none, place.url) == (True, "")
    assert path not in place.text
    assert presenters.entry_text(rights_of(closed_grid, closed_grid.admin), index_of(closed_grid, path)).text == path


def test_a_place_that_is_no_entry_has_no_link(grid: Grid) -> None:
    rights = rights_of(grid, grid.admin)
    assert presenters.entry_text(rights, UNMAPPED).is_none
    new = presenters.entry_text(rights, 0)
    assert (new.is_none, new.url) == (False, "")


def test_a_suggestion_by_neighbours_states_how_many_of_them(grid: Grid) -> None:
    guess = Suggestion(index_of(grid, "/cms"), "neighbours", 1.0, n=7, n_of=8)
    drawn = presenters.guess_text(rights_of(grid, grid.admin), guess)
    assert names_in(drawn["why"], "7", "8")
    assert names_in(drawn["sure"], "99"), "never certain"
    assert (drawn["uid"], drawn["place"].text) == (grid.uid("/cms"), "/cms")


@pytest.mark.parametrize(("n", "stated"), [(4, 0), (5, 5)])
def test_moves_outside_the_rights_are_no_empty_plan_and_few_are_not_counted(
    closed_grid: Grid, n: int, stated: int
) -> None:
    rights = rights_of(closed_grid, closed_grid.alice)
    carol, key = index_of(closed_grid, "/biomed/carol"), AccountKey("hpc", "carol")
    moves = [Move(at, key, carol, UNMAPPED, was_free=False, is_free=True) for at in range(n)]
    shown = presenters.plan_context(Plan(rights, 1, ProposedMapping(()), moves))
    nothing = presenters.plan_context(Plan(rights, 1, ProposedMapping(()), []))
    assert (shown["n"], shown["moves"], shown["n_others"]) == (0, [], stated)
    assert shown["verdict"] != nothing["verdict"]


def test_another_order_of_the_same_rules_is_a_change_of_its_own(grid: Grid) -> None:
    first, second = grid.uid("/cms"), grid.uid("/atlas")
    rules_to(grid, first, second)
    rules_to(grid, second, first)
    row = list_version_rows(rights_of(grid, grid.admin))[0]
    assert (row.is_reordered, list(row.added), list(row.removed)) == (True, [], [])
    assert not any(letter.isdigit() for letter in presenters.version_text(row)), "nothing to count"


def test_a_rule_to_an_archived_entry_is_listed_without_a_place(grid: Grid) -> None:
    rules_to(grid, grid.uid("/cms"))
    rights = rights_of(grid, grid.admin)
    line = presenters.version_line(rights, list_version_rows(rights)[0], {})
    assert line["added"][0]["place"].text == "/cms"
    archive(grid, "/cms")
    rights = rights_of(grid, grid.admin)
    line = presenters.version_line(rights, list_version_rows(rights)[0], {})
    assert line["added"][0]["place"].is_none
    line = sign_in(Client(), grid.admin).get(f"/policy/{SLUG}/mappings/").context["rules"][0]
    assert (line["place"].is_none, line["reach"]) == (True, "")
