"""Windows as the journeys open them."""

from __future__ import annotations

from tests.browser.conftest import contexts, visit

__all__ = ["contexts", "visit"]
