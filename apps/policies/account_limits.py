"""QOS and GrpTRESMins that rules of allocations ordered for entries, as the settings of a revision hold them.

They are settings, so that each order is a revision: it has an author, a reason and a way back.
"""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

from apps.policies.allocation_rules import LONGEST_RULE_NAME, read_qos, read_tres_minutes
from apps.policies.settings_reader import SettingsReader

_MOST_LIMITS = 100_000
LONGEST_LIMIT_REASON = 512


def read_limits(checked: SettingsReader, value: object) -> list[dict[str, Any]]:
    """Validate limits, one of an entry: qos and grp_tres_mins, either may be null, the rule, the day and the reason."""
    where, read, entries = "settings.limits", [], set()
    for place, item in checked.items(value, where, _MOST_LIMITS):
        limit = checked.mapping(item, place, allowed=["entry", "qos", "grp_tres_mins", "rule", "since", "reason"])
        entry = _uid(checked, limit.get("entry"), f"{place}.entry")
        if entry in entries:
            checked.problem(f"{place}.entry", "has another limit in the list")
        entries.add(entry)
        minutes = read_tres_minutes(checked, limit.get("grp_tres_mins"), f"{place}.grp_tres_mins")
        read.append(
            {
                "entry": entry,
                "qos": read_qos(checked, limit.get("qos"), f"{place}.qos") or None,
                "grp_tres_mins": minutes or None,
                "rule": checked.text(limit.get("rule"), f"{place}.rule", LONGEST_RULE_NAME),
                "since": _day(checked, limit.get("since"), f"{place}.since"),
                "reason": checked.text(limit.get("reason"), f"{place}.reason", LONGEST_LIMIT_REASON),
            }
        )
    return read


def _uid(checked: SettingsReader, value: object, where: str) -> str:
    try:
        return str(UUID(value if isinstance(value, str) else ""))
    except ValueError:
        checked.problem(where, "must be an entry's uid")
        return ""


def _day(checked: SettingsReader, value: object, where: str) -> str:
    try:
        return date.fromisoformat(value if isinstance(value, str) else "").isoformat()
    except ValueError:
        checked.problem(where, "must be a day, such as 2026-03-12")
        return ""
