"""Accounts get their entries: with and without scripts, by mouse and by keyboard; the pages fit and are clean."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from apps.mapping.models import Attachment, MappingRule
from tests.browser.conftest import Open, Visit, in_windows_of_all
from tests.pages.grid import Grid
from tests.pages.mapping.test_mapping import PAGE, send

PREVIEW = "button[name=step][value=preview]"
SAVE = "button[name=step][value=save], form:has(input[name=step][value=save]) button[type=submit]"
SHOTS = os.environ.get("SHOTS", "")  # a directory: pictures of every page for people to look at


@pytest.fixture
def waiting(grid: Grid) -> Grid:
    """Three accounts that no rule places."""
    send("Alice@example.org", "visitors", 100)
    send("guest7", "lqcd", 50)
    send("", "", 20, dn="CN=Kim Svan,O=NorduGrid,C=SE", fqan="/cms/Role=NULL/Capability=NULL")
    return grid


def n_unmapped(page: Page) -> str | None:
    """How many accounts have no entry, as the page counts them."""
    return page.get_attribute("[data-testid=n-unmapped]", "data-value")


def shoot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


@pytest.mark.deep
def test_accounts_are_mapped_and_a_rule_is_created_without_scripts(waiting: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(PAGE)
    window.follow("button[name=one] >> nth=0")
    assert page.get_attribute("[data-testid=plan-verdict]", "data-value") == "1"
    page.fill("#reason", "It is Alice.")
    window.follow(SAVE)
    assert n_unmapped(page) == "2"
    window.follow(f"a[href='{PAGE}rule/']")
    page.fill("#id_user", "guest*")
    page.fill("#id_entry", "/cms/dave")
    window.follow(PREVIEW)
    assert page.get_attribute("[data-testid=plan-verdict]", "data-core-s") == str(50 * 3600)
    page.fill("#id_reason", "Guests of Dave.")
    window.follow(SAVE)
    assert n_unmapped(page) == "1"
    assert Attachment.objects.count() == 1
    assert MappingRule.objects.filter(user_pattern="guest*").exists()


def test_selected_accounts_are_counted_and_rules_are_moved_by_keyboard(waiting: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"{PAGE}rule/")
    page.fill("#id_user", "guest*")
    page.fill("#id_entry", "/cms")
    page.click(PREVIEW)
    page.fill("#id_reason", "r")
    window.follow(SAVE)
    page.check("tr:has-text('Alice@example.org') input[name=account]")
    assert page.inner_text("[data-chosen]") == page.get_attribute("[data-chosen]", "data-one")
    assert "100" in page.inner_text("[data-chosen-core-h]")
    page.focus("tr[data-rule='1'] a.btn")
    page.keyboard.press("Alt+ArrowUp")
    page.wait_for_selector("form:has(input[name=rule][value='1']) input[name=way][value=up]", state="attached")
    page.fill("#reason", "First.")
    page.keyboard.press("Enter")
    page.wait_for_selector("#rules")
    assert [row.user_pattern for row in MappingRule.objects.order_by("position")] == ["guest*", ""]


@in_windows_of_all
def test_the_mapping_pages_are_accessible_and_fit(waiting: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    page = window.go(PAGE)
    page.check("input[name=account] >> nth=0")
    page.check("input[name=account] >> nth=2")
    _look(window, f"accounts-{theme}-{width}")
    page.select_option("#to", "suggested")
    window.follow(".bulkbar button[type=submit]")
    _look(window, f"ask-{theme}-{width}")
    page.fill("#reason", "As suggested.")
    window.follow(SAVE)
    window.follow(f"a[href='{PAGE}rule/']")
    page.fill("#id_user", "CN=*,O=NorduGrid,C=SE")
    page.fill("#id_entry", "/nowhere")
    page.click(PREVIEW)
    expect(page.locator("#id_entry_error")).not_to_be_empty()
    expect(page.locator("#id_entry")).to_be_focused()
    assert page.input_value("#id_user") == "CN=*,O=NorduGrid,C=SE", "what was typed is kept"
    page.fill("#id_user", "guest*")
    page.fill("#id_entry", "/biomed")
    page.fill("#id_suffix", "/{user}")
    page.click(PREVIEW)
    expect(page.locator("#plan")).to_be_visible()
    _look(window, f"rule-{theme}-{width}")
    page.fill("#id_reason", "Guests of biomed.")
    window.follow(SAVE)
    _look(window, f"mapped-{theme}-{width}")
    window.follow(f"a[href='{PAGE}versions/']")
    _look(window, f"versions-{theme}-{width}")
    window.follow("table a >> nth=0")
    _look(window, f"version-{theme}-{width}")


def _look(window: Visit, name: str) -> None:
    shoot(window.page, name)
    assert window.axe() == []
    assert window.overflow() <= 0
