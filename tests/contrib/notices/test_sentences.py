"""Numbers in the sentences of notices are rounded as on pages."""

from __future__ import annotations

from apps.contrib.allocations.notice_kinds import describe_ending
from apps.contrib.notices.sentences import unmapped_usage

ALLOCATED = {"path": "/a", "ends_on": "2026-12-31", "core_h": 1_239.9, "is_over": False}


def test_numbers_of_notices_are_rounded_not_truncated() -> None:
    assert "13.0 %" in unmapped_usage({"fraction": 0.1296, "n": 1, "policy": "a"}).text
    assert "1,240 core-h are allocated" in describe_ending(ALLOCATED).text
