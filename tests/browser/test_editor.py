"""A manager edits, undoes and publishes: with the mouse, with the keyboard alone, and by touch."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Page, Route, expect

from apps.accounts.actor import COMMAND, Actor
from apps.core import clock
from apps.policies import services
from apps.policies.changesets import drafts
from apps.policies.models import ChangeSet, Policy, Revision
from tests.browser.conftest import Open, Visit, in_windows_of_all
from tests.pages.grid import PASSWORD, SLUG, Grid

FOCUS = "document.activeElement.id || document.activeElement.closest('tr')?.id || document.activeElement.tagName"


@pytest.fixture
def draft(grid: Grid) -> ChangeSet:
    actor = Actor(user=grid.admin, via="page")
    return drafts.open_draft(policy_slug=SLUG, reason="Autumn shares", at=clock.now(), actor=actor)


@pytest.fixture
def window(visit: Open, draft: ChangeSet) -> Visit:
    opened = visit()
    opened.sign_in()
    opened.go(f"/changes/{draft.pk}/edit/")
    return opened


@pytest.fixture
def page(window: Visit) -> Page:
    return window.page


def cell(page: Page, grid: Grid, path: str) -> Any:
    return page.locator(f"#s-{grid.uid(path)}")


def row(page: Page, grid: Grid, path: str) -> Any:
    return page.locator(f"#e-{grid.uid(path)}")


def stored(draft: ChangeSet) -> list[dict[str, Any]]:
    draft.refresh_from_db()
    return list(draft.operations)


def saved(page: Page, n: int) -> None:
    expect(page.locator("#draftbar")).to_have_attribute("data-edits", str(n))
    expect(page.locator("#n-edits")).to_contain_text(str(n))


def test_a_panel_that_comes_late_keeps_the_typed_reason(page: Page, grid: Grid, draft: ChangeSet) -> None:
    late: list[Route] = []
    page.route("**/_panel?*", lambda route: late.append(route))
    with page.expect_request("**/_panel?*"):
        cell(page, grid, "/cms").focus()
    page.fill("#id_reason", "Half the machine")
    page.keyboard.type(" goes to cms")
    # From here on: the field may also lose the focus to the panel that comes, and is sent then.
    with page.expect_response(lambda answer: "goes+to+cms" in (answer.request.post_data or "")):
        page.unroute("**/_panel?*")  # continues those that are held
        expect(page.locator("#panel")).to_contain_text("cms")
        expect(page.locator("#id_reason")).to_have_value("Half the machine goes to cms")
        expect(page.locator("#id_reason")).to_be_focused()
        page.keyboard.press("Tab")
    draft.refresh_from_db()
    assert draft.reason == "Half the machine goes to cms"


@pytest.mark.deep
def test_a_manager_edits_undoes_and_publishes_with_the_mouse(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/")
    page.click("#edit")
    expect(page.locator("#editor")).to_be_visible()
    draft = ChangeSet.objects.get(state="draft")
    cell(page, grid, "/atlas").fill("50,5")
    cell(page, grid, "/biomed").click()
    saved(page, 1)
    expect(row(page, grid, "/atlas").locator(".c-target")).to_have_text("60.00 to 55.80\u00a0%")
    expect(row(page, grid, "/biomed")).to_have_class("shifted")
    assert page.evaluate(FOCUS) == f"s-{grid.uid('/biomed')}", "focus stays where the next number is typed"
    row(page, grid, "/atlas/bob").locator(".c-menu button").click()
    page.click("#action-dialog [data-do$='do=move']")
    page.fill("#goal", "cms")
    expect(page.locator("#goals label")).to_have_count(1)
    page.locator("#goals label").click()
    page.click("form:has([name=op][value=move]) button[type=submit]")
    saved(page, 2)
    expect(page.locator("#action-dialog")).not_to_be_visible()
    page.click("#undo")
    saved(page, 1)
    page.click("#redo")
    saved(page, 2)
    page.click("#to-finish")
    page.fill("#id_reason", "Agreed in the board.")
    page.click("#finish-publish")
    expect(page.locator("#problem .published-3")).to_contain_text("3")
    assert Revision.objects.get(policy__slug=SLUG, number=3).reason == "Agreed in the board."
    assert [each["op"] for each in stored(draft)] == ["set_shares", "move"]


def test_the_editor_works_by_keyboard(grid: Grid, page: Page, draft: ChangeSet) -> None:
    row(page, grid, "/atlas").focus()
    page.keyboard.press("F2")
    assert page.evaluate(FOCUS) == f"s-{grid.uid('/atlas')}"
    page.keyboard.type("40")
    page.keyboard.press("Enter")
    saved(page, 1)
    expect(page.locator("#status")).to_contain_text("atlas")  # announced to screen readers
    assert page.evaluate(FOCUS) == f"s-{grid.uid('/biomed')}", "Enter saves and goes to the next sibling"
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(FOCUS) == f"s-{grid.uid('/atlas/alice')}", "an arrow goes by rows"
    page.keyboard.type("9")
    page.keyboard.press("Escape")
    assert page.evaluate(FOCUS) == f"e-{grid.uid('/atlas/alice')}"
    expect(cell(page, grid, "/atlas/alice")).to_have_value("1")
    page.keyboard.press("Control+z")
    saved(page, 0)
    page.keyboard.press("Control+Shift+z")
    saved(page, 1)
    page.keyboard.press("Alt+Shift+ArrowLeft")
    saved(page, 2)
    assert page.evaluate(FOCUS) == f"e-{grid.uid('/atlas/alice')}", "the row is moved, and the focus with it"
    expect(row(page, grid, "/atlas/alice")).to_have_attribute("aria-level", "2")
    page.keyboard.press(".")
    expect(page.locator("#action-dialog")).to_be_visible()
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#action-title")).to_contain_text("alice")
    expect(page.locator("#action-dialog [name=op]")).to_have_value("rename")
    page.keyboard.type("alice the first")
    page.keyboard.press("Enter")
    saved(page, 3)
    expect(page.locator("#action-dialog")).not_to_be_visible()
    assert page.evaluate("document.activeElement.tagName") != "BODY"
    assert [each["op"] for each in stored(draft)] == ["set_shares", "move", "rename"]
    page.focus("#id_reason")
    page.keyboard.type("By hand.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#problem .published-3")).to_contain_text("3")


def test_undo_in_a_cell_reverts_saved_values_and_leaves_typed_text_to_the_browser(
    grid: Grid, page: Page, draft: ChangeSet
) -> None:
    before = cell(page, grid, "/atlas").input_value()
    cell(page, grid, "/atlas").fill("130")
    page.keyboard.press("Enter")
    saved(page, 1)
    assert page.evaluate(FOCUS) == f"s-{grid.uid('/biomed')}"
    page.keyboard.type("9")
    page.keyboard.press("Control+z")
    expect(cell(page, grid, "/biomed")).to_have_value("30")
    saved(page, 1)
    page.keyboard.press("Control+z")
    saved(page, 0)
    expect(cell(page, grid, "/atlas")).to_have_value(before)
    assert stored(draft) == []


def test_typing_shows_targets_and_ranks_of_the_group_without_saving(grid: Grid, page: Page, draft: ChangeSet) -> None:
    cell(page, grid, "/cms").click()
    expect(page.locator("#picked-name")).to_have_text("cms")
    cell(page, grid, "/cms").press("End")
    cell(page, grid, "/cms").press_sequentially("0", delay=20)  # 100
    expect(row(page, grid, "/cms").locator(".c-target b")).to_have_text("52.63\u00a0%")
    expect(row(page, grid, "/atlas").locator(".c-target b")).to_have_text("31.58\u00a0%")
    expect(page.locator("#picked-facts [data-fact=target] b")).to_have_text("52.63\u00a0%")
    expect(page.locator("#picked-shares")).to_have_value("100")
    expect(page.locator("#effect-change")).not_to_be_empty()
    assert stored(draft) == []
    page.keyboard.press("Escape")
    expect(row(page, grid, "/cms").locator(".c-target")).to_have_text("10.00\u00a0%")


def test_the_field_of_the_panel_takes_shares_and_percentages_and_says_what_it_refuses(
    grid: Grid, page: Page, draft: ChangeSet
) -> None:
    row(page, grid, "/cms").focus()
    page.keyboard.press(" ")
    field = page.locator("#picked-shares")
    field.fill("a lot")
    field.press("Enter")
    expect(page.locator("#picked-problem")).to_have_text("Enter a number (20 or 0.5) or a percentage.")
    expect(field).to_have_value("a lot")
    field.fill("25 %")
    field.press("Enter")
    saved(page, 1)
    expect(cell(page, grid, "/cms")).to_have_value("30")
    expect(page.locator("#picked-facts [data-fact=target]")).to_have_text("10.00 to 25.00\u00a0%")
    expect(page.locator("#picked-problem")).to_be_empty()


@pytest.mark.deep
def test_publishing_without_a_reason_marks_its_field_and_loses_nothing(
    grid: Grid, page: Page, draft: ChangeSet
) -> None:
    for view in ("tree", "bars"):
        page.locator(f"#views [data-view={view}]").click()
        expect(page.locator(f"#editor[data-view={view}]")).to_be_visible()
        page.fill("#id_reason", "")
        cell(page, grid, "/atlas").fill("45")
        cell(page, grid, "/atlas").press("Enter")
        saved(page, 1)
        page.click("#finish-publish")
        expect(page.locator("#reason-problem")).to_have_text("Enter a reason to publish.")
        expect(page.locator("#id_reason")).to_be_focused()
        expect(page.locator(f"#editor[data-view={view}]")).to_be_visible()
        expect(page.locator("#refused")).to_have_count(0)
        expect(cell(page, grid, "/atlas")).to_have_value("45")
    assert Policy.objects.get(slug=SLUG).head_number == 2
    page.fill("#id_reason", "Agreed.")
    expect(page.locator("#reason-problem")).to_be_empty()
    page.click("#finish-publish")
    expect(page.locator("#problem .published-3")).to_be_visible()


def test_a_refused_publication_says_why_on_its_form(grid: Grid, page: Page, draft: ChangeSet) -> None:
    cell(page, grid, "/atlas").fill("20")
    cell(page, grid, "/atlas").press("Enter")
    saved(page, 1)
    page.fill("#id_reason", "Half the machine goes to biomed.")
    page.locator("#id_reason").blur()
    expect(page.locator("#draftbar")).to_have_attribute("data-version", "3")  # the reason is saved
    drafts.describe_draft(
        id=draft.pk,
        version=ChangeSet.objects.get(pk=draft.pk).version,
        reason="Theirs.",
        at=clock.now(),
        actor=Actor(user=grid.admin, via="page"),
    )
    page.click("#finish-publish")
    refused = page.locator("#finish-form #refused")
    expect(refused).to_have_attribute("data-code", "stale")
    expect(refused).to_be_focused()
    expect(refused.locator("form")).to_have_count(0)
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_another_view_keeps_the_entry_the_edits_and_what_is_typed(grid: Grid, page: Page, draft: ChangeSet) -> None:
    cell(page, grid, "/biomed").fill("20")
    cell(page, grid, "/biomed").press("Enter")
    saved(page, 1)
    cell(page, grid, "/cms").fill("a lot")
    page.locator("#views [data-view=treemap]").click()
    expect(page.locator("#stage .pull-svg.map")).to_be_visible()
    expect(page.locator("#picked-name")).to_have_text("cms")
    expect(cell(page, grid, "/cms")).to_have_value("a lot")
    expect(cell(page, grid, "/cms")).to_have_attribute("aria-invalid", "true")
    expect(cell(page, grid, "/biomed")).to_have_value("20")
    page.locator("#views [data-view=bars]").click()
    expect(page.locator("#stage .pull-svg.h")).to_be_visible()
    expect(cell(page, grid, "/cms")).to_have_value("a lot")
    cell(page, grid, "/cms").press("Escape")
    cell(page, grid, "/atlas").click()
    page.locator("#views [data-view=tree]").click()
    expect(row(page, grid, "/atlas")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#picked-name")).to_have_text("atlas")
    assert [each["shares"] for each in stored(draft)] == [20.0]


@pytest.mark.product
def test_ranks_and_days_are_the_same_in_three_views(grid: Grid, page: Page, draft: ChangeSet) -> None:
    cell(page, grid, "/biomed").fill("200")
    cell(page, grid, "/biomed").press("Enter")
    saved(page, 1)
    shown = []
    for view in ("tree", "bars", "treemap"):
        page.locator(f"#views [data-view={view}]").click()
        expect(page.locator("#editor[data-known]:not([data-asking])")).to_be_attached(timeout=30_000)
        place = "#e-" if view == "tree" else "#members tr[data-uid='"
        end = "" if view == "tree" else "']"
        rows = [page.locator(f"{place}{grid.uid(path)}{end}") for path in ("/atlas", "/biomed", "/cms")]
        cells = [[each.locator(cell).inner_text() for cell in (".c-target", ".c-ranks", ".c-when")] for each in rows]
        shown.append([cells, page.locator("#lead").inner_text(), page.locator("#effect-list").inner_text()])
    assert shown[0] == shown[1] == shown[2]
    assert "change rank" in shown[0][1]


def test_hundreds_of_pasted_rows_are_announced_while_they_are_checked_and_sent_once(
    grid: Grid, page: Page, draft: ChangeSet
) -> None:
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method) if request.url.endswith("paste/") else None)
    page.click("a[href$='paste/']")
    table = "path\tshares\n" + "".join(f"/cms/user{n}\t1\n" for n in range(600))
    page.locator("#table").evaluate("(field, text) => { field.value = text; }", table)
    announced = page.evaluate(
        """() => {
          for (const _ of [1, 2]) document.querySelector("button[value=preview]").click();
          const work = document.querySelector("button[value=preview] + .work");
          const [bar, words] = work.children;
          return [work.checkVisibility(), bar.hasAttribute("value"), words.textContent];
        }"""
    )
    assert announced == [True, False, "Checking 601 rows…"]
    expect(page.locator("#preview-title")).to_contain_text("600 edits")
    assert sent == ["GET", "POST"]
    page.locator("button[value=apply]").click()
    expect(page.locator("#draftbar")).to_have_attribute("data-edits", "600")
    assert len(stored(draft)) == 600


def test_an_invalid_number_stays_in_its_field_with_a_reason(grid: Grid, page: Page, draft: ChangeSet) -> None:
    field = cell(page, grid, "/atlas")
    field.fill("-4")
    field.press("Enter")
    expect(page.locator("#problem #cell-problem .words")).not_to_be_empty()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_value("-4")
    field.fill("4")
    field.press("Enter")
    saved(page, 1)
    expect(page.locator("#problem")).to_be_empty()


def test_an_entry_is_moved_by_dragging_and_an_invalid_target_has_a_reason(
    grid: Grid, page: Page, draft: ChangeSet
) -> None:
    grip = row(page, grid, "/atlas/bob").locator(".grip").bounding_box()
    goal = row(page, grid, "/biomed").bounding_box()
    own = row(page, grid, "/atlas").locator(".grip").bounding_box()
    child = row(page, grid, "/atlas/alice").bounding_box()

    def drag(start: Any, end: Any) -> None:
        page.mouse.move(start["x"] + 8, start["y"] + 8)
        page.mouse.down()
        page.mouse.move(start["x"] + 20, start["y"] + 20)
        page.mouse.move(end["x"] + 60, end["y"] + 10)

    drag(own, child)
    expect(page.locator(".dragnote")).to_have_text("is inside it")
    page.mouse.up()
    drag(grip, goal)
    expect(page.locator(".dragnote")).to_have_text("Into biomed")
    page.mouse.up()
    saved(page, 1)
    assert stored(draft)[0]["parent"] == str(grid.uid("/biomed"))


OFFLINE = ("ERR_INTERNET_DISCONNECTED", "htmx:sendError", "htmx:afterRequest", "script error: undefined")


def test_edits_made_offline_are_queued_and_sent(grid: Grid, window: Visit, draft: ChangeSet) -> None:
    page = window.page
    page.context.set_offline(True)
    for path, value in (("/atlas", "1"), ("/biomed", "2")):
        cell(page, grid, path).fill(value)
        cell(page, grid, path).press("Enter")
    expect(page.locator("#saved.waiting")).to_contain_text("2")
    assert stored(draft) == []
    page.context.set_offline(False)
    page.evaluate("window.dispatchEvent(new Event('online'))")
    saved(page, 2)
    assert [each["shares"] for each in stored(draft)] == [1.0, 2.0]
    window.complaints[:] = [each for each in window.complaints if not any(word in each for word in OFFLINE)]


@pytest.mark.deep
def test_two_windows_on_one_draft_show_both_values(grid: Grid, page: Page, draft: ChangeSet) -> None:
    actor = Actor(user=grid.admin, via="page")
    operation = {"op": "set_shares", "entry": str(grid.uid("/atlas")), "shares": 7}
    drafts.add_operations(id=draft.pk, version=1, operations=[operation], at=clock.now(), actor=actor)
    cell(page, grid, "/atlas").fill("9")
    cell(page, grid, "/atlas").press("Enter")
    panel = page.locator("#problem .stale")
    expect(panel.locator("[data-testid=mine]")).to_have_text(re.compile(r"\batlas\b.*\b9\b"))
    expect(panel.locator("[data-testid=theirs]")).to_have_text(re.compile(r"/atlas\b.*\b7\b"))
    assert [each["shares"] for each in stored(draft)] == [7.0], "nothing was overwritten"
    panel.locator("form[data-mine] button").click()
    saved(page, 2)
    assert page.evaluate(FOCUS) == f"e-{grid.uid('/atlas')}", "the question is gone, and its entry has the focus"
    assert [each["shares"] for each in stored(draft)] == [7.0, 9.0]


@pytest.mark.deep
def test_an_outdated_draft_is_rebased_with_a_choice(grid: Grid, page: Page, draft: ChangeSet) -> None:
    cell(page, grid, "/atlas").fill("9")
    cell(page, grid, "/atlas").press("Enter")
    saved(page, 1)
    services.change_shares(
        policy_slug=SLUG,
        entry_uid=grid.uid("/atlas"),
        shares=55,
        reason="Meanwhile.",
        at=clock.now(),
        actor=COMMAND,
    )
    page.reload()
    page.click("#update")
    expect(page.locator("#conflicts")).to_contain_text("/atlas")
    page.get_by_role("radio").first.check()
    page.click("#conflicts button[type=submit]")
    expect(page.locator("#draftbar")).to_have_attribute("data-base", "3")
    expect(page.locator("#conflicts")).to_have_count(0)
    assert stored(draft)[0]["shares"] == 9.0


def test_focus_is_kept_after_every_swap(grid: Grid, page: Page, draft: ChangeSet) -> None:
    page.locator("#filter").press_sequentially("bio")
    expect(page.locator("#rows")).to_have_attribute("data-matches", "1")
    assert page.evaluate(FOCUS) == "filter"
    page.fill("#filter", "")
    expect(row(page, grid, "/atlas/bob")).to_be_visible()
    row(page, grid, "/atlas/bob").focus()
    page.keyboard.press(" ")
    expect(page.locator("#panel h2").first).to_have_text("bob")
    assert page.evaluate(FOCUS) == f"e-{grid.uid('/atlas/bob')}"
    page.keyboard.press("F2")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    saved(page, 1)
    focused = page.evaluate(FOCUS)
    assert focused.startswith("s-")
    page.locator("#undo").focus()
    page.keyboard.press("Enter")
    saved(page, 0)
    assert page.evaluate(FOCUS) == "undo"
    page.locator("#id_reason").fill("Because")
    page.locator("#id_reason").press("Shift+Tab")
    expect(page.locator(".draftbar .title")).to_have_text("Because")
    expect(page.locator("#finish-withdraw")).to_be_focused()


@in_windows_of_all
def test_the_editor_is_accessible_in_both_themes_and_widths(
    grid: Grid, draft: ChangeSet, visit: Open, theme: str, width: int
) -> None:
    actor = Actor(user=grid.admin, via="page")
    operations: list[dict[str, Any]] = [
        {"op": "set_shares", "entry": "/atlas", "shares": 45},
        {"op": "add", "parent": "/", "name": "spare", "kind": "reserve", "shares": 0},
        {"op": "move", "entry": "/cms/dave", "parent": "/atlas"},
        {"op": "archive", "entry": "/cms/erin"},
    ]
    for version, operation in enumerate(operations, start=1):
        drafts.add_operations(id=draft.pk, version=version, operations=[operation], at=clock.now(), actor=actor)
    window = visit(theme=theme, width=width)
    window.sign_in()
    uid = grid.uid("/atlas")
    for place in ("", f"?entry={uid}&mode=percent", f"?view=treemap&entry={uid}", "paste/", "settings/"):
        window.go(f"/changes/{draft.pk}/edit/{place}")
        assert window.axe() == [], place
        assert window.overflow() == 0, place
    for action in ("shares", "move", "dates"):
        page = window.go(f"/changes/{draft.pk}/edit/")
        row(page, grid, "/atlas").locator(".c-menu button").click()
        page.click(f"#action-dialog [data-do$='do={action}']")
        expect(page.locator("#action-dialog [data-first]").first).to_be_focused()
        assert window.axe() == [], action
        assert window.overflow() == 0, action
    window.go(f"/changes/{draft.pk}/edit/")
    small: list[str] = window.page.evaluate(
        """[...document.querySelectorAll('main a, main button, main input:not([type=hidden]), main summary')]
        .filter((each) => each.getClientRects().length && !each.closest('label, .seg'))
        .filter((each) => getComputedStyle(each).display !== 'inline')
        .filter((each) => { const box = each.getBoundingClientRect(); return box.width < 24 || box.height < 23.5; })
        .map((each) => each.outerHTML.slice(0, 120))"""
    )
    assert [each for each in small if 'class="label"' not in each] == []
    answer = window.go(f"/policy/{SLUG}/edit?list=1")
    assert window.axe() == []
    assert answer.locator("#mine").count() == 1


@pytest.mark.deep
def test_the_editor_works_by_touch_on_a_small_screen(
    grid: Grid, draft: ChangeSet, browser: Any, live_server: Any, visit: Open
) -> None:
    window = visit(width=390)
    window.sign_in()
    page = window.go(f"/changes/{draft.pk}/edit/")
    cell(page, grid, "/atlas").fill("12")
    cell(page, grid, "/atlas").blur()
    saved(page, 1)
    row(page, grid, "/cms").locator(".c-menu button").click()
    page.click("#action-dialog [data-do$='do=archive']")
    page.click("#action-dialog form:has([name=op][value=archive]) button[type=submit]")
    saved(page, 2)
    assert [each["op"] for each in stored(draft)] == ["set_shares", "archive"]
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_an_immediate_undo_reverts_the_pending_edit(grid: Grid, page: Page, draft: ChangeSet) -> None:
    before = cell(page, grid, "/atlas").input_value()
    row(page, grid, "/atlas").focus()
    page.keyboard.press("F2")
    page.keyboard.type("130")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+z")
    expect(cell(page, grid, "/atlas")).to_have_value(before)
    saved(page, 0)
    expect(cell(page, grid, "/atlas/alice")).to_have_value("1")
    page.keyboard.press("Enter")
    saved(page, 0)
    assert stored(draft) == []


@pytest.mark.deep
def test_after_the_session_ended_an_edit_is_saved_when_its_user_signs_in_again(
    grid: Grid, page: Page, draft: ChangeSet
) -> None:
    page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    cell(page, grid, "/atlas").fill("45")
    cell(page, grid, "/atlas").press("Enter")
    expect(page.locator("#again-password")).to_be_focused()
    assert stored(draft) == []
    page.click("#sign-in-again [data-again-close]")
    expect(page.locator("#saved.waiting")).to_contain_text("1")
    expect(cell(page, grid, "/atlas")).to_have_value("45")
    cell(page, grid, "/biomed").fill("20")
    cell(page, grid, "/biomed").press("Enter")
    page.fill("#again-password", PASSWORD)
    page.keyboard.press("Enter")
    saved(page, 2)
    expect(page.locator("#sign-in-again")).to_have_count(0)
    assert [each["shares"] for each in stored(draft)] == [45.0, 20.0]


def test_after_the_session_ended_the_actions_of_a_row_open_once_signed_in(
    grid: Grid, page: Page, draft: ChangeSet
) -> None:
    page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    row(page, grid, "/atlas").locator(".c-menu button").click()
    page.fill("#again-password", PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("#action-dialog")).to_be_visible()
    page.click("#action-dialog [data-do$='do=archive']")
    page.click("#action-dialog form:has([name=op][value=archive]) button[type=submit]")
    saved(page, 1)


def test_edits_of_one_user_are_never_sent_as_another(grid: Grid, page: Page, draft: ChangeSet) -> None:
    page.context.clear_cookies()
    cell(page, grid, "/atlas").fill("45")
    cell(page, grid, "/atlas").press("Enter")
    page.fill("#again-username", "alice")
    page.fill("#again-password", PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("#sign-in-again")).to_contain_text("Alice Berg")
    page.click("text=Back to the page")
    expect(page.locator("#saved.waiting")).to_contain_text("1")
    page.evaluate("window.dispatchEvent(new Event('online'))")
    expect(cell(page, grid, "/atlas")).to_have_value("45")
    assert stored(draft) == []
