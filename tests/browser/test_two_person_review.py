"""Those who divide the machine, from the first number to the way back; looked over by axe on every page they see."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.core import clock
from apps.policies import services
from apps.policies.models import ChangeSet, Policy, Revision
from tests.browser.conftest import Open, Visit
from tests.browser.hands import HANDS, Hand
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid

pytestmark = (
    pytest.mark.deep
)  # `make test` goes the parts of these ways: test_editor.py, test_journey.py, test_review.py
# mouse and keyboard with scripts; without them both come down to the same forms and links
WAYS = pytest.mark.parametrize(
    ("hand", "scripts"), [("mouse", True), ("keys", True), ("mouse", False), ("keys", False)]
)
FOCUSED = "document.activeElement.id || document.activeElement.tagName"


@pytest.fixture
def managers(grid: Grid) -> Grid:
    """maria and lars manage the whole."""
    policy = Policy.objects.get(slug=SLUG)
    for name, first, last in (("maria", "Maria", "Hedin"), ("lars", "Lars", "Ek")):
        make_grant(
            User.objects.create_user(name, first_name=first, last_name=last),
            grid.uid("/"),
            policy=policy,
            at=clock.now(),
        )
    return grid


def signed_in(visit: Open, name: str, hand: str, *, scripts: bool) -> Visit:
    """Mouse and keyboard lead through the same pages: axe checks those of the mouse."""
    window = visit(scripts=scripts)
    window.skips_axe = hand != "mouse"
    window.sign_in(name)
    return window


def shares(grid: Grid, path: str) -> float | None:
    tree = grid.tree
    return tree.node(tree.index_of_path(path) or 0).shares


def type_shares(window: Visit, hand: Hand, grid: Grid, path: str, text: str, *, scripts: bool) -> None:
    """Over the present number, saved by leaving it; as a pasted table where there are no scripts."""
    page = window.page
    if scripts:
        cell = f"#s-{grid.uid(path)}"
        hand.write(page, cell, text)
        page.keyboard.press("Enter")
        expect(page.locator("#draftbar")).to_have_attribute("data-edits", "1")
        expect(page.locator("#saved")).not_to_have_class(re.compile("waiting"))
        assert page.evaluate(FOCUSED) != cell.removeprefix("#"), "Enter goes down to the next number"
        assert page.evaluate(FOCUSED) != "BODY"
    else:
        hand.press(page, "noscript a")
        hand.write(page, "#table", f"path,shares\n{path},{text}")
        hand.press(page, "button[value=preview]")
        hand.press(page, "button[value=apply]")
        expect(page.locator("#draftbar")).to_have_attribute("data-edits", "1")


@WAYS
def test_a_manager_edits_reviews_publishes_and_reverts(managers: Grid, visit: Open, hand: str, scripts: bool) -> None:
    use, window = HANDS[hand], signed_in(visit, "maria", hand, scripts=scripts)
    page = window.go(f"/policy/{SLUG}/")
    use.press(page, "#edit")
    expect(page.locator("#editor")).to_be_visible()
    type_shares(window, use, managers, "/atlas", "50", scripts=scripts)
    expect(page.locator("#draftbar")).to_have_attribute("data-edits", "1")
    window.look()
    use.press(page, "#draftbar a[data-flush]")
    expect(page.locator("#decide-publish")).to_be_visible()
    window.look()
    use.press(page, "#tab-effect")
    expect(page.locator("#effect")).to_be_visible()
    if scripts:
        assert page.evaluate(FOCUSED) == "tab-effect"
    window.look()
    use.write(page, "#why", "Atlas winds down.")
    use.press(page, "#decide-publish")
    expect(page.locator("h1")).to_have_text("atlas 60 → 50 shares")
    expect(page.locator(".page-head [data-testid=reason]")).to_have_text("Atlas winds down.")
    expect(page.locator("[data-testid=decided]")).to_have_attribute("data-value", "3")
    assert shares(managers, "/atlas") == 50.0
    _revert(window, use)
    assert shares(managers, "/atlas") == 60.0
    assert Revision.objects.get(policy__slug=SLUG, number=4).change_set.reverts_number == 3


def _revert(window: Visit, use: Hand) -> None:
    page = window.page
    use.press(page, f"nav.place a[href='/policy/{SLUG}/changes/']")
    use.press(page, "#list-history")
    expect(page.locator("#rev-3")).to_be_visible()
    expect(page.locator("h1")).to_contain_text("3")
    window.look()
    use.press(page, "#rev-3 a[href$='/3/undo/']")
    expect(page.locator("#diff")).to_contain_text("atlas")
    window.look()
    use.press(page, "form:has(#reason) button[type=submit]")
    expect(page.locator("#decide-publish")).to_be_visible()
    use.press(page, "#decide-publish")
    expect(page.locator("[data-testid=decided]")).to_have_attribute("data-value", "4")
    window.look()


@WAYS
def test_a_large_change_needs_two_persons(managers: Grid, visit: Open, hand: str, scripts: bool) -> None:
    services.change_settings(
        policy_slug=SLUG, settings={"review": {"points": 5}}, reason="Four eyes.", at=clock.now(), actor=COMMAND
    )
    use, author = HANDS[hand], signed_in(visit, "lars", hand, scripts=scripts)
    page = author.go(f"/policy/{SLUG}/")
    use.press(page, "#edit")
    type_shares(author, use, managers, "/atlas", "20", scripts=scripts)
    use.write(page, "#id_reason", "Half the machine goes to biomed.")
    use.press(page, "#finish-publish")
    expect(page.locator("#refused")).to_have_attribute("data-code", "needs_approval")
    author.look()
    assert Policy.objects.get(slug=SLUG).head_number == 3, "nothing was put in force"
    use.press(page, "#finish-propose")
    expect(page).to_have_url(re.compile(r"/changes/\d+/$"))
    expect(page.locator("main")).to_contain_text("Half the machine goes to biomed.")
    author.look()
    _approve_and_publish(signed_in(visit, "maria", hand, scripts=scripts), use)
    assert shares(managers, "/atlas") == 20.0
    change_set = ChangeSet.objects.get(reason__startswith="Half")
    assert (change_set.author_name, change_set.revision.author_name) == ("lars", "maria")


def _approve_and_publish(second: Visit, use: Hand) -> None:
    page = second.go("/inbox/")
    second.look()
    use.press(page, "main li:has-text('Half the machine goes to biomed.') a")
    expect(page.locator("#approve")).to_be_visible()
    second.look()
    use.press(page, "#tab-checks")
    expect(page.locator("#checks")).to_be_visible()
    second.look()
    use.press(page, "#approve")
    expect(page.locator("[data-testid=have-approved]")).to_be_visible()
    use.press(page, "#decide-publish")
    expect(page.locator("[data-testid=decided]")).to_have_attribute("data-value", "4")
    second.look()
