"""The editor by request: its page, the fragments that its script fetches, and what is refused with which status."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core import clock
from apps.policies import services
from apps.policies.changesets import drafts
from apps.policies.models import ChangeSet, Policy, Revision
from tests.examples import first
from tests.pages.grid import SLUG, TRICKY, Grid
from tests.pages.page import Page, names_in, read, text_of
from tests.sign_in import sign_in

HTMX = {"HX-Request": "true"}


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


@pytest.fixture
def draft(admin: Client) -> ChangeSet:
    answer = admin.post(f"/policy/{SLUG}/edit")
    found = ChangeSet.objects.get(state="draft")
    assert (answer.status_code, answer["Location"]) == (303, f"/changes/{found.pk}/edit/")
    return found


def url(draft: ChangeSet, name: str = "") -> str:
    return f"/changes/{draft.pk}/edit/{name}"


def write(
    client: Client,
    draft: ChangeSet,
    place: str = "_operation",
    *,
    version: Any = None,
    headers: Any = None,
    **data: Any,
) -> Any:
    draft.refresh_from_db()
    seen = draft.version if version is None else version
    answer = client.post(url(draft, place), {"version": seen, **data}, headers=headers)
    draft.refresh_from_db()
    return answer


def text(answer: Any) -> str:
    return re.sub(r"\s+", " ", answer.content.decode())


def names_of_operation(page: Page, op: str, *words: str) -> bool:
    """Whether the last edit in the list is of this kind and names all of this."""
    newest = page.all("#edits li[data-op]")[0]
    return newest.attributes["data-op"] == op and names_in(text_of(newest.css_first(".words")), *words)


def test_reading_opens_no_draft(admin: Client) -> None:
    answer = admin.get(f"/policy/{SLUG}/edit")
    assert answer.context["drafts"] == []
    assert read(answer).has(f"form[action='/policy/{SLUG}/edit'] [name=new]")
    assert not read(answer).has("#mine")
    assert not ChangeSet.objects.filter(state="draft").exists()


def test_the_edit_address_continues_the_own_draft(admin: Client, draft: ChangeSet) -> None:
    assert admin.get(f"/policy/{SLUG}/edit")["Location"] == url(draft)
    assert admin.post(f"/policy/{SLUG}/edit")["Location"] == url(draft)
    admin.post(f"/policy/{SLUG}/edit", {"new": "1"})
    assert ChangeSet.objects.filter(state="draft").count() == 2
    page = read(admin.get(f"/policy/{SLUG}/edit?list=1"))
    assert len(page.all("section:has(#mine) ul a")) == 2
    assert not page.has("[data-testid=may-change-nothing]")


def raise_atlas(grid: Grid, shares: int) -> None:
    services.change_shares(
        policy_slug=SLUG, entry_uid=grid.uid("/atlas"), shares=shares, reason="x", at=clock.now(), actor=COMMAND
    )


def test_edit_continues_an_old_draft_only_on_request(admin: Client, grid: Grid, draft: ChangeSet) -> None:
    raise_atlas(grid, 90)
    assert admin.post(f"/policy/{SLUG}/edit")["Location"] == url(draft)
    draft.refresh_from_db()
    assert draft.base_number == 3, "without edits it follows the policy"
    write(admin, draft, op="set_shares", entry=str(grid.uid("/biomed")), shares="50")
    raise_atlas(grid, 91)
    uid = str(grid.uid("/biomed"))
    for ask in (admin.get, admin.post):
        assert ask(f"/policy/{SLUG}/edit", {"entry": uid})["Location"] == f"/policy/{SLUG}/edit?entry={uid}&list=1"
    page = read(admin.get(f"/policy/{SLUG}/edit?entry={uid}&list=1"))
    assert page.each("section:has(#mine) ul a", "href") == [f"{url(draft)}?entry={uid}"]
    assert page.has("[name=new]")
    assert ChangeSet.objects.filter(state="draft").count() == 1


def test_a_user_without_rights_is_refused_with_a_message(grid: Grid, client: Client) -> None:
    sign_in(client, grid.alice)
    page = read(client.get(f"/policy/{SLUG}/edit"))
    assert (page.has("[data-testid=may-change-nothing]"), page.has("[name=new]")) == (True, False)
    assert client.post(f"/policy/{SLUG}/edit").status_code == 403


def test_the_page_shows_every_number_in_a_field_and_the_dialogs_are_fragments(
    admin: Client, draft: ChangeSet, grid: Grid
) -> None:
    page = text(admin.get(url(draft)))
    assert f'id="s-{grid.uid("/atlas")}"' in page
    assert 'value="60"' in page
    assert TRICKY not in page
    uid = grid.uid("/biomed")
    for do in ("menu", "shares", "add", "rename", "move", "archive", "lock", "scope", "dates", "kind"):
        assert admin.get(url(draft, f"_action?entry={uid}&do={do}"), headers=HTMX).status_code == 200, do
    assert admin.get(url(draft, "?entry=nonsense")).status_code == 422


@pytest.mark.parametrize("place", ["", "?view=bars"])
def test_the_page_states_that_it_needs_scripts_and_links_to_what_does_not(
    admin: Client, draft: ChangeSet, place: str
) -> None:
    page = read(admin.get(url(draft, place)))
    assert page.each("noscript a", "href") == [url(draft, "paste/")]
    assert not page.has("main form[method=get]")


def test_an_edit_is_shown_by_the_page(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    uid = str(grid.uid("/atlas"))
    assert write(admin, draft, op="set_shares", entry=uid, shares="50,5", back=f"entry={uid}").status_code == 200
    assert draft.operations == [{"op": "set_shares", "entry": uid, "shares": 50.5}]
    answer = admin.get(f"{url(draft)}?entry={uid}")
    assert names_of_operation(read(answer), "set_shares", "atlas", "50.5")
    assert "60.00</s>" in text(answer), "the target before stands beside the new one"


def test_an_edit_is_answered_with_the_rows_of_its_group(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    uid = str(grid.uid("/atlas"))
    answer = write(admin, draft, op="set_shares", entry=uid, shares="20", headers=HTMX, back="open=")
    assert answer.status_code == 200
    assert answer["ETag"] == f'"{draft.version}"'
    found = text(answer)
    assert re.findall(r'<tr role="row" id="e-([0-9a-f-]+)"', found) == [uid]
    assert {*re.findall(r'<tr data-shifted="([0-9a-f-]+)"', found)} == {
        str(grid.uid(path)) for path in ("/biomed", "/cms")
    }
    assert 'id="some-rows"' in found
    assert 'id="draftbar"' in found
    assert names_of_operation(read(answer), "set_shares", "atlas", "20")


def test_bars_after_an_edit_have_the_scale_of_their_group(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    uid = str(grid.uid("/atlas"))
    parts = read(write(admin, draft, op="set_shares", entry=uid, shares="2", headers=HTMX, back="open="))
    page = read(admin.get(url(draft)))
    for each in (grid.uid(path) for path in ("/atlas", "/biomed", "/cms")):
        (drawn,) = parts.all(f'[data-shifted="{each}"] .c-used svg, #e-{each} .c-used svg')
        (anew,) = page.all(f"#e-{each} .c-used svg")
        assert drawn.html == anew.html


def test_a_structural_edit_reloads_the_whole_view(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    asked = {"entry": str(grid.uid("/atlas/bob")), "parent": str(grid.uid("/cms"))}
    answer = write(admin, draft, op="move", **asked, headers=HTMX)
    assert 'id="rows"' in text(answer)
    assert names_of_operation(read(answer), "move", "bob", "cms")


@pytest.mark.parametrize(
    ("fields", "status", "code", "where"),
    first(
        6,
        [
            ({"op": "set_shares", "shares": "-1"}, 422, "negative", "shares"),
            ({"op": "set_shares", "shares": "many"}, 422, "number", "shares"),
            ({"op": "set_shares", "shares": "101 %"}, 422, "percent", "shares"),
            ({"op": "set_shares", "shares": "5%", "from": "reserve"}, 422, "invalid", "shares"),
            ({"op": "set_shares", "shares": "5", "mode": "percent", "from": "chosen"}, 422, "no_giver", "from"),
            ({"op": "rename", "name": "biomed"}, 422, "name_taken", "name"),
            ({"op": "rename", "name": "a/b"}, 422, "invalid", "name:/"),
            ({"op": "rename", "name": "<b>atlas"}, 422, "invalid", "name:<"),
            ({"op": "rename", "name": "at\u202elas"}, 422, "invalid", "name:U+202E"),
            ({"op": "move"}, 422, "no_parent", "parent"),
            ({"op": "set_dates", "ends_on": "yesterday"}, 422, "invalid", "dates"),
            ({"op": "explode"}, 422, "invalid", "op"),
            ({"op": "rename", "name": "x", "entry": "00000000-0000-4000-8000-000000000000"}, 404, "not_found", ""),
        ],
    ),
)
def test_a_refused_edit_names_the_remedy_and_changes_nothing(
    admin: Client, draft: ChangeSet, grid: Grid, fields: dict[str, str], status: int, code: str, where: str
) -> None:
    asked, (field, _colon, quoted) = {"entry": str(grid.uid("/atlas")), **fields}, where.partition(":")
    answer = write(admin, draft, **asked)
    refused = read(answer, status).one("#refused")
    assert (refused.attributes["data-code"], refused.attributes["data-field"]) == (code, field)
    shown = text_of(refused.css_first(".words"))
    assert len(shown) > len(quoted)
    assert quoted in shown, "the letter that may not be there"
    assert "operations[" not in text(answer), "nobody on a page has numbered anything"
    assert draft.operations == []


def test_a_cycle_is_refused_with_a_message(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    asked = {"op": "move", "entry": str(grid.uid("/atlas")), "parent": str(grid.uid("/atlas/bob"))}
    refused = read(write(admin, draft, **asked), 422).one("#refused").attributes
    assert (refused["data-code"], refused["data-field"]) == ("cycle", "parent")
    assert draft.operations == []


def test_every_write_sends_the_version_it_read(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    asked = {"op": "set_shares", "entry": str(grid.uid("/atlas")), "shares": "1", "step": "undo"}
    for name in ("_operation", "_log", "_update", "_finish", "paste/", "settings/"):
        assert admin.post(url(draft, name), asked).status_code == 428, name
    assert write(admin, draft, version="", headers={"If-Match": '"1"'}, **asked).status_code == 200
    assert len(draft.operations) == 1


def test_a_stale_version_is_answered_with_both_values(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    asked = {"op": "set_shares", "entry": str(grid.uid("/atlas")), "shares": "1"}
    write(admin, draft, op="set_shares", entry=str(grid.uid("/atlas")), shares="7")
    answer = write(admin, draft, version=1, **asked)
    page = read(answer, 412)
    assert page.one("#refused").attributes["data-code"] == "stale"
    assert re.fullmatch(r"\D*\batlas\b\D*\b1\b\D*", page.text("[data-testid=mine]"))
    assert re.fullmatch(r"\D*/atlas\b\D*\b7\b\D*", page.text("[data-testid=theirs]"))
    assert f'name="version" value="{draft.version}"' in text(answer)
    assert draft.operations[-1]["shares"] == 7.0


def test_percent_is_taken_from_the_chosen_siblings(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    asked = {"op": "set_shares", "entry": str(grid.uid("/atlas")), "shares": "65", "mode": "percent", "from": "chosen"}
    write(admin, draft, **asked, giver=[str(grid.uid("/cms"))])
    answer = admin.get(url(draft, f"?entry={grid.uid('/atlas')}&mode=percent"))
    assert names_of_operation(read(answer), "set_shares", "atlas", "65.00", "cms")
    page = text(answer)
    assert 'value="65"' in page
    assert 'value="30"' in page, "biomed keeps its part"


def test_undo_redo_and_exclude_are_forms(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    for value in ("1", "2"):
        write(admin, draft, op="set_shares", entry=str(grid.uid("/atlas")), shares=value)
    write(admin, draft, "_log", step="undo")
    assert [each["shares"] for each in draft.operations] == [1.0]
    write(admin, draft, "_log", step="redo")
    write(admin, draft, "_log", step="drop", index="0")
    assert [each["shares"] for each in draft.operations] == [2.0]
    assert write(admin, draft, "_log", step="redo", n="5").status_code == 422
    write(admin, draft, "_log", step="reason", reason="Autumn shares\nmore")
    page = text(admin.get(url(draft)))
    assert "Autumn shares" in page, "the reason is kept"
    assert "→ 2 shares ·" in page, "and the edit is the title"


def test_fragments_opened_directly_lead_to_the_page(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    for name in ("_rows", "_panel", "_effect", "_group", "_action", "_operation", "_log", "_update", "_finish"):
        answer = admin.get(url(draft, name))
        assert (answer.status_code, answer["Location"]) == (303, url(draft)), name


def test_possible_parents_are_found_and_others_have_a_reason(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    address = url(draft, f"_action?entry={grid.uid('/atlas/bob')}&do=move&to=")
    found = read(admin.get(address + "cms", headers=HTMX))
    assert found.each("#goals input:not([disabled])", "value") == [str(grid.uid("/cms"))]
    assert "/cms" in found.text("#goals")
    assert "/biomed" not in found.text("#goals")
    own = read(admin.get(url(draft, f"_action?entry={grid.uid('/atlas')}&do=move&to=alice"), headers=HTMX))
    assert own.each("#goals input[disabled]", "value") == [str(grid.uid("/atlas/alice"))]
    assert own.text("#goals small"), "the reason"


def test_a_draft_is_published_directly_with_a_reason(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    write(admin, draft, op="set_shares", entry=str(grid.uid("/atlas")), shares="50")
    assert read(admin.get(url(draft))).has("#finish-publish")
    assert read(write(admin, draft, "_finish", step="publish", reason=""), 422).error_codes() == ["reason_missing"]
    answer = write(admin, draft, "_finish", step="publish", reason="Agreed in the board.")
    assert (answer.status_code, answer["Location"]) == (303, f"/changes/{draft.pk}/")
    assert draft.state == "published"
    assert Revision.objects.latest("number").reason == "Agreed in the board."
    assert "3" in read(admin.get(answer["Location"])).text("#problem .published-3")
    assert admin.get(url(draft)).status_code == 200, "a closed draft can still be read"
    assert not read(admin.get(url(draft))).has("#finish-publish")


def test_the_own_last_publication_is_undone_in_one_step(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    write(admin, draft, op="set_shares", entry=str(grid.uid("/atlas")), shares="50")
    write(admin, draft, "_finish", step="publish", reason="Oops.")
    assert read(admin.get(f"/policy/{SLUG}/")).each("form:has(#undo-publish) [name=number]", "value") == ["3"]
    answer = admin.post(f"/policy/{SLUG}/undo", {"number": "3"})
    assert (answer.status_code, answer["Location"]) == (303, f"/policy/{SLUG}/")
    tree = grid.tree
    assert tree.shares[tree.index_of_path("/atlas") or 0] == 60
    last = Revision.objects.latest("number")
    assert (last.number, last.change_set.reverts_number) == (4, 3)
    assert names_in(last.reason, "3")
    again = admin.post(f"/policy/{SLUG}/undo", {"number": "3"})
    assert (again.status_code, again["Location"].startswith("/changes/")) == (303, True)
    tags = [message.extra_tags for message in admin.get(again["Location"]).context["messages"]]
    assert tags[-1] == "nothing_to_change"
    assert Revision.objects.latest("number").number == 4


def test_what_was_archived_before_can_be_restored(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    bob, atlas = grid.uid("/atlas/bob"), grid.uid("/atlas")
    choice, asked = "[name=entry][type=radio]", f"_action?entry={atlas}&do=restore"
    page = read(admin.get(url(draft, asked), headers=HTMX))
    assert (page.has("[name=op][value=restore]"), page.has(choice)) == (True, False)
    write(admin, draft, op="archive", entry=str(bob))
    write(admin, draft, "_finish", step="publish", reason="Left.")
    admin.post(f"/policy/{SLUG}/edit")
    later = ChangeSet.objects.get(state="draft")
    assert read(admin.get(url(later, asked), headers=HTMX)).each(choice, "value") == [str(bob)]
    assert write(admin, later, op="restore", entry=str(bob), parent=str(atlas)).status_code == 200
    assert later.operations[0]["name"] == "bob"


def test_the_pages_of_settings_put_them_in_a_draft(admin: Client, draft: ChangeSet) -> None:
    typed = {"algorithm": "slurm-fair-tree", "step": "draft"}
    assert admin.post(f"/policy/{SLUG}/algorithm/", typed)["Location"] == url(draft)
    window = {"aging": "exponential", "half_life_s": "2 d", "length_s": "30 d", "step": "draft"}
    assert admin.post(f"/policy/{SLUG}/decay/", window)["Location"] == url(draft)
    draft.refresh_from_db()
    assert [list(each["settings"]) for each in draft.operations] == [["algorithm"], ["window"]]
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_discarding_a_draft_changes_nothing(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    write(admin, draft, op="archive", entry=str(grid.uid("/atlas")))
    write(admin, draft, "_finish", step="withdraw")
    assert draft.state == "withdrawn"
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_the_address_contains_only_the_state_of_the_page(draft: ChangeSet, grid: Grid) -> None:
    """With and without the state that a form carries along; the token is checked as in a browser."""
    client = Client(enforce_csrf_checks=True)
    sign_in(client, grid.admin)
    page = client.get(f"{url(draft)}?mode=percent&x=y").content.decode()
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert found is not None
    sent = {"csrfmiddlewaretoken": found[1], "version": draft.version, "password": "x", "mode": "percent"}
    for more in ({}, {"back": f"mode=percent&csrfmiddlewaretoken={found[1]}&x=y"}):
        answer = client.post(url(draft, "_update"), {**sent, **more})
        assert (answer.status_code, answer["Location"]) == (303, f"{url(draft)}?mode=percent")
        draft.refresh_from_db()
        sent["version"] = draft.version


def test_an_outdated_draft_is_rebased_by_choices(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    uid = grid.uid("/atlas")
    write(admin, draft, op="set_shares", entry=str(uid), shares="50")
    services.change_shares(policy_slug=SLUG, entry_uid=uid, shares=55, reason="Meanwhile.", at=grid.at, actor=COMMAND)
    assert read(admin.get(url(draft))).item("policy-moved").attributes["data-value"] == "1"
    assert read(write(admin, draft, "_update"), 409).has(f"[name='choice-{uid}:shares'][value=mine]")
    assert write(admin, draft, "_update", **{f"choice-{uid}:shares": "mine"}).status_code == 303
    assert (draft.base_number, draft.operations[0]["shares"]) == (3, 50.0)


def test_a_pasted_table_is_previewed_and_errors_are_listed_by_line(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    table = "path\tshares\tkind\n/atlas\t70\tvo\n/cms/zoe\t2\tuser\n"
    page = read(write(admin, draft, "paste/", table=table, step="preview"))
    assert page.each("tr[data-op]", "data-op") == ["set_shares", "add"]
    assert "2" in page.text("#preview-title")
    assert names_in(page.text("tr[data-op=add] th"), "zoe", "cms", "2")
    assert draft.operations == []
    page = read(write(admin, draft, "paste/", table="/atlas\t-1\n/biomed\tx\n", step="apply"), 422)
    assert page.error_codes() == ["bad_document"]
    assert len(page.all("#paste-problems li")) == 2
    long = f"/cms/zoe\t1\n/cms/{'x' * 180}\t1\n/big0/u\t2\n"
    page = read(write(admin, draft, "paste/", table=long, step="preview"), 422)
    assert page.text("#paste-problems").endswith("Line 2 : Name too long (180 of 128 characters).")
    page = read(write(admin, draft, "paste/", table="/big0/u\t2\n", step="preview"), 422)
    assert page.text("#paste-problems").endswith("Line 1 : Parent /big0 doesn’t exist. Add a row for it.")
    answer = write(admin, draft, "paste/", table=table, step="apply")
    assert (answer.status_code, len(draft.operations)) == (303, 2)
    assert read(write(admin, draft, "paste/", table=table, step="apply")).has("[data-testid=nothing-to-paste]")
    assert not page.has("[data-testid=nothing-to-paste]")


def test_a_table_of_more_edits_than_a_draft_holds_is_refused_before_they_are_checked(
    admin: Client, draft: ChangeSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.policies.files.import_export.MOST_APPLIED_OPERATIONS", 1)
    checked: list[int] = []

    def check(draft: ChangeSet, operations: list[Any], *rest: Any) -> Any:
        checked.append(len(operations))
        return drafts.check_operations(draft, operations, *rest)

    monkeypatch.setattr("apps.policies.files.import_export.check_operations", check)
    page = read(write(admin, draft, "paste/", table="/atlas\t70\n/biomed\t20\n", step="preview"), 413)
    assert "A draft holds at most 1 edits" in page.text("main")
    assert checked == [0], "only the draft as it was"


def test_settings_become_an_edit(admin: Client, draft: ChangeSet) -> None:
    page = text(admin.get(url(draft, "settings/")))
    fields = dict(re.findall(r'name="((?:weight|fallback|tolerance)_\w+)" value="([^"]*)"', page))
    typed = {**fields, "approach_local": "active", "approach_global": "historical", "class_factors": ", , debug, 0.5"}
    typed |= {"leaf_relative": "50", "leaf_points": ""}
    assert write(admin, draft, "settings/", **{**typed, "fallback_factor": "2"}).status_code == 422
    assert write(admin, draft, "settings/", **{**typed, "class_factors": "a, b"}).status_code == 422
    assert write(admin, draft, "settings/", **typed).status_code == 303
    changed = draft.operations[0]["settings"]
    assert changed["approach"]["local"] == "active"
    assert changed["metric"]["class_factors"] == [{"queue": "", "partition": "", "qos": "debug", "factor": 0.5}]
    assert changed["tolerance"] == {"relative": 0.1, "points": 0.5, "leaves": {"relative": 0.5, "points": 0.5}}
    assert set(changed) == {"approach", "metric", "tolerance"}
    assert read(admin.get(url(draft))).each("#edits li[data-op]", "data-op") == ["set_policy"]


def test_the_draft_of_another_user_is_not_found(grid: Grid, draft: ChangeSet, client: Client) -> None:
    sign_in(client, grid.alice)
    answers = [client.get(url(draft, name), headers=HTMX) for name in ("", "_rows", "_panel", "paste/", "settings/")]
    asked = {"op": "archive", "entry": str(grid.uid("/atlas"))}
    for name in ("_operation", "_log", "_update", "_finish", "paste/", "settings/"):
        answers += [write(client, draft, name, **asked, step="undo"), client.post(url(draft, name), asked)]
    for answer in answers:
        assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found"), answer.wsgi_request.path
    draft.refresh_from_db()
    assert (draft.state, draft.operations, draft.version) == ("draft", [], 1)


def test_other_editors_of_the_same_entry_are_named(grid: Grid, admin: Client, draft: ChangeSet) -> None:
    at, eva = clock.now(), Actor(user=User.objects.create_superuser("second", "", "x"), via="page")
    other = drafts.open_draft(policy_slug=SLUG, reason="Rename", at=at, actor=eva)
    operation = {"op": "set_shares", "entry": str(grid.uid("/atlas")), "shares": 3}
    drafts.add_operations(id=other.pk, version=1, operations=[operation], at=at, actor=eva)
    write(admin, draft, op="set_shares", entry=str(grid.uid("/atlas")), shares="5")
    assert names_in(read(admin.get(url(draft))).text("#neighbours"), "second", "atlas", "→ 3 shares")


def test_submitting_redirects_to_the_review_page(admin: Client, draft: ChangeSet, grid: Grid) -> None:
    assert write(admin, draft, "_finish", step="propose", reason="Look.").status_code == 422, "nothing to hand in yet"
    write(admin, draft, op="set_shares", entry=str(grid.uid("/atlas")), shares="50")
    answer = write(admin, draft, "_finish", step="propose", reason="Look.")
    assert (answer.status_code, answer["Location"]) == (303, f"/changes/{draft.pk}/")
    assert admin.get(answer["Location"]).status_code == 200
    assert draft.state == "proposed"


def test_page_and_scripts_show_shares_with_the_same_decimals(admin: Client, grid: Grid, draft: ChangeSet) -> None:
    write(admin, draft, op="set_shares", entry=str(grid.uid("/cms")), shares="7")
    tree, bars = read(admin.get(url(draft))), read(admin.get(url(draft), {"view": "bars"}))
    decimals = json.loads(text_of(bars.one("#group-numbers")))["decimals"]
    cells = [text for page in (tree, bars) for text in page.texts("tr .c-target, tr .c-used, tr .used .num, tr .bal")]
    shown = [number for text in cells for number in re.findall(r"\d+(?:\.\d+)?", text)]
    assert len(shown) > 10
    assert {len(number.partition(".")[2]) for number in shown} == {decimals}
