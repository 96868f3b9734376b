"""Which numbers of a snapshot an actor may see: suppression of small groups, and daily snapshots for readers of sums.

Suppression. A reader of sums only (VIEW_AGGREGATE) may see the sum of a group if at least FAIRSHARE_SMALLEST_GROUP
members below it were active and none of them used more than four fifths of it. This isn't sufficient: a reader who
sees a group and all its children but one can derive the last child. From a set of shown entries a reader can derive
exactly their *remainders*, a remainder being a shown entry minus its shown children. For sums are shown from the root
downwards without gaps: every shown number is a sum of remainders, and every remainder is a difference of shown
numbers. So the rule is: **every remainder must satisfy the same condition as a shown group, or be empty.** Where one
doesn't, the smallest shown siblings are hidden until it does. Unions of safe remainders are safe.

Entries that a reader sees in full anyway (the path of their own accounts, entries by name) are considered known to
the reader and protect no one: only the remaining usage is tested. So each member can derive the usage of the others
in their group; the documentation says so. An entry's actual share is its usage over that of all its siblings: a
reader of an entry can derive the usage of its parent.

Daily snapshot. Two sums an hour apart differ by the usage of one hour, which is often that of one person. So readers
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
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
from django.conf import settings

from apps.accounts.account_ids import canonical
from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.engine.tree import Level
from apps.mapping.permissions import own_keys
from apps.policies.access.scope import Rights, Visibility, named_accounts, visible_entries
from apps.policies.models import Grant, Policy
from apps.policies.selectors import get_policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.document_merge import indexes_of
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountNames, AccountQuery, Readable
from apps.priorities.serving.served_snapshot import ServedSnapshot

# --- Suppression ------------------------------------------------------------------------------------------------------
SMALLEST_GROUP = 5
LARGEST_PART = 0.8


def is_large_enough(n_active: npt.ArrayLike, used: npt.ArrayLike, largest: npt.ArrayLike, *, smallest: int) -> Mask:
    """The rule of five for one sum or many: enough active members, and none with more than 80 % of it."""
    is_safe: Mask = (np.asarray(n_active) >= smallest) & (np.asarray(largest) <= LARGEST_PART * np.asarray(used))
    return is_safe


@dataclass(frozen=True, eq=False)
class Amounts:
    """Statistics of the members at and below each entry; arrays (rows, entries).

    Each row is a number that a reader could derive for every entry: its usage, or the usage added since an earlier day.
    own: of the entry itself. has_people_here: the entry can stand for a person; has_people: it or one below can.
    """

    n_active: F8
    used: F8
    largest: F8
    own: F8
    has_people: Mask
    has_people_here: Mask

    @classmethod
    def of(cls, tree: TreeColumns, own: F8, is_member: Mask) -> Amounts:
        """Sum up from own usage (rows, entries), without entries below. is_member: entries that stand for a person."""
        own = np.maximum(own, 0.0)
        n_active, used, largest = (own > 0).astype(np.float64), own.copy(), own.copy()
        here = is_member | (own > 0).any(axis=0)
        below = here.copy()
        for level in reversed(tree.engine_tree().levels):
            part = slice(level.lo, level.hi)
            for column, add in ((n_active, np.add), (used, np.add)):
                column[:, level.parents] += add.reduceat(column[:, part], level.starts, axis=1)
            largest[:, level.parents] = np.maximum(
                largest[:, level.parents], np.maximum.reduceat(largest[:, part], level.starts, axis=1)
            )
            below[level.parents] |= np.logical_or.reduceat(below[part], level.starts)
        return cls(n_active, used, largest, own, below, here)


def members_below(tree: TreeColumns) -> Mask:
    """Entries that are a leaf other than a reserve, or have one below them."""
    found: Mask = ~tree.is_reserve & (tree.n_children == 0) & (np.arange(len(tree)) > 0)
    return with_ancestors(tree.engine_tree().levels, found)


def shown_entries(
    tree: TreeColumns, amounts: Amounts, *, seen: Mask, outright: Mask, smallest: int = SMALLEST_GROUP
) -> Mask:
    """Entries whose numbers may be shown, (n,). seen: entries visible to the reader; outright: shown in any case.

    Deterministic, in time linear in the number of entries.
    """
    levels = tree.engine_tree().levels
    outright, wanted = with_ancestors(levels, outright), with_ancestors(levels, seen)
    safe = is_large_enough(amounts.n_active, amounts.used, amounts.largest, smallest=smallest).all(axis=0)
    wanted &= safe & ~outright
    shown = outright.copy()
    shown[0] |= wanted[0]
    for level in levels:
        _show_children(level, amounts, shown, wanted, smallest)
    return shown


def with_ancestors(levels: Sequence[Level], mask: Mask) -> Mask:
    """The marked entries and all their ancestors."""
    found = mask.copy()
    for level in reversed(levels):
        found[level.parents] |= np.logical_or.reduceat(found[level.lo : level.hi], level.starts)
    return found


def _show_children(level: Level, amounts: Amounts, shown: Mask, wanted: Mask, smallest: int) -> None:
    """Show as many children of shown entries as the rule allows."""
    here = slice(level.lo, level.hi)
    has_shown_parent = shown[level.parents] & np.logical_or.reduceat(wanted[here], level.starts)
    for at in np.flatnonzero(has_shown_parent).tolist():
        lo = level.lo + int(level.starts[at])
        children = np.arange(lo, lo + int(level.counts[at]))
        parent = int(level.parents[at])
        candidates = children[wanted[children]]
        others = children[~wanted[children] & ~shown[children]]
        shown[_safe_candidates(amounts, parent, others, candidates, smallest)] = True


def _safe_candidates(
    amounts: Amounts, parent: int, others: npt.NDArray[np.int64], candidates: npt.NDArray[np.int64], smallest: int
) -> npt.NDArray[np.int64]:
    """Candidates that may be shown: as few of the smallest are removed as make the remainder safe."""
    if not amounts.has_people_here[parent] and not amounts.has_people[others].any():
        return candidates
    own = amounts.own[:, parent]
    n_active = (own > 0) + amounts.n_active[:, others].sum(axis=1)
    used = own + amounts.used[:, others].sum(axis=1)
    largest = np.maximum(own, amounts.largest[:, others].max(axis=1, initial=0.0))
    order = np.lexsort((candidates, amounts.used[0, candidates]))
    for n_hidden in range(len(order) + 1):
        if n_hidden:
            one = int(candidates[order[n_hidden - 1]])
            n_active, used = n_active + amounts.n_active[:, one], used + amounts.used[:, one]
            largest = np.maximum(largest, amounts.largest[:, one])
        if is_large_enough(n_active, used, largest, smallest=smallest).all():
            return candidates[order[n_hidden:]]
    return candidates[:0]


# --- Snapshot for readers of sums -------------------------------------------------------------------------------------
F8 = npt.NDArray[np.float64]
_STORED_WITHIN = timedelta(minutes=10)  # by then snapshots computed before midnight are stored
_DAYS_BEFORE = 3
_SLACK_S = 7200.0  # usage is stored by the hour: its age is known to an hour at both instants
_LEAST = 1e-9  # relative to usage: a smaller difference is rounding error
_MOST_CACHED = 16


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
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _amounts(policy, snapshot)
            while len(self._known) > _MOST_CACHED:
                self._known.popitem(last=False)
        return found


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
    beside = np.where(values.group_usage - below > _LEAST * values.group_usage, values.group_usage - below, 0.0)
    own: F8 = np.where(is_leaf, values.usage, beside)
    return own


def _counts_alike(one: PolicySettings, other: PolicySettings) -> bool:
    return (one.metric, one.window, one.approach) == (other.metric, other.window, other.approach)


def _added_usage(now: ServedSnapshot, before: ServedSnapshot) -> F8:
    """Usage added, or removed other than by decay, between two snapshots, (n,); 0 if within rounding error."""
    own, was = own_usage(now), _usage_in_tree(own_usage(before), before.tree, now.tree)
    least, most = _decay_bounds(now.settings, (now.as_of - before.as_of).total_seconds())
    grown = own - most * was
    shrunk = least * was - own
    found = np.where(grown > _LEAST * own, own - (least + most) / 2 * was, 0.0)
    added: F8 = np.where(shrunk > _LEAST * was, shrunk, np.maximum(found, 0.0))
    return added


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


# --- Visible entries --------------------------------------------------------------------------------------------------
_READS = (Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ, Token.Scope.SELF_READ)


def own_queries(actor: Actor) -> list[AccountQuery]:
    """Look-up queries of the actor's accounts; the user name if there is none."""
    return [
        AccountQuery(key.user_name, key.group_name, key.namespace, key.dn, key.fqan, key.project)
        for key in own_keys(actor)
    ]


