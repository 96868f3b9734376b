from __future__ import annotations

from tests.series.conftest import _clock, _fresh_process, as_alice, as_eva, make_site, site

__all__ = ["_clock", "_fresh_process", "as_alice", "as_eva", "make_site", "site"]
