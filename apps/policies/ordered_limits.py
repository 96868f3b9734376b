"""QOS and GrpTRESMins of entries that a policy orders, by its rules of allocations: what agents carry to schedulers.

It is part of a revision's settings, so undoing the revision takes an order back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from apps.policies.models import Policy, Revision


@dataclass(frozen=True, slots=True)
class AccountLimit:
    """Limits of an entry since a day, with the reason of the rule. None: the rule leaves that to the scheduler.

    grp_tres_mins: minutes by TRES, as in sacctmgr, such as {"cpu": 0}.
    """

    entry_uid: UUID
    qos: str | None
    grp_tres_mins: dict[str, int] | None
    reason: str
    since: date


def account_limits(policy: Policy, at: datetime) -> list[AccountLimit]:
    """Limits that are ordered at an instant, by the revision of that instant; empty before the first one.

    An entry that isn't listed has no limit by a rule. Entries may be archived by then.
    """
    revisions = Revision.objects.filter(policy=policy, published_at__lte=at).order_by("-number")
    settings = revisions.values_list("settings", flat=True).first() or {}
    return [
        AccountLimit(
            entry_uid=UUID(limit["entry"]),
            qos=limit["qos"],
            grp_tres_mins=limit["grp_tres_mins"],
            reason=limit["reason"],
            since=date.fromisoformat(limit["since"]),
        )
        for limit in settings.get("limits", [])
    ]
