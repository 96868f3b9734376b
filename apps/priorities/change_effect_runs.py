"""Effect of a change set on priorities, now and later: computed within the request or, for large policies, in a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache
from django.db import connection, transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.actor import Actor
from apps.core import blobs
from apps.core.derived_state import in_memory
from apps.core.errors import Conflict, DomainError, Invalid
from apps.engine.errors import BadParameter, BadTree
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rule_set
from apps.policies.changesets.change_sets import load_revision, outcome_on_head, settings_of
from apps.policies.changesets.checks import Check
from apps.policies.changesets.review import Review
from apps.policies.models import Adjustment, ChangeSet, Policy
from apps.policies.operations.adjustment_edits import AddedAdjustment, RevokedAdjustment
from apps.policies.publishing.size_guard import ProposedChange, RankMoves
from apps.policies.selectors import get_change_set
from apps.policies.settings import PolicySettings, refuse_unsuitable_tree
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.document_merge import indexes_of
from apps.policies.tree.stored import load_tree
from apps.priorities.entry_order import ordering_of
from apps.priorities.metering import window_of
from apps.priorities.models import ChangeSetEffect
from apps.priorities.recompute.comparison import ComputedTree, compare
from apps.priorities.recompute.corrections import Correction, correction_amounts
from apps.priorities.recompute.pipeline import Inputs, load_inputs, oldest_counted_at
from apps.priorities.recompute.reader_trials import totals_of_reader
from apps.priorities.recompute.simulation import DEMAND_DAYS, HORIZONS_DAYS, Changes, Projection, project
from apps.priorities.recompute.totals import Totals, simulate_totals, simulate_totals_or_none
from apps.priorities.selectors.rows import newest_or_none
from apps.priorities.sentences.numbers import count
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visible_entries import numbers_visible_in
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run
from apps.runs.waiting import RunWaiting, waiting_of

DERIVED_STATE = (
    in_memory(
        "_cache",
        holds="effects of change sets",
        key="change set, policy, head, snapshot",
        inputs="those",
        range="the snapshot's instant",
        ends="another key; the newest ones push it out",
    ),
)

KIND = "effect"
MOST_ENTRIES_AT_ONCE = 2_000  # of a policy whose effects are computed within the request
MOST_EFFECT_BUCKETS = 200_000
_EVER = datetime(1900, 1, 1, tzinfo=UTC)
_ATTEMPTS = 3
_COLUMNS = ("uid", "rank_without", "rank_with", "factor_without", "factor_with")
State = Literal["ready", "stale", "asked", "failed", "absent", "no_snapshot", "conflict", "decided"]
_COUNT = """
SELECT count(*) FROM (
    SELECT FROM usage_bucket WHERE hour_at >= %s LIMIT %s) buckets
"""
MOST_MATCHED = 20_000  # accounts that are matched within a request; with more, their present entries are assumed
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of a change set and its state. absent: not requested yet; conflict: can't be applied to the head."""

    state: State
    projection: Projection | None = None
    as_of: datetime | None = None
    computed_at: datetime | None = None
    head_number: int = 0
    problem: str = ""
    waiting: RunWaiting | None = None


@dataclass(frozen=True)
class _Request:
    """Everything but usage that an effect depends on."""

    policy: Policy
    change_set: ChangeSet
    snapshot: ServedSnapshot

    @property
    def digest(self) -> str:
        return digest_of(self.change_set)

    @property
    def key(self) -> tuple[str | int, ...]:
        return self.digest, self.policy.head_number, *self.snapshot.key


def digest_of(change_set: ChangeSet) -> str:
    """Changes with the operations of a change set and their base."""
    content = [change_set.base_number, change_set.operations]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


_cache: LRUCache[tuple[str | int, ...], Projection] = LRUCache(16)
_lock = Lock()


def get_effect(change_set: ChangeSet, *, at: datetime) -> Effect:
    """The effect, computed now or stored. The caller checks who may see the change set and the entries in it."""
    policy = Policy.all_objects.get(pk=change_set.policy_id)
    snapshot = newest_or_none(policy.slug)
    if snapshot is None:
        return Effect("no_snapshot")
    request = _Request(policy, change_set, snapshot)
    if is_large(policy, at=at):
        return _stored(request, at)
    try:
        with _lock:
            projection = _cache.get(request.key)
        projection = projection or _compute(request)
    except DomainError as error:
        return Effect("conflict", problem=error.message)
    with _lock:
        _cache[request.key] = projection
    return Effect("ready", projection, snapshot.as_of, at, policy.head_number)


