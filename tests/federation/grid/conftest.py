from __future__ import annotations

from tests.priority_site import as_alice, as_eva, make_site

__all__ = ["as_alice", "as_eva", "make_site"]
