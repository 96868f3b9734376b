"""The mapping of a policy as it is now, after any of its versions, or at an instant: read from the kept versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.utils.translation import gettext as _

from apps.core.errors import NotFound
from apps.mapping.models import Attachment, MappingVersion
from apps.mapping.models import Mapping as MappingRow
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import load_rules, tier_of
from apps.policies.models import Policy


class Placement(NamedTuple):
    """An account attached to an entry, moved, or detached (None). By its id: its names may be erased later."""

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
    """All of a mapping at one version: rules in order, and attached accounts by id."""

    rules: tuple[Rule, ...]
    attached: Mapping[int, UUID]


def as_asked(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Stored rules in the order in which they are asked: exactly named accounts first, defaults last."""
    return tuple(sorted(rules, key=tier_of))


def version_of(policy: Policy) -> int:
    return MappingRow.objects.filter(policy=policy).values_list("version", flat=True).first() or 0


def version_at(policy: Policy, instant: datetime) -> MappingVersion:
    """The version that was current at an instant."""
    found = MappingVersion.objects.filter(policy=policy, at__lte=instant).order_by("-number").first()
    if found is None:
        raise NotFound(_("No version of the mapping is stored for that time."))
    return found


def version_number_at(policy: Policy, instant: datetime) -> int:
    """The number of the version that was current at an instant: 0 before the first one.

    Versions were not always kept. Before the first kept one of such a policy that one is the best that is known.
    """
    versions = MappingVersion.objects.filter(policy=policy)
    numbers = versions.filter(at__lte=instant).order_by("-number").values_list("number", flat=True)
    found = numbers.first()
    if found is not None:
        return found
    oldest = versions.order_by("number").values_list("number", flat=True).first()
    return oldest if oldest is not None and oldest > 1 else 0


def state_of(policy: Policy, number: int) -> MappingState:
    """After a version: its rules, and today's attached accounts with all later changes undone."""
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
