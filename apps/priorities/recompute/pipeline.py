"""The three steps of a recompute: load inputs from the database, compute priorities on arrays, store a snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps import engine
from apps.accounts.account_index import AccountKeys, load_account_index
from apps.core.postgresql import consistent_read
from apps.engine import sweep
from apps.engine.algorithms import PriorityResult
from apps.mapping.rules.account_places import AccountPlaces, places_of
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.resolver import NOTHING_KNOWN, UNMAPPED, KnownAccounts
from apps.mapping.rules.rule import Rule
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings, refusing_failed_packages
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.priorities.local_only import uids_of
from apps.priorities.metering import (
    HOUR_S,
    AccountUsage,
    RecordedUsage,
    SourceRow,
    usage_of_accounts,
    usage_of_scope,
    window_of,
)
from apps.priorities.models import Snapshot, UnmappedAccounts
from apps.priorities.own_times import load_ended
from apps.priorities.recompute.corrections import (
    Correction,
    apply_corrections,
    correction_amounts,
    corrections_json,
    load_corrections,
)
from apps.priorities.recompute.fingerprint import Fingerprint, read_fingerprint
from apps.priorities.recompute.inputs import current_state, find_later_changes, state_at
from apps.priorities.snapshot_values import OwnUsage, Values, pack_snapshot, values_of
from apps.priorities.snapshots import write_data, write_places
from apps.priorities.usage_factors import JobClassRow, site_names, weighted_resources
from apps.runs.models import Run
from apps.usage.arrays import OpenRecords, UsageArrays, load_open_records, load_usage
from apps.usage.models import JobClass, Source
from apps.usage.own_times import EndedRecords

I4 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Everything a snapshot depends on, read in one transaction. account_ids: ascending, parallel to account_keys."""

    policy_pk: int
    fingerprint: Fingerprint
    settings: PolicySettings
    tree: TreeColumns
    rules: tuple[Rule, ...]
    sources: Sequence[SourceRow]
    classes: Mapping[int, JobClassRow]
    account_ids: npt.NDArray[np.int64]
    account_keys: AccountKeys
    usage: UsageArrays
    opened: OpenRecords
    ended: EndedRecords | None = None
    corrections: tuple[Correction, ...] = ()
    known: KnownAccounts = NOTHING_KNOWN
    known_later: Mapping[str, Any] | None = None  # of a past instant, see find_later_changes

    @property
    def as_of(self) -> datetime:
        return self.fingerprint.as_of

    @property
    def recorded(self) -> RecordedUsage:
        return RecordedUsage(self.usage, self.opened, self.account_ids, self.sources, self.classes, self.ended)

    @property
    def local_only(self) -> tuple[UUID, ...]:
        """Entries below which only the usage of this site counts, whatever their scope is."""
        return uids_of(self.fingerprint.local_only)


@dataclass(frozen=True, eq=False)
class Computed:
    """The computed priority tree, and entry and usage of each account.

    demand_core_s: core-seconds requested by waiting jobs, of each entry and all below it. joins_of_account: index of
    the *each* rule by which an account joins its entry, −1 for none.
    """

    result: PriorityResult
    own: OwnUsage
    has_demand: npt.NDArray[np.bool_]
    demand_core_s: npt.NDArray[np.float64]
    entry_of_account: I4
    joins_of_account: I4
    usage_of_account: npt.NDArray[np.float64]
    corrections: Sequence[Mapping[str, Any]] = ()


