"""Windows as the journeys open them."""

from __future__ import annotations

from tests.browser.conftest import visit

__all__ = ["visit"]
