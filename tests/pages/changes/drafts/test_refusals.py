"""What the editor refuses or leaves as it is, and what an edit announces and redraws."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.core import clock
from apps.policies import services
from apps.policies.models import ChangeSet, Policy
from apps.policies.records import NewChangeSet
from tests.pages.changes.drafts.test_editor import HTMX, url, write
from tests.pages.grid import SLUG, Grid
from tests.pages.page import names_in, read
from tests.sign_in import sign_in

MISSING = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    return sign_in(client, grid.admin)


@pytest.fixture
def draft(admin: Client) -> ChangeSet:
    admin.post(f"/policy/{SLUG}/edit")
    return ChangeSet.objects.get(state="draft")


def publish(grid: Grid, *operations: dict[str, Any]) -> None:
    made: dict[str, Any] = {"at": clock.now(), "actor": Actor(user=grid.admin, via="page")}
    new = services.make_change_set(policy_slug=SLUG, new=NewChangeSet(operations=operations, reason="x"), **made)
    services.publish_change_set(id=new.pk, version=new.version, **made)


def test_an_unknown_step_is_refused_or_leads_back_and_changes_nothing(
    admin: Client, draft: ChangeSet, grid: Grid
) -> None:
    write(admin, draft, op="set_shares", entry=str(grid.uid("/atlas")), shares="50")
    before = (draft.version, draft.operations, draft.state)
    assert read(write(admin, draft, "_log", step="dance"), 422).error_codes() == ["invalid"]
    answer = write(admin, draft, "_finish", step="dance", back="mode=percent")
    assert (answer.status_code, answer["Location"]) == (303, f"{url(draft)}?mode=percent")
    assert (draft.version, draft.operations, draft.state) == before


@pytest.mark.parametrize(("place", "more"), [("_update", {}), ("_finish", {"step": "publish", "reason": "x"})])
def test_an_old_version_of_a_draft_is_neither_rebased_nor_published(
    admin: Client, draft: ChangeSet, grid: Grid, place: str, more: dict[str, str]
) -> None:
    write(admin, draft, op="set_shares", entry=str(grid.uid("/atlas")), shares="50")
    assert read(write(admin, draft, place, version=1, **more), 412).error_codes() == ["stale"]
    assert (draft.state, Policy.objects.get(slug=SLUG).head_number) == ("draft", 2)


def test_a_draft_in_conflict_is_not_published_and_offers_both_values(
    admin: Client, draft: ChangeSet, grid: Grid
) -> None:
    uid = grid.uid("/atlas")
    write(admin, draft, op="rename", entry=str(uid), name="atlas2")
    publish(grid, {"op": "rename", "entry": str(uid), "name": "atlas3"})
    answer = write(admin, draft, "_finish", step="publish", reason="x")
    assert read(answer, 409).has(f"[name='choice-{uid}:name'][value=mine]")
    (row,) = answer.context["conflicts"]
    assert [row[side] for side in ("base", "mine", "theirs")] == ["atlas", "atlas2", "atlas3"]
    assert draft.state == "draft"


def test_a_conflict_of_lists_states_their_items(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    uid = grid.uid("/atlas")
    write(admin, draft, op="set_scope", entry=str(uid), scope="local", sources="cluster-a, cluster-b")
    publish(grid, {"op": "set_scope", "entry": str(uid), "scope": "local", "sources": ["cluster-c"]})
    rows = {row["name"]: row for row in write(admin, draft, "_update").context["conflicts"]}
    sources = rows["scope_sources"]
    assert (sources["mine"], sources["theirs"]) == ("cluster-a, cluster-b", "cluster-c")


def test_a_stale_edit_of_no_entry_is_answered_with_the_last_edit(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    write(admin, draft, op="set_shares", entry=str(grid.uid("/biomed")), shares="7")
    answer = write(admin, draft, version=1, op="lock", locked="yes", entry=MISSING)
    assert names_in(read(answer, 412).text("[data-testid=theirs]"), "biomed", "7")


def test_a_stale_edit_of_the_root_of_an_undone_draft_has_nothing_on_the_other_side(
    admin: Client, draft: ChangeSet, grid: Grid
) -> None:
    root = str(grid.uid("/"))
    write(admin, draft, op="lock", entry=root, locked="yes")
    write(admin, draft, "_log", step="undo")
    answer = write(admin, draft, version=1, op="lock", entry=root, locked="yes")
    page = read(answer, 412)
    assert names_in(page.text("[data-testid=mine]"), "SweGrid")
    assert not names_in(page.text("[data-testid=theirs]"), "SweGrid")


def test_an_edit_of_the_root_redraws_its_row_alone(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    root = str(grid.uid("/"))
    page = read(write(admin, draft, op="lock", entry=root, locked="yes", headers=HTMX))
    assert page.has("#some-rows")
    assert not page.has("#rows")
    assert draft.operations == [{"op": "lock", "entry": root, "locked": True}]


def test_inherited_shares_redraw_the_whole_view_as_others_compete(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    asked = {"op": "set_shares", "entry": str(grid.uid("/atlas"))}
    for shares, redrawn in (("3", "some-rows"), ("inherit", "rows"), ("3", "rows"), ("4", "some-rows")):
        page = read(write(admin, draft, **asked, shares=shares, headers=HTMX))
        assert [name for name in ("rows", "some-rows") if page.has(f"#{name}")] == [redrawn]


def test_shares_of_zero_are_announced_with_their_consequence(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    asked = {"op": "set_shares", "entry": str(grid.uid("/atlas"))}
    some, none = (
        write(admin, draft, **asked, shares=shares, headers=HTMX).context["announcement"] for shares in ("1", "0")
    )
    assert names_in(some, "atlas", "1")
    assert names_in(none, "atlas", "0", "0"), "the shares and the target"


def test_givers_are_named_up_to_three(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    root, percent = str(grid.uid("/")), {"op": "set_shares", "entry": str(grid.uid("/atlas")), "shares": "70 %"}
    for name in ("dune", "euclid"):
        write(admin, draft, op="add", parent=root, name=name, kind="vo", shares="5")
    added = [each["uid"] for each in draft.operations]
    write(
        admin, draft, **percent, **{"from": "chosen"}, giver=[str(grid.uid("/biomed")), str(grid.uid("/cms")), *added]
    )
    words = read(admin.get(url(draft))).texts("#edits li[data-op=set_shares] .words")[0]
    assert names_in(words, "atlas", "biomed", "cms", "dune", "1")
    assert not names_in(words, "euclid")
    write(admin, draft, **{**percent, "shares": "60 %"}, **{"from": "siblings"})
    words = read(admin.get(url(draft))).texts("#edits li[data-op=set_shares] .words")[0]
    assert names_in(words, "atlas", "60.00")
    assert not names_in(words, "biomed")
