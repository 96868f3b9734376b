"""The tree by its address: levels, filter, order, columns, windows and CSV; selected rows become edits of a draft."""

from __future__ import annotations

import csv
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

import pytest
from django.db.models import QuerySet
from django.test import Client
from django.urls import reverse
from selectolax.lexbor import LexborHTMLParser

from apps.pages.tree.selection import MOST_SELECTED
from apps.pages.tree.state import COLUMNS
from apps.policies.models import ChangeSet
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read
from tests.sign_in import sign_in

TREE = f"/policy/{SLUG}/"
MOST_ELEMENTS = 1_500


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def names(page: Page) -> list[str]:
    return page.texts("#rows tr[data-uid] a.label")


def shown(client: Client, query: str = "") -> Page:
    return read(client.get(f"{TREE}?{query}"))


def lines(client: Client, query: str = "") -> list[dict[str, str]]:
    answer = client.get(f"{TREE}tree.csv?{query}")
    assert answer.status_code == 200
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    return list(csv.DictReader(text.splitlines()))


def test_level_and_toggled_rows_are_in_the_address(admin: Client, grid: Grid) -> None:
    assert names(shown(admin, "level=1")) == ["SweGrid", "atlas", "biomed", "cms"]
    page = shown(admin, "level=1")
    assert page.each("#tree-state [data-shortcut][aria-current]", "data-shortcut") == ["1"]
    toggled = admin.get(f"{TREE}?level=1&toggle={grid.uid('/atlas')}")["Location"]
    assert names(read(admin.get(toggled))) == ["SweGrid", "atlas", "alice", "bob", "biomed", "cms"]
    shut = f"level=2&shut={grid.uid('/atlas')}"
    assert "alice" not in names(shown(admin, shut))
    assert "dave" in names(shown(admin, shut))


def test_only_off_target_shows_those_entries_and_their_ancestors(admin: Client, grid: Grid) -> None:
    rows = [row for row in lines(admin, "level=9&col=balance") if row["state"] in ("over", "under")]
    filtered = shown(admin, "off=1")
    assert filtered.each("#off-target", "aria-current") == ["true"]
    assert {row["name"] for row in rows} <= {row["name"] for row in lines(admin, "off=1")}
    kept = lines(admin, "off=1&col=balance")
    below = {row["path"] for row in kept}
    for row in kept:
        is_way = any(path.startswith(row["path"].rstrip("/") + "/") for path in below - {row["path"]})
        assert row["state"] in ("over", "under") or is_way, row
    assert len(kept) < len(lines(admin, "level=9"))


def test_siblings_are_sorted_and_the_header_shows_how(admin: Client) -> None:
    def order(sort: str) -> list[str]:
        return [row["name"] for row in lines(admin, f"level=1&sort={sort}")][1:]

    assert order("name") == ["atlas", "biomed", "cms"]
    assert order("-name") == ["cms", "biomed", "atlas"]
    assert order("target") == ["cms", "biomed", "atlas"]
    deviations = [float(row["deviation_points"]) for row in lines(admin, "level=1&sort=-deviation")[1:]]
    assert deviations == sorted(deviations, reverse=True)
    assert len(set(deviations)) > 1
    page = shown(admin, "sort=-target")
    assert page.each("th.c-target", "aria-sort") == ["descending"]
    assert parse_qs(urlsplit(page.each("th.c-target a", "href")[0]).query) == {"sort": ["target"]}
    assert names(shown(admin, "sort=password&level=1")) == names(shown(admin, "level=1"))


def test_rank_and_factor_are_optional_columns(admin: Client) -> None:
    assert not shown(admin).has(".c-rank")
    page = shown(admin, "col=target&col=rank&col=factor&level=2")
    assert page.each("thead th", "class") == ["", "num c-target", "num c-rank", "num c-factor"]
    ranks = [text for text in page.texts("#rows td.c-rank") if text]
    in_file = {row["path"]: row["rank"] for row in lines(admin, "level=2&col=rank")}
    groups = {path.rpartition("/")[0] or "/" for path in in_file}
    assert sorted(ranks) == sorted(rank for path, rank in in_file.items() if path not in groups)
    assert in_file["/atlas"], "a file has the ranks of groups, as REST"
    by_rank = [int(row["rank"]) for row in lines(admin, "level=2&col=rank&sort=rank") if "/atlas/" in row["path"]]
    assert by_rank == sorted(by_rank)
    assert len(by_rank) == 2


def test_the_csv_has_the_rows_and_columns_of_the_page(admin: Client, grid: Grid) -> None:
    for query in ("level=1", "q=al&sort=name", "off=1", f"level=1&open={grid.uid('/cms')}&sort=-name&of=total"):
        assert [row["name"].lstrip("'") for row in lines(admin, query)] == names(shown(admin, query)), query
    assert list(lines(admin, "col=target&col=factor")[0]) == ["path", "name", "kind", "target", "factor"]
    link = shown(admin, "level=1&sort=-target").each("#export", "href")
    assert link == [f"{TREE}tree.csv?level=1&sort=-target"]


