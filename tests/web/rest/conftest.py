from __future__ import annotations

from tests.rest_site import admin, computed, scheduler, site
from tests.worlds import fresh_process

__all__ = ["admin", "computed", "fresh_process", "scheduler", "site"]
