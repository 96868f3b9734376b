"""The actor's own entry in the newest snapshot, and its rank and factor on past days, read from stored snapshots."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from threading import Lock
from typing import Any
from uuid import UUID

from cachetools import LRUCache, cached
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models.functions import Length, TruncDate

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.accounts.request_cache import once_per_request
from apps.core.blobs import CorruptBlob
from apps.core.derived_state import in_memory
from apps.core.errors import FieldProblem, Invalid, NotFound
from apps.pages.my_priority.numbers.records import PublishedRevision, RankHistory, RankOnDay
from apps.policies.models import Policy, Revision
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import TreeColumns, load_tree
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery, LookupIndex
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.snapshot_values import unpack_snapshot
from apps.priorities.snapshots import read_data, read_places, without_ahead
from apps.priorities.visible_entries import numbers_visible_in, own_queries
from apps.series.days import site_zone

DERIVED_STATE = (
    in_memory(
        "_days",
        "_Reader._read",
        holds="rank of an account on a past day",
        key="id and last instant of the snapshot, entry, account",
        inputs="the stored snapshot and its places",
        range="one snapshot",
        ends="the newest ones push it out",
    ),
)

MOST_RANK_DAYS = 365  # daily snapshots are stored for this long
MOST_SNAPSHOT_BYTES = 32_000_000  # of snapshots read in one request; above that only every n-th day is read
_days: LRUCache[Hashable, Any] = LRUCache(20_000)


@dataclass(frozen=True, slots=True)
class OwnEntry:
    """An entry of the newest snapshot to which an account of the actor is mapped. entry: its index; query:
    the account.
    """

    policy: Policy
    snapshot: ServedSnapshot
    entry: int
    query: AccountQuery

    @property
    def account(self) -> str:
        return self.query.user or self.query.dn or self.query.group


def get_own_entry(*, policy_slug: str, entry_uid: UUID, actor: Actor, at: datetime) -> OwnEntry:
    """Find the entry and the actor's account that is mapped to it.

    Raises: NotFound if there is no such policy, or none of the actor's accounts is mapped to the entry. Unavailable if
    nothing has been computed yet.
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
    """Return the daily rank of the actor's account that is mapped to this entry now. Cached for the request."""
    if not 1 <= n_days <= MOST_RANK_DAYS:
        message = f"must be 1 to {MOST_RANK_DAYS} days"
        raise Invalid(f"days {message}.", fields=[FieldProblem("days", message)])
    own_entry = get_own_entry(policy_slug=policy_slug, entry_uid=entry_uid, actor=actor, at=at)
    key = ("rank history", own_entry.policy.pk, own_entry.snapshot.snapshot_id, own_entry.account, entry_uid, n_days)
    return once_per_request(key, lambda: _rank_history(own_entry, entry_uid, n_days))


def _rank_history(own_entry: OwnEntry, entry_uid: UUID, n_days: int) -> RankHistory:
    policy, snapshot = own_entry.policy, own_entry.snapshot
    since = snapshot.as_of - timedelta(days=n_days)
    rows, published, step = _rows(policy, snapshot, since)
    reader = _Reader(policy, entry_uid, own_entry.query)
    days = [rank_on_day for row in rows if (rank_on_day := reader.read(row)) is not None]
    return RankHistory(
        policy_slug=policy.slug,
        policy_name=policy.name,
        account=own_entry.account,
        entry_uid=entry_uid,
        entry_name=snapshot.tree.name[own_entry.entry],
        as_of=snapshot.as_of,
        revision=snapshot.revision,
        days=tuple(days),
        published=published,
        step=step,
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """The last live snapshot of a day, without its data."""

    pk: int
    on: date
    as_of: datetime
    computed_at: datetime
    revision: int
    n_ranked: int
    digest: str
    places_digest: str
    n_bytes: int


def _rows(
    policy: Policy, newest: ServedSnapshot, since: datetime
) -> tuple[list[_Row], tuple[PublishedRevision, ...], int]:
    """List one snapshot a day, oldest first; the revisions of the period; and the step in days that bounds the bytes
    read.

    The same days are chosen on every call, so that the cache is used; the newest snapshot is always included.
    """
    revisions = Revision.objects.filter(policy=policy, published_at__gt=since, published_at__lte=newest.as_of)
    columns = [ArraySubquery(revisions.order_by("number").values(name)) for name in ("number", "published_at")]
    stored = without_ahead(policy).filter(is_live=True, pk__lte=newest.snapshot_id, as_of__gt=since)
    stored = stored.annotate(on=TruncDate("as_of", tzinfo=site_zone()), n_bytes=Length("data"))
    fields = ("pk", "on", "as_of", "computed_at", "revision_number", "n_ranked", "digest", "places_id", "n_bytes")
    stored_rows = list(stored.order_by("on", "-pk").distinct("on").values_list(*fields, *columns))
    rows = [_Row(*row[: len(fields)]) for row in stored_rows]
    n_bytes = sum(row.n_bytes for row in rows)
    step = max(1, -(-n_bytes // MOST_SNAPSHOT_BYTES))
    published = (
        tuple(PublishedRevision(*pair) for pair in zip(*stored_rows[0][len(fields) :], strict=True))
        if stored_rows
        else ()
    )
    return [row for row in rows if row.on.toordinal() % step == 0 or row is rows[-1]], published, step


class _Reader:
    """Reads the account's rank from snapshots; the account is mapped again only if the tree or its mapping changed."""

    def __init__(self, policy: Policy, entry_uid: UUID, query: AccountQuery) -> None:
        self.policy, self.entry_uid, self.query = policy, entry_uid, query
        self._entries: dict[tuple[str, str], int | None] = {}

    def read(self, row: _Row) -> RankOnDay | None:
        """Return the rank in a snapshot; None if it is damaged or has been deleted."""
        try:
            return self._read(row)
        except (CorruptBlob, NotFound):
            return None

    # Snapshots don't change, so for one account only the newest has to be read again.
    @cached(
        _days,
        lock=Lock(),
        key=lambda self, row: (row.pk, row.computed_at.isoformat(), self.entry_uid, self.query),
    )
    def _read(self, row: _Row) -> RankOnDay:
        data = read_data(row.pk)
        if data is None:
            raise NotFound(f"Snapshot {row.pk} has been deleted.")
        tree = load_tree(self.policy, row.revision)
        values, _meta = unpack_snapshot(data, row.digest, tree)
        entry = self._entry(tree, row.places_digest)
        rank = factor = None
        if entry is not None:
            rank = int(values.rank[entry]) if values.has_rank[entry] else None
            factor = float(values.factor[entry]) if values.has_factor[entry] else None
        return RankOnDay(row.on, row.as_of, row.revision, rank, row.n_ranked, factor)

    def _entry(self, tree: TreeColumns, digest: str) -> int | None:
        key = (tree.digest, digest)
        if key not in self._entries:
            index = LookupIndex(tree, read_places(digest), digest)
            self._entries[key] = self._choose(tree, index.find_certain(self.query))
        return self._entries[key]

    def _choose(self, tree: TreeColumns, entries: Sequence[int]) -> int | None:
        """Return the entry itself if the account was mapped to it, else the only entry it was mapped to."""
        now = tree.index_of_uid(self.entry_uid)
        if now in entries:
            return now
        return entries[0] if len(entries) == 1 else None
