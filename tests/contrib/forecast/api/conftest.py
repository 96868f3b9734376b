from __future__ import annotations

from tests.rest_site import admin, computed, scheduler, site

__all__ = ["admin", "computed", "scheduler", "site"]
