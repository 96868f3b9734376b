"""The browser of the journeys."""

from __future__ import annotations

from tests.browser.conftest import browser, visit

__all__ = ["browser", "visit"]
