"""The numbers of one figure of *My priority*, by its name, for page and REST; rank and factor on past days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from statistics import median
from threading import Lock
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached
from django.conf import settings
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models.functions import Length, TruncDate

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.accounts.request_cache import once_per_request
from apps.accounts.selectors import list_accounts_of
from apps.analytics.forecast import Forecast, get_my_forecast
from apps.analytics.my_priority.records import (
    N_BINS,
    Bin,
    MyPlace,
    MyWaits,
    PublishedThen,
    RankHistory,
    RankThen,
    WaitDay,
    Waited,
)
from apps.analytics.series.daily_series import site_zone
from apps.analytics.series.stored_series import load_series
from apps.core.blobs import CorruptBlob
from apps.core.errors import FieldProblem, Invalid, NotFound
from apps.engine.algorithms.inputs import prepare
from apps.engine.codecs import factor_from_key
from apps.explain.walk import walk_to
from apps.mapping.rules.resolver import unpack_places
from apps.policies.models import Policy, Revision
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import Mask
from apps.policies.tree.stored import TreeColumns, load_tree
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery, LookupIndex
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.snapshots import read_data, unpack_snapshot
from apps.priorities.visibility import numbers_visible_in, own_queries
from apps.usage.models import Record

# --- Rank on past days ------------------------------------------------------------------------------------------------
MOST_DAYS = 365  # as long as a snapshot a day is kept
MOST_BYTES = 32_000_000  # of snapshots that are read while somebody waits; beyond it every n-th day is read
_days: LRUCache[Hashable, Any] = LRUCache(20_000)  # as accounts read them


@dataclass(frozen=True, slots=True)
class OwnEntry:
    """An entry of the newest snapshot to which an account of the actor leads. entry: its index; query: the account."""

    policy: Policy
    snapshot: ServedSnapshot
    entry: int
    query: AccountQuery

    @property
    def account(self) -> str:
        return self.query.user or self.query.dn or self.query.group


def get_own_entry(*, policy_slug: str, entry_uid: UUID, actor: Actor, at: datetime) -> OwnEntry:
    """
    Raises:
        NotFound: there is no such policy, or none of the actor's accounts leads to the entry.
        Unavailable: nothing has been computed yet.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope=Token.Scope.SELF_READ)
    snapshot = store.newest(policy.slug)
    entry = snapshot.tree.index_of_uid(entry_uid)
    if entry and numbers_visible_in(policy=policy, snapshot=snapshot, at=at, actor=actor)[entry]:
        for query in own_queries(actor):
            if entry in snapshot.index.find_certain(query):
                return OwnEntry(policy, snapshot, entry, query)
    raise NotFound("There is no such account in this policy.")


def get_my_rank_history(*, policy_slug: str, entry_uid: UUID, n_days: int, actor: Actor, at: datetime) -> RankHistory:
    """Of the actor's account that has this entry now: its rank on each day. A page asks for trend and figure."""
    if not 1 <= n_days <= MOST_DAYS:
        message = f"must be 1 to {MOST_DAYS} days"
        raise Invalid(f"days {message}.", fields=[FieldProblem("days", message)])
    mine = get_own_entry(policy_slug=policy_slug, entry_uid=entry_uid, actor=actor, at=at)
    key = ("rank history", mine.policy.pk, mine.snapshot.snapshot_id, mine.account, entry_uid, n_days)
    return once_per_request(key, lambda: _rank_history(mine, entry_uid, n_days))


