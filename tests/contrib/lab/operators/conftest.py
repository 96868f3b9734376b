from __future__ import annotations

from tests.priority_site import _clock, as_alice, as_eva, make_site, site
from tests.series.conftest import _fresh_process

__all__ = ["_clock", "_fresh_process", "as_alice", "as_eva", "make_site", "site"]
