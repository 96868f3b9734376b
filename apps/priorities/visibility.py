"""Which numbers of a snapshot a reader of sums may see: those of a finished day.

Two sums an hour apart differ by the usage of one hour, which is often that of one person. So readers
of sums get the last live snapshot of a finished UTC day, for whatever instant they request. An entry is shown only if
the rule of five holds for all numbers that such a reader could derive: usage at the end of the day, and usage added
since each of the snapshots of the last days. Any combination of visible numbers contains whole remainders of its
youngest day, to which at least five people added usage on that day. The visible numbers of a day never change
afterwards.

Added usage is computed from two snapshots: an entry's usage less its decayed usage of the earlier one. If decay isn't
exponential, only growth counts as added. If metric, window or approach changed in between, the first day is hidden.
Both hide more than necessary, never less. Numbers that are visible in full are shown immediately.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
from django.conf import settings

from apps.core.derived_state import in_memory
from apps.policies.access.scope import Visibility
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.document_merge import indexes_of
from apps.priorities.metering import window_of
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.suppression import Amounts, shown_entries

DERIVED_STATE = (
    in_memory(
        "_amounts_cache",
        holds="usage of daily snapshots by which numbers are suppressed",
        key="id and last instant of the snapshot, tree",
        inputs="daily snapshots of some days",
        range="one day",
        ends="the newest ones push it out",
    ),
)

F8 = npt.NDArray[np.float64]
_STORED_WITHIN = timedelta(minutes=10)  # by then snapshots computed before midnight are stored
_DAYS_BEFORE = 3
_SLACK_S = 7200.0  # usage is stored by the hour: its age is known to an hour at both instants
_LEAST_REST_PART = 1e-9  # relative to usage: a smaller difference is rounding error
_MOST_CACHED_SIGHTS = 16


def daily_snapshot_before(policy: Policy, at: datetime) -> int | None:
    """Id of the last live snapshot of the last day that was finished at an instant; None without one."""
    day = (at - _STORED_WITHIN).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    stored = Snapshot.objects.filter(policy=policy, is_live=True, computed_at__lt=day)
    return stored.order_by("-id").values_list("pk", flat=True).first()


def is_daily_snapshot(policy: Policy, snapshot: ServedSnapshot, at: datetime) -> bool:
    """Whether a snapshot is the last one of a finished day."""
    last = daily_snapshot_before(policy, min(at, snapshot.computed_at + timedelta(days=1) + _STORED_WITHIN))
    return last == snapshot.snapshot_id


def visible_numbers(policy: Policy, snapshot: ServedSnapshot, visibility: Visibility, at: datetime) -> Mask:
    """Entries of the snapshot whose numbers a reader may see; `visibility` must be of the snapshot's tree."""
    seen, outright = visibility.mask, visibility.outright & visibility.mask
    if not (seen & ~outright).any() or not is_daily_snapshot(policy, snapshot, at):
        return outright
    amounts = _amounts_cache.of(policy, snapshot)
    smallest = int(settings.FAIRSHARE_SMALLEST_GROUP)
    shown = shown_entries(snapshot.tree, amounts, seen=seen, outright=visibility.outright, smallest=smallest)
    mask: Mask = shown & seen
    return mask