def is_large(policy: Policy, *, at: datetime) -> bool:
    """Whether the policy is too large to compute the effect within a request."""
    if len(load_tree(policy)) > MOST_ENTRIES_AT_ONCE:
        return True
    since = _from_at(settings_of(policy, policy.head_number), at)
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [since, MOST_EFFECT_BUCKETS + 1])
        return int(cursor.fetchone()[0]) > MOST_EFFECT_BUCKETS


@transaction.atomic
def request_effect(*, change_set_id: int, at: datetime, actor: Actor) -> Run:
    """Enqueue a run that computes the effect; joins a waiting run."""
    change_set = get_change_set(id=change_set_id, actor=actor, at=at)
    if change_set.state in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN):
        raise Conflict("The change set is decided: there is no effect to compute.", code="decided")
    return enqueue_run(
        kind=KIND,
        subject=_subject(change_set),
        arguments={"policy": change_set.policy.slug},
        owner=actor.user,
        at=at,
        max_attempts=_ATTEMPTS,
    )


def newest_run(change_set: ChangeSet) -> Run | None:
    return Run.objects.filter(kind=KIND, subject=_subject(change_set)).order_by("-pk").first()


def run_effect(run: Run, lease: Lease) -> dict[str, Any]:
    """Compute the effect in a run, and store it in place of the previous one."""
    change_set = ChangeSet.objects.select_related("policy").get(pk=int(run.subject.partition(":")[2]))
    policy = Policy.all_objects.get(pk=change_set.policy_id)
    snapshot = newest_or_none(policy.slug)
    if snapshot is None:
        raise Invalid("Nothing has been computed yet: try again after the first recompute.", code="no_snapshot")
    request = _Request(policy, change_set, snapshot)
    projection = _compute(request)
    meta = {"horizons_days": list(projection.horizons_days)}
    data, digest = blobs.pack({name: getattr(projection, name) for name in _COLUMNS}, meta)
    with lease.fenced():
        ChangeSetEffect.objects.update_or_create(
            change_set=change_set,
            defaults={
                "digest_of": request.digest,
                "head_number": policy.head_number,
                "snapshot_id": snapshot.snapshot_id,
                "as_of": snapshot.as_of,
                "computed_at": lease.clock(),
                "data": data,
                "digest": digest,
            },
        )
        result = {"change_set": change_set.pk, "n_leaves": len(projection.uid), "n_moved": projection.n_moved}
        lease.finish(result, lease.clock())
    return result


def count_rank_moves(policy: Policy, proposed: ProposedChange, actor: Actor, at: datetime) -> RankMoves | None:
    """Count the leaves whose rank would change at once, by the newest snapshot's usage; None without a snapshot.

    If metric, window, approach or adjustments change, usage is loaded and counted again. For an actor who doesn't see
    all numbers, hidden usage counts in steps.
    """
    snapshot = newest_or_none(policy.slug)
    if snapshot is None:
        return None
    visible = numbers_visible_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    n = _count_all(policy, proposed, snapshot) if visible.all() else _count_seen(policy, proposed, snapshot, visible)
    return None if n is None else RankMoves(n, bool(visible.all()))


def _counts_again(settings: PolicySettings, wanted: PolicySettings) -> bool:
    return any(getattr(settings, name) != getattr(wanted, name) for name in ("metric", "window", "approach"))


def _count_all(policy: Policy, proposed: ProposedChange, snapshot: ServedSnapshot) -> int | None:
    after, wanted = proposed.tree, proposed.settings
    head, settings = load_revision(policy, policy.head_number)
    try:
        if proposed.adjusting or _counts_again(settings, wanted):
            since = _from_at(wanted, snapshot.as_of)
            inputs = load_inputs(policy, as_of=snapshot.as_of, from_at=since, metrics=[wanted.metric])
            return project(inputs, Changes(head, settings), _changes_of(policy, proposed, inputs), (0,)).n_moved
    except (BadTree, BadParameter, Invalid):
        return None
    return _moved(snapshot.totals, (head, settings), snapshot.totals, (after, wanted))


