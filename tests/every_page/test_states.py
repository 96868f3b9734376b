"""Pages of the sample grid as people of each role have them before them, also in what opens on a page: axe finds
nothing, and nothing is wider than the window, in each theme at each width.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import pytest
from django.conf import settings
from playwright.sync_api import Page, expect

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.cli.sample.grid import POLICY_SLUG
from apps.core import clock
from apps.policies.changesets import drafts
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from tests.browser.conftest import NARROW, THEMES, WIDE, Open
from tests.worlds import fresh_process  # noqa: F401 - fixture

pytestmark = [pytest.mark.timeout(900), pytest.mark.product]
POLICY = f"/policy/{POLICY_SLUG}"


def nothing(page: Page) -> None:
    """The page as it opens."""


def press(*selectors: str, then: str = "") -> Callable[[Page], None]:
    """One after the other; `then` is seen at the end."""

    def act(page: Page) -> None:
        for selector in selectors:
            page.locator(selector).locator("visible=true").first.click()
        if then:
            expect(page.locator(then).first).to_be_visible()

    return act


def type_and_press(field: str, text: str, button: str, then: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.fill(field, text)
        press(button, then=then)(page)

    return act


def end_the_session(page: Page) -> None:
    page.fill("#shares", "60")
    page.fill("#reason", "Kept")
    page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    press("#publish", then="#again-password")(page)


def search(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("clim")
    expect(page.locator("dialog.palette [role=option]").first).to_be_visible()


def show_keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.locator("dialog.keys-sheet")).to_be_visible()


@dataclass(frozen=True, slots=True)
class State:
    """path: with {/a/b} for the identifier of an entry, {draft} for the number of a draft with an edit."""

    name: str
    user: str
    path: str
    reach: Callable[[Page], None] = nothing


ENTRY = f"{POLICY}/n/{{/climate}}/climate/"
GROUP = f"{POLICY}/group/{{/climate/seasonal}}/"
TABLE = "path\tshares\n/climate\t9"
PASTE = "/changes/{draft}/edit/paste/"
STATES = (
    State("home of an administrator", "admin", "/"),
    State("home of a manager", "maria", "/"),
    State("home of a lead", "ingrid", "/"),
    State("home of a user", "kimberg", "/"),
    State("everything behind More", "kimberg", "/me/priority/", press("#more > summary", then="#more li summary")),
    State("my jobs", "kimberg", f"{POLICY}/charges/"),
    State("why a job waits", "kimberg", f"{POLICY}/jobs/why/33701/?scheduler=umea"),
    State("inbox", "maria", "/inbox/"),
    State("group while editing", "ingrid", GROUP, press("[id^=open-]", then="[id^=until-]")),
    State("shares", "admin", f"{ENTRY}?panel=shares", type_and_press("#shares", "60", "#shares", "#effect tr.me")),
    State("shares refused", "admin", f"{ENTRY}?panel=shares", press("#publish", then="#reason-error")),
    State("signed out", "admin", f"{ENTRY}?panel=shares", end_the_session),
    State("editor as a tree", "admin", "/changes/{draft}/edit/"),
    State("actions of a row", "admin", "/changes/{draft}/edit/", press(".c-menu [data-do]", then="#action-dialog")),
    State("editor as bars", "admin", "/changes/{draft}/edit/?view=bars"),
    State("editor as a treemap", "admin", "/changes/{draft}/edit/?view=treemap"),
    State("pasted", "admin", PASTE, type_and_press("#table", TABLE, "button[value=preview]", "#preview-title")),
    State("review", "admin", "/changes/{draft}/"),
    State("convergence", "admin", f"{POLICY}/convergence/"),
    State("convergence of a group", "ingrid", f"{POLICY}/convergence/"),
    State("convergence compared", "admin", f"{POLICY}/convergence/?compare=1&range=7"),
    State("places from a picture", "admin", f"{POLICY}/convergence/", press("[data-go-menu]", then="#go-menu")),
    State("entry over time", "admin", f"{ENTRY}convergence/"),
    State("search", "admin", "/", search),
    State("keys", "admin", "/", show_keys),
    State("age of the numbers", "admin", "/", press("[popovertarget=freshness]", then="#freshness")),
    State("own account", "admin", "/", press("[popovertarget=account]", then="#account")),
    State("a term", "admin", ENTRY, press("button.term", then=".pop-term:popover-open")),
)  # fmt: skip


def path_of(state: State) -> str:
    policy = Policy.objects.get(slug=POLICY_SLUG)
    tree = load_tree(policy)

    def uid(match: re.Match[str]) -> str:
        index = tree.index_of_path(match[1])
        assert index is not None, match[1]
        return str(tree.uuid(index))

    path = re.sub(r"\{(/[^}]*)\}", uid, state.path)
    return path.replace("{draft}", str(draft_of(policy, tree.uuid(tree.index_of_path("/climate") or 0))))


def draft_of(policy: Policy, entry: UUID) -> int:
    actor, at = Actor(user=User.objects.get(username="admin"), via="page"), clock.now()
    draft = drafts.find_draft_of(policy_slug=policy.slug, at=at, actor=actor)
    if draft is None:
        draft = drafts.open_draft(policy_slug=policy.slug, reason="Winter shares", at=at, actor=actor)
        operation = {"op": "set_shares", "entry": str(entry), "shares": 150}
        drafts.add_operations(id=draft.pk, version=draft.version, operations=[operation], at=at, actor=actor)
    return draft.pk


@pytest.mark.deep
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("theme", THEMES)
def test_no_state_of_a_page_has_a_finding(
    sample_grid: None, transactional_db: None, visit: Open, theme: str, width: int
) -> None:
    found = []
    for state in STATES:
        window = visit(theme=theme, width=width)
        window.sign_in(state.user)
        page = window.go(path_of(state))
        page.wait_for_load_state("networkidle")
        state.reach(page)
        found += [f"{state.name}: {pixels} pixels too wide" for pixels in [window.overflow()] if pixels > 0]
        found += [f"{state.name}: {finding}" for finding in window.axe(theme)]
        page.close()
    assert not found, "\n".join(found)
