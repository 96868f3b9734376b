"""What of a snapshot an actor may see: suppression, the mask of look-ups, and the daily snapshot for readers of sums.

A reader of a group's sum only (VIEW_AGGREGATE) sees the sum where at least FAIRSHARE_SMALLEST_GROUP members below were
active and none of them used more than four fifths of it. That alone isn't enough: who sees a group and all its parts
but one can derive the last part. What such a reader learns from a set of shown entries is exactly their *remainders*, a
remainder being a shown entry minus its shown children: sums are shown downwards from the root without gaps, so every
shown number is a sum of remainders and every remainder a difference of shown numbers. Hence the one rule here: **every
remainder is as large a group as a shown one must be, or is empty.** Where it isn't, the smallest shown siblings are
hidden as well until it is. Unions of safe remainders are safe.

What readers see in any case (their own path to the root, entries by name) counts as known and protects no one: only
the rest counts. Others' usage is then the rest of a group's sum; so every member can see their own group's usage, and
the documentation says so.

An entry's actual share is its usage over its siblings' together: a reader of an entry sees its parent, too.

The snapshot for readers of sums only: the last one of a finished day, never one of an hour.
Two sums an hour apart differ by the usage of that hour, which is often one person's. So readers of sums only see the
last live snapshot of a finished UTC day, whichever instant they ask for; and of an entry only where the rule of five
holds for three numbers that such a reader could derive: usage at that day's end, and usage added since each of the
last days' snapshots. Any combination of visible numbers contains, of the youngest day in it, whole remainders (see
above) to which five people or more added usage on that day; none leaves one person's. The visible numbers of
a day never change afterwards.

Added usage is computed from the two snapshots: an entry's usage beyond its aged usage of before. Where aging isn't
exponential only growth counts as added; where metric, window or approach changed in between the first day is hidden.
Both hide more, never less. Numbers visible in full are shown at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
from django.conf import settings

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.engine.tree import Level
from apps.mapping.permissions import own_keys
from apps.policies.access.scope import Rights, Visibility, visible_entries
from apps.policies.models import Grant, Policy
from apps.policies.selectors import get_policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.document_merge import indexes_of
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot

# --- Suppression ------------------------------------------------------------------------------------------------------
SMALLEST_GROUP = 5
LARGEST_PART = 0.8


def is_large_enough(n_active: npt.ArrayLike, used: npt.ArrayLike, largest: npt.ArrayLike, *, smallest: int) -> Mask:
    """The rule of five for one sum or many: enough active members, and none with more than 80 % of it."""
    told: Mask = (np.asarray(n_active) >= smallest) & (np.asarray(largest) <= LARGEST_PART * np.asarray(used))
    return told


@dataclass(frozen=True, eq=False)
class Amounts:
    """Members' parts of the numbers to be shown, and sums upwards; arrays (rows, entries).

    A row is one number that a reader could know of every entry: its usage, or usage added since a day that was shown
    before. own: of the entry itself, 0 for nothing. has_people: a person's usage could be below.
    """

    n_active: F8
    used: F8
    largest: F8
    own: F8
    has_people: Mask
    has_people_here: Mask

    @classmethod
    def of(cls, tree: TreeColumns, own: F8, is_member: Mask) -> Amounts:
        """own: (rows, entries), of each entry apart from what is below it. is_member: entries that represent people."""
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
    """Entries that are, or have below them, a leaf that isn't a reserve."""
    found: Mask = ~tree.is_reserve & (tree.n_children == 0) & (np.arange(len(tree)) > 0)
    return with_ancestors(tree.engine_tree().levels, found)


def shown_entries(
    tree: TreeColumns, amounts: Amounts, *, seen: Mask, outright: Mask, smallest: int = SMALLEST_GROUP
) -> Mask:
    """Entries whose numbers may be shown, shape (n,). seen: those visible to the reader. outright: shown in any case.

    Deterministic; linear in the entries.
    """
    levels = tree.engine_tree().levels
    outright, wanted = with_ancestors(levels, outright), with_ancestors(levels, seen)
    safe = is_large_enough(amounts.n_active, amounts.used, amounts.largest, smallest=smallest).all(axis=0)
    wanted &= safe & ~outright
    told = outright.copy()
    told[0] |= wanted[0]
    for level in levels:
        _go_down(level, amounts, told, wanted, smallest)
    return told