def _count_seen(policy: Policy, proposed: ProposedChange, snapshot: ServedSnapshot, visible: Mask) -> int | None:
    """Count by totals in which hidden usage is rounded to steps.

    A change of metric, window or approach concerns usage that isn't in the totals: as many as there are leaves.
    """
    after, wanted = proposed.tree, proposed.settings
    head, settings = load_revision(policy, policy.head_number)
    if _counts_again(settings, wanted):
        return int(after.engine_tree().is_ranked.sum())
    totals = totals_of_reader(snapshot.totals, visible)
    adjusted = _with_adjustments(totals, proposed, settings, snapshot)
    return _moved(totals, (head, settings), adjusted, (after, wanted))


def _moved(
    totals: Totals,
    now: tuple[TreeColumns, PolicySettings],
    changed_totals: Totals,
    then: tuple[TreeColumns, PolicySettings],
) -> int | None:
    (head, settings), (after, wanted) = now, then
    before = simulate_totals_or_none(totals, head, algorithm=settings.algorithm)
    result = simulate_totals_or_none(changed_totals, after, algorithm=wanted.algorithm)
    if before is None or result is None:
        return None
    return compare(ComputedTree(head, before), ComputedTree(after, result)).n_moved


def _with_adjustments(
    totals: Totals, proposed: ProposedChange, settings: PolicySettings, snapshot: ServedSnapshot
) -> Totals:
    """Totals after the adjustments that the change adds or revokes."""
    added = [each for each in proposed.adjusting if isinstance(each, AddedAdjustment)]
    gone = {each.uid for each in proposed.adjusting if isinstance(each, RevokedAdjustment)}
    corrections = [
        *(Correction(each.uid, each.entry_uid, each.resource, each.amount_s, each.at.timestamp()) for each in added),
        *(
            Correction(each.uid, each.entry_uid, each.resource, -each.amount_s, each.at.timestamp())
            for each in Adjustment.objects.filter(uid__in=gone)
        ),
    ]
    if not corrections:
        return totals
    amounts = correction_amounts(
        corrections,
        metric=settings.metric,
        window=window_of(settings.window),
        as_of_s=snapshot.as_of.timestamp(),
    )
    for correction, amount in zip(corrections, amounts.tolist(), strict=True):
        i = snapshot.tree.index_of_uid(correction.entry_uid)
        totals = totals if i is None else totals.corrected(i, amount)
    return totals


def check_algorithm_on_usage(policy: Policy, after: TreeColumns, algorithm: Mapping[str, Any]) -> None:
    """Raise Invalid (`package_failed`) if the algorithm fails on this tree with the newest snapshot's usage."""
    snapshot = newest_or_none(policy.slug)
    if snapshot is not None:
        simulate_totals(snapshot.totals, after, algorithm=algorithm)


def _stored(request: _Request, at: datetime) -> Effect:
    row = ChangeSetEffect.objects.filter(change_set=request.change_set).first()
    run = newest_run(request.change_set)
    waiting = waiting_of(run, at=at)
    if row is None or row.digest_of != request.digest:
        state = _state_of(run)
        problem = run.error if run is not None and state == "failed" else ""
        return Effect(state, problem=problem, waiting=waiting)
    columns, meta = blobs.unpack(bytes(row.data), row.digest)
    projection = Projection(tuple(meta["horizons_days"]), **{name: columns[name] for name in _COLUMNS})
    is_current = (row.head_number, row.snapshot_id) == (request.policy.head_number, request.snapshot.snapshot_id)
    waits = run is not None and run.state in (Run.State.QUEUED, Run.State.RUNNING)
    state = "ready" if is_current else "asked" if waits else "stale"
    return Effect(state, projection, row.as_of, row.computed_at, row.head_number, waiting=waiting)


def _state_of(run: Run | None) -> State:
    if run is None or run.state in (Run.State.SUCCEEDED, Run.State.CANCELLED):
        return "absent"
    return "failed" if run.state == Run.State.FAILED else "asked"


def _compute(request: _Request) -> Projection:
    policy, as_of = request.policy, request.snapshot.as_of
    head, settings = load_revision(policy, policy.head_number)
    outcome = outcome_on_head(request.change_set, policy)
    refuse_unsuitable_tree(outcome.tree, outcome.settings.algorithm)
    wanted = outcome.settings
    inputs = load_inputs(policy, as_of=as_of, from_at=_from_at(wanted, as_of), metrics=[wanted.metric])
    after = _changes_of(policy, ProposedChange.of_outcome(outcome), inputs)
    try:
        return project(inputs, Changes(head, settings), after, HORIZONS_DAYS)
    except (BadTree, BadParameter) as error:
        raise Invalid(f"{error.message}.", code="bad_settings") from None


