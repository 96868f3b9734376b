"""Words that a page explains: opened by mouse and by keys, closed by Escape, whole in a narrow window."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from apps.web.texts.glossary import terms
from tests.browser.conftest import THEMES, Open
from tests.pages.grid import SLUG, Grid

NARROW = 390
OFF_WINDOW = """pop => {
  const { left, right, top, bottom } = pop.getBoundingClientRect();
  return left < 0 || top < 0 || right > document.documentElement.clientWidth || bottom > innerHeight;
}"""


def entry_of(grid: Grid) -> str:
    return f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/"


def first_term(page: Page) -> tuple[Locator, Locator]:
    """The first visible word and its meaning."""
    word = page.locator("main button.term:visible").first
    return word, page.locator(f"#{word.get_attribute('popovertarget')}")


def test_a_click_shows_the_meaning_and_a_click_elsewhere_hides_it(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    word, meaning = first_term(window.go(entry_of(grid)))
    expect(meaning).to_be_hidden()
    word.click()
    expect(meaning).to_be_visible()
    name = meaning.get_attribute("aria-label") or ""
    expect(meaning).to_contain_text(terms()[name].meaning)
    window.look()
    window.page.locator("h1").click()
    expect(meaning).to_be_hidden()


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_keys_open_the_meaning_lead_to_its_link_and_back_to_the_word(grid: Grid, visit: Open, key: str) -> None:
    window = visit()
    window.sign_in()
    page = window.go(entry_of(grid))
    word, meaning = first_term(page)
    word.focus()
    page.keyboard.press(key)
    expect(meaning).to_be_visible()
    page.keyboard.press("Tab")
    expect(meaning.locator("a")).to_be_focused()
    page.keyboard.press("Escape")
    expect(meaning).to_be_hidden()
    expect(word).to_be_focused()


def test_a_meaning_opens_without_scripts(grid: Grid, visit: Open) -> None:
    window = visit(scripts=False)
    window.sign_in()
    word, meaning = first_term(window.go(entry_of(grid)))
    word.click()
    expect(meaning).to_be_visible()


@pytest.mark.parametrize("theme", THEMES)
def test_every_meaning_is_whole_in_a_narrow_window(grid: Grid, visit: Open, theme: str) -> None:
    window = visit(theme=theme, width=NARROW)
    window.sign_in()
    for path in ("/", entry_of(grid)):
        page = window.go(path)
        words = page.locator("main button.term:visible")
        expect(words.first).to_be_visible()
        for word in words.all():
            meaning = page.locator(f"#{word.get_attribute('popovertarget')}")
            word.press("Enter")
            expect(meaning).to_be_visible()
            assert not meaning.evaluate(OFF_WINDOW), (path, word.inner_text())
            page.keyboard.press("Escape")
        assert window.overflow() == 0


def test_the_meaning_of_a_word_at_the_right_edge_is_not_cut(grid: Grid, visit: Open) -> None:
    """Wherever a word stands: here it is moved to both edges, and to the bottom."""
    window = visit(width=NARROW)
    window.sign_in()
    page = window.go(entry_of(grid))
    word, meaning = first_term(page)
    for place in ("right: 0; top: 40%", "left: 0; top: 40%", "right: 0; bottom: 0"):
        word.evaluate("(word, place) => { word.style.cssText = `position: fixed; z-index: 9; ${place}`; }", place)
        word.press("Enter")
        expect(meaning).to_be_visible()
        assert not meaning.evaluate(OFF_WINDOW), place
        page.keyboard.press("Escape")
        expect(meaning).to_be_hidden()
