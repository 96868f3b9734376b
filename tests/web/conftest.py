from __future__ import annotations

from tests.pages.conftest import _clock, closed, grid

__all__ = ["_clock", "closed", "grid"]