def load_inputs(
    policy: Policy,
    *,
    as_of: datetime,
    from_at: datetime | None = None,
    metrics: Sequence[Mapping[str, Any]] = (),
    is_past: bool = False,
) -> Inputs:
    """Read one consistent state of revision, rules, accounts and usage.

    is_past: read the revision, settings, adjustments and mapping that were current at `as_of`. from_at: also load usage
    since then that is outside the policy's window. metrics: also load resources, classes and sites that these metrics
    need. All hours of the window are read each time: with a million entries a recompute takes 1.8 of the 3 times that
    the goal of `bench recompute` allows (1.3 with a cache of hours between two recomputes).
    """
    with consistent_read() as may_cache:
        state = state_at(policy, as_of) if is_past else current_state(policy)
        fingerprint = read_fingerprint(policy, as_of=as_of, state=state)
        settings = PolicySettings.from_stored(fingerprint.settings)
        rows = Source.objects.order_by("id").values_list("id", "slug", "origin")
        sources = [SourceRow(*row) for row in rows]
        source_ids = [source.id for source in sources]
        sites = sorted({name for metric in (settings.metric, *metrics) for name in site_names(metric)})
        classes_count = any(metric["class_factors"] for metric in (settings.metric, *metrics))
        resources = {name for metric in (settings.metric, *metrics) for name in weighted_resources(metric)}
        window = window_of(settings.window)
        since = _earlier(oldest_counted_at(settings, as_of), from_at)
        classes = [JobClassRow(*row) for row in JobClass.objects.values_list("id", "queue", "partition", "qos")]
        accounts = load_account_index(use_cache=may_cache)
        tree = load_tree(policy, fingerprint.revision)
        rule_set = state.rule_set(policy, tree)
        return Inputs(
            policy_pk=policy.pk,
            fingerprint=fingerprint,
            settings=settings,
            tree=tree,
            rules=rule_set.rules,
            known=rule_set.known,
            sources=sources,
            classes={row.id: row for row in classes},
            account_ids=accounts.ids,
            account_keys=accounts.keys,
            usage=load_usage(
                sources=source_ids, from_at=since, to_at=as_of, sites=sites, resources=resources, classes=classes_count
            ),
            opened=load_open_records(
                sources=source_ids,
                sites=sites,
                submitted_by=as_of if is_past else None,
                parts=window.charges_by_period,
            ),
            ended=load_ended(window, sources=source_ids, to_at=as_of, sites=sites),
            corrections=load_corrections(policy, fingerprint.revision),
            known_later=find_later_changes(policy, state, rule_set, as_of) if is_past else None,
        )


def compute(inputs: Inputs) -> Computed:
    """Compute priorities: a pure function of its inputs, reproducible bit for bit."""
    return compute_from(inputs, used_by_accounts(inputs))


def used_by_accounts(inputs: Inputs) -> AccountUsage:
    """Decayed usage of each account at the instant, by source."""
    return usage_of_accounts(
        inputs.recorded,
        metric=inputs.settings.metric,
        window=window_of(inputs.settings.window),
        as_of_s=inputs.as_of.timestamp(),
    )


def compute_from(inputs: Inputs, accounts: AccountUsage) -> Computed:
    """Compute priorities from the usage of accounts, which may be hypothetical.

    Raises Invalid (`package_failed`) if the algorithm is from a package that fails.
    """
    tree, settings = inputs.tree, inputs.settings
    placement = place_accounts(inputs.tree, inputs.rules, inputs.known, inputs.account_keys)
    entry = placement.of_usage
    code, scopes = tree.effective_scopes(local=inputs.local_only)
    counted = correction_amounts(
        inputs.corrections,
        metric=settings.metric,
        window=window_of(settings.window),
        as_of_s=inputs.as_of.timestamp(),
    )
    by_scope = [
        apply_corrections(tree, _usage_of_entries(inputs, accounts, entry, *scope), inputs.corrections, counted)
        for scope in scopes
    ]
    own = OwnUsage(np.stack(by_scope), code) if len(scopes) > 1 else OwnUsage(by_scope[0])
    with refusing_failed_packages():
        result = own.compute(tree, settings.algorithm)
    has_demand, demand_core_s = _demand_of_entries(tree, accounts, entry)
    return Computed(
        result=result,
        own=own,
        has_demand=has_demand,
        demand_core_s=demand_core_s,
        entry_of_account=entry,
        joins_of_account=placement.joins,
        usage_of_account=usage_of_scope(
            accounts, scope="global", narrowed=(), sources=inputs.sources, approach=settings.approach["global"]
        ),
        corrections=corrections_json(tree, inputs.corrections, counted),
    )


def store_result(
    inputs: Inputs, computed: Computed, *, is_live: bool, started_at: datetime, computed_at: datetime, run: Run | None
) -> Snapshot:
    """Store a snapshot in the caller's transaction; return the existing row if one has the same fingerprint."""
    fingerprint = inputs.fingerprint
    known = Snapshot.objects.filter(policy_id=inputs.policy_pk, fingerprint=fingerprint.digest).first()
    if known is not None:
        if is_live and not known.is_live:
            known.is_live = True
            known.save(update_fields=["is_live"])
            _store_unmapped(inputs, computed, known)
        return known
    data, digest = pack_result(inputs, computed)
    snapshot = Snapshot.objects.create(
        policy_id=inputs.policy_pk,
        revision_number=fingerprint.revision,
        mapping_version=fingerprint.mapping_version,
        watermarks=dict(fingerprint.watermarks),
        settings=fingerprint.settings,
        engine_version=engine.VERSION,
        fingerprint=fingerprint.digest,
        as_of=inputs.as_of,
        valid_at=inputs.as_of,
        computed_at=computed_at,
        duration_s=(computed_at - started_at) / timedelta(seconds=1),
        n_ranked=computed.result.n_ranked,
        is_live=is_live,
        run=run,
        places_id=write_places(places_in(inputs, computed), at=computed_at),
        data=b"",
        digest=digest,
    )
    write_data(snapshot, data)
    if is_live:
        _store_unmapped(inputs, computed, snapshot)
    return snapshot