class _AmountsCache:
    """Cache of the amounts of daily snapshots, which never change."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, datetime, str], Amounts] = OrderedDict()

    def of(self, policy: Policy, snapshot: ServedSnapshot) -> Amounts:
        # A restored database may reuse an id for a snapshot of another tree.
        key = (snapshot.snapshot_id, snapshot.computed_at, snapshot.tree.digest)
        amounts = self._known.get(key)
        if amounts is None:
            amounts = self._known[key] = _amounts(policy, snapshot)
            while len(self._known) > _MOST_CACHED_SIGHTS:
                self._known.popitem(last=False)
        return amounts


_amounts_cache = _AmountsCache()


def _amounts(policy: Policy, snapshot: ServedSnapshot) -> Amounts:
    rows, before = [own_usage(snapshot)], snapshot
    for nth in range(_DAYS_BEFORE):
        day = before.computed_at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        pk = daily_snapshot_before(policy, day + _STORED_WITHIN)
        if pk is None:
            break
        before = store.load_stored(policy.slug, pk)
        if _counts_alike(snapshot.settings, before.settings):
            rows.append(_added_usage(snapshot, before))
        elif nth == 0:
            rows.append(np.zeros(len(snapshot.tree)))
    return Amounts.of(snapshot.tree, np.array(rows), snapshot.values.is_ranked)


def own_usage(snapshot: ServedSnapshot) -> F8:
    """Usage of each entry without the entries below it, (n,)."""
    tree, values = snapshot.tree, snapshot.values
    below = np.zeros(len(tree))
    for level in tree.engine_tree().levels:
        below[level.parents] = np.add.reduceat(values.usage[level.lo : level.hi], level.starts)
    is_leaf = tree.n_children == 0
    beside = np.where(
        values.group_usage - below > _LEAST_REST_PART * values.group_usage, values.group_usage - below, 0.0
    )
    own: F8 = np.where(is_leaf, values.usage, beside)
    return own


def _counts_alike(left: PolicySettings, right: PolicySettings) -> bool:
    return (left.metric, left.window, left.approach) == (right.metric, right.window, right.approach)


def _added_usage(now: ServedSnapshot, before: ServedSnapshot) -> F8:
    """Usage added, or removed other than by decay, between two snapshots, (n,); 0 if within rounding error."""
    own, was = own_usage(now), _usage_in_tree(own_usage(before), before.tree, now.tree)
    if _is_reset_between(now, before):
        return own
    least, most = _decay_bounds(now.settings, (now.as_of - before.as_of).total_seconds())
    grown = own - most * was
    shrunk = least * was - own
    growth = np.where(grown > _LEAST_REST_PART * own, own - (least + most) / 2 * was, 0.0)
    added: F8 = np.where(shrunk > _LEAST_REST_PART * was, shrunk, np.maximum(growth, 0.0))
    return added


def _is_reset_between(now: ServedSnapshot, before: ServedSnapshot) -> bool:
    """Whether the calendar has set usage to zero since the earlier snapshot: all that counts now was added."""
    if not now.settings.window.get("reset"):
        return False
    reset_s = window_of(now.settings.window).last_reset_s(now.as_of.timestamp())
    return reset_s is not None and reset_s > before.as_of.timestamp()


def _decay_bounds(counted: PolicySettings, passed_s: float) -> tuple[float, float]:
    """Lower and upper bound of the fraction of usage left after a time; (0, 1) unless decay is exponential."""
    window = counted.window
    if window["aging"] != "exponential":
        return 0.0, 1.0
    half_life_s = float(window["half_life_s"])
    slack_s = _SLACK_S + float(window.get("granularity_s") or 0.0)
    # Usage leaves a window hour by hour, so losing half of it at once isn't decay.
    least = 2.0 ** (-(passed_s + slack_s) / half_life_s) * (0.5 if window.get("length_s") else 1.0)
    return least, 2.0 ** (-max(passed_s - slack_s, 0.0) / half_life_s)


def _usage_in_tree(own: F8, there: TreeColumns, here: TreeColumns) -> F8:
    """Own usage by the entries of another tree; that of a missing entry belongs to its nearest ancestor there."""
    if there is here or there.digest == here.digest != "":
        return own
    place = indexes_of(there.uid, here)
    for level in there.subtree(0)[1:]:
        part = slice(level.start, level.stop)
        place[part] = np.where(place[part] < 0, place[there.parent[part]], place[part])
    return np.bincount(np.maximum(place, 0), weights=own, minlength=len(here)).astype(np.float64)
