"""Tree and entry pages as of an earlier moment: the content of that time, by present rights, read-only."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core import clock
from apps.policies.models import Grant, Policy, Revision
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.priorities.models import Snapshot
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in

TREE = f"/policy/{SLUG}/"


@pytest.fixture
def eva(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def publish(grid: Grid, *operations: dict[str, Any], reason: str = "Because.", at: datetime | None = None) -> Revision:
    actor, at = Actor(user=grid.admin, via="page"), at or clock.now()
    draft = make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=operations, reason=reason), at=at, actor=actor
    )
    return publish_change_set(id=draft.pk, version=1, at=at, actor=actor)


def text(client: Client, path: str, **query: Any) -> str:
    answer = client.get(path, query)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def numbers_of(page: Page) -> str:
    """Where the numbers of a page of the past are from."""
    return page.item("time-bar-numbers").attributes["data-key"] or ""


def test_the_tree_of_a_revision_is_shown_with_its_shares_and_a_link_to_now(grid: Grid, eva: Client) -> None:
    publish(grid, {"op": "set_shares", "entry": "/atlas", "shares": 77})
    publish(grid, {"op": "archive", "entry": "/cms"})
    now, then = text(eva, TREE), text(eva, TREE, at=2)
    assert "77" in now
    assert ">cms</a>" not in now
    assert ">cms</a>" in then
    assert 'title="60"' in then
    bar = Page(then)
    assert bar.item("time-bar").attributes["data-value"] == "2"
    assert bar.item("back-to-now").attributes["href"] == TREE
    assert not Page(now).has("[data-testid=time-bar]")


def test_links_of_a_past_page_keep_its_instant(grid: Grid, eva: Client) -> None:
    uid = grid.uid("/atlas")
    publish(grid, {"op": "rename", "entry": "/atlas", "name": "ATLAS-2"})
    page = text(eva, TREE, at=2, of="total")
    assert f'href="/policy/grid/n/{uid}/atlas/?at=2"' in page
    assert 'data-at="2"' in page
    assert '<input type="hidden" name="at" value="2">' in page
    assert "&quot;at&quot;: &quot;2&quot;" in page  # the filter takes it along
    entry = text(eva, f"/policy/grid/n/{uid}/atlas/", at=2)
    assert f'href="/policy/grid/n/{grid.uid("/ATLAS-2/alice")}/alice/?at=2"' in entry
    assert "<title>atlas" in entry
    assert Page(entry).item("back-to-now").attributes["href"] == f"/policy/grid/n/{uid}/atlas/"


def test_an_instant_shows_its_revision_with_the_snapshot_before_it(grid: Grid, eva: Client) -> None:
    snapshot = Snapshot.objects.get()
    publish(grid, {"op": "set_shares", "entry": "/atlas", "shares": 77}, at=snapshot.as_of + timedelta(hours=1))
    later = snapshot.as_of + timedelta(seconds=1)
    page = Page(text(eva, TREE, at=later.isoformat()))
    assert page.item("time-bar").attributes["data-value"] == "2"
    assert numbers_of(page) == "as_computed"
    reconstructed = Page(text(eva, TREE, at=(snapshot.as_of - timedelta(hours=1)).isoformat()))
    assert numbers_of(reconstructed) == "reconstructed"
    before = Page(text(eva, TREE, at=(snapshot.as_of - timedelta(hours=27)).isoformat()))
    assert numbers_of(before) == "none"
    assert not before.has("[data-testid=no-snapshot]")
    Snapshot.objects.all().delete()
    assert Page(text(eva, TREE)).has("[data-testid=no-snapshot]")


def test_numbers_computed_later_are_marked_as_reconstructed(grid: Grid, eva: Client) -> None:
    Snapshot.objects.update(is_live=False)
    assert numbers_of(Page(text(eva, TREE, at=2))) == "reconstructed"


def test_numbers_of_an_earlier_revision_are_marked(grid: Grid, eva: Client) -> None:
    revision = publish(grid, {"op": "set_shares", "entry": "/atlas", "shares": 77})
    page = Page(text(eva, TREE, at=(revision.published_at + timedelta(minutes=1)).isoformat()))
    assert page.item("time-bar").attributes["data-value"] == "3"
    assert numbers_of(page) == "earlier_revision"
    assert page.item("time-bar-numbers").attributes["data-value"] == "2"


def test_the_last_change_of_an_entry_is_left_out_of_its_past(grid: Grid, eva: Client) -> None:
    entry = f"{TREE}n/{grid.uid('/atlas')}/atlas/"
    publish(grid, {"op": "set_shares", "entry": "/atlas", "shares": 77})
    assert "3" in text_of(Page(text(eva, entry)).item("last-changed"))
    assert not Page(text(eva, entry, at=2)).has('[data-testid="last-changed"]')


def test_a_day_without_zone_is_in_the_zone_of_the_page(grid: Grid, eva: Client) -> None:
    answer = eva.get(TREE, {"day": "2026-03-03T12:00", "of": "total"})
    assert answer.status_code == 303
    assert answer.headers["Location"] == f"{TREE}?of=total&at=2026-03-03T12%3A00%3A00%2B00%3A00"


@pytest.mark.parametrize("query", [{"at": "yesterday"}, {"at": "2026-03-03T12:00"}, {"day": "x"}])
def test_an_invalid_instant_is_refused_with_a_message(eva: Client, query: dict[str, str]) -> None:
    answer = eva.get(TREE, query)
    assert answer.status_code == 422
    refusal = answer.context["refusal"]
    assert (refusal.code, [each.where for each in refusal.fields]) == ("invalid", ["at"])
    assert refusal.message in read(answer, 422).text("main")


@pytest.mark.parametrize("at", ["0", "99", "999999999", "1999-01-01T00:00:00Z"])
def test_an_instant_outside_all_revisions_is_not_found(eva: Client, at: str) -> None:
    answer: Any = eva.get(TREE, {"at": at})
    assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found")


def test_past_pages_cannot_be_edited(grid: Grid, eva: Client) -> None:
    uid = grid.uid("/atlas")
    link, form = "main a[href$='?panel=shares']", "#panel"
    shares = {"panel": "shares"}
    page, now = (Page(text(eva, f"/policy/grid/n/{uid}/atlas/", **query)) for query in ({"at": 2, **shares}, shares))
    assert (page.has(link), page.has(form)) == (False, False)
    assert (now.has(link), now.has(form)) == (True, True)
    page, now = (Page(text(eva, TREE, entry=uid, **query)) for query in ({"at": 2}, {}))
    assert (page.has(link), now.has(link)) == (False, True)


def test_the_panel_shows_past_and_current_numbers(grid: Grid, eva: Client) -> None:
    uid, dave = grid.uid("/atlas"), grid.uid("/cms/dave")
    publish(grid, {"op": "set_shares", "entry": "/atlas", "shares": 77}, {"op": "archive", "entry": "/cms/dave"})

    def panel(entry: UUID) -> list[tuple[str, ...]]:
        query = {"entry": str(entry), "at": "2"}
        page = read(eva.get(f"{TREE}_panel", query, headers={"HX-Request": "true"}))
        wanted = ("data-testid", "data-value", "data-state")
        return [
            tuple(node.attributes.get(name) or "" for name in wanted)
            for node in page.all("[data-testid=panel-then], [data-testid=panel-now]")
        ]

    assert panel(uid) == [("panel-then", "2", ""), ("panel-now", "3", "there")]
    assert panel(dave) == [("panel-then", "2", ""), ("panel-now", "", "gone")]


def test_an_archived_entry_links_to_its_last_revision(grid: Grid, eva: Client) -> None:
    uid = grid.uid("/cms/dave")
    publish(grid, {"op": "archive", "entry": "/cms"}, reason="CMS has left.")
    for path in (f"/policy/grid/n/{uid}/", f"/policy/grid/n/{uid}/dave/"):
        answer = eva.get(path)
        assert (answer.status_code, answer.headers["Location"]) == (303, f"/policy/grid/n/{uid}/dave/?at=2")
    page = Page(text(eva, f"/policy/grid/n/{uid}/dave/", at=2))
    assert page.item("archived-in").attributes["data-value"] == "3"


@pytest.fixture
def lead(grid: Grid, client: Client) -> Client:
    """Authority of atlas, where people see their own path only."""
    Policy.objects.update(visibility="path")
    user = User.objects.create_user("lead")
    make_grant(user, grid.uid("/atlas"), at=grid.at)
    sign_in(client, user)
    return client


def test_past_pages_use_current_rights(grid: Grid, lead: Client) -> None:
    publish(grid, {"op": "lock", "entry": "/cms"})
    page = text(lead, TREE, at=2)
    assert ">bob</a>" in page
    assert ">carol</a>" not in page
    assert lead.get(f"/policy/grid/n/{grid.uid('/biomed/carol')}/carol/", {"at": 2}).status_code == 404
    Grant.objects.all().delete()
    assert ">bob</a>" not in text(lead, TREE, at=2)


def test_a_moved_user_is_hidden_at_the_old_parent_too(grid: Grid, lead: Client) -> None:
    bob, carol = grid.uid("/atlas/bob"), grid.uid("/biomed/carol")
    publish(
        grid,
        {"op": "move", "entry": "/atlas/bob", "parent": "/cms"},
        {"op": "move", "entry": "/biomed/carol", "parent": "/atlas"},
    )
    page = text(lead, TREE, at=2)
    assert ">alice</a>" in page
    assert ">bob</a>" not in page
    assert ">carol</a>" not in page  # hers now, but not then
    for uid in (bob, carol):
        assert lead.get(f"/policy/grid/n/{uid}/x/", {"at": 2}).status_code == 404
    assert ">carol</a>" in text(lead, TREE, at=3)


def test_an_archived_user_is_visible_with_rights_at_the_former_parent(grid: Grid, lead: Client) -> None:
    bob, carol = grid.uid("/atlas/bob"), grid.uid("/biomed/carol")
    publish(grid, {"op": "archive", "entry": "/atlas/bob"}, {"op": "archive", "entry": "/biomed/carol"})
    assert lead.get(f"/policy/grid/n/{bob}/").status_code == 303
    assert lead.get(f"/policy/grid/n/{carol}/").status_code == 404
    page = text(lead, TREE, at=2)
    assert ">bob</a>" in page
    assert ">carol</a>" not in page


def test_the_slider_covers_first_usage_to_now_and_marks_stored_days(grid: Grid, eva: Client) -> None:
    """Usage begins 26 h before the snapshot; the policy, whose revision 1 is 48 h old, was there before."""
    Snapshot.objects.update(as_of=grid.at.replace(hour=23, minute=30) - timedelta(days=1))
    page = Page(text(eva, TREE, at=2))
    slider = page.one("#look-back-on").attributes
    first, last = grid.at.date() - timedelta(days=1), clock.now().date()
    assert (slider["min"], slider["max"]) == (str(first.toordinal()), str(last.toordinal()))
    assert page.one("[data-look-back]").attributes["data-stored"] == str(first.toordinal())
    assert page.one("#back-day").attributes["min"] == f"{first:%Y-%m-%d}T10:01"
    stops = page.each("#look-back-stops option", "label")
    assert stops == ["Revision 2"]


def test_a_day_of_the_slider_means_its_end_and_today_means_now(grid: Grid, eva: Client) -> None:
    day = grid.at.date() - timedelta(days=1)
    then = eva.get(TREE, {"on": str(day.toordinal()), "of": "total"})
    assert then.headers["Location"] == f"{TREE}?of=total&at={day}T23%3A59%3A59%2B00%3A00"
    assert numbers_of(Page(text(eva, then.headers["Location"]))) == "reconstructed"
    assert eva.get(TREE, {"on": day.isoformat(), "of": "total"}).headers["Location"] == then.headers["Location"]
    today = eva.get(TREE, {"on": str(clock.now().date().toordinal()), "at": "2"})
    assert today.headers["Location"] == TREE
    for wrong in ("0", "x", "99999999999"):
        assert eva.get(TREE, {"on": wrong}).status_code == 422


@pytest.mark.parametrize("path", [TREE, "/policy/grid/n/{uid}/atlas/", "/me/priority/_back?policy=grid"])
def test_current_pages_offer_the_slider(grid: Grid, path: str) -> None:
    page = read(sign_in(Client(), grid.alice).get(path.format(uid=grid.uid("/atlas"))))
    assert page.has("#look-back-on")
    assert page.one("#look-back-on").attributes["value"] == str(clock.now().date().toordinal())


def test_without_usage_there_is_no_slider(grid: Grid, eva: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM usage_bucket")
    assert not Page(text(eva, TREE)).has("#look-back-on")
    assert not Page(text(eva, TREE, at=2)).has("#look-back-on")
