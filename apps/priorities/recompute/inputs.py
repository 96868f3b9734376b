"""Inputs of a recompute: the policy's state at an instant, its adjustments of usage, and a fingerprint of it all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.conf import settings as site_settings
from django.db import connection
from django.db.models import Q
from django.utils.translation import gettext as _

from apps import engine
from apps.accounts.account_ids import AccountKey, canonical
from apps.accounts.models import Account
from apps.core.errors import FieldProblem, Invalid
from apps.engine import decay
from apps.mapping.models import MappingVersion
from apps.mapping.rules.resolver import KnownAccounts
from apps.mapping.rules.rule_set import RuleSet, build_rule_set, load_rule_set, people_digest
from apps.mapping.versions import MappingState, mapping_at_version, version_number_at, version_of
from apps.policies.models import Adjustment, Policy, Revision
from apps.policies.selectors import get_revision
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.priorities.local_only import LocalOnlyEntry, list_local_only_entries
from apps.priorities.models import Snapshot
from apps.usage.changed_hours import earliest_change
from apps.usage.selectors import watermarks

# --- Corrections ------------------------------------------------------------------------------------------------------
F8 = npt.NDArray[np.float64]
_HOUR_S = decay.BUCKET_S


@dataclass(frozen=True, slots=True)
class Correction:
    """One active adjustment: seconds of a resource (below 0: a refund), as if used in the hour of `at_s`."""

    uid: UUID
    entry_uid: UUID
    resource: str
    amount_s: float
    at_s: float
    note: str = ""


def load_corrections(policy: Policy, revision: int) -> tuple[Correction, ...]:
    """Adjustments active in a revision, sorted by uid so that the order doesn't depend on the database."""
    rows = Adjustment.objects.filter(policy=policy, since__lte=revision).filter(Q(until=None) | Q(until__gt=revision))
    found = rows.values_list("uid", "entry_uid", "resource", "amount_s", "at", "note")
    ordered = sorted(found, key=lambda row: str(row[0]))
    return tuple(
        Correction(uid, entry, what, amount, at.timestamp(), note) for uid, entry, what, amount, at, note in ordered
    )


def correction_amounts(
    corrections: Sequence[Correction], *, metric: Mapping[str, Any], window: decay.Window, as_of_s: float
) -> F8:
    """Amount of each correction at `as_of_s` in the metric's unit: amount × weight of its resource × decay.

    0 before the instant of the correction.
    """
    if not corrections:
        return np.zeros(0)
    hour_s = np.array([each.at_s // _HOUR_S * _HOUR_S for each in corrections])
    amount = np.array([metric["weights"].get(each.resource, 0.0) * each.amount_s for each in corrections])
    amount[np.array([each.at_s for each in corrections]) > as_of_s] = 0.0
    counted: F8 = amount * decay.bucket_weights(hour_s, as_of_s, window) + 0.0  # no −0
    return counted


def corrections_json(tree: TreeColumns, corrections: Sequence[Correction], counted: F8) -> list[dict[str, Any]]:
    """Corrections with an amount other than 0, as the snapshot stores them; `counted` is in the metric's unit."""
    return [
        {
            "uid": str(each.uid),
            "entry": str(each.entry_uid),
            "resource": each.resource,
            "amount_s": each.amount_s,
            "at_s": each.at_s,
            "note": each.note,
            "counted": amount,
        }
        for each, amount in zip(corrections, counted.tolist(), strict=True)
        if amount and tree.index_of_uid(each.entry_uid) is not None
    ]


def apply_corrections(tree: TreeColumns, own: F8, corrections: Sequence[Correction], counted: F8) -> F8:
    """Add corrections to the entries' own usage (n,); no usage falls below 0.

    Added usage belongs to the entry itself, also if it is a group. A refund reduces the entry and all entries below in
    proportion to their usage, so that their relative shares stay. Refunds of deeper entries are applied first.
    """
    net: dict[int, float] = {}
    for each, amount in zip(corrections, counted.tolist(), strict=True):
        at = tree.index_of_uid(each.entry_uid)
        if at is not None and amount:
            net[at] = net.get(at, 0.0) + amount
    if not net:
        return own
    own = own.copy()
    for at, amount in net.items():
        own[at] += max(amount, 0.0)
    for at in sorted((at for at, amount in net.items() if amount < 0), reverse=True):
        below = tree.subtree(at)
        total = sum(float(own[level.start : level.stop].sum()) for level in below)
        left = max(total + net[at], 0.0)
        for level in below:
            own[level.start : level.stop] *= left / total if total > 0 else 1.0
    return own


# --- State at an instant --------------------------------------------------------------------------------------------
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
        found: datetime | None = cursor.fetchone()[0]
    return found


def _entries_of_attached(mapping: MappingState) -> dict[AccountKey, Any]:
    """Entries of attached accounts, by their names as stored and in canonical spelling."""
    fields: Sequence[str] = AccountKey._fields
    rows = Account.objects.filter(pk__in=list(mapping.attached)).order_by("pk").values_list("pk", *fields)
    entries = {AccountKey(*row[1:]): mapping.attached[row[0]] for row in rows}
    return entries | {canonical(key): uid for key, uid in entries.items() if canonical(key) not in entries}


# --- Fingerprint ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Fingerprint:
    """Everything that decides the numbers of a snapshot; equal fingerprints give equal snapshots."""

    policy_slug: str
    revision: int
    mapping_version: int
    watermarks: Mapping[str, int]
    settings: Mapping[str, Any]
    engine_version: str
    as_of: datetime
    people: str = ""  # digest of the members of sign-in groups that membership rules name
    local_only: tuple[LocalOnlyEntry, ...] = ()  # entries in local-only fallback

    def to_json(self) -> dict[str, Any]:
        return {
            **({"people": self.people} if self.people else {}),
            **({"fallbacks": [one.to_json() for one in self.local_only]} if self.local_only else {}),
            "policy": self.policy_slug,
            "revision": self.revision,
            "mapping_version": self.mapping_version,
            "watermarks": dict(self.watermarks),
            "settings": dict(self.settings),
            "engine_version": self.engine_version,
            "as_of": self.as_of.astimezone(UTC).isoformat(),
        }

    @cached_property
    def digest(self) -> str:
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def read_fingerprint(policy: Policy, *, as_of: datetime, state: PolicyState | None = None) -> Fingerprint:
    """Fingerprint of what the database holds now. state: of a past instant; the current state by default."""
    state = state or current_state(policy)
    return Fingerprint(
        policy_slug=policy.slug,
        revision=state.revision,
        mapping_version=state.mapping_version,
        watermarks=watermarks(),
        settings=state.settings,
        engine_version=engine.VERSION,
        as_of=as_of,
        people=people_digest(load_tree(policy, state.revision)),
        local_only=tuple(one for one in list_local_only_entries(policy) if tick_of(one.since) <= as_of),
    )


def tick_of(at: datetime) -> datetime:
    """`at` rounded down to a whole tick: all workers compute priorities for the same instant."""
    tick_s = site_settings.FAIRSHARE_TICK_S
    return datetime.fromtimestamp(at.timestamp() // tick_s * tick_s, UTC)