def _rank_history(mine: OwnEntry, entry_uid: UUID, n_days: int) -> RankHistory:
    policy, snapshot = mine.policy, mine.snapshot
    since = snapshot.as_of - timedelta(days=n_days)
    rows, published, step = _rows(policy, snapshot, since)
    reader = _Reader(policy, entry_uid, mine.query)
    days = [then for row in rows if (then := reader.read(row)) is not None]
    return RankHistory(
        policy_slug=policy.slug,
        policy_name=policy.name,
        account=mine.account,
        entry_uid=entry_uid,
        entry_name=snapshot.tree.name[mine.entry],
        as_of=snapshot.as_of,
        revision=snapshot.revision,
        days=tuple(days),
        published=published,
        step=step,
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """The last live snapshot of a day, without its bytes."""

    pk: int
    on: date
    as_of: datetime
    computed_at: datetime
    revision: int
    n_ranked: int
    digest: str
    n_bytes: int


def _rows(policy: Policy, newest: ServedSnapshot, since: datetime) -> tuple[list[_Row], tuple[PublishedThen, ...], int]:
    """One snapshot a day, oldest first; the revisions of that time; and the step in days that bounds the bytes read.

    The step is stable from day to day, for the cache, and always leaves the newest snapshot.
    """
    revisions = Revision.objects.filter(policy=policy, published_at__gt=since, published_at__lte=newest.as_of)
    published = [ArraySubquery(revisions.order_by("number").values(name)) for name in ("number", "published_at")]
    stored = Snapshot.objects.filter(policy=policy, is_live=True, pk__lte=newest.snapshot_id, as_of__gt=since)
    stored = stored.annotate(on=TruncDate("as_of", tzinfo=site_zone()), n_bytes=Length("data"))
    fields = ("pk", "on", "as_of", "computed_at", "revision_number", "n_ranked", "digest", "n_bytes")
    found = list(stored.order_by("on", "-pk").distinct("on").values_list(*fields, *published))
    rows = [_Row(*row[: len(fields)]) for row in found]
    n_bytes = sum(row.n_bytes for row in rows)
    step = max(1, -(-n_bytes // MOST_BYTES))
    then = tuple(PublishedThen(*pair) for pair in zip(*found[0][len(fields) :], strict=True)) if found else ()
    return [row for row in rows if row.on.toordinal() % step == 0 or row is rows[-1]], then, step


class _Reader:
    """Reads the account's rank in one snapshot after another; names are resolved again where they changed."""

    def __init__(self, policy: Policy, entry_uid: UUID, query: AccountQuery) -> None:
        self.policy, self.entry_uid, self.query = policy, entry_uid, query
        self._entries: dict[tuple[str, str], int | None] = {}

    def read(self, row: _Row) -> RankThen | None:
        """None where the snapshot is damaged or no longer kept: a gap."""
        try:
            return self._read(row)
        except (CorruptBlob, NotFound):
            return None

    @cached(
        _days,
        lock=Lock(),
        key=lambda self, row: (row.pk, row.computed_at.isoformat(), self.entry_uid, self.query),
    )  # a snapshot doesn't change, so only the newest is read again for the same account
    def _read(self, row: _Row) -> RankThen:
        data = read_data(row.pk)
        if data is None:
            raise NotFound(f"Snapshot {row.pk} is no longer kept.")
        values, places, meta = unpack_snapshot(data, row.digest)
        entry = self._entry(load_tree(self.policy, row.revision), places, str(meta["places_digest"]))
        rank = factor = None
        if entry is not None:
            rank = int(values.rank[entry]) if values.has_rank[entry] else None
            factor = float(values.factor[entry]) if values.has_factor[entry] else None
        return RankThen(row.on, row.as_of, row.revision, rank, row.n_ranked, factor)

    def _entry(self, tree: TreeColumns, places: memoryview, digest: str) -> int | None:
        key = (tree.digest, digest)
        if key not in self._entries:
            index = LookupIndex(tree, unpack_places(places, digest), " ".join(key))
            self._entries[key] = self._of_account(tree, index.find_certain(self.query))
        return self._entries[key]

    def _of_account(self, tree: TreeColumns, entries: Sequence[int]) -> int | None:
        """The present entry, or the only one that the account had then."""
        same = tree.index_of_uid(self.entry_uid)
        if same in entries:
            return same
        return entries[0] if len(entries) == 1 else None


# --- Figures ----------------------------------------------------------------------------------------------------------
MOST_JOBS = 50_000  # the newest of them


def get_my_waits(*, policy_slug: str, entry_uid: UUID, n_days: int, actor: Actor, at: datetime) -> MyWaits:
    """Of the actor's accounts that lead to this entry; NotFound where none does."""
    if not 1 <= n_days <= MOST_DAYS:
        message = f"must be 1 to {MOST_DAYS} days"
        raise Invalid(f"days {message}.", fields=[FieldProblem("days", message)])
    mine = get_own_entry(policy_slug=policy_slug, entry_uid=entry_uid, actor=actor, at=at)
    told = numbers_visible_in(policy=mine.policy, snapshot=mine.snapshot, at=at, actor=actor)
    level = _level(mine, told)
    since = mine.snapshot.as_of - timedelta(days=n_days)
    deviations, reported = _past(mine, level, since)
    jobs, n_left_out = _jobs(mine, actor, since, reported)
    by_day: dict[date, list[float]] = defaultdict(list)
    for started_on, waited_s in jobs:
        by_day[started_on].append(waited_s)
    days = tuple(
        WaitDay(on, len(waits), median(waits), max(waits), deviations.get(on)) for on, waits in sorted(by_day.items())
    )
    tree = mine.snapshot.tree
    return MyWaits(
        policy_slug=mine.policy.slug,
        policy_name=mine.policy.name,
        account=mine.account,
        level_name=tree.name[level],
        parent_name=tree.name[max(int(tree.parent[level]), 0)],
        revision=mine.snapshot.revision,
        days=days,
        knows_waits=bool(jobs) or not n_left_out,
        n_left_out=n_left_out,
        over=_together([day for day in days if (day.deviation or 0) > 0], by_day),
        under=_together([day for day in days if (day.deviation or 0) < 0], by_day),
    )


def _level(mine: OwnEntry, told: Mask) -> int:
    """The level that decides the rank, else the entry itself."""
    walk = walk_to(mine.snapshot, mine.entry)
    deciding = mine.entry if walk.deciding is None else walk.chain[walk.deciding]
    return deciding if told[deciding] else mine.entry


def _jobs(
    mine: OwnEntry, actor: Actor, since: datetime, reported: AbstractSet[date]
) -> tuple[list[tuple[date, float]], int]:
    """(day of the start, seconds waited) of each job, and how many of unknown wait are left out.

    A source that reports no submissions says that each job was submitted when it started. So a source none of whose
    jobs waited counts on the days of `reported` alone, when every source is known to report submissions.
    """
    rows = Record.objects.filter(
        account_id__in=_account_ids(mine.snapshot, mine.entry, actor),
        start_at__gt=since,
        start_at__lte=mine.snapshot.as_of,
        is_charge=False,
        source__archived_at=None,
    ).exclude(state="withdrawn")
    newest = rows.order_by("-start_at").values_list("source_id", "start_at", "submit_at")[:MOST_JOBS]
    found = [(source, start_at, submit_at) for source, start_at, submit_at in newest if start_at is not None]
    waiting = {source for source, start_at, submit_at in found if start_at > submit_at}
    zone, jobs = site_zone(), []
    for source, start_at, submit_at in found:
        on = start_at.astimezone(zone).date()
        if source in waiting or on in reported:
            jobs.append((on, (start_at - submit_at).total_seconds()))
    return jobs, len(found) - len(jobs)


def _account_ids(snapshot: ServedSnapshot, entry: int, actor: Actor) -> list[int]:
    """The actor's own accounts that lead to the entry; of a token that is bound to a subtree none, as for charges."""
    if actor.user is None or (actor.token is not None and actor.token.subtree_uid is not None):
        return []
    return [
        account.pk
        for account in list_accounts_of(actor.user)
        if entry
        in snapshot.index.find_certain(
            AccountQuery(
                account.user_name, account.group_name, account.namespace, account.dn, account.fqan, account.project
            )
        )
    ]


def _past(mine: OwnEntry, level: int, since: datetime) -> tuple[dict[date, float], set[date]]:
    """Deviation by day, as the daily series has it at the end of the day before; and the days on which all sources that
    count reported submissions.
    """
    uid, zone = mine.snapshot.tree.uuid(level), site_zone()
    series = load_series(
        mine.policy,
        [uid],
        from_on=since.astimezone(zone).date() - timedelta(days=1),
        to_on=mine.snapshot.as_of.astimezone(zone).date(),
    )
    found, reported = {}, set()
    for day, on in enumerate(series.days.on):
        whole = float(series.peers_decayed[0][day])
        if series.competes[0][day] and whole > 0:
            found[on + timedelta(days=1)] = float(series.decayed[0][day]) / whole - float(series.target[0][day])
        if series.knows_waiting[0][day]:
            reported.add(on)
    return found, reported


def _together(days: Sequence[WaitDay], by_day: dict[date, list[float]]) -> Waited | None:
    waits = [waited_s for day in days for waited_s in by_day[day.on]]
    return Waited(len(days), len(waits), median(waits)) if waits else None


F8 = npt.NDArray[np.float64]


def get_my_place(*, policy_slug: str, entry_uid: UUID, actor: Actor, at: datetime) -> MyPlace:
    """Of the actor's account that has this entry; NotFound where there is none."""
    mine = get_own_entry(policy_slug=policy_slug, entry_uid=entry_uid, actor=actor, at=at)
    snapshot, entry = mine.snapshot, mine.entry
    values = snapshot.values
    ranked = values.has_rank & values.is_ranked
    has_rank = bool(ranked[entry])
    factor, is_from_key = factors_with_distance(snapshot)
    rank = int(values.rank[entry]) if has_rank else None
    own = float(factor[entry]) if has_rank else None
    smallest = int(settings.FAIRSHARE_SMALLEST_GROUP)
    return MyPlace(
        policy_slug=mine.policy.slug,
        policy_name=mine.policy.name,
        account=mine.account,
        as_of=snapshot.as_of,
        revision=snapshot.revision,
        rank=rank,
        of=int(ranked.sum()),
        n_same=int((values.rank[ranked] == rank).sum()) - 1 if has_rank else 0,
        factor=own,
        is_from_key=is_from_key,
        smallest=smallest,
        bins=() if own is None else bins_of(factor[ranked], own, smallest=smallest),
    )


def factors_with_distance(snapshot: ServedSnapshot) -> tuple[F8, bool]:
    """Factors 0..1 of all entries, and whether they are those of the vectors' keys instead of the policy's own."""
    algorithm, values = snapshot.algorithm, snapshot.values
    if algorithm["name"] != "aequus" or algorithm.get("factor_from") != "rank":
        return values.factor, False
    prepared = prepare(snapshot.tree.engine_tree())
    scalar = (values.scalar if prepared.is_whole else values.scalar[prepared.entry]).astype(np.int64)
    found = factor_from_key(prepared.contest, scalar, prepared.depth, int(algorithm["resolution"]))
    return prepared.spread(found), True


def bins_of(factors: F8, own: float, *, smallest: int, n_bins: int = N_BINS) -> tuple[Bin, ...]:
    """Twentieths of 0..1; neighbours are one bin until at least `smallest` others are in it, or none is.

    factors: of all ranked leaves, one's own (`own`) among them. Empty where all others would be in one bin.
    """
    place = np.clip((factors * n_bins + 1e-9).astype(np.int64), 0, n_bins - 1)
    others = np.bincount(place, minlength=n_bins)
    mine = min(max(int(own * n_bins + 1e-9), 0), n_bins - 1)
    others[mine] -= 1
    if others.sum() < smallest:
        return ()
    found = tuple(
        Bin(first / n_bins, end / n_bins, int(others[first:end].sum()) + (first <= mine < end), first <= mine < end)
        for first, end in _joined(others.tolist(), smallest)
    )
    return found if sum(one.n > one.is_mine for one in found) > 1 else ()


def _joined(others: Sequence[int], smallest: int) -> list[tuple[int, int]]:
    """Runs of bins, each empty or with enough in it; the rest at the end joins the last run with people."""
    runs: list[tuple[int, int]] = []
    first, n = 0, 0
    for at, here in enumerate(others):
        n += here
        if n >= smallest or n == 0:
            runs.append((first, at + 1))
            first, n = at + 1, 0
    if n:
        while runs and not sum(others[runs[-1][0] : runs[-1][1]]):
            first = runs.pop()[0]
        first = runs.pop()[0]
        runs.append((first, len(others)))
    return runs


MyNumbers = RankHistory | Forecast | MyPlace | MyWaits


def get_my_numbers(
    name: str,
    *,
    policy_slug: str,
    entry_uid: UUID,
    actor: Actor,
    at: datetime,
    n_days: int = 0,
    share: float | None = None,
) -> MyNumbers:
    """n_days: of `rank` and `waits`, how far back. share: of `forecast`, 0..1, None for that of the last days.

    Raises:
        NotFound: there are no such numbers, or none of the actor's accounts leads to the entry.
        Unavailable: nothing has been computed yet.
    """
    if name == "rank":
        return get_my_rank_history(policy_slug=policy_slug, entry_uid=entry_uid, n_days=n_days, actor=actor, at=at)
    if name == "waits":
        return get_my_waits(policy_slug=policy_slug, entry_uid=entry_uid, n_days=n_days, actor=actor, at=at)
    if name == "places":
        return get_my_place(policy_slug=policy_slug, entry_uid=entry_uid, actor=actor, at=at)
    if name not in {"forecast", "factor"}:
        raise NotFound(f"There are no numbers {name[:80]!r} of an account.")
    found = get_my_forecast(policy_slug=policy_slug, entry_uid=entry_uid, share=share, actor=actor, at=at)
    if found is None:
        raise NotFound("There is no such account in this policy.")
    return found
