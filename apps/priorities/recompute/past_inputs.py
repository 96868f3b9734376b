"""Which revision, settings, adjustments and mapping were current at an instant, and what of them became known later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.utils.translation import gettext as _

from apps.accounts.models import Account
from apps.accounts.names.account_ids import AccountKey, canonical
from apps.core.errors import FieldProblem, Invalid
from apps.mapping.models import MappingVersion
from apps.mapping.rules.resolver import KnownAccounts
from apps.mapping.rules.rule_set import Rulebook, load_rulebook, rulebook_of
from apps.mapping.states import MappingState, state_of, version_number_at, version_of
from apps.policies.models import Adjustment, Policy, Revision
from apps.policies.selectors import get_revision
from apps.policies.tree.columns import TreeColumns
from apps.priorities.models import Snapshot
from apps.usage.buckets.changed_hours import earliest_change


@dataclass(frozen=True)
class PolicyState:
    """What of a policy decides its priorities besides usage. mapping: None is the one that the tables hold now."""

    revision: int
    settings: Mapping[str, Any]
    mapping_version: int
    mapping: MappingState | None = None

    def rulebook(self, policy: Policy, tree: TreeColumns) -> Rulebook:
        """Membership in groups of sign-in is today's: its past is not kept."""
        if self.mapping is None:
            return load_rulebook(policy, tree)
        book = rulebook_of(policy, tree, self.mapping.rules)
        return Rulebook(book.rules, KnownAccounts(_places(self.mapping), book.known.persons))


def state_of_now(policy: Policy) -> PolicyState:
    """The head revision and the newest mapping."""
    revision = Revision.objects.filter(policy=policy).order_by("-number").values("number", "settings").first()
    if revision is None:
        raise LookupError(f"{policy.slug} has nothing published")
    return PolicyState(revision["number"], revision["settings"], version_of(policy))


def state_at(policy: Policy, instant: datetime) -> PolicyState:
    """What was current at an instant; `refuse_before_first` has been asked before."""
    revision = get_revision(policy=policy, at=instant)
    number = version_number_at(policy, instant)
    mapping = state_of(policy, number) if number else MappingState((), {})
    return PolicyState(revision.number, revision.settings, number, mapping)


def refuse_before_first(policy: Policy, instant: datetime) -> None:
    """Raises Invalid `before_first_revision`: before it a policy has no tree and no priorities."""
    published = Revision.objects.filter(policy=policy).order_by("number").values_list("published_at", flat=True)
    first_at = published.first()
    if first_at is None or instant < first_at:
        message = _(
            "Policy %(policy)s had no revision then: the first was published at %(at)s. Choose a later instant."
        )
        said = {"policy": policy.slug, "at": "-" if first_at is None else written(first_at)}
        problem = FieldProblem("as_of", _("is before the first revision"))
        raise Invalid(message % said, code="before_first_revision", fields=[problem])


def known_later(policy: Policy, state: PolicyState, book: Rulebook, instant: datetime) -> dict[str, Any]:
    """What a reconstruction has to say about itself, as JSON; `moments.notes_of` makes sentences of it.

    reported_after: when the last live snapshot up to the instant was computed; null where none is kept. usage_from: the
    first hour before the instant of which usage was reported or corrected since; it is included. corrections: how many
    adjustments dated up to the instant were published later; they are left out. first_usage_at: of the first usage,
    where that is later than the instant. has_mapping: by stored rules, attached accounts or rules for members.
    mapping_at: of the oldest kept mapping, where that of then is not kept.
    """
    live = Snapshot.objects.filter(policy=policy, is_live=True, as_of__lte=instant).defer("data").order_by("-as_of")
    before = live.first()
    changed_at = None if before is None else earliest_change(before.watermarks)
    first_at = _first_usage_at()
    if changed_at is not None and first_at is not None:
        changed_at = max(changed_at, first_at)
    later = Adjustment.objects.filter(policy=policy, at__lte=instant, since__gt=state.revision)
    versions = MappingVersion.objects.filter(policy=policy, number=state.mapping_version, at__gt=instant)
    mapping_at = versions.values_list("at", flat=True).first()
    return {
        "reported_after": None if before is None else written(before.computed_at),
        "usage_from": None if changed_at is None or changed_at >= instant else written(changed_at),
        "corrections": later.count(),
        "first_usage_at": None if first_at is not None and first_at < instant else _or_null(first_at),
        "has_usage": first_at is not None and first_at < instant,
        "has_mapping": bool(book.rules or book.known.places),
        "mapping_at": _or_null(mapping_at),
    }


def written(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _or_null(at: datetime | None) -> str | None:
    return None if at is None else written(at)


def _first_usage_at() -> datetime | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(hour_at) FROM usage_bucket")
        found: datetime | None = cursor.fetchone()[0]
    return found


def _places(mapping: MappingState) -> dict[AccountKey, Any]:
    """Where each attached account counts, by its names and by their usual spelling."""
    fields: Sequence[str] = AccountKey._fields
    rows = Account.objects.filter(pk__in=list(mapping.attached)).order_by("pk").values_list("pk", *fields)
    places = {AccountKey(*row[1:]): mapping.attached[row[0]] for row in rows}
    return places | {canonical(key): uid for key, uid in places.items() if canonical(key) not in places}
