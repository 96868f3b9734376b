"""What was mapped when: each change of rules and attached accounts, by whom and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import F
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core.errors import FieldProblem, NotFound, Stale
from apps.mapping.models import Mapping as MappingRow
from apps.mapping.models import MappingVersion
from apps.mapping.rules.rule import Rule
from apps.mapping.states import Placement, version_of
from apps.policies.models import Policy
from apps.policies.recompute_runs import nudge


def refuse_stale(policy: Policy, version: int | None) -> None:
    """version: what the caller has seen; None asks for nothing."""
    now = version_of(policy)
    if version is not None and version != now:
        message = _("Another person changed the mapping: it is now version %(now)d. Read it again.") % {"now": now}
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


def who_took(policy: Policy, account: int) -> int | None:
    """The person who attached an account that wasn't attached before, last."""
    taken = [{"account": account, "before": None}]
    rows = MappingVersion.objects.filter(policy=policy, attached__contains=taken).order_by("-number")
    return rows.values_list("author_id", flat=True).first()
