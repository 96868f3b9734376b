from __future__ import annotations

from tests.browser.conftest import contexts, grid, visit
from tests.worlds import fresh_process

__all__ = ["contexts", "fresh_process", "grid", "visit"]
