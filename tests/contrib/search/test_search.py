"""What search finds: in which order, how much of it, and only what the person may see."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import Account, User
from apps.contrib.search.entries import EntryHit
from apps.contrib.search.name_index import Match, NameIndex
from apps.contrib.search.selectors import ChangeSetHit, SearchResult, UserHit, search_everything
from apps.policies.models import ChangeSet, Grant
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from tests.grants import make_grant
from tests.pages.grid import SLUG, TRICKY, Grid

pytestmark = pytest.mark.django_db


def as_person(user: User) -> Actor:
    return Actor(user=user, via="page")


def titles(found: SearchResult) -> dict[str, list[str]]:
    return {group.kind: [hit.title for hit in group.hits] for group in found.groups}


def paths(found: SearchResult) -> set[str]:
    return {hit.path for group in found.groups for hit in group.hits if isinstance(hit, EntryHit)}


def lead(grid: Grid, path: str = "/atlas", *, role: str = "manager") -> User:
    user = User.objects.create_user(f"lead-{role}")
    make_grant(user, grid.uid(path), role, at=grid.at)
    return user


def test_results_are_grouped_with_the_best_match_first(open_grid: Grid) -> None:
    actor = as_person(open_grid.admin)
    assert titles(search_everything(query="AT", actor=actor)) == {"entries": ["atlas"]}
    assert titles(search_everything(query="al", actor=actor)) == {"people": ["alice", "Alice Berg", TRICKY]}
    assert titles(search_everything(query="clus", actor=actor)) == {"sources": ["Cluster A"]}
    found = search_everything(query="a", actor=actor)
    assert list(titles(found))[:2] == ["entries", "people"]
    assert [group.hits[0].match for group in found.groups] == sorted(group.hits[0].match for group in found.groups)


def test_an_entry_is_found_by_path_or_words_of_it(open_grid: Grid) -> None:
    actor = as_person(open_grid.admin)
    for query in ("/atlas/bob", "atlas bob", "atl/bo", "swe atlas bob"):
        (hit,) = search_everything(query=query, actor=actor).groups[0].hits
        assert isinstance(hit, EntryHit)
        assert (hit.path, hit.match, hit.kind) == ("/atlas/bob", Match.NOTE, "person"), query
    assert search_everything(query="cms bob", actor=actor).groups == []


def test_users_have_their_rank_if_visible(open_grid: Grid) -> None:
    (hit,) = search_everything(query="carol", actor=as_person(open_grid.admin)).groups[0].hits
    assert isinstance(hit, EntryHit)
    assert hit.rank is not None


def test_existing_names_with_special_characters_are_found(open_grid: Grid) -> None:
    (hit,) = search_everything(query="o'neil", actor=as_person(open_grid.admin)).groups[0].hits
    assert hit.title == TRICKY


def test_an_account_with_another_name_links_to_its_entry(computed_site: Any) -> None:
    actor = as_person(computed_site.admin)
    names = {hit.title for hit in _accounts(search_everything(query="a", actor=actor))}
    index = {account.user_name for account in Account.objects.all()}
    assert names <= index


def _accounts(found: SearchResult) -> list[EntryHit]:
    return [hit for group in found.groups for hit in group.hits if isinstance(hit, EntryHit) and hit.kind == "account"]


def test_change_sets_are_found_by_reason_and_author(open_grid: Grid) -> None:
    actor = as_person(open_grid.admin)
    operation = {"op": "set_shares", "entry": "/cms", "shares": 20}
    made = make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=[operation], reason="Autumn round"), at=open_grid.at, actor=actor
    )
    (group,) = search_everything(query="autumn", actor=actor).groups
    (hit,) = group.hits
    assert isinstance(hit, ChangeSetHit)
    assert hit.title.startswith("cms ")
    assert hit.title.endswith(" → 20 shares")
    assert (hit.reason, hit.state, hit.match) == ("Autumn round", ChangeSet.State.DRAFT, Match.BEGINS)
    assert made.pk in [hit.id for hit in _changes(search_everything(query="admin", actor=actor))]


def _changes(found: SearchResult) -> list[ChangeSetHit]:
    return [hit for group in found.groups for hit in group.hits if isinstance(hit, ChangeSetHit)]


def test_a_single_group_of_results_is_paged_and_counted(large_grid: Grid) -> None:
    actor = as_person(large_grid.admin)
    found = search_everything(query="member", actor=actor)
    (group,) = found.groups
    assert (len(group.hits), group.n) == (5, 250)
    (group,) = search_everything(query="member", actor=actor, only="people", most=100).groups
    assert len(group.hits) == 100
    assert search_everything(query="member", actor=actor, only="entries").groups == []


def test_in_a_closed_tree_a_user_finds_only_the_own_path(closed_grid: Grid) -> None:
    actor = as_person(closed_grid.alice)
    assert paths(search_everything(query="swe", actor=actor)) == {"/"}
    assert paths(search_everything(query="a", actor=actor)) == {"/atlas", "/atlas/alice"}
    for hidden in ("bob", "carol", "biomed", "/biomed/carol"):
        assert search_everything(query=hidden, actor=actor).groups == [], hidden


def test_a_manager_finds_the_own_subtree(closed_grid: Grid) -> None:
    actor = as_person(lead(closed_grid))
    assert paths(search_everything(query="bob", actor=actor)) == {"/atlas/bob"}
    assert search_everything(query="carol", actor=actor).groups == []


def test_a_viewer_of_totals_finds_groups_but_no_members(closed_grid: Grid) -> None:
    actor = as_person(lead(closed_grid, role="viewer"))
    found = paths(search_everything(query="a", actor=actor))
    assert "/atlas" in found
    assert "/atlas/alice" not in found


def test_lost_rights_apply_at_once(closed_grid: Grid) -> None:
    user = lead(closed_grid)
    assert paths(search_everything(query="bob", actor=as_person(user))) == {"/atlas/bob"}
    Grant.objects.all().delete()
    assert search_everything(query="bob", actor=as_person(user)).groups == []


def test_only_administrators_find_drafts_of_others_and_users(closed_grid: Grid) -> None:
    operation = {"op": "set_shares", "entry": "/cms", "shares": 20}
    make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=[operation], reason="Autumn"), at=closed_grid.at, actor=COMMAND
    )
    for user in (closed_grid.alice, lead(closed_grid)):
        found = search_everything(query="autumn", actor=as_person(user))
        assert found.groups == [], user
        users = search_everything(query="kling", actor=as_person(user)).groups
        assert users == [], user
    (group,) = search_everything(query="kling", actor=as_person(closed_grid.admin)).groups
    assert group.hits == [UserHit("admin", "Eva Kling", Match.WORD_BEGINS)]


def test_hidden_names_do_not_affect_results(closed_grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only visible names are in what is searched, so a hidden one can't even make an answer slower."""
    from apps.contrib.search import entries

    seen: list[str] = []

    class Watched(NameIndex):
        def __init__(self, names: list[str], places: Any) -> None:
            seen.extend(names)
            super().__init__(names, places)

    entries.clear_indexes()
    monkeypatch.setattr(entries, "NameIndex", Watched)
    search_everything(query="bob", actor=as_person(closed_grid.alice))
    assert set(seen) == {"SweGrid", "atlas", "alice"}
    entries.clear_indexes()
