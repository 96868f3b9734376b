"""A tree of 100,000 entries stays light: rows come as they are asked for, in the tree and in its editor."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.policies.changesets.drafts import open_draft
from apps.policies.services import make_policy, publish_document
from apps.priorities.selectors.tree import WINDOW
from tests.browser.conftest import Open, settled
from tests.instants import AT

N_GROUPS, N_USERS = 100, 1_000
MOST_NODES = 1_500
SLUG = "large"


@pytest.fixture
def large(transactional_db: None) -> User:
    make_policy(slug=SLUG, name="Large", at=AT, actor=COMMAND)
    people = [{"name": f"u{n}", "kind": "user", "shares": 1} for n in range(N_USERS)]
    groups = [{"name": f"g{n:02}", "shares": n + 1, "children": people} for n in range(N_GROUPS)]
    publish_document(
        policy_slug=SLUG,
        document={"policy": SLUG, "root": {"name": SLUG, "children": groups}},
        reason="r",
        at=AT,
        actor=COMMAND,
    )
    return User.objects.create_superuser("admin", "", "correct horse battery")


def n_nodes(page: Page) -> int:
    """When rows far from the window are detached, which takes a moment."""
    return settled(page, "document.querySelectorAll('body *').length", most=MOST_NODES - 1)


@pytest.mark.deep
def test_the_tree_and_its_editor_stay_under_1500_nodes(large: User, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/")
    counts = {"fresh": n_nodes(page)}
    for level in (1, 2):
        page = window.go(f"/policy/{SLUG}/?level={level}")
        counts[f"level {level}"] = n_nodes(page)
    page = window.go(f"/policy/{SLUG}/?level=1")
    row = page.locator("tr", has=page.get_by_role("link", name="g00", exact=True))
    row.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("link", name="u0", exact=True)).to_be_visible()
    rows = page.locator("tbody tr:not(.more)")
    expect(rows).to_have_count(2 * WINDOW)
    for n_windows in (3, 4, 5):
        page.locator("tr.more[data-more]").first.locator("button, a").click()
        expect(rows).to_have_count(n_windows * WINDOW)
    expect(rows.first.locator("a.label")).to_have_count(0)  # far away
    counts["five windows"] = n_nodes(page)
    page.keyboard.press("Home")
    expect(rows.first).to_be_focused()
    expect(rows.first.locator("a.label")).to_be_visible()
    page.keyboard.press("End")
    expect(page.locator("tbody tr").last).to_be_focused()
    expect(rows.last.locator("a.label")).to_be_visible()
    expect(rows.first.locator("a.label")).to_have_count(0)
    draft = open_draft(policy_slug=SLUG, reason="r", at=AT, actor=Actor(user=large, via="page"))
    page = window.go(f"/changes/{draft.pk}/edit/")
    expect(page.locator("[data-treegrid] tbody tr").first).to_be_visible()
    counts["editor"] = n_nodes(page)
    cells = page.locator("tbody tr:not(.more) input.cell")
    named = page.locator("tr", has=page.get_by_label("Shares of g00", exact=True))
    first = page.locator(f"[id='{named.get_attribute('id')}']")  # also while its cells are away
    first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("tbody tr:not(.more)")).to_have_count(1 + 2 * WINDOW)
    for n_windows in (3, 4):
        page.locator("tr.more[data-more]").first.locator("button, a").click()
        expect(page.locator("tbody tr:not(.more)")).to_have_count(1 + n_windows * WINDOW)
    counts["four windows of the editor"] = n_nodes(page)
    first.focus()
    page.keyboard.press("F2")
    expect(cells.first).to_be_focused()
    page.keyboard.type("7")
    page.keyboard.press("Enter")  # past a hundred rows, to the next group
    beside = page.locator("tbody tr[aria-level='2']:not(.more)").nth(1).locator("input.cell")
    expect(beside).to_be_focused()
    expect(page.locator("#n-edits")).to_contain_text("1")
    assert {name: n for name, n in counts.items() if n >= MOST_NODES} == {}, counts
