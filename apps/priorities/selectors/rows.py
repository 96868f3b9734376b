"""A policy as one actor sees it: a tree, and the numbers of a snapshot matched to it by uid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.accounts.actor import Actor
from apps.accounts.request_cache import store_for_request
from apps.core import clock
from apps.core.errors import Unavailable
from apps.engine.algorithms.inputs import prepare
from apps.engine.target_state import State, is_off_target, slack_of, state_of, states_of
from apps.mapping.permissions import load_past_visibility, load_visibility
from apps.mapping.versions import version_number_at
from apps.policies.access.scope import Visibility, visible_entries
from apps.policies.models import Policy, Revision
from apps.policies.selectors import get_policy, get_revision
from apps.policies.settings import PolicySettings, tolerance_at, tolerances_of
from apps.policies.tree.columns import SCOPES
from apps.policies.tree.stored import TreeColumns, load_tree
from apps.priorities.entry_order import own_numbers
from apps.priorities.recompute.comparison import matching_indexes
from apps.priorities.records import EntryRow as EntryRow
from apps.priorities.selectors.past import CLOSE, reconstruct
from apps.priorities.serving import store
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.snapshots import without_ahead
from apps.priorities.usage_factors import unit_of_usage
from apps.priorities.visibility import daily_snapshot_before, visible_numbers
from apps.priorities.visible_entries import numbers_visible_in, own_queries, reads_sums

F8 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_COMPARED_AT_ONCE = 100_000  # entries, each with eight numbers for a moment


class _Compared(NamedTuple):
    """Of some entries: shares of their siblings' whole, and whether they have a target but neither usage nor demand."""

    actual: F8
    target: F8
    slack: F8
    is_idle: Mask


