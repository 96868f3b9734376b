"""Addresses of this plug-in with numbers of entries, which an attacker of tests/privacy reads, too."""

from __future__ import annotations

ADDRESSES = ("/api/v1/policies/p/allocations?from={day}&to={day}", "/api/v1/policies/p/allocations/board")