def newest_for(*, policy_slug: str, at: datetime, actor: Actor) -> tuple[ServedSnapshot, Readable | None]:
    """The newest snapshot, and what of its current numbers and names the actor may see; None for all."""
    scope = next((scope for scope in _READS if actor.has_scope(scope)), Token.Scope.PRIORITIES_READ)
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot = store.newest(policy.slug)
    return snapshot, readable_now(policy=policy, snapshot=snapshot, at=at, actor=actor)


def readable_now(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Readable | None:
    """The entries whose current numbers the actor may see in full, and the accounts by name; None for all.

    A token is limited by its scopes and by the rights of its owner.
    """
    visibility = _visibility_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    mask: Mask = visibility.mask & visibility.outright
    names = names_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    return None if mask.all() and names is None else Readable(mask, names)


def names_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> AccountNames | None:
    """The accounts of a snapshot that the actor may name; None for all."""
    named = named_accounts(policy=policy, tree=snapshot.tree, actor=actor, at=at)
    if named.all():
        return None
    own = own_keys(actor) if actor.has_scope(Token.Scope.SELF_READ) else []
    return AccountNames(named, tuple(map(canonical, own)))


def visible_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask:
    """Mask of visible entries of a snapshot, those of the actor's own accounts included."""
    return _visibility_in(policy=policy, snapshot=snapshot, at=at, actor=actor).mask


def numbers_visible_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask:
    """Mask of entries whose numbers the actor may see: usage, actual, deviation, priority, rank, factor and demand.

    Sums are included only if the snapshot is the last one of a finished day.
    """
    visibility = _visibility_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    return visible_numbers(policy, snapshot, visibility, at)


def _visibility_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Visibility:
    own: set[int] = set()
    if actor.has_scope(Token.Scope.SELF_READ):
        own = {entry for query in own_queries(actor) for entry in snapshot.index.find_certain(query)}
    return visible_entries(policy=policy, tree=snapshot.tree, actor=actor, at=at, own_entries=sorted(own))


def reads_sums(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> bool:
    """Whether the actor sees only sums of some entries, and therefore only finished days."""
    everything = actor.administers or policy.visibility == Policy.Visibility.TREE
    if everything:
        return False
    rights = Rights(policy, actor, at)
    by_name = rights.at(Grant.Verb.VIEW_MEMBERS)
    places = (tree.index_of_uid(uid) for uid in rights.anywhere - by_name)
    return any(by_name.isdisjoint(map(tree.uuid, (*tree.ancestors(i), i))) for i in places if i is not None)
