"""Entries in local-only fallback: peers have been unreachable for too long."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from apps.policies.models import Policy
from apps.priorities.models import Fallback


@dataclass(frozen=True, slots=True)
class FallenBack:
    """An entry below which only local usage counts, since when and why."""

    uid: UUID
    since: datetime
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"entry": str(self.uid), "since": self.since.astimezone(UTC).isoformat(), "reason": self.reason}

    @classmethod
    def from_json(cls, given: Any) -> FallenBack:
        return cls(UUID(given["entry"]), datetime.fromisoformat(given["since"]), given["reason"])


def list_fallen_back(policy: Policy) -> tuple[FallenBack, ...]:
    """By entry, for a stable order."""
    rows = Fallback.objects.filter(policy=policy).order_by("entry_uid").values_list("entry_uid", "since", "reason")
    return tuple(FallenBack(*row) for row in rows)


def uids_of(fallen: Collection[FallenBack]) -> tuple[UUID, ...]:
    return tuple(one.uid for one in fallen)


def load_fallbacks(policy: Policy) -> tuple[UUID, ...]:
    """The entries now in local-only fallback."""
    return uids_of(list_fallen_back(policy))
