"""What was mapped when: each change of rules and attached accounts, and any state of before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.errors import FieldProblem, NotFound, Stale
from apps.policies.models import Policy
from apps.priorities.models import Attachment, MappingVersion
from apps.priorities.models import Mapping as MappingRow
from apps.priorities.recompute import nudge
from apps.priorities.rulebook import load_rules, tier_of
from apps.priorities.rules import Rule


class Placement(NamedTuple):
    """An account attached to an entry, moved, or let go (None). By its id: its names may be taken away some day."""

    account: int
    before: UUID | None
    after: UUID | None

    def to_json(self) -> dict[str, Any]:
        before, after = (None if uid is None else str(uid) for uid in (self.before, self.after))
        return {"account": self.account, "before": before, "after": after}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Placement:
        before, after = (None if data[name] is None else UUID(data[name]) for name in ("before", "after"))
        return cls(int(data["account"]), before, after)


@dataclass(frozen=True)
class MappingState:
    """Everything that somebody stated, at one version: rules as they are asked, and attached accounts by id."""

    rules: tuple[Rule, ...]
    attached: Mapping[int, UUID]


def as_asked(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Stored rules in the order in which they are asked: exactly named accounts first, defaults last."""
    return tuple(sorted(rules, key=tier_of))


def version_of(policy: Policy) -> int:
    return MappingRow.objects.filter(policy=policy).values_list("version", flat=True).first() or 0


def refuse_stale(policy: Policy, version: int | None) -> None:
    """version: what the caller has seen; None asks for nothing."""
    now = version_of(policy)
    if version is not None and version != now:
        message = _("Somebody changed the mapping meanwhile: it is version %(now)d now. Read it again.") % {"now": now}
        raise Stale(message, fields=[FieldProblem("version", message)])


def keep_version(
    policy: Policy,
    *,
    rules: Sequence[Rule] | None = None,
    attached: Sequence[Placement] = (),
    reason: str,
    at: datetime,
    actor: Actor,
) -> int:
    """The number of the next version; the policy is locked, and is computed anew with it. None: rules as before."""
    mapping, _made = MappingRow.objects.get_or_create(policy=policy)
    MappingRow.objects.filter(pk=mapping.pk).update(version=F("version") + 1)
    number = mapping.version + 1
    MappingVersion.objects.create(
        policy=policy, number=number, at=at, author=actor.user, author_name=actor.name, reason=reason,
        rules=None if rules is None else [rule.to_json() for rule in rules],
        attached=[one.to_json() for one in attached],
    )  # fmt: skip
    nudge(policy, at=at)
    return number


def list_versions(policy: Policy, *, before: int | None = None, limit: int = 50) -> list[MappingVersion]:
    """The newest first."""
    rows = MappingVersion.objects.filter(policy=policy)
    return list((rows if before is None else rows.filter(number__lt=before)).order_by("-number")[:limit])


def get_version(policy: Policy, number: int) -> MappingVersion:
    found = MappingVersion.objects.filter(policy=policy, number=number).first() if 0 < number < 2**31 else None
    if found is None:
        raise NotFound(_("There is no such version of the mapping."))
    return found


def version_at(policy: Policy, instant: datetime) -> MappingVersion:
    """What held at an instant."""
    found = MappingVersion.objects.filter(policy=policy, at__lte=instant).order_by("-number").first()
    if found is None:
        raise NotFound(_("Of that time no version of the mapping is known."))
    return found


def state_of(policy: Policy, number: int) -> MappingState:
    """After a version: its rules, and today's attached accounts with everything later taken back."""
    return MappingState(rules_of(policy, number), _attached_of(policy, number))


def rules_of(policy: Policy, number: int) -> tuple[Rule, ...]:
    kept = MappingVersion.objects.filter(policy=policy, number__lte=number, rules__isnull=False)
    found = kept.order_by("-number").values_list("rules", flat=True).first()
    return as_asked([Rule.from_json(one) for one in found or ()])


def state_now(policy: Policy) -> MappingState:
    rows = Attachment.objects.filter(policy=policy).values_list("account_id", "entry_uid")
    return MappingState(as_asked(load_rules(policy)), dict(rows))


def _attached_of(policy: Policy, number: int) -> dict[int, UUID]:
    found = dict(state_now(policy).attached)
    later = MappingVersion.objects.filter(policy=policy, number__gt=number).order_by("-number")
    for changes in later.values_list("attached", flat=True):
        for one in map(Placement.from_json, reversed(changes)):
            if one.before is None:
                found.pop(one.account, None)
            else:
                found[one.account] = one.before
    return found


def who_took(policy: Policy, account: int) -> int | None:
    """The person who attached an account that wasn't attached before, last."""
    taken = [{"account": account, "before": None}]
    rows = MappingVersion.objects.filter(policy=policy, attached__contains=taken).order_by("-number")
    return rows.values_list("author_id", flat=True).first()
