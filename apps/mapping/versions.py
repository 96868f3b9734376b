"""Versions of the mapping with author and reason, and the mapping at an instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F
from django.utils.translation import gettext as _

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.core.errors import FieldProblem, NotFound, Stale
from apps.mapping.models import Attachment, MappingVersion
from apps.mapping.models import Mapping as MappingRow
from apps.mapping.permissions import MapRights
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import load_rules, tier_of
from apps.policies.models import Policy
from apps.policies.recompute_runs import queue_recompute

PAGE = 30


class Placement(NamedTuple):
    """An attached, moved or detached (None) account, by id, because its names may be erased later."""

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
    """The complete mapping at one version: rules in order, and attached accounts by id."""

    rules: tuple[Rule, ...]
    attached: Mapping[int, UUID]


def sort_by_tier(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Sort rules by tier, the order in which they are tried: exact rules first, default rules last."""
    return tuple(sorted(rules, key=tier_of))


def version_of(policy: Policy) -> int:
    return MappingRow.objects.filter(policy=policy).values_list("version", flat=True).first() or 0


def version_at(policy: Policy, instant: datetime) -> MappingVersion:
    """Return the version that was current at an instant."""
    version = MappingVersion.objects.filter(policy=policy, at__lte=instant).order_by("-number").first()
    if version is None:
        raise NotFound(_("No version of the mapping is stored for that time."))
    return version


def version_number_at(policy: Policy, instant: datetime) -> int:
    """Return the number of the version that was current at an instant, 0 before the first one.

    Versions were not always stored. Before the first stored version of an older policy, that version is the best known.
    """
    versions = MappingVersion.objects.filter(policy=policy)
    numbers = versions.filter(at__lte=instant).order_by("-number").values_list("number", flat=True)
    number = numbers.first()
    if number is not None:
        return number
    oldest = versions.order_by("number").values_list("number", flat=True).first()
    return oldest if oldest is not None and oldest > 1 else 0


def mapping_at_version(policy: Policy, number: int) -> MappingState:
    """Return the mapping after a version: its rules, and the current attachments with all later changes undone."""
    return MappingState(rules_of(policy, number), _attached_of(policy, number))


def rules_of(policy: Policy, number: int) -> tuple[Rule, ...]:
    kept = MappingVersion.objects.filter(policy=policy, number__lte=number, rules__isnull=False)
    rows = kept.order_by("-number").values_list("rules", flat=True).first()
    return sort_by_tier([Rule.from_json(row) for row in rows or ()])


def current_mapping(policy: Policy) -> MappingState:
    rows = Attachment.objects.filter(policy=policy).values_list("account_id", "entry_uid")
    return MappingState(sort_by_tier(load_rules(policy)), dict(rows))


def _attached_of(policy: Policy, number: int) -> dict[int, UUID]:
    attached = dict(current_mapping(policy).attached)
    later = MappingVersion.objects.filter(policy=policy, number__gt=number).order_by("-number")
    for changes in later.values_list("attached", flat=True):
        for placement in map(Placement.from_json, reversed(changes)):
            if placement.before is None:
                attached.pop(placement.account, None)
            else:
                attached[placement.account] = placement.before
    return attached


def refuse_stale(policy: Policy, version: int | None) -> None:
    """Raise Stale if `version`, as loaded by the caller, isn't current; None skips the check."""
    now = version_of(policy)
    if version is not None and version != now:
        message = _("Another person changed the mapping: it is now version %(now)d. Read it again.") % {"now": now}
        raise Stale(message, fields=[FieldProblem("version", message)])


def store_version(
    policy: Policy,
    *,
    rules: Sequence[Rule] | None = None,
    attached: Sequence[Placement] = (),
    reason: str,
    at: datetime,
    actor: Actor,
) -> int:
    """Store the next version, queue a recompute, and return the number. The caller has locked the policy.

    rules: None if unchanged.
    """
    mapping, _made = MappingRow.objects.get_or_create(policy=policy)
    MappingRow.objects.filter(pk=mapping.pk).update(version=F("version") + 1)
    number = mapping.version + 1
    MappingVersion.objects.create(
        policy=policy,
        number=number,
        at=at,
        author=actor.user,
        author_name=actor.name,
        reason=reason,
        rules=None if rules is None else [rule.to_json() for rule in rules],
        attached=[placement.to_json() for placement in attached],
    )
    queue_recompute(policy, at=at)
    return number


def get_version(policy: Policy, number: int) -> MappingVersion:
    version = MappingVersion.objects.filter(policy=policy, number=number).first() if 0 < number < 2**31 else None
    if version is None:
        raise NotFound(_("Not found, or not visible to you."))
    return version


def get_attaching_user(policy: Policy, account: int) -> int | None:
    """Return the id of the user who last attached this account while it was unattached."""
    taken = [{"account": account, "before": None}]
    rows = MappingVersion.objects.filter(policy=policy, attached__contains=taken).order_by("-number")
    return rows.values_list("author_id", flat=True).first()


@dataclass(frozen=True)
class VersionRow:
    """A version and its changes. In placements, the account is None if its row was deleted."""

    version: MappingVersion
    added: Sequence[Rule]
    removed: Sequence[Rule]
    is_reordered: bool
    placements: Sequence[tuple[AccountKey | None, Placement]]
    rules: Sequence[Rule]  # all rules after this version


def list_version_rows(rights: MapRights, *, before: int | None = None, limit: int = PAGE) -> list[VersionRow]:
    """List versions with their changes, newest first; only own ones without the right to read names at the root."""
    rights.require_anywhere()
    rows = MappingVersion.objects.filter(policy=rights.policy)
    if before is not None:
        rows = rows.filter(number__lt=before)
    if not rights.may_name(0):
        rows = rows.filter(author=rights.actor.user)
    return [_line(rights, row) for row in rows.order_by("-number")[:limit]]


def get_version_row(rights: MapRights, number: int) -> VersionRow:
    rights.require_anywhere()
    version = get_version(rights.policy, number)
    user = rights.actor.user
    if not rights.may_name(0) and (user is None or version.author_id != user.pk):
        raise NotFound("There is no such version of the mapping.")
    return _line(rights, version)


def _line(rights: MapRights, row: MappingVersion) -> VersionRow:
    after = rules_of(rights.policy, row.number)
    before = after if row.rules is None else rules_of(rights.policy, row.number - 1)
    added, removed = Counter(after) - Counter(before), Counter(before) - Counter(after)
    placements = [Placement.from_json(document) for document in row.attached]
    accounts = Account.objects.filter(pk__in=[placement.account for placement in placements]).values_list(
        "pk", *AccountKey._fields
    )
    names = {pk: AccountKey(*key) for pk, *key in accounts}
    return VersionRow(
        version=row,
        added=list(added.elements()),
        removed=list(removed.elements()),
        is_reordered=not added and not removed and after != before,
        placements=[(names.get(placement.account), placement) for placement in placements],
        rules=after,
    )