def _changes_of(policy: Policy, proposed: ProposedChange, inputs: Inputs) -> Changes:
    """Tree, settings, membership rules and adjustments after publishing."""
    corrections = corrections_after(inputs.corrections, proposed)
    return Changes(proposed.tree, proposed.settings, load_rule_set(policy, proposed.tree), corrections)


def corrections_after(corrections: Sequence[Correction], proposed: ProposedChange) -> tuple[Correction, ...]:
    """The corrections that count after publishing."""
    gone = {each.uid for each in proposed.adjusting if isinstance(each, RevokedAdjustment)}
    more = [
        Correction(each.uid, each.entry_uid, each.resource, each.amount_s, each.at.timestamp(), each.note)
        for each in proposed.adjusting
        if isinstance(each, AddedAdjustment)
    ]
    return (*(each for each in corrections if each.uid not in gone), *more)


def _from_at(settings: PolicySettings, as_of: datetime) -> datetime:
    """Start of the usage to load: of the window, or of the days from which demand is estimated, if earlier."""
    first = oldest_counted_at(settings, as_of)
    since = as_of - timedelta(days=DEMAND_DAYS, hours=2)
    return _EVER if first is None else min(first, since)


def _subject(change_set: ChangeSet) -> str:
    return f"changeset:{change_set.pk}"


def check_groups(review: Review, snapshot: ServedSnapshot, *, sees: Mask) -> Check:
    """Check how many known accounts would count at groups visible to the reader; a warning if there are more than now.

    sees: mask of visible entries in the tree after the change.
    """
    after = review.after
    now = _current_entries(after, snapshot)
    then = now if len(now) > MOST_MATCHED else _entries_after(review, snapshot)
    n_then = _count_at_groups(after, then, sees)
    if not n_then.any():
        return Check("groups", "ok", _("No account is mapped to a group"))
    n = int(n_then.sum())
    title = ngettext("%(n)s account is mapped to a group", "%(n)s accounts are mapped to groups", n) % {"n": count(n)}
    most = np.argsort(-n_then, kind="stable")[:_SHOWN].tolist()
    where = ", ".join(f"{after.path(i)} ({count(int(n_then[i]))})" for i in most if n_then[i])
    if ordering_of(review.wanted.algorithm).has_own_order:
        means = _("The algorithm ranks leaves only: they get the fallback factor.")
    else:
        means = _("They have the group’s rank, not their own.")
    rise = n > int(
        _count_at_groups(snapshot.tree, snapshot.index.places.entry, _visible_in_snapshot(review, snapshot, sees)).sum()
    )
    remedy = _("Add an entry for each of them, or a membership rule to the group.")
    return Check("groups", "warn" if rise else "ok", title, f"{where}. {means}", remedy if rise else "")


def _count_at_groups(tree: TreeColumns, entry: npt.NDArray[np.int32], sees: Mask) -> npt.NDArray[np.int64]:
    """Number of accounts at each group, (n,); 0 for other entries."""
    counts = np.bincount(entry[entry != UNMAPPED], minlength=len(tree))
    is_group = tree.engine_tree().is_group & sees
    return np.where(is_group, counts, 0)


def _current_entries(after: TreeColumns, snapshot: ServedSnapshot) -> npt.NDArray[np.int32]:
    """Entries of accounts in the newest snapshot, as indices of the tree after the change."""
    place = indexes_of(snapshot.tree.uid, after).astype(np.int32)
    entries: npt.NDArray[np.int32] = place[snapshot.index.places.entry]
    return entries


def _entries_after(review: Review, snapshot: ServedSnapshot) -> npt.NDArray[np.int32]:
    """Entries of the same accounts by the rules, as indices of the tree after the change."""
    rule_set = load_rule_set(review.policy, review.after)
    return place_accounts(review.after, rule_set.rules, rule_set.known, snapshot.index.places.keys).of_usage


def _visible_in_snapshot(review: Review, snapshot: ServedSnapshot, sees: Mask) -> Mask:
    """Mask of the snapshot's entries that the reader sees after the change, or that the change removes."""
    at = indexes_of(snapshot.tree.uid, review.after)
    visible: Mask = (at < 0) | sees[at]
    return visible
