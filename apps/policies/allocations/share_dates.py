"""Dates of an entry's shares, published at once with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.actor import Actor
from apps.policies.allocations.records import refusals_on_record
from apps.policies.changesets.change_sets import require_reason
from apps.policies.models import Revision
from apps.policies.services import make_change_set, publish_change_set


def change_dates(
    *, policy_slug: str, entry_uid: UUID, dates: Mapping[str, Any] | None, reason: str,
    base_revision: int | None = None, at: datetime, actor: Actor,
) -> Revision:  # fmt: skip
    """A change set of the one operation `set_dates`, published. dates: see `terms.read_dates`; None for none."""
    operation = {"op": "set_dates", "entry": str(entry_uid), "dates": None if dates is None else dict(dates)}
    event = {"policy_slug": policy_slug[:64], "entry_uid": entry_uid, "subject": f"dates of {entry_uid}"}
    with refusals_on_record("policy.published", actor, at, **event), transaction.atomic():
        draft = make_change_set(
            policy_slug=policy_slug, base_revision=base_revision, operations=[operation],
            reason=require_reason(reason), at=at, actor=actor,
        )  # fmt: skip
        return publish_change_set(id=draft.pk, version=draft.version, at=at, actor=actor)
