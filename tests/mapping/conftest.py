from __future__ import annotations

from tests.lock_order import _one_order_of_locks, lock_watch  # noqa: F401 - fixtures
from tests.priority_site import _clock, as_alice, as_eva, make_site, site  # noqa: F401 - fixtures
