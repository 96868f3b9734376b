from __future__ import annotations

from tests.series.conftest import as_alice, as_eva, make_site

__all__ = ["as_alice", "as_eva", "make_site"]
