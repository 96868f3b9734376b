"""Accounts get their entries: with and without scripts, by mouse and by keyboard; the pages fit and are clean."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page

from apps.priorities.models import Attachment, MappingRule
from tests.browser.conftest import THEMES, WIDTHS, Open, Visit
from tests.dashboard.grid import Grid
from tests.dashboard.test_mappings import PAGE, send

SHOTS = os.environ.get("SHOTS", "")  # a directory: pictures of every page for people to look at


@pytest.fixture
def waiting(grid: Grid) -> Grid:
    """Three accounts that no rule places."""
    send("Alice@example.org", "visitors", 100)
    send("guest7", "lqcd", 50)
    send("", "", 20, dn="CN=Kim Svan,O=NorduGrid,C=SE", fqan="/cms/Role=NULL/Capability=NULL")
    return grid


def shoot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


def test_accounts_are_assigned_and_a_rule_is_written_without_scripts(waiting: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    page = window.go(PAGE)
    window.follow("button:has-text('Accept') >> nth=0")
    assert "1 account would count elsewhere" in page.inner_text("#plan")
    page.fill("#reason", "It is Alice.")
    window.follow("button:has-text('Save as the next version')")
    assert "2 accounts have no entry" in page.inner_text("h1")
    window.follow("a:has-text('Add a rule')")
    page.fill("#id_user", "guest*")
    page.fill("#id_entry", "/cms/dave")
    window.follow("button:has-text('Show what it does')")
    assert "50 core-hours" in page.inner_text("#plan")
    page.fill("#id_reason", "Guests of Dave.")
    window.follow("button:has-text('Save as the next version')")
    assert "1 account has no entry" in page.inner_text("h1")
    assert Attachment.objects.count() == 1
    assert MappingRule.objects.filter(user_pattern="guest*").exists()


def test_chosen_accounts_are_counted_and_rules_move_by_keyboard(waiting: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"{PAGE}rule/")
    page.fill("#id_user", "guest*")
    page.fill("#id_entry", "/cms")
    window.follow("button:has-text('Show what it does')")
    page.fill("#id_reason", "r")
    window.follow("button:has-text('Save as the next version')")
    page.check("input[aria-label='Select Alice@example.org']")
    assert page.inner_text("[data-chosen]") == "1 selected"
    assert "100" in page.inner_text("[data-chosen-core-h]")
    page.focus("tr[data-rule='1'] a.btn")
    page.keyboard.press("Alt+ArrowUp")
    page.wait_for_selector("h1:has-text('Ask rule 2 earlier?')")
    page.fill("#reason", "First.")
    page.keyboard.press("Enter")
    page.wait_for_selector("#rules")
    assert [row.user_pattern for row in MappingRule.objects.order_by("position")] == ["guest*", ""]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_pages_are_clean_and_fit(waiting: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    page = window.go(PAGE)
    page.check("input[name=account] >> nth=0")
    page.check("input[name=account] >> nth=2")
    _look(window, f"accounts-{theme}-{width}")
    page.select_option("#to", "suggested")
    window.follow("button:has-text('Show what it does')")
    _look(window, f"ask-{theme}-{width}")
    page.fill("#reason", "As suggested.")
    window.follow("button:has-text('Save as the next version')")
    window.follow("a:has-text('Add a rule')")
    page.fill("#id_user", "CN=*,O=NorduGrid,C=SE")
    page.fill("#id_entry", "/nowhere")
    window.follow("button:has-text('Show what it does')")
    assert "There is no such entry" in page.inner_text("main")
    page.fill("#id_user", "guest*")
    page.fill("#id_entry", "/biomed")
    page.fill("#id_suffix", "/{user}")
    window.follow("button:has-text('Show what it does')")
    _look(window, f"rule-{theme}-{width}")
    page.fill("#id_reason", "Guests of biomed.")
    window.follow("button:has-text('Save as the next version')")
    _look(window, f"mapped-{theme}-{width}")
    window.follow("a:has-text('Versions')")
    _look(window, f"versions-{theme}-{width}")
    window.follow("table a >> nth=0")
    _look(window, f"version-{theme}-{width}")


def _look(window: Visit, name: str) -> None:
    shoot(window.page, name)
    assert window.axe() == []
    assert window.overflow() <= 0
