"""Fields for addresses of this plug-in, as tests/federation/test_forbidden_addresses.py asks for them."""

from __future__ import annotations

FIELDS = {"contrib.allocations.pack_api: url": ""}  # of a new link to a pack, in an answer