def test_the_csv_contains_no_more_than_the_page(closed: Grid, client: Client) -> None:
    sign_in(client, closed.alice)
    assert [row["path"] for row in lines(client, "level=9")] == ["/", "/atlas", "/atlas/alice"]


def test_a_page_of_a_large_tree_has_few_elements(large_grid: Grid, client: Client) -> None:
    sign_in(client, large_grid.admin)
    first = client.get(TREE, {"level": "4", "col": COLUMNS})
    page = read(first)
    count = len(LexborHTMLParser(first.content.decode()).css("*"))
    assert count < MOST_ELEMENTS, count
    following = read(client.get(TREE + page.each("tr[data-next] a", "href")[0].removeprefix(TREE)))
    assert names(following)[:1] == ["SweGrid"], "the way to the first row"
    assert not set(following.each("#rows tr[data-uid]", "id")[2:]) & set(page.each("#rows tr[data-uid]", "id"))


def drafts() -> QuerySet[ChangeSet]:
    return ChangeSet.objects.filter(state="draft")


def _select(client: Client, uids: list[Any], **fields: Any) -> Any:
    return client.post(f"{TREE}selection/", {"e": [str(uid) for uid in uids], "state": "?level=2&sort=name", **fields})


def test_an_action_on_selected_rows_becomes_a_draft(admin: Client, grid: Grid) -> None:
    atlas, cms = grid.uid("/atlas"), grid.uid("/cms")
    answer = _select(admin, [atlas, cms], action="scale", factor="1.5")
    draft = drafts().get()
    assert answer["Location"].startswith(reverse("pages:draft", args=[draft.pk]))
    assert [(op["op"], op["entry"], op["shares"]) for op in draft.operations] == [
        ("set_shares", str(atlas), 90),
        ("set_shares", str(cms), 15),
    ]
    _select(admin, [atlas], action="end", ends_on="2027-03-31")
    draft.refresh_from_db()
    assert draft.operations[-1]["dates"]["ends_on"] == "2027-03-31"
    assert draft.operations[-1]["dates"]["at_end"] == "zero"
    _select(admin, [grid.uid("/cms/dave"), grid.uid("/cms/erin")], action="move", to="/biomed", draft="new")
    other = drafts().exclude(pk=draft.pk).get()
    assert [op["parent"] for op in other.operations] == [str(grid.uid("/biomed"))] * 2
    _select(admin, [cms, grid.uid("/cms/dave")], action="archive", draft=str(draft.pk))
    draft.refresh_from_db()
    assert [op["entry"] for op in draft.operations if op["op"] == "archive"] == [str(cms)], "dave goes with cms"


def test_all_rows_of_a_view_means_all_matching_rows(admin: Client, grid: Grid) -> None:
    admin.post(f"{TREE}selection/", {"all": "1", "state": "?q=da", "action": "lock"})
    assert [op["entry"] for op in drafts().get().operations] == [str(grid.uid("/cms/dave"))]


@pytest.mark.parametrize(
    ("uids", "fields", "status"),
    [
        ([], {"action": "lock"}, 422),
        ([uuid4() for _ in range(10_000)], {"action": "lock"}, 413),
        ([uuid4()], {"action": "lock"}, 404),
        (["/atlas", "/cms"], {"action": "scale", "factor": "lots"}, 422),
        (["/atlas", "/cms"], {"action": "end", "ends_on": "31 March"}, 422),
        (["/atlas", "/cms"], {"action": "move", "to": "/atlas/alice/x"}, 422),
        (["/cms", "/atlas"], {"action": "move", "to": "/atlas"}, 422),
        (["/atlas"], {"action": "publish"}, 422),
        (["/atlas"], {"action": "lock", "draft": "999999"}, 422),
    ],
)
def test_a_refused_action_keeps_the_selection_and_changes_nothing(
    admin: Client, grid: Grid, uids: list[Any], fields: dict[str, str], status: int
) -> None:
    named = [uid if isinstance(uid, UUID) else grid.uid(uid) for uid in uids]
    answer = admin.post(
        f"{TREE}selection/", {"entries": " ".join(map(str, named)), "state": "?level=2&sort=name", **fields}
    )
    assert answer.status_code == status
    assert not drafts().exists()
    page = Page(answer.content.decode())
    assert page.item("not-done").text()
    if status == 413:
        assert "10,000" in page.text('[data-testid="not-done"]')
        assert str(MOST_SELECTED) in page.text('[data-testid="not-done"]')
    if status == 422:
        assert set(page.each("input.pick[checked]", "value")) == {str(uid) for uid in named}
    assert page.each('form#tree-selection input[name="state"]', "value") == ["?level=2&sort=name"]


def test_users_select_only_entries_they_may_change(closed: Grid, client: Client) -> None:
    sign_in(client, closed.alice)
    assert not shown(client).has("input.pick")
    assert not shown(client).has("#tree-selection")
    assert _select(client, [closed.uid("/atlas")], action="lock").status_code == 403
