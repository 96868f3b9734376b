"""Rank and factor of one's own account on past days, from the last snapshot that is kept of each day."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from threading import Lock
from typing import Any
from uuid import UUID

from cachetools import LRUCache, cached
from django.db.models.functions import Length, TruncDate

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.analytics.my_priority.records import PublishedThen, RankHistory, RankThen
from apps.analytics.series.calendar import site_zone
from apps.core.blobs import CorruptBlob
from apps.core.errors import FieldProblem, Invalid, NotFound
from apps.mapping.rules.placement import unpack_places
from apps.policies.models import Policy, Revision
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import TreeColumns, load_tree
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery, LookupIndex
from apps.priorities.serving.lookup_index import ServedSnapshot
from apps.priorities.snapshots.blob import unpack_snapshot
from apps.priorities.snapshots.stored import read_data
from apps.priorities.visibility.visible_entries import numbers_visible_in, own_queries

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
    """Of the actor's account that has this entry now: its rank on each day."""
    if not 1 <= n_days <= MOST_DAYS:
        message = f"must be 1 to {MOST_DAYS} days"
        raise Invalid(f"days {message}.", fields=[FieldProblem("days", message)])
    mine = get_own_entry(policy_slug=policy_slug, entry_uid=entry_uid, actor=actor, at=at)
    policy, snapshot = mine.policy, mine.snapshot
    since = snapshot.as_of - timedelta(days=n_days)
    rows, step = _rows(policy, snapshot, since)
    reader = _Reader(policy, entry_uid, mine.query)
    days = [then for row in rows if (then := reader.read(row)) is not None]
    published = Revision.objects.filter(policy=policy, published_at__gt=since, published_at__lte=snapshot.as_of)
    return RankHistory(
        policy_slug=policy.slug,
        policy_name=policy.name,
        account=mine.account,
        entry_uid=entry_uid,
        entry_name=snapshot.tree.name[mine.entry],
        as_of=snapshot.as_of,
        revision=snapshot.revision,
        days=tuple(days),
        published=tuple(
            PublishedThen(*row) for row in published.order_by("number").values_list("number", "published_at")
        ),
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


def _rows(policy: Policy, newest: ServedSnapshot, since: datetime) -> tuple[list[_Row], int]:
    """One a day, oldest first, and the step in days that bounds the bytes read: stable from day to day for the
    cache, and always with the newest.
    """
    stored = Snapshot.objects.filter(policy=policy, is_live=True, pk__lte=newest.snapshot_id, as_of__gt=since)
    stored = stored.annotate(on=TruncDate("as_of", tzinfo=site_zone()), n_bytes=Length("data"))
    fields = ("pk", "on", "as_of", "computed_at", "revision_number", "n_ranked", "digest", "n_bytes")
    rows = [_Row(*row) for row in stored.order_by("on", "-pk").distinct("on").values_list(*fields)]
    n_bytes = sum(row.n_bytes for row in rows)
    step = max(1, -(-n_bytes // MOST_BYTES))
    return [row for row in rows if row.on.toordinal() % step == 0 or row is rows[-1]], step


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
