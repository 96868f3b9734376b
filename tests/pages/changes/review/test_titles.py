"""A change set is named by what its edits do, on each page that lists it, with its reason below."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core import clock
from apps.policies import services
from apps.policies.models import ChangeSet, Grant, Policy
from apps.policies.records import NewChangeSet
from apps.web.changes.change_titles import ChangeTitle, title_of, titles_of
from apps.web.links.addresses import draft_url
from tests.pages.changes.review.test_review import authority, signed_in
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read

REASON = "More for Alice."


@pytest.fixture
def grid(closed_grid: Grid) -> Grid:
    return closed_grid


def as_person(user: User) -> Actor:
    return Actor(user=user, via="page")


def shares(path: str, value: Any) -> dict[str, Any]:
    return {"op": "set_shares", "entry": path, "shares": value}


def drafted(user: User, *operations: dict[str, Any], reason: str = REASON) -> ChangeSet:
    new = NewChangeSet(operations=operations, reason=reason)
    return services.make_change_set(policy_slug=SLUG, new=new, at=clock.now(), actor=as_person(user))


def title(user: User, change_set: ChangeSet) -> ChangeTitle:
    return title_of(change_set, actor=as_person(user), at=clock.now())


def test_the_first_edit_is_the_title_and_others_are_counted(grid: Grid) -> None:
    admin, more = grid.admin, shares("/atlas/alice", 9)
    i = grid.tree.index_of_path("/atlas/alice")
    assert i is not None
    before = f"{grid.tree.shares[i]:g}"
    assert title(admin, drafted(admin, more)) == ChangeTitle(f"alice {before} → 9 shares", REASON)
    two = drafted(admin, more, {"op": "lock", "entry": "/cms"})
    assert title(admin, two).text == f"alice {before} → 9 shares and 1 more edit"
    three = drafted(admin, {"op": "rename", "entry": "/cms", "name": "cmsx"}, more, shares("/atlas/bob", 2))
    assert title(admin, three).text == "cms renamed to cmsx and 2 more edits"
    added = drafted(admin, {"op": "add", "parent": "/atlas", "name": "dora", "kind": "user", "shares": 1})
    assert title(admin, added).text == "dora added to atlas"
    settings = drafted(admin, {"op": "set_policy", "settings": {"fallback_factor": 0.2}}, reason="")
    assert title(admin, settings).text == "Settings: Factor of unmapped accounts"


def test_shares_before_are_those_at_the_base_of_the_change_set(grid: Grid) -> None:
    """A later revision of the entry doesn't change what the edit was made against."""
    made = drafted(grid.admin, shares("/atlas/alice", 9))
    known = title(grid.admin, made)
    other = drafted(grid.admin, shares("/atlas/alice", 5))
    services.publish_change_set(id=other.pk, version=1, at=clock.now(), actor=as_person(grid.admin))
    assert title(grid.admin, ChangeSet.objects.get(pk=made.pk)) == known


def test_entries_outside_the_view_are_not_named(grid: Grid) -> None:
    """Whoever lost the right to see an entry reads the reason, or the first edit that is in view."""
    Policy.objects.update(visibility="path")
    bob = authority(grid, "bob", "/")
    alone = drafted(bob, shares("/cms", 9))
    mixed = drafted(bob, shares("/cms", 9), shares("/atlas/alice", 9), {"op": "archive", "entry": "/cms"})
    assert title(bob, alone).text.startswith("cms ")
    Grant.objects.filter(user=bob).update(entry_uid=grid.uid("/atlas"))
    assert title(bob, alone) == ChangeTitle(REASON)
    assert title(bob, mixed).text.startswith("alice ")
    assert title(bob, mixed).text.endswith("and 2 more edits")
    added = drafted(grid.admin, {"op": "add", "parent": "/cms", "name": "secret", "kind": "user", "shares": 1})
    assert title(bob, added) == ChangeTitle(REASON)


def test_pages_have_the_same_title_and_the_reason_below(grid: Grid) -> None:
    bob = authority(grid, "bob")
    draft = drafted(bob, shares("/atlas/alice", 9))
    asked = services.propose_change_set(id=draft.pk, version=draft.version, at=clock.now(), actor=as_person(bob))
    expected = title(grid.admin, asked).text
    assert "→ 9 shares" in expected
    admin = signed_in(grid.admin)
    review = read(admin.get(f"/changes/{asked.pk}/"))
    assert (review.text("h1"), review.text("[data-testid=reason]")) == (expected, REASON)
    inbox = read(admin.get("/inbox/"))
    row = f"#change-{asked.pk}"
    assert (inbox.text(f"{row} a"), inbox.text(f"{row} [data-testid=reason]")) == (expected, REASON)
    listed = read(admin.get(f"/policy/{SLUG}/changes/"))
    assert (listed.text("tbody th a"), listed.text("tbody [data-testid=reason]")) == (expected, REASON)
    home = read(admin.get("/")).html
    assert expected in home
    services.publish_change_set(id=asked.pk, version=asked.version, at=clock.now(), actor=as_person(grid.admin))
    history = read(admin.get(f"/policy/{SLUG}/history/"))
    assert history.text(f'a[href="/changes/{asked.pk}/"]') == expected
    assert history.texts("[data-testid=reason]")[0] == REASON


def test_menus_of_drafts_and_the_editor_have_the_same_title(grid: Grid) -> None:
    draft = drafted(grid.admin, shares("/atlas/alice", 9))
    expected = title(grid.admin, draft).text
    admin, address = signed_in(grid.admin), draft_url(draft.pk)
    tree = read(admin.get(f"/policy/{SLUG}/"))
    assert tree.text(f'.my-drafts a[href="{address}"]') == expected
    assert tree.text(f'#selection-draft option[value="{draft.pk}"]') == expected
    listed = read(admin.get(f"/policy/{SLUG}/edit?list=1"))
    assert listed.text(f'a[href="{address}"]') == expected
    editor = read(admin.get(address))
    assert editor.text("#draftbar .title") == expected
    assert expected in editor.text("title")


def test_a_change_set_without_edits_is_named_by_its_reason_or_number(grid: Grid) -> None:
    made = ChangeSet(pk=7, reason="More for physics\nsince spring", operations=[], state=ChangeSet.State.DRAFT)
    assert title(grid.admin, made) == ChangeTitle("More for physics")
    made.reason = "x" * 81
    assert title(grid.admin, made).text == f"{'x' * 79}…"
    made.reason = " \n"
    assert title(grid.admin, made).text == "Draft 7"
    made.state = ChangeSet.State.PROPOSED
    assert title(grid.admin, made).text == "Change set 7"


def test_titles_of_many_change_sets_take_as_many_queries_as_of_one(grid: Grid) -> None:
    made = [drafted(grid.admin, shares("/atlas/alice", n), shares("/cms", n)) for n in range(2, 12)]

    def n_queries(change_sets: list[ChangeSet]) -> int:
        ids = [each.pk for each in change_sets]
        listed = list(ChangeSet.objects.filter(pk__in=ids))
        with CaptureQueriesContext(connection) as queries:
            titles_of(listed, actor=as_person(grid.admin), at=clock.now())
        return len(queries)

    n_queries(made[:1])  # fills caches of the process
    assert n_queries(made) == n_queries(made[:1])