def with_ancestors(levels: Sequence[Level], mask: Mask) -> Mask:
    """And all that is above."""
    found = mask.copy()
    for level in reversed(levels):
        found[level.parents] |= np.logical_or.reduceat(found[level.lo : level.hi], level.starts)
    return found


def _go_down(level: Level, amounts: Amounts, told: Mask, wanted: Mask, smallest: int) -> None:
    """Show as many children of shown entries as the rule allows."""
    here = slice(level.lo, level.hi)
    asked = told[level.parents] & np.logical_or.reduceat(wanted[here], level.starts)
    for place in np.flatnonzero(asked).tolist():
        lo = level.lo + int(level.starts[place])
        children = np.arange(lo, lo + int(level.counts[place]))
        parent = int(level.parents[place])
        candidates = children[wanted[children]]
        others = children[~wanted[children] & ~told[children]]
        told[_leave_out(amounts, parent, others, candidates, smallest)] = True


def _leave_out(
    amounts: Amounts, parent: int, others: npt.NDArray[np.int64], candidates: npt.NDArray[np.int64], smallest: int
) -> npt.NDArray[np.int64]:
    """The candidates without the smallest, as few of these as make the remainder safe; all where it is empty."""
    if not amounts.has_people_here[parent] and not amounts.has_people[others].any():
        return candidates
    own = amounts.own[:, parent]
    n_active = (own > 0) + amounts.n_active[:, others].sum(axis=1)
    used = own + amounts.used[:, others].sum(axis=1)
    largest = np.maximum(own, amounts.largest[:, others].max(axis=1, initial=0.0))
    order = np.lexsort((candidates, amounts.used[0, candidates]))
    for left_out in range(len(order) + 1):
        if left_out:
            one = int(candidates[order[left_out - 1]])
            n_active, used = n_active + amounts.n_active[:, one], used + amounts.used[:, one]
            largest = np.maximum(largest, amounts.largest[:, one])
        if is_large_enough(n_active, used, largest, smallest=smallest).all():
            return candidates[order[left_out:]]
    return candidates[:0]


# --- Snapshot for readers of sums -------------------------------------------------------------------------------------
F8 = npt.NDArray[np.float64]
_UNTIL_KEPT = timedelta(minutes=10)  # a snapshot that was computed before midnight is stored by then
_DAYS_BEFORE = 3
_SLACK_S = 7200.0  # usage counts by whole hours: its age is known to an hour at either instant
_LEAST = 1e-9  # of what was there: below it, rounding
_MOST_REMEMBERED = 16


def settled_before(policy: Policy, at: datetime) -> int | None:
    """The last live snapshot of the last day that was over at an instant; None where there is none."""
    day = (at - _UNTIL_KEPT).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    stored = Snapshot.objects.filter(policy=policy, is_live=True, computed_at__lt=day)
    return stored.order_by("-id").values_list("pk", flat=True).first()


def is_settled(policy: Policy, snapshot: ServedSnapshot, at: datetime) -> bool:
    """Whether it is the last one of a day that is over."""
    last = settled_before(policy, min(at, snapshot.computed_at + timedelta(days=1) + _UNTIL_KEPT))
    return last == snapshot.snapshot_id


def visible_numbers(policy: Policy, snapshot: ServedSnapshot, visibility: Visibility, at: datetime) -> Mask:
    """Entries of the snapshot's tree whose numbers the reader with `visibility` (on that tree) may see."""
    seen, outright = visibility.mask, visibility.outright & visibility.mask
    if not (seen & ~outright).any() or not is_settled(policy, snapshot, at):
        return outright
    amounts = _remembered.of(policy, snapshot)
    smallest = int(settings.FAIRSHARE_SMALLEST_GROUP)
    told = shown_entries(snapshot.tree, amounts, seen=seen, outright=visibility.outright, smallest=smallest)
    mask: Mask = told & seen
    return mask


