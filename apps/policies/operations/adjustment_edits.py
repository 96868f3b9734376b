"""Usage adjustments as operations of a change set write and revoke them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from apps.policies.settings import RESOURCES
from apps.policies.tree.names import clean_text

MOST_ADJUSTED_CORE_S = 1e18
_NOWHERE = UUID(int=0)


@dataclass(frozen=True, slots=True)
class AddedAdjustment:
    """An adjustment that adds `amount_s` of a resource to an entry's usage at the instant `at`; negative amounts
    credit."""

    uid: UUID
    entry_uid: UUID
    resource: str
    amount_s: float
    at: datetime
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "entry": str(self.entry_uid),
            "resource": self.resource,
            "amount_s": self.amount_s,
            "at": self.at.isoformat(),
            "note": self.note,
            "uid": str(self.uid),
        }


@dataclass(frozen=True, slots=True)
class RevokedAdjustment:
    """The revocation of an adjustment."""

    uid: UUID
    entry_uid: UUID


AdjustmentChange = AddedAdjustment | RevokedAdjustment


def read_adjustment(fields: object) -> AddedAdjustment:
    """Parse an adjustment from JSON, without its entry; raise ValueError with the reason if it is invalid."""
    if not isinstance(fields, Mapping):
        raise ValueError("must be an object")
    resource, amount = fields.get("resource", "cpu_s"), fields.get("amount_s")
    if resource not in RESOURCES:
        raise ValueError(f"resource must be one of {', '.join(RESOURCES)}")
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not math.isfinite(amount) or amount == 0:
        raise ValueError("amount_s must be a number of seconds of the resource, above 0 to charge, below 0 to credit")
    if abs(amount) > MOST_ADJUSTED_CORE_S:
        raise ValueError(f"amount_s must be from {-MOST_ADJUSTED_CORE_S:g} to {MOST_ADJUSTED_CORE_S:g}")
    try:
        uid = uuid4() if fields.get("uid") is None else UUID(str(fields["uid"]))
    except ValueError:
        raise ValueError("uid must be a UUID; leave it out") from None
    note = clean_text(fields.get("note", ""), 512)
    return AddedAdjustment(uid, _NOWHERE, resource, float(amount), _instant(fields.get("at")), note)


def _instant(value: object) -> datetime:
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError("at must be an instant with its zone, such as 2026-11-20T12:00:00Z") from None
    if at.tzinfo is None:
        raise ValueError("at needs a zone, such as Z or +01:00")
    return at.astimezone(UTC)
