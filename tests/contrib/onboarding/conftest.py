from __future__ import annotations

from tests.priority_site import _clock, as_alice, as_eva, make_site, site  # noqa: F401 - fixtures
