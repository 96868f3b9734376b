"""The history of a policy as pages: what was put in force, what differs, who changed an entry, and the way back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core import clock
from apps.policies.models import ChangeSet, Policy
from apps.policies.publishing.revert import revert_revision
from apps.policies.services import publish_change_set
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors.history import PLACE
from tests.grants import make_grant
from tests.pages.grid import SLUG, TRICKY, Grid
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in
from tests.web.shell.test_time_travel import publish, text

HISTORY = f"/policy/{SLUG}/history/"


@pytest.fixture
def eva(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


@pytest.fixture
def lead(grid: Grid, client: Client) -> Client:
    """Authority of atlas, where people see their own path only."""
    Policy.objects.update(visibility="path")
    user = User.objects.create_user("lead")
    make_grant(user, grid.uid("/atlas"), at=grid.at)
    sign_in(client, user)
    return client


def edit(entry: str, value: Any) -> dict[str, Any]:
    return {"op": "set_shares", "entry": entry, "shares": value}


def test_every_publication_is_listed_with_author_reason_and_links(grid: Grid, eva: Client) -> None:
    revision = publish(grid, edit("/atlas", 77), reason="Atlas grows.")
    page = text(eva, HISTORY)
    assert "SweGrid" in Page(page).text("h1")
    assert "3" in Page(page).text("h1")
    assert page.index("Atlas grows.") < page.index("First division.")
    assert Page(page).one("#rev-3 [data-testid=n-changed]").attributes["data-value"] == "1"
    for link in (
        f"/changes/{revision.change_set_id}/",
        f"{HISTORY}diff/?to=3",
        f"/policy/{SLUG}/?at=3",
        f"{HISTORY}3/undo/",
    ):
        assert f'href="{link}"' in page
    assert f"{HISTORY}1/undo/" not in page


def test_an_undone_revision_and_its_undo_link_to_each_other(grid: Grid, eva: Client) -> None:
    publish(grid, edit("/atlas", 77))
    draft = revert_revision(policy_slug=SLUG, number=3, at=clock.now(), actor=actor_of_admin(grid))
    publish_change_set(id=draft.pk, version=1, at=clock.now(), actor=actor_of_admin(grid))
    page = Page(text(eva, HISTORY))
    assert page.one("#rev-3 [data-testid=undone-by]").attributes["data-value"] == "4"
    origin = page.one("#rev-4 [data-testid=origin]").attributes
    assert (origin["data-key"], origin["data-value"]) == ("revert", "3")
    assert not page.has("#rev-4 [data-testid=undone-by]")


def actor_of_admin(grid: Grid) -> Actor:
    return Actor(user=grid.admin, via="page")


def test_the_list_is_filtered_by_reason_or_author_and_paged(grid: Grid, eva: Client) -> None:
    for n in range(52):
        publish(grid, edit("/atlas", 100 + n), reason="Odd one." if n % 2 else "Even one.")
    first = text(eva, HISTORY)
    assert f'href="{HISTORY}?before=5"' in first
    assert 'id="rev-5"' in first
    assert 'id="rev-4"' not in first
    assert "First division." in text(eva, HISTORY, before=5)
    found = text(eva, HISTORY, q="ODD")
    assert "Odd one." in found
    assert "Even one." not in found.split('id="compare-title"')[0]
    rows = eva.get(f"{HISTORY}_rows", {"q": "odd"}, headers={"HX-Request": "true"}).content.decode()
    assert rows.lstrip().startswith('<section class="card" id="revisions"')
    assert not Page(found).has("[data-testid=no-revisions]")
    assert Page(text(eva, HISTORY, q="nothing like it")).has("[data-testid=no-revisions]")


@pytest.mark.parametrize("query", [{"before": "x"}, {"before": "-1"}])
def test_an_invalid_page_position_is_refused(eva: Client, query: dict[str, str]) -> None:
    answer: Any = eva.get(HISTORY, query)
    assert answer.status_code == 422
    assert [field.where for field in answer.context["refusal"].fields] == ["before"]


def test_fragments_opened_directly_lead_to_their_page(eva: Client) -> None:
    assert eva.get(f"{HISTORY}_rows").headers["Location"] == HISTORY
    assert eva.get(f"{HISTORY}_diff").headers["Location"] == f"{HISTORY}diff/"


def test_a_comparison_lists_each_change_and_the_affected_entries(grid: Grid, eva: Client) -> None:
    publish(
        grid,
        edit("/atlas", 120),
        {"op": "move", "entry": "/atlas/bob", "parent": "/cms"},
        {"op": "archive", "entry": "/cms/erin"},
        {"op": "add", "parent": "/biomed", "name": "frank", "kind": "user"},
        {"op": "set_policy", "settings": {"window": {"half_life_s": 86400}}},
    )
    answer = eva.get(f"{HISTORY}diff/")
    page, diff = read(answer), answer.context["diff"]
    assert diff.counts == {"moved": 1, "changed": 1, "added": 1, "removed": 1, "kept": diff.counts["kept"]}
    assert diff.settings == [("window.half_life_s", 604_800, 86_400)]
    marks = {"mov": "bob", "chg": "atlas", "add": "frank", "del": "erin"}
    for css, name in marks.items():
        assert page.texts(f"tr:has(.op.{css}) a")[0] == name
        assert page.all(f".op.{css}")[0].attributes["aria-label"], "it has a name for who doesn't see it"
    assert "+15.0" in page.text("tr:has(.op.chg)")  # atlas: 60 to 75 % of the whole
    assert page.texts("[aria-labelledby=settings-title] td") == ["7 d", "1 d"]
    kept = page.one(f"#kept [data-entry='{grid.uid('/biomed')}']")  # it wasn't edited
    assert kept.css("a")[0].attributes["href"] == f"/policy/{SLUG}/n/{grid.uid('/biomed')}/biomed/"
    then = eva.get(f"{HISTORY}diff/", {"from": 3, "to": 2})
    assert (then.context["diff"].before.number, then.context["diff"].after.number) == (3, 2)
    assert all(number in read(then).text("h1") for number in "32")
    assert f"/n/{grid.uid('/atlas')}/atlas/?at=2" in then.content.decode()


def test_targets_before_and_after_are_rounded_for_each_other(grid: Grid, eva: Client) -> None:
    """Rounded alone they were equal, beside a change of their own."""
    tree = load_tree(Policy.objects.get())
    shares = {tree.name[i]: float(tree.shares[i]) for i in tree.children(0)}
    total = sum(shares.values())
    before = 100 * shares["biomed"] / total
    publish(grid, edit("/atlas", shares["atlas"] + total / 5_000))
    after = before / 1.0002
    row = text_of(read(eva.get(f"{HISTORY}diff/")).one(f"#kept [data-entry='{grid.uid('/biomed')}']"))
    assert [part in row for part in (f"{before:.2f}", f"{after:.2f}", f"\u2212{before - round(after, 2):.2f}")] == [
        True,
        True,
        True,
    ], row


def test_a_comparison_of_equal_revisions_is_empty(eva: Client) -> None:
    assert Page(text(eva, f"{HISTORY}diff/", **{"from": 2, "to": 2})).has("[data-testid=no-difference]")
    assert not Page(text(eva, f"{HISTORY}diff/", **{"from": 1, "to": 2})).has("[data-testid=no-difference]")


def test_a_comparison_is_swapped_into_the_page_and_the_address(grid: Grid, eva: Client) -> None:
    publish(grid, edit("/atlas", 77))
    answer = eva.get(f"{HISTORY}_diff", {"from": "2", "to": "3"}, headers={"HX-Request": "true"})
    assert answer.headers["HX-Push-Url"] == f"{HISTORY}diff/?from=2&to=3"
    assert answer.content.decode().lstrip().startswith('<div class="stack" id="diff">')


def test_markup_in_names_and_reasons_is_escaped(grid: Grid, eva: Client) -> None:
    publish(grid, {"op": "lock", "entry": f"/biomed/{TRICKY}"}, reason="<script>alert(1)</script>")
    for path in (HISTORY, f"{HISTORY}diff/", f"{HISTORY}3/undo/"):
        page = text(eva, path)
        assert "<script>alert(1)" not in page
        assert "<img src=x" not in page


def test_visible_changes_are_listed_and_the_rest_is_counted(grid: Grid, lead: Client) -> None:
    publish(grid, edit("/biomed/carol", 7), edit("/atlas/bob", 7))
    page = text(lead, f"{HISTORY}diff/")
    assert ">bob</a>" in page
    assert "carol" not in page
    assert Page(page).item("outside-view").attributes["data-value"] == "1"


def test_the_history_of_an_entry_lists_changes_moves_archiving_and_restoring(grid: Grid, eva: Client) -> None:
    uid = grid.uid("/atlas/bob")
    revision = publish(grid, edit("/atlas/bob", 3), reason="Bob leads.")
    publish(grid, {"op": "move", "entry": "/atlas/bob", "parent": "/cms"})
    publish(grid, {"op": "archive", "entry": str(uid)})
    publish(grid, {"op": "restore", "entry": str(uid)})
    for path in (f"/policy/{SLUG}/n/{uid}/bob/", f"{HISTORY}entry/{uid}/"):
        page = text(eva, path)
        shown = {
            row.attributes["data-revision"]: [
                (node.attributes["data-key"], text_of(node)) for node in row.css("[data-key]")
            ]
            for row in Page(page).all("[data-revision]")
        }
        assert [key for key, _words in shown["3"]] == ["shares"]
        assert re.findall(r"\d+", shown["3"][0][1]) == ["1", "3"]
        assert [key for key, _words in shown["4"]] == ["moved"]
        assert "atlas" in shown["4"][0][1].partition("cms")[0], "from the one to the other"
        assert [key for key, _words in shown["5"] + shown["6"]] == ["archived", "restored"]
        assert "Bob leads." in Page(page).text("[data-revision='3']")
        assert f'href="{HISTORY}diff/?to=3"' in page
        assert f'href="{HISTORY}3/undo/"' in page
        assert f'href="/changes/{revision.change_set_id}/"' in page


def test_the_history_of_an_invisible_entry_is_not_found(grid: Grid, lead: Client) -> None:
    assert lead.get(f"{HISTORY}entry/{grid.uid('/biomed/carol')}/").status_code == 404
    bob = grid.uid("/atlas/bob")
    publish(grid, {"op": "move", "entry": "/biomed/carol", "parent": "/atlas"})
    answer = lead.get(f"{HISTORY}entry/{grid.uid('/atlas/carol')}/")
    assert "biomed" not in answer.content.decode()
    assert [field[1:] for row in answer.context["rows"] for field in row["line"].fields if field[0] == PLACE] == [
        (None, "atlas")
    ]
    assert "atlas" in read(answer).text("[data-key=moved]")
    assert f'href="{HISTORY}2/undo/"' in text(lead, f"{HISTORY}entry/{bob}/")


def test_a_revision_is_undone_by_a_change_set_after_its_preview(grid: Grid, eva: Client) -> None:
    publish(grid, edit("/atlas", 77), reason="Too much.")
    page = Page(text(eva, f"{HISTORY}3/undo/"))
    assert "3" in page.text("h1")
    assert "Too much." in page.text(".page-head p")
    assert page.texts("table.diff th a") == ["atlas"]
    answer = eva.post(f"{HISTORY}3/undo/", {"reason": "It was a mistake."})
    draft = ChangeSet.objects.latest("pk")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/changes/{draft.pk}/")
    assert (draft.state, draft.reverts_number, draft.reason) == ("draft", 3, "It was a mistake.")
    assert load_tree(Policy.objects.get()).number == 3


def test_the_tree_of_a_revision_is_restored_with_or_without_its_settings(grid: Grid, eva: Client) -> None:
    publish(grid, edit("/atlas", 77), {"op": "set_policy", "settings": {"fallback_factor": 0.25}})
    assert Page(text(eva, f"{HISTORY}2/restore/")).has("[name=tree_only]")
    kinds = []
    for form in ({}, {"tree_only": "on"}):
        assert eva.post(f"{HISTORY}2/restore/", form).status_code == 303
        kinds.append([each["op"] for each in ChangeSet.objects.latest("pk").operations])
    assert kinds == [["set_shares", "set_policy"], ["set_shares"]]


def test_an_impossible_draft_names_the_reason_and_keeps_the_input(grid: Grid, eva: Client) -> None:
    answer = eva.post(f"{HISTORY}2/restore/", {"reason": "Please."})
    page = read(answer, 422)
    assert page.error_codes() == ["nothing_to_change"]
    assert page.text("#reason") == "Please."
    assert not page.has("[name=tree_only]"), "no settings differ"


def test_a_revision_partly_outside_the_view_is_not_undone_partially(grid: Grid, lead: Client) -> None:
    publish(grid, edit("/biomed/carol", 7), edit("/atlas/bob", 7))
    answer = lead.post(f"{HISTORY}3/undo/")
    assert read(answer, 403).error_codes() == ["partial_view"]
    assert not ChangeSet.objects.filter(origin="revert").exists()


@pytest.mark.parametrize("path", ["1/undo/", "9/undo/", "9/restore/", "0/restore/", "diff/?from=9", "diff/?to=0"])
def test_unknown_revisions_are_not_found(eva: Client, path: str) -> None:
    answer: Any = eva.get(f"{HISTORY}{path}")
    assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found")
    assert not ChangeSet.objects.filter(origin="revert").exists()


def test_a_person_has_one_name_on_every_page(grid: Grid, eva: Client) -> None:
    """The display name, by which the lists are searched too; logs and REST keep the name of the sign-in."""
    change = publish(grid, edit("/atlas", 77), reason="Atlas grows.").change_set_id
    for address in (HISTORY, "/audit/", f"/changes/{change}/", "/"):
        page = read(eva.get(address))
        assert "Eva Kling" in page.text("main"), address
        assert "admin" not in page.texts("main b, main small, main .avatar"), address
    for address in (f"{HISTORY}?q=kling", "/audit/?who=kling&verb=policy.published"):
        assert "Atlas grows." in text(eva, address), address
