"""Examples of bodies of this plug-in's requests, by operation id."""

from __future__ import annotations

from typing import Any

REQUESTS: dict[str, Any] = {
    "mark_notice": {"is_unread": False, "snoozed_until": "2026-03-08T08:00:00Z"},
    "make_notice_rule": {"kind": "late_source", "policy": "nordgrid", "is_on": True},
    "change_notice_rule": {"is_on": False},
}
