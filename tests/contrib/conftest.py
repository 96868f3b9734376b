from __future__ import annotations

from tests.pages.conftest import _clock, admin, closed, computed, grid, scheduler, site

__all__ = ["_clock", "admin", "closed", "computed", "grid", "scheduler", "site"]
