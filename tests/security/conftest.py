"""Tests of what attackers tried."""

from __future__ import annotations

from tests.api.conftest import computed, site  # noqa: F401 - fixtures