def pack_result(inputs: Inputs, computed: Computed) -> tuple[bytes, str]:
    """The snapshot's blob and its digest."""
    values, _places, meta = computed_parts(inputs, computed)
    return pack_snapshot(values, computed.own, meta)


def places_in(inputs: Inputs, computed: Computed) -> AccountPlaces:
    return places_of(inputs.account_keys, computed.entry_of_account, computed.joins_of_account, inputs.rules)


def computed_parts(inputs: Inputs, computed: Computed) -> tuple[Values, AccountPlaces, dict[str, Any]]:
    """What a snapshot consists of: values, places of accounts and metadata.

    Nothing in it depends on when or where it was computed.
    """
    places = places_in(inputs, computed)
    result = computed.result
    unmapped = _unmapped(computed)
    meta = {
        **inputs.fingerprint.to_json(),
        "tree_digest": inputs.tree.digest,
        "places_digest": places.digest,
        "algorithm": dict(result.settings),
        "n_ranked": result.n_ranked,
        "depth": result.depth,
        "n_unmapped": len(unmapped),
        "unmapped_usage": float(computed.usage_of_account[unmapped].sum()),
        **({"corrections": list(computed.corrections)} if computed.corrections else {}),
        **({"known_later": dict(inputs.known_later)} if inputs.known_later is not None else {}),
    }
    return values_of(result, computed.has_demand, computed.demand_core_s), places, meta


def oldest_counted_at(settings: PolicySettings, as_of: datetime) -> datetime | None:
    """Instant before which no usage counts by the window; None for an unlimited window."""
    reach_s = window_of(settings.window).reach_s
    try:
        return None if reach_s is None else as_of - timedelta(seconds=reach_s + 2 * HOUR_S)
    except OverflowError:  # the window starts before year 1
        return None


def _earlier(instant: datetime | None, other: datetime | None) -> datetime | None:
    """The earlier instant. None for `instant` means unlimited, for `other` no limit given."""
    return instant if instant is None or other is None else min(instant, other)


def _usage_of_entries(
    inputs: Inputs, accounts: AccountUsage, entry: I4, scope: str, narrowed: tuple[str, ...]
) -> npt.NDArray[np.float64]:
    """Own usage (n,) of every entry in one scope."""
    approach = inputs.settings.approach[scope]
    used = usage_of_scope(accounts, scope=scope, narrowed=narrowed, sources=inputs.sources, approach=approach)
    is_mapped = entry != UNMAPPED
    own = np.bincount(entry[is_mapped], weights=used[is_mapped], minlength=len(inputs.tree))
    return own.astype(np.float64)


def _demand_of_entries(
    tree: TreeColumns, accounts: AccountUsage, entry: I4
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Whether an entry or one below has demand, and its core-seconds, (n,) each: few accounts have open jobs."""
    asking = np.flatnonzero(accounts.has_demand & (entry != UNMAPPED))
    if not len(asking):
        return np.zeros(len(tree), np.bool_), np.zeros(len(tree))
    own, engine_tree = np.zeros(len(tree)), tree.engine_tree()
    own[entry[asking]] = 1.0
    requested_s = np.bincount(entry[asking], weights=accounts.demand_core_s[asking], minlength=len(tree))
    return sweep.sum_up(engine_tree, own)[0] > 0, sweep.sum_up(engine_tree, requested_s.astype(np.float64))[0]


def _unmapped(computed: Computed) -> npt.NDArray[np.int64]:
    return np.flatnonzero((computed.entry_of_account == UNMAPPED) & (computed.usage_of_account > 0))


def _store_unmapped(inputs: Inputs, computed: Computed, snapshot: Snapshot) -> None:
    """Replace the policy's list of unmapped accounts; older snapshots have their number and sum in the blob."""
    unmapped = _unmapped(computed)
    UnmappedAccounts.objects.update_or_create(
        policy_id=inputs.policy_pk,
        defaults={
            "snapshot": snapshot,
            "account_ids": inputs.account_ids[unmapped].tolist(),
            "usage": float(computed.usage_of_account[unmapped].sum()),
        },
    )


def result_json(snapshot: Snapshot) -> dict[str, Any]:
    """Result of a run, as JSON: the snapshot it stored."""
    return {
        "snapshot": snapshot.pk,
        "revision": snapshot.revision_number,
        "as_of": snapshot.valid_at.isoformat(),
        "n_ranked": snapshot.n_ranked,
    }
