from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.priority_site import _clock, as_alice, as_eva, make_site, site  # noqa: F401 - fixtures
from tests.worlds import forget_process


@pytest.fixture(autouse=True)
def _fresh_process() -> Iterator[None]:
    """Tests here change limits: what was computed under them is no other test's business."""
    yield
    forget_process()
