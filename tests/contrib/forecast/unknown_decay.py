"""Addresses of this plug-in, and whether they name a decay function that this version lacks instead of answering."""

from __future__ import annotations

ADDRESSES = (
    ("/api/v1/policies/grid/forecast?account=alice", False),
    ("/api/v1/policies/grid/goal?entry=/physics&by=2026-12-10&most_lost=60", True),
    ("/policy/grid/edit/goal/{uid}/?by=2026-12-10&most_lost=60", True),
)
# What is answered as usual, and names the function as the reason for having no forecast.
NAMING = ("/api/v1/policies/grid/forecast?account=alice",)
NAMING_OWN = ("/api/v1/me/forecast",)
