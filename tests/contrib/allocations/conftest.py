from __future__ import annotations

from tests.worlds import fresh_process  # noqa: F401 - fixture
