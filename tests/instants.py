"""When it is in the tests, unless one of them says otherwise."""

from __future__ import annotations

from datetime import UTC, datetime

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
