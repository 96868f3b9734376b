"""Addresses of this plug-in that may disclose no reason that the reader does not see."""

from __future__ import annotations

SEARCHES = ("/search/?q=zz", "/api/v1/search?q=zz")
