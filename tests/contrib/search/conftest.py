"""The clock is at AT; a grid that all users see, and one that shows people their own path."""

from __future__ import annotations

from tests.worlds import fresh_process  # noqa: F401 - fixture
