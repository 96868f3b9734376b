"""Notifies users whose rank a publication changed: each gets their own numbers, once per revision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.models import Account, User
from apps.analytics.publish_followup import Followup, RankMove
from apps.core.errors import Conflict
from apps.notices.kinds import rank_moved
from apps.notices.models import Notice
from apps.priorities.serving.served_snapshot import AccountQuery, ServedSnapshot


@dataclass(frozen=True, slots=True)
class RankNotice:
    """One notice before it is sent."""

    user: User
    move: RankMove
    facts: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class SentNotices:
    """Notices sent for one revision. at: of the newest."""

    n: int
    at: datetime | None


def preview_rank_notices(found: Followup, *, only_down: bool = False, group: UUID | None = None) -> list[RankNotice]:
    """Notices for moves that the sender sees, to users not yet notified of this revision.

    group: only users below this entry of the first level.

    Raises:
        Conflict: `not_recomputed`, the ranks aren't known yet.
    """
    refuse_sender(found)
    if found.after is None:
        raise Conflict("The ranks of this revision are not computed yet.", code="not_recomputed")
    people, known = _people_at(found.after), set(_sent(found).values_list("key", flat=True))
    prepared = []
    for move in found.moves:
        if (only_down and move.places > 0) or group not in (None, move.group):
            continue
        for user in people.get(found.after.tree.index_of_uid(move.uid) or 0, ()):
            if _key(found, user) not in known:
                known.add(_key(found, user))  # moves are sorted, so this is the entry that moved furthest
                facts = _facts(found, move, user)
                prepared.append(RankNotice(user, move, facts, rank_moved.describe(facts).text))
    return prepared


def send_rank_notices(
    found: Followup, *, only_down: bool = False, group: UUID | None = None, at: datetime, actor: Actor
) -> int:
    """Send notices; returns how many. Users already notified of this revision are skipped."""
    prepared = preview_rank_notices(found, only_down=only_down, group=group)
    with transaction.atomic():
        made = [
            Notice(
                kind=rank_moved.NAME,
                key=_key(found, one.user),
                level=Notice.Level.INFO,
                facts=dict(one.facts),
                policy=found.revision.policy,
                entry_uid=one.move.uid,
                opened_at=at,
                news_at=at,
                changed_at=at,
            )
            for one in prepared
        ]
        Notice.objects.bulk_create(made, ignore_conflicts=True)
        audit.record(
            actor=actor,
            verb="changeset.people_notified",
            at=at,
            policy_slug=found.revision.policy.slug,
            subject=f"revision {found.revision.number}",
            entry_uid=group,
            details={"people": len(made), "only_down": only_down},
        )
    return len(made)


def sent_notices(found: Followup) -> SentNotices:
    times = list(_sent(found).order_by("opened_at").values_list("opened_at", flat=True))
    return SentNotices(len(times), times[-1] if times else None)


def refuse_sender(found: Followup) -> None:
    """Raises NotAllowed unless the actor may publish the change."""
    refusal = found.page.review.why_not_publish(found.page.actor)
    if refusal is not None:
        raise refusal


def _sent(found: Followup) -> Any:
    return Notice.objects.filter(kind=rank_moved.NAME, key__startswith=f"{_prefix(found)}:")


def _prefix(found: Followup) -> str:
    return f"{found.revision.policy_id}:{found.revision.number}"


def _key(found: Followup, user: User) -> str:
    return f"{_prefix(found)}:{user.pk}"


def _facts(found: Followup, move: RankMove, user: User) -> dict[str, Any]:
    return {
        "user": user.pk,
        "name": move.name,
        "policy": found.revision.policy.name,
        "revision": found.revision.number,
        "before": move.before,
        "after": move.after,
        "all": found.n_ranked,
        "reason": move.reason,
        "step": move.step,
        "targets": move.targets and list(move.targets),
        "stated_reason": found.revision.reason.strip().split("\n", 1)[0][:200],
    }


def _people_at(snapshot: ServedSnapshot) -> dict[int, Sequence[User]]:
    """Active users by entry at which their accounts count; each user once per entry."""
    found: dict[int, dict[int, User]] = {}
    accounts = Account.objects.filter(person__is_active=True).select_related("person").order_by("pk")
    for account in accounts:
        query = AccountQuery(
            account.user_name, account.group_name, account.namespace, account.dn, account.fqan, account.project
        )
        for entry in snapshot.index.find_certain(query):
            if account.person is not None:
                found.setdefault(entry, {})[account.person.pk] = account.person
    return {entry: list(users.values()) for entry, users in found.items()}
