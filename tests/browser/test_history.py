"""Looking back: the pages of the past hold what they show, at both widths and in both themes."""

from __future__ import annotations

import pytest

from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.policies import services
from tests.browser.conftest import Open, at_widths
from tests.pages.grid import SLUG, Grid


@pytest.mark.deep
@at_widths
def test_the_history_pages_are_accessible_and_fit(grid: Grid, visit: Open, width: int) -> None:
    atlas, at = grid.uid("/atlas"), clock.now()
    services.change_shares(policy_slug=SLUG, entry_uid=atlas, shares=50, reason="Less.", at=at, actor=COMMAND)
    window = visit(width=width)
    window.sign_in()
    here = f"/policy/{SLUG}/history"
    for path in (
        f"{here}/",
        f"{here}/diff/",
        f"{here}/3/undo/",
        f"{here}/2/restore/",
        f"{here}/entry/{atlas}/",
        "/audit/",
    ):
        window.go(path)
        window.look()
    for path in (f"/policy/{SLUG}/?at=2", f"/policy/{SLUG}/n/{atlas}/atlas/?at=2"):
        page = window.go(path)
        window.look()
        bar, main = page.locator(".timebar").bounding_box(), page.locator("main").bounding_box()
        assert bar is not None
        assert main is not None
        assert bar["height"] < 250, "it says which past this is, and leaves the page its place"
        assert main["width"] >= bar["width"]
        assert main["y"] <= bar["y"] + bar["height"] + 1