class _Remembered:
    """Amounts of the last few settled snapshots: they never change."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, datetime, str], Amounts] = OrderedDict()

    def of(self, policy: Policy, snapshot: ServedSnapshot) -> Amounts:
        # A database that was restored may give a number again, to a snapshot of another tree.
        key = (snapshot.snapshot_id, snapshot.computed_at, snapshot.tree.digest)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _amounts(policy, snapshot)
            while len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)
        return found


_remembered = _Remembered()


def _amounts(policy: Policy, snapshot: ServedSnapshot) -> Amounts:
    rows, before = [own_usage(snapshot)], snapshot
    for nth in range(_DAYS_BEFORE):
        day = before.computed_at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        pk = settled_before(policy, day + _UNTIL_KEPT)
        if pk is None:
            break
        before = store.load_stored(policy.slug, pk)
        if _counts_alike(snapshot.settings, before.settings):
            rows.append(_added(snapshot, before))
        elif nth == 0:
            rows.append(np.zeros(len(snapshot.tree)))
    return Amounts.of(snapshot.tree, np.array(rows), snapshot.values.is_ranked)


def own_usage(snapshot: ServedSnapshot) -> F8:
    """What entries have beside what is below them: leaves all they have; others what counts at the entry itself."""
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


def _added(now: ServedSnapshot, before: ServedSnapshot) -> F8:
    """What entries got, or lost other than by age, between two snapshots; 0 where indistinguishable from rounding."""
    own, was = own_usage(now), _moved_over(own_usage(before), before.tree, now.tree)
    least, most = _aged(now.settings, (now.as_of - before.as_of).total_seconds())
    grown = own - most * was
    shrunk = least * was - own
    found = np.where(grown > _LEAST * own, own - (least + most) / 2 * was, 0.0)
    added: F8 = np.where(shrunk > _LEAST * was, shrunk, np.maximum(found, 0.0))
    return added


def _aged(counted: PolicySettings, passed_s: float) -> tuple[float, float]:
    """Lower and upper bound of usage left after a time; known for exponential decay alone."""
    window = counted.window
    if window["aging"] != "exponential":
        return 0.0, 1.0
    half_life_s = float(window["half_life_s"])
    slack_s = _SLACK_S + float(window.get("granularity_s") or 0.0)
    # Usage leaves the window hour by hour: half of a user's usage at once isn't due to age.
    least = 2.0 ** (-(passed_s + slack_s) / half_life_s) * (0.5 if window.get("length_s") else 1.0)
    return least, 2.0 ** (-max(passed_s - slack_s, 0.0) / half_life_s)


def _moved_over(own: F8, there: TreeColumns, here: TreeColumns) -> F8:
    """By the entries of another tree; what is no longer in it, at the nearest entry above that is."""
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
    """The actor's accounts as look-ups; without any, the user name."""
    return [
        AccountQuery(key.user_name, key.group_name, key.namespace, key.dn, key.fqan, key.project)
        for key in own_keys(actor)
    ]


def newest_for(*, policy_slug: str, at: datetime, actor: Actor) -> tuple[ServedSnapshot, Mask | None]:
    """The newest snapshot, and which of its entries the actor may see as of now; None for all of them."""
    scope = next((scope for scope in _READS if actor.has_scope(scope)), Token.Scope.PRIORITIES_READ)
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot = store.newest(policy.slug)
    return snapshot, readable_now(policy=policy, snapshot=snapshot, at=at, actor=actor)


def readable_now(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask | None:
    """Entries of the newest snapshot whose present numbers the actor may see; None for all of them.

    Through a token: within its scopes and its owner's rights.
    """
    visibility = _see_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    mask: Mask = visibility.mask & visibility.outright
    return None if mask.all() else mask


def visible_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask:
    """By the one scope function, with the entries of the actor's own accounts."""
    return _see_in(policy=policy, snapshot=snapshot, at=at, actor=actor).mask


def numbers_visible_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask:
    """Entries of a snapshot whose numbers the actor may see: usage, actual, deviation, priority, rank, factor and
    demand. Unless it is the last of a finished day, only those visible in full.
    """
    visibility = _see_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    return visible_numbers(policy, snapshot, visibility, at)


def _see_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Visibility:
    own: set[int] = set()
    if actor.has_scope(Token.Scope.SELF_READ):
        own = {entry for query in own_queries(actor) for entry in snapshot.index.find_certain(query)}
    return visible_entries(policy=policy, tree=snapshot.tree, actor=actor, at=at, own_entries=sorted(own))


def reads_sums(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> bool:
    """Whether the actor sees sums only of some entries, and so only finished days."""
    everything = actor.user is None or actor.user.is_superuser or policy.visibility == Policy.Visibility.TREE
    if everything:
        return False
    rights = Rights(policy, actor, at)
    by_name = rights.at(Grant.Verb.VIEW_MEMBERS)
    places = (tree.index_of_uid(uid) for uid in rights.anywhere - by_name)
    return any(by_name.isdisjoint(map(tree.uuid, (*tree.ancestors(i), i))) for i in places if i is not None)
