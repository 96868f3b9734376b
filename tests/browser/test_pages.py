"""Every page in both themes and at both widths: accessible, within its window, and nothing blocked by the policy."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Open, in_windows_of_all
from tests.pages.grid import SLUG, TRICKY, Grid


@in_windows_of_all
def test_pages_are_accessible_and_fit(grid: Grid, visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    page = window.go("/sign-in/")
    problems = {"sign-in": window.axe()}
    wide = {"sign-in": window.overflow()}
    window.sign_in("alice")
    places = {
        "overview": "/",
        "tree": f"/policy/{SLUG}/",
        "tree with panel": f"/policy/{SLUG}/?entry={grid.uid('/biomed')}&of=total",
        "entry": f"/policy/{SLUG}/n/{grid.uid('/biomed')}/biomed/",
        "my priority": "/me/priority/",
        "not found": "/policy/nothing-here/",
    }
    for name, path in places.items():
        window.go(path)
        assert page.locator("html").get_attribute("data-theme") == theme
        problems[name], wide[name] = window.axe(), window.overflow()
    window.page.context.clear_cookies()
    window.sign_in("admin")
    window.go(f"{places['entry']}?panel=shares")
    page.fill("#shares", "-1")
    expect(page.locator("#shares-hint.err")).to_be_visible()
    problems["a wrong number"] = window.axe()
    page.fill("#shares", "50")
    expect(page.locator("#effect table")).to_be_visible()
    problems["preview"], wide["preview"] = window.axe(), window.overflow()
    assert {name: found for name, found in problems.items() if found} == {}
    assert {name: pixels for name, pixels in wide.items() if pixels > 0} == {}


def test_names_with_markup_are_escaped(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/?q=neil")
    expect(page.get_by_role("link", name=TRICKY, exact=True)).to_be_visible()
    page.get_by_role("link", name=TRICKY, exact=True).click()
    expect(page.locator("h1")).to_contain_text(TRICKY)


def test_the_theme_is_chosen_in_the_menu_and_kept(grid: Grid, visit: Open) -> None:
    window = visit(theme="light")
    window.sign_in()
    page = window.go(f"/policy/{SLUG}/?of=total")
    page.locator("button.avatar").click()
    page.locator("#account button[name=theme][value=dark]").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.url.endswith("?of=total")
