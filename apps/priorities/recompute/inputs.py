"""Inputs of a recompute: the policy's state at an instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.utils.translation import gettext as _

from apps.accounts.account_keys import AccountKey, canonical
from apps.accounts.models import Account
from apps.core.errors import FieldProblem, Invalid
from apps.mapping.models import MappingVersion
from apps.mapping.rules.resolver import KnownAccounts
from apps.mapping.rules.rule_set import RuleSet, build_rule_set, load_rule_set
from apps.mapping.versions import MappingState, mapping_at_version, version_number_at, version_of
from apps.policies.models import Adjustment, Policy, Revision
from apps.policies.selectors import get_revision
from apps.policies.tree.columns import TreeColumns
from apps.priorities.models import Snapshot
from apps.usage.changed_hours import earliest_change


@dataclass(frozen=True)
class PolicyState:
    """Revision, settings and mapping that decide priorities besides usage. mapping: None for the current one."""

    revision: int
    settings: Mapping[str, Any]
    mapping_version: int
    mapping: MappingState | None = None

    def rule_set(self, policy: Policy, tree: TreeColumns) -> RuleSet:
        """Mapping rules of this state. Membership in sign-in groups is always today's: its past isn't stored."""
        if self.mapping is None:
            return load_rule_set(policy, tree)
        rule_set = build_rule_set(policy, tree, self.mapping.rules)
        return RuleSet(rule_set.rules, KnownAccounts(_entries_of_attached(self.mapping), rule_set.known.persons))


def current_state(policy: Policy) -> PolicyState:
    """The head revision and the newest mapping."""
    revision = Revision.objects.filter(policy=policy).order_by("-number").values("number", "settings").first()
    if revision is None:
        raise LookupError(f"{policy.slug} has nothing published")
    return PolicyState(revision["number"], revision["settings"], version_of(policy))


def state_at(policy: Policy, instant: datetime) -> PolicyState:
    """The revision and mapping that were current at an instant. Call `refuse_before_first` first."""
    revision = get_revision(policy=policy, at=instant)
    number = version_number_at(policy, instant)
    mapping = mapping_at_version(policy, number) if number else MappingState((), {})
    return PolicyState(revision.number, revision.settings, number, mapping)


def refuse_before_first(policy: Policy, instant: datetime) -> None:
    """Raise Invalid `before_first_revision` if the policy had no published revision at the instant."""
    published = Revision.objects.filter(policy=policy).order_by("number").values_list("published_at", flat=True)
    first_at = published.first()
    if first_at is None or instant < first_at:
        message = _(
            "Policy %(policy)s had no revision then: the first was published at %(at)s. Choose a later instant."
        )
        values = {"policy": policy.slug, "at": "-" if first_at is None else instant_text(first_at)}
        problem = FieldProblem("as_of", _("is before the first revision"))
        raise Invalid(message % values, code="before_first_revision", fields=[problem])


def find_later_changes(policy: Policy, state: PolicyState, rule_set: RuleSet, instant: datetime) -> dict[str, Any]:
    """How inputs read today differ from those known at a past instant, as JSON; see `records.notes_of`.

    reported_after: when the last live snapshot up to the instant was computed; null if none is stored. usage_from:
    first hour before the instant whose usage was reported or corrected since then; that usage is included.
    corrections: number of adjustments dated up to the instant but published later; they are excluded. first_usage_at:
    hour of the first usage, if later than the instant. has_mapping: some rule or attached account exists. mapping_at:
    instant of the oldest stored mapping, if the mapping of the instant isn't stored any more.
    """
    live = Snapshot.objects.filter(policy=policy, is_live=True, as_of__lte=instant).defer("data").order_by("-as_of")
    before = live.first()
    changed_at = None if before is None else earliest_change(before.watermarks)
    first_at = first_usage_at()
    if changed_at is not None and first_at is not None:
        changed_at = max(changed_at, first_at)
    later = Adjustment.objects.filter(policy=policy, at__lte=instant, since__gt=state.revision)
    versions = MappingVersion.objects.filter(policy=policy, number=state.mapping_version, at__gt=instant)
    mapping_at = versions.values_list("at", flat=True).first()
    return {
        "reported_after": None if before is None else instant_text(before.computed_at),
        "usage_from": None if changed_at is None or changed_at >= instant else instant_text(changed_at),
        "corrections": later.count(),
        "first_usage_at": None if first_at is not None and first_at < instant else _or_null(first_at),
        "has_usage": first_at is not None and first_at < instant,
        "has_mapping": bool(rule_set.rules or rule_set.known.places),
        "mapping_at": _or_null(mapping_at),
    }


def instant_text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _or_null(at: datetime | None) -> str | None:
    return None if at is None else instant_text(at)


def first_usage_at() -> datetime | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(hour_at) FROM usage_bucket")
        first_at: datetime | None = cursor.fetchone()[0]
    return first_at


def _entries_of_attached(mapping: MappingState) -> dict[AccountKey, Any]:
    """Entries of attached accounts, by their names as stored and in canonical spelling."""
    fields: Sequence[str] = AccountKey._fields
    rows = Account.objects.filter(pk__in=list(mapping.attached)).order_by("pk").values_list("pk", *fields)
    entries = {AccountKey(*row[1:]): mapping.attached[row[0]] for row in rows}
    return entries | {canonical(key): uid for key, uid in entries.items() if canonical(key) not in entries}
