"""Local-only fallback: compare a subtree by local usage while peers are unreachable, then by global usage again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import SYSTEM
from apps.policies.models import Policy
from apps.policies.recompute_runs import queue_recompute
from apps.policies.tree.columns import TreeColumns
from apps.priorities.models import Fallback


@dataclass(frozen=True, slots=True)
class LocalOnlyEntry:
    """An entry below which only local usage counts, since when and why."""

    uid: UUID
    since: datetime
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"entry": str(self.uid), "since": self.since.astimezone(UTC).isoformat(), "reason": self.reason}

    @classmethod
    def from_json(cls, document: Any) -> LocalOnlyEntry:
        return cls(UUID(document["entry"]), datetime.fromisoformat(document["since"]), document["reason"])


def list_local_only_entries(policy: Policy) -> tuple[LocalOnlyEntry, ...]:
    """Entries of a policy in local-only fallback, sorted by uid."""
    rows = Fallback.objects.filter(policy=policy).order_by("entry_uid").values_list("entry_uid", "since", "reason")
    return tuple(LocalOnlyEntry(*row) for row in rows)


def local_only_in(tree: TreeColumns, fallbacks: Collection[LocalOnlyEntry]) -> dict[int, LocalOnlyEntry]:
    """Entries of a tree whose children these fallbacks compare by local instead of global usage, by index."""
    entries: dict[int, LocalOnlyEntry] = {}
    if not fallbacks:
        return entries
    code, scopes = tree.effective_scopes()
    for fallback in sorted(fallbacks, key=lambda each: each.since, reverse=True):
        top = tree.index_of_uid(fallback.uid)
        for level in () if top is None else tree.subtree(top):
            entries.update((i, fallback) for i in level if scopes[int(code[i])][0] == "global")
    return entries


def uids_of(entries: Collection[LocalOnlyEntry]) -> tuple[UUID, ...]:
    return tuple(entry.uid for entry in entries)


def load_fallbacks(policy: Policy) -> tuple[UUID, ...]:
    """The entries now in local-only fallback."""
    return uids_of(list_local_only_entries(policy))


__all__ = ["fall_back", "load_fallbacks", "recover"]


@transaction.atomic
def fall_back(policy: Policy, entry_uid: UUID, *, reason: str, at: datetime) -> bool:
    """Start the fallback of an entry: children at and below it are compared by local usage. True if it is new.

    reason: shown beside the numbers; the reason of a fallback that is already active isn't replaced.
    """
    defaults = {"reason": reason, "since": at}
    _found, is_new = Fallback.objects.get_or_create(policy=policy, entry_uid=entry_uid, defaults=defaults)
    if is_new:
        _record(policy, entry_uid, "fallback.begun", reason=reason, at=at)
    return is_new


@transaction.atomic
def recover(policy: Policy, entry_uid: UUID, *, at: datetime) -> bool:
    """End the fallback of an entry: scopes apply again. True if the entry was in fallback."""
    n_gone, _rows = Fallback.objects.filter(policy=policy, entry_uid=entry_uid).delete()
    if n_gone:
        _record(policy, entry_uid, "fallback.ended", reason="", at=at)
    return bool(n_gone)


def _record(policy: Policy, entry_uid: UUID, verb: str, *, reason: str, at: datetime) -> None:
    audit.record(actor=SYSTEM, verb=verb, at=at, policy_slug=policy.slug, entry_uid=entry_uid, reason=reason)
    queue_recompute(policy, at=at)
