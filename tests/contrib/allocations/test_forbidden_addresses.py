"""Fields for addresses of this plug-in, as tests/federation/test_forbidden_addresses.py asks for them."""

from __future__ import annotations

from typing import Any

import pytest

from apps.contrib.allocations.exchange.portal_fetch import fetch_coldfront, fetch_waldur
from apps.core.errors import DomainError
from tests.federation.test_forbidden_addresses import CHOSEN, connects  # noqa: F401 - fixture

CALLERS = {"contrib/allocations/exchange/portal_fetch.py: _ask": ("test_a_portal_with_a_private_address_is_not_asked",)}
FIELDS = {"contrib.allocations.pack_api: url": ""}  # of a new link to a pack, in an answer


def test_a_portal_with_a_private_address_is_not_asked(db: None, connects: list[Any]) -> None:  # noqa: F811
    for url in CHOSEN:
        for ask in (fetch_coldfront, fetch_waldur):
            with pytest.raises(DomainError):
                ask(url, "s3cret")
    assert connects == []