@dataclass(frozen=True, eq=False)
class PolicyView:
    """One policy as one actor may see it: the current one, or a past one (asked: its revision or instant)."""

    policy: Policy
    revision: int
    settings: PolicySettings
    tree: TreeColumns
    snapshot: ServedSnapshot | None
    actor: Actor
    now: datetime
    asked: int | datetime | None = None  # of a view of the past, which is read-only

    @cached_property
    def visibility(self) -> Visibility:
        if self.asked is not None:
            return load_past_visibility(policy=self.policy, tree=self.tree, at=self.now, actor=self.actor)
        if self.snapshot is None:
            return load_visibility(policy=self.policy, tree=self.tree, at=self.now, actor=self.actor)
        return visible_entries(
            policy=self.policy, tree=self.tree, actor=self.actor, at=self.now, own_entries=self.own_entries
        )

    @cached_property
    def usage_unit(self) -> str:
        """Unit of the usage shown, by the snapshot's metric."""
        return unit_of_usage((self.snapshot.settings if self.snapshot else self.settings).metric)

    @cached_property
    def shows_numbers(self) -> npt.NDArray[np.bool_]:
        """Mask of entries whose numbers the actor may see: usage, actual, deviation, priority, rank, factor and demand.

        False for entries without numbers. Targets and shares are shown for all visible entries.
        """
        if self.snapshot is None:
            return np.zeros(len(self.tree), dtype=np.bool_)
        seen = self.visibility.mask & (self._index_in_snapshot >= 0)
        if not self.shows_sums:
            return seen
        if self.snapshot.tree is self.tree:
            return seen & visible_numbers(self.policy, self.snapshot, self.visibility, self.now)
        is_visible = numbers_visible_in(policy=self.policy, snapshot=self.snapshot, at=self.now, actor=self.actor)
        shown: npt.NDArray[np.bool_] = seen & is_visible[np.maximum(self._index_in_snapshot, 0)]
        return shown

    @cached_property
    def numbers_in_snapshot(self) -> npt.NDArray[np.bool_]:
        """`shows_numbers` of the entries of the snapshot's tree; those that left the tree follow `all_visible`."""
        assert self.snapshot is not None, "callers have checked it"  # noqa: S101 - an invariant, not input
        shows_numbers = np.full(len(self.snapshot.tree), self.visibility.all_visible, dtype=np.bool_)
        here = self._index_in_snapshot >= 0
        shows_numbers[self._index_in_snapshot[here]] = self.shows_numbers[here]
        return shows_numbers

    def is_suppressed(self, i: int) -> bool:
        """Whether the entry has numbers that are hidden from the actor."""
        return bool(self.suppressed[i])

    @cached_property
    def suppressed(self) -> Mask:
        """Mask of entries with numbers that are hidden from the actor."""
        if self.snapshot is None:
            return np.zeros(len(self.tree), np.bool_)
        suppressed: Mask = (self._index_in_snapshot >= 0) & ~self.shows_numbers
        return suppressed

    @property
    def shows_sums(self) -> bool:
        """Whether the actor sees some entries as sums only."""
        visibility = self.visibility
        return bool((visibility.mask & ~visibility.outright).any())

    @cached_property
    def own_entries(self) -> list[int]:
        """Entries of the actor's own accounts."""
        if self.actor.user is None or self.snapshot is None or not self.actor.has_scope("self:read"):
            return []
        entries = {entry for query in own_queries(self.actor) for entry in self.snapshot.index.find_certain(query)}
        return [at for at in map(self._index_in_tree, sorted(entries)) if at is not None]

    @cached_property
    def snapshot_index(self) -> npt.NDArray[np.int64]:
        """Index of each entry in the snapshot's tree; −1 if missing there or hidden from the actor."""
        if self.snapshot is None or self.shows_numbers.all():
            return self._index_in_snapshot
        return np.where(self.shows_numbers, self._index_in_snapshot, -1)

    @cached_property
    def _index_in_snapshot(self) -> npt.NDArray[np.int64]:
        here, there = self.tree, self.snapshot.tree if self.snapshot else self.tree
        if here is there or here.digest == there.digest != "":
            return here.places
        return matching_indexes(here, there)

    @cached_property
    def competes(self) -> npt.NDArray[np.bool_]:
        mask = ~self.tree.inherit
        mask[0] = False
        return mask

    @cached_property
    def target(self) -> tuple[F8, F8]:
        """Targets among siblings, and along the path from the root; undefined where `competes` is false."""
        prepared = prepare(self.tree.engine_tree())
        return prepared.spread(prepared.target), prepared.spread(prepared.target_global)

    @property
    def as_of(self) -> datetime | None:
        return self.snapshot.as_of if self.snapshot else None

    @property
    def earlier_revision(self) -> int | None:
        """The revision of the ranks and usage shares, if the shown revision is not computed yet."""
        computed = self.snapshot.revision if self.snapshot is not None else None
        return None if computed == self.revision else computed

    @property
    def n_ranked(self) -> int:
        return self.snapshot.n_ranked if self.snapshot else int(self.tree.engine_tree().is_ranked.sum())

    def visible_children(self, i: int) -> list[int]:
        mask = self.visibility.mask
        return [child for child in self.tree.children(i) if mask[child]]

    def require(self, uid: UUID) -> int:
        """The entry's index; NotFound for what the actor may not see."""
        return self.visibility.require(self.tree.index_of_uid(uid))

    def row(self, i: int, *, position: tuple[int, int] | None = None, is_open: bool = False) -> EntryRow:
        """One entry as a row. position: (pos_in_set, set_size), if the caller knows it."""
        tree, parent = self.tree, int(self.tree.parent[i])
        if position is None:
            siblings = self.visible_children(parent) if parent >= 0 else [i]
            position = (siblings.index(i) + 1 if i in siblings else 1, max(len(siblings), 1))
        n_visible = int(self.visibility.mask[tree.children(i).start : tree.children(i).stop].sum())
        numbers = self._numbers(i)
        return EntryRow(
            uid=tree.uuid(i),
            parent_uid=tree.uuid(parent) if parent >= 0 else None,
            path=tree.path(i),
            name=tree.name[i],
            kind=tree.kind_names[int(tree.kind_code[i])],
            level=int(tree.level[i]) + 1,
            pos_in_set=position[0],
            set_size=position[1],
            n_children=n_visible,
            hidden_children=int(tree.n_children[i]) - n_visible,
            is_open=is_open,
            shares=None if tree.inherit[i] else float(tree.shares[i]),
            locked=bool(tree.locked[i]),
            may_change=self.visibility.may_change(i),
            scope=SCOPES[int(tree.scope_code[i])],
            scope_sources=tree.scope_sources.get(i, ()),
            **numbers,
        )

    def rows(self, entries: Iterable[int]) -> list[EntryRow]:
        return [self.row(i) for i in entries]

    @cached_property
    def off_target(self) -> npt.NDArray[np.bool_]:
        """Mask of visible entries over or under their target, by visible numbers."""
        off_target = np.zeros(len(self.tree), dtype=np.bool_)
        visible = np.flatnonzero(self.visibility.mask)
        for first in range(0, len(visible), _COMPARED_AT_ONCE):
            block = visible[first : first + _COMPARED_AT_ONCE]
            known, compared = self._compared(block)
            off_target[block[known]] = is_off_target(*compared)
        return off_target

    def states_of(self, entries: Sequence[int] | npt.NDArray[np.int64]) -> list[State]:
        """The states of some entries, as `row` has them."""
        known, compared = self._compared(np.asarray(entries, dtype=np.int64))
        states = np.full(len(entries), "unknown", dtype="<U7")
        states[known] = states_of(*compared)
        listed: list[State] = states.tolist()
        return listed

    def deviations_of(self, entries: Sequence[int]) -> F8:
        """Actual − target of some entries, as fractions of their siblings' whole; NaN where it is unknown."""
        known, compared = self._compared(np.asarray(entries, dtype=np.int64))
        deviations: F8 = np.full(len(entries), np.nan)
        deviations[known] = compared.actual - compared.target
        return deviations

    def _compared(self, entries: npt.NDArray[np.int64]) -> tuple[Mask, _Compared]:
        """Which of some entries have an actual share and a target; and of those what their state follows from."""
        known: Mask = np.zeros(len(entries), dtype=np.bool_)
        if self.snapshot is None or not len(entries):
            nothing: F8 = np.zeros(0)
            return known, _Compared(nothing, nothing, nothing, known[:0])
        values, place = self.snapshot.values, self.snapshot_index[entries]
        known = self.competes[entries] & (place >= 0)
        known[known] = values.competes[place[known]]
        here, there = entries[known], place[known]
        target, actual = self.target[0][here], values.actual[there]
        is_idle = (values.usage[there] == 0) & ~values.has_demand[there] & (target > 0)
        slack = slack_of(target, tolerances_of(self.settings.tolerance, self.tree.n_children[here] == 0))
        return known, _Compared(actual, target, slack, is_idle)

    def count_out_of_tolerance(self) -> int:
        """Number of entries off target."""
        return int(self.off_target.sum())

    def _numbers(self, i: int) -> dict[str, Any]:
        """Computed fields of an entry; None and state `unknown` if the snapshot doesn't have it."""
        is_root, competes = i == 0, bool(self.competes[i])
        target = 1.0 if is_root else float(self.target[0][i]) if competes else None
        target_global = 1.0 if is_root else float(self.target[1][i]) if competes else None
        unknown = ("actual", "actual_global", "deviation_points", "priority", "rank", "factor")
        numbers: dict[str, Any] = dict.fromkeys(unknown)
        numbers |= {
            "target": target,
            "target_global": target_global,
            "state": "unknown",
            "usage": 0.0,
            "has_usage": False,
            "columns": {},
        }
        at = int(self.snapshot_index[i]) if self.snapshot is not None else -1
        if self.snapshot is None or at < 0:
            if self.is_suppressed(i):
                numbers["usage"], numbers["suppressed"] = None, True
            return numbers
        values = self.snapshot.values
        usage, has_rank = float(values.usage[at]), bool(values.has_rank[at])
        numbers["usage"], numbers["has_usage"] = usage, usage > 0
        numbers["columns"] = own_numbers(values, at)
        numbers["adjusted"] = sum(each["counted"] for each in self.snapshot.corrections.get(at, ()))
        if has_rank and not is_root:
            numbers["rank"] = int(values.rank[at])
        if values.has_factor[at] and not is_root:
            numbers["factor"] = float(values.factor[at])
        if is_root:
            numbers["actual"] = numbers["actual_global"] = 1.0
            numbers["deviation_points"] = 0.0
            numbers["state"] = "on"
        elif competes and values.competes[at]:
            actual = float(values.actual[at])
            numbers["actual"], numbers["actual_global"] = actual, float(self.snapshot.actual_global[at])
            numbers["priority"] = float(values.priority[at])
            numbers["deviation_points"] = (actual - (target or 0.0)) * 100
            numbers["state"] = state_of(
                target=target,
                actual=actual,
                has_usage=usage > 0,
                has_demand=bool(values.has_demand[at]),
                tolerance=tolerance_at(self.settings.tolerance, not self.tree.n_children[i]),
            )
        return numbers

    def _index_in_tree(self, there: int) -> int | None:
        """Index in this tree of an entry of the snapshot's tree."""
        if self.snapshot is None:
            return None
        if self.snapshot.tree is self.tree:
            return there
        return self.tree.index_of_uid(self.snapshot.tree.uuid(there))


