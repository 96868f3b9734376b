"""Browser contexts that tests use one after another.

A new context has no files and no compiled scripts, and its first page starts a process. A kept one has these, and
nothing that a page or a test left in it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page

_SMALL_PAGE = "/static/favicon.svg"


@dataclass(frozen=True)
class Taken:
    """A context; a kept one has a page that stays open, so that the process of its pages does."""

    context: BrowserContext
    scripts: bool
    stays: Page | None = None
    storage: CDPSession | None = None


@dataclass
class Contexts:
    """`take` one and `give_back` it; `origin` is where its pages may have stored something."""

    browser: Browser
    origin: str
    init_script: str
    _free: dict[bool, list[Taken]] = field(default_factory=lambda: defaultdict(list))

    def take(self, *, scripts: bool, is_kept: bool = True) -> Taken:
        """is_kept: False if the test sets the clock of the browser, which can't be set back, or walks out of a page by
        Tab, which must lead to no other page."""
        if is_kept and self._free[scripts]:
            return self._free[scripts].pop()
        context = self.browser.new_context(java_script_enabled=scripts, reduced_motion="reduce")
        context.add_init_script(self.init_script)
        if not is_kept:
            return Taken(context, scripts)
        stays = context.new_page()
        stays.goto(self.origin + _SMALL_PAGE)
        return Taken(context, scripts, stays, context.new_cdp_session(stays))

    def give_back(self, taken: Taken) -> None:
        """Keep it for a later test without cookies, storage, permissions and a broken connection, or close it."""
        context = taken.context
        if taken.storage is None:
            context.close()
            return
        for page in context.pages:
            if page is not taken.stays:
                page.close()
        context.clear_cookies()
        context.clear_permissions()
        context.set_offline(False)
        taken.storage.send("Storage.clearDataForOrigin", {"origin": self.origin, "storageTypes": "local_storage"})
        self._free[taken.scripts].append(taken)