def open_view(
    *,
    policy_slug: str,
    actor: Actor,
    at: int | datetime | None = None,
    scope: str = "policies:read",
    is_live: bool = False,
    is_past: bool = False,
) -> PolicyView:
    """Open the head with the newest snapshot, or (at) a past revision or instant with its snapshot.

    An archived policy can be read only with `at`, or with is_past, which shows its head for its history. Readers of
    sums get the snapshot of the last finished day, see `priorities.visibility`. With is_live they get the newest one,
    and only numbers that they may see in full.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope, is_past=is_past or at is not None)
    if policy.archived_at is not None and at is None:
        at = policy.head_number
    now = clock.now()
    number, revision_settings, tree = _load_revision(policy, at)
    snapshot: ServedSnapshot | None
    if not is_live and reads_sums(policy=policy, tree=tree, at=now, actor=actor):
        snapshot = _load_daily(policy, number, at, now)
    else:
        snapshot = newest_or_none(policy.slug) if at is None else _load_past(policy, number, at)
    return PolicyView(
        policy=policy,
        revision=number,
        settings=revision_settings,
        tree=tree,
        snapshot=snapshot,
        actor=actor,
        now=now,
        asked=at,
    )


def _load_revision(policy: Policy, at: int | datetime | None) -> tuple[int, PolicySettings, TreeColumns]:
    """Number, settings and tree. Those of the head need no query if the newest snapshot is of it."""
    if at is None:
        state = store.state()
        row, newest = state.policies.get(policy.slug), state.snapshots.get(policy.slug)
        if row and newest and (row.id, newest.revision) == (policy.pk, policy.head_number):
            store_for_request(("tree", policy.pk, newest.revision), newest.tree.digest)  # for load_tree
            return newest.revision, newest.settings, newest.tree
    revision = get_revision(policy=policy, at=at)
    return revision.number, PolicySettings.from_stored(revision.settings), load_tree(policy, revision.number)


def _load_daily(policy: Policy, number: int, at: int | datetime | None, now: datetime) -> ServedSnapshot | None:
    """The daily snapshot before an instant, or before a revision was replaced."""
    if isinstance(at, int):
        after = Revision.objects.filter(policy=policy, number=number + 1).values_list("published_at", flat=True)
        at = after.first()
    snapshot_id = daily_snapshot_before(policy, now if at is None else min(at, now))
    return None if snapshot_id is None else store.load_stored(policy.slug, snapshot_id)


def newest_or_none(slug: str) -> ServedSnapshot | None:
    """The newest snapshot of a policy; None if nothing can be served."""
    try:
        return store.newest(slug)
    except Unavailable:
        return None


def _load_past(policy: Policy, number: int, at: int | datetime) -> ServedSnapshot | None:
    """The last stored snapshot of a revision, or the last one up to an instant.

    If the stored one is more than an hour older than the instant, the result of a recompute of the instant. The
    revision is checked, because a snapshot of the tick before a publication can already contain what was published.
    """
    stored = without_ahead(policy).order_by("-as_of", "-id")
    if isinstance(at, datetime):
        mapping = version_number_at(policy, at)
        stored = stored.filter(as_of__lte=at, revision_number__lte=number, mapping_version__lte=mapping)
    else:
        stored = stored.filter(revision_number=number)
    row = stored.values_list("pk", "as_of").first()
    if isinstance(at, datetime) and (row is None or row[1] < at - CLOSE):
        computed = reconstruct(policy, at)
        if computed is not None:
            return computed
    return None if row is None else store.load_stored(policy.slug, row[0])
