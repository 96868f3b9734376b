"""The newest snapshot of every policy in this process's memory, replaced in one step.

A thread polls for newer ones every FAIRSHARE_SNAPSHOT_POLL_S seconds, so that requests never wait for the database.
During a database outage the last snapshots are served and their age grows; a process that starts then loads the copies
on disk.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from apps.accounts.request_cache import once_per_request
from apps.core.blobs import CorruptBlob
from apps.core.derived_state import in_memory
from apps.core.errors import NotFound, Unavailable
from apps.core.kept_briefly import drop_old
from apps.core.postgresql import SERVER_EPOCH
from apps.policies.access.scope import archived_policy
from apps.policies.tree.stored import TreeColumns, digest_of_tree, load_tree, tree_cache, tree_with_digest
from apps.priorities.models import Snapshot
from apps.priorities.serving import shared_files
from apps.priorities.serving.lookup import LookupIndex
from apps.priorities.serving.served_snapshot import AccountQuery, Query, ServedSnapshot, serve
from apps.priorities.snapshot_values import Values, unpack_snapshot
from apps.priorities.snapshots import read_data, read_places
from apps.runs.memory import MemoryReturn, spare_collector
from apps.usage.models import Source, is_collected

DERIVED_STATE = (
    in_memory(
        "_process",
        holds="newest snapshots, and some older ones, as served",
        key="start and identity of the database, id of the snapshot; its last instant and scale",
        inputs="stored snapshots, policies, sources",
        range="the newest of each policy; eight older ones",
        ends="each poll replaces what is newer; without a database it stays, with its age",
    ),
)

__all__ = ["AccountQuery", "PolicyRow", "Query", "ServedSnapshot", "cached_state", "load_stored", "newest", "state"]

logger = logging.getLogger(__name__)
_FIRST_POLL_S = 10.0  # how long a new process waits for its first poll
_POLL_AGAIN_S = 0.25  # shortest interval between polls that an unknown policy triggers
_MOST_KEPT_SNAPSHOTS = 8
_MOST_OLDER_TRIED = 20  # older rows that are tried if the newest is damaged

_NEWEST = f"""
SELECT {SERVER_EPOCH}, policy.id, policy.slug, policy.name, policy.visibility, policy.head_number, policy.archived_at,
    newest.id, newest.valid_at, newest.usage_scale, newest.computed_at
FROM policies_policy AS policy LEFT JOIN LATERAL (
    SELECT id, valid_at, usage_scale, computed_at FROM priorities_snapshot
    WHERE policy_id = policy.id AND is_live ORDER BY id DESC LIMIT 1
) AS newest ON true
"""  # noqa: S608 - constants only


@dataclass(frozen=True)
class PolicyRow:
    """Fields of a policy that are needed to answer without a database."""

    id: int
    slug: str
    name: str
    visibility: str
    head_number: int


class NewestRow(NamedTuple):
    """The newest snapshot of a policy, without its data; see `Snapshot`."""

    id: int | None
    valid_at: datetime
    usage_scale: float
    computed_at: datetime


@dataclass(frozen=True)
class SourceAge:
    """Fields of a source from which `usage.timeliness` derives its last contact and whether it is late."""

    slug: str
    name: str
    origin: str
    kind: str
    last_record_end_at: datetime | None
    last_received_at: datetime | None
    collected_at: datetime | None
    collect_error: str
    expected_every_s: int | None
    collect_every_s: int | None
    is_paused: bool
    created_at: datetime

    @property
    def is_collected(self) -> bool:
        return is_collected(self.kind)


@dataclass(frozen=True)
class State:
    """Everything that is served, in one immutable object: readers never see half of a change."""

    policies: Mapping[str, PolicyRow] = field(default_factory=dict)
    snapshots: Mapping[str, ServedSnapshot] = field(default_factory=dict)
    damaged: Mapping[str, int] = field(default_factory=dict)  # policy → id of its newest snapshot, if unreadable
    archived: Mapping[str, datetime] = field(default_factory=dict)  # policies that aren't served, and since when
    sources: tuple[SourceAge, ...] = ()
    has_database: bool = False
    polled_s: float = 0.0  # time.monotonic() of the last poll


class _Served:
    def __init__(self) -> None:
        self.state = State()
        self._polled = threading.Event()
        self._lock = threading.Lock()  # one poll at a time
        self._thread: threading.Thread | None = None
        self._is_polled = False
        os.register_at_fork(after_in_child=self._in_child)  # cheaper than a check at each look-up
        self._stored: OrderedDict[int, ServedSnapshot] = OrderedDict()
        self._epoch = ""  # of the database at the last poll
        self._after_poll: list[Callable[[], None]] = []

    def current(self) -> State:
        """The state. With a poll interval of 0 (tests) the caller polls first, once per request."""
        if settings.FAIRSHARE_SNAPSHOT_POLL_S <= 0:
            once_per_request("poll", self.poll)
        else:
            if not self._is_polled:
                self.start()
            if not self._polled.is_set():
                self._polled.wait(_FIRST_POLL_S)
        return self.state

    def start(self) -> None:
        """Start the polling thread, once per process."""
        with self._lock:
            if self._is_polled:
                return
            self._polled.clear()
            self._thread = threading.Thread(target=self._poll, name="snapshots", daemon=True)
            self._is_polled = True
            self._thread.start()

    def _in_child(self) -> None:
        """Reset after a fork: the child has neither the thread nor the holder of the lock."""
        self._is_polled, self._lock = False, threading.Lock()

    def poll(self) -> None:
        """Load new snapshots. If the database fails, the present ones are served on."""
        with self._lock:
            try:
                self.state = self._load_new(self.state)
            except (DatabaseError, InterfaceError) as error:
                if self.state.has_database:
                    logger.warning("The database doesn't answer, snapshots are served from memory: %s", error)
                if not connection.in_atomic_block:
                    connection.close()
                self.state = replace(self.state, has_database=False, polled_s=time.monotonic())
                if not self.state.policies:
                    self.state = _from_disk(self.state)
        self._polled.set()

    def poll_again(self) -> State:
        """Poll now unless that was done a moment ago: a requested policy may be newer than the last poll."""
        if time.monotonic() - self.state.polled_s > _POLL_AGAIN_S:
            self.poll()
        return self.state

    def load_stored(self, slug: str, snapshot_id: int) -> ServedSnapshot:
        known = self._stored.get(snapshot_id)
        if known is None or known.policy_slug != slug:
            row = Snapshot.objects.select_related("policy").filter(pk=snapshot_id, policy__slug=slug).first()
            if row is None:
                raise NotFound(f"Snapshot {snapshot_id} is no longer stored.")
            try:
                known = self._stored[snapshot_id] = _serve_row(row, row.data, self.state.snapshots.get(slug))
            except CorruptBlob as error:
                raise NotFound(f"Snapshot {row.pk} is damaged and can't be read.") from error
            while len(self._stored) > _MOST_KEPT_SNAPSHOTS:
                self._stored.popitem(last=False)
        return known

    def _poll(self) -> None:
        before: Mapping[str, ServedSnapshot] | None = None
        memory = MemoryReturn()
        while True:
            try:
                self.poll()
                if self.state.has_database:
                    for call in self._after_poll:
                        call()
                if before is None:
                    spare_collector()
                if before != self.state.snapshots:
                    before = self.state.snapshots
                    memory.now()
                else:
                    drop_old()
                    tree_cache.shrink()
                    memory.again()
            except Exception:
                logger.exception("Polling for new snapshots failed; the last valid ones are served.")
                self._polled.set()
            time.sleep(settings.FAIRSHARE_SNAPSHOT_POLL_S)

    def _load_new(self, old: State) -> State:
        with connection.cursor() as cursor:
            cursor.execute(_NEWEST)
            found_rows = cursor.fetchall()
        rows = [(PolicyRow(*row[:5]), NewestRow(*row[6:])) for _epoch, *row in found_rows if row[5] is None]
        archived = {row[1]: row[5] for _epoch, *row in found_rows if row[5] is not None}
        is_same_server = set(map(itemgetter(0), found_rows)) <= {self._epoch}
        if not is_same_server:  # an older database may give the ids of lost snapshots to other ones
            self._epoch = found_rows[0][0]
            self._stored.clear()
        policies = {policy.slug: policy for policy, _newest in rows}
        served: dict[str, ServedSnapshot] = {}
        damaged: dict[str, int] = {}
        for policy, newest in rows:
            slug, snapshot_id = policy.slug, newest.id
            snapshot = old.snapshots.get(slug)
            is_damaged = snapshot_id is not None and old.damaged.get(slug) == snapshot_id
            if not is_damaged:
                try:
                    snapshot = _newest_from(policy, newest, snapshot, is_same_server=is_same_server)
                except (CorruptBlob, NotFound) as error:
                    snapshot, is_damaged = _newest_readable(policy, snapshot_id or 0, snapshot), True
                    instead = (
                        f"snapshot {snapshot.snapshot_id} is served instead"
                        if snapshot
                        else "no other snapshot can be read either"
                    )
                    logger.error("Snapshot %s of %s can't be read (%s); %s.", snapshot_id, slug, error, instead)
            if is_damaged:
                damaged[slug] = snapshot_id or 0
            if snapshot is not None:
                served[slug] = snapshot
        for slug in set(old.policies) - set(policies):
            shared_files.delete_files(slug)
        names = [column.name for column in fields(SourceAge)]
        sources = tuple(SourceAge(*row) for row in Source.objects.order_by("slug").values_list(*names))
        return State(policies, served, damaged, archived, sources, has_database=True, polled_s=time.monotonic())


def _newest_from(
    policy: PolicyRow, newest: NewestRow, known: ServedSnapshot | None, *, is_same_server: bool
) -> ServedSnapshot | None:
    """The newest snapshot, at the last instant at which it holds: from memory, or from files that are written first.

    is_same_server: `known` was read from it, and it hasn't restarted since.

    Raises:
        CorruptBlob, NotFound: the snapshot or its tree is damaged or no longer exists.
    """
    snapshot_id, valid_at, scale, computed_at = newest
    if snapshot_id is None:
        return None
    if known is not None and is_same_server and known.snapshot_id == snapshot_id:
        return known if known.as_of == valid_at else known.extended(valid_at, scale, computed_at)
    row = Snapshot.objects.filter(pk=snapshot_id).select_related("policy").defer("data").first()
    if row is None:
        return known
    served = _share_row(row, known)
    return served if served.as_of == valid_at else served.extended(valid_at, scale, computed_at)


def _newest_readable(policy: PolicyRow, newest_id: int, known: ServedSnapshot | None) -> ServedSnapshot | None:
    """The newest readable snapshot if the newest one is damaged: of an older row, else the one in memory."""
    older = Snapshot.objects.filter(policy_id=policy.id, is_live=True, pk__lt=newest_id).select_related("policy")
    if known is not None:
        older = older.filter(pk__gt=known.snapshot_id)
    for row in older.defer("data").order_by("-pk")[:_MOST_OLDER_TRIED]:
        with contextlib.suppress(CorruptBlob, NotFound):
            return _share_row(row, known)
    return known


def _share_row(row: Snapshot, older: ServedSnapshot | None) -> ServedSnapshot:
    """The snapshot of a row from files, which are written first if this host has none; see `_serve_row`."""
    policy = row.policy
    head = {
        "id": row.pk,
        "policy_id": policy.pk,
        "slug": policy.slug,
        "name": policy.name,
        "visibility": policy.visibility,
        "head_number": policy.head_number,
        "computed_at": row.computed_at.isoformat(),
        "digest": row.digest,
    }

    with shared_files.one_writer(policy.slug):
        digest = digest_of_tree(policy, row.revision_number)
        index = _index_of(row, digest, older)
        if index is None:
            tree = shared_files.share_tree(
                policy.slug, digest, lambda: tree_with_digest(policy, row.revision_number, digest)
            )
            tree_cache.put(tree)
            index = shared_files.share_index(policy.slug, tree, row.places_id, lambda: _read_index(row, tree))
            index.prepare()
        tree = index.tree
        values, meta = shared_files.share_values(policy.slug, row.digest, lambda: _read_values(row, tree))
        shared_files.write_row(head, tree=digest, places=row.places_id)
    return serve(row.pk, row.computed_at, values, index, meta)


def _serve_row(row: Snapshot, data: bytes | memoryview, newest: ServedSnapshot | None) -> ServedSnapshot:
    """Unpack a row in this process's own memory. The newest snapshot's index is reused if it is the same.

    Raises:
        CorruptBlob, NotFound: the snapshot, its tree or its places are damaged, or no longer exist.
    """
    tree = load_tree(row.policy, row.revision_number)
    index = _index_of(row, tree.digest, newest)
    if index is None:
        index = _read_index(row, tree)
        index.prepare()
    values, meta = unpack_snapshot(data, row.digest, index.tree)
    return serve(row.pk, row.computed_at, values, index, meta)


def _index_of(row: Snapshot, tree_digest: str, other: ServedSnapshot | None) -> LookupIndex | None:
    """The other snapshot's index of names, if tree, rules and accounts are the row's."""
    index = None if other is None else other.index
    return index if index and (index.tree.digest, index.digest) == (tree_digest, row.places_id) else None


def _read_values(row: Snapshot, tree: TreeColumns) -> tuple[Values, dict[str, Any]]:
    data = read_data(row.pk)
    if data is None:
        raise NotFound(f"Snapshot {row.pk} is no longer stored.")
    return unpack_snapshot(data, row.digest, tree)


def _read_index(row: Snapshot, tree: TreeColumns) -> LookupIndex:
    return LookupIndex(tree, read_places(row.places_id), row.places_id)


def _from_disk(state: State) -> State:
    policies: dict[str, PolicyRow] = {}
    served: dict[str, ServedSnapshot] = {}
    for copy in shared_files.read_copies():
        row = copy.row
        served[row["slug"]] = _from_copy(copy)
        policies[row["slug"]] = PolicyRow(
            row["policy_id"], row["slug"], row["name"], row["visibility"], row["head_number"]
        )
    return replace(state, policies=policies, snapshots=served)


def _from_copy(copy: shared_files.Copy) -> ServedSnapshot:
    copy.index.prepare()
    return serve(copy.row["id"], datetime.fromisoformat(copy.row["computed_at"]), copy.values, copy.index, copy.meta)


_process = _Served()


def cached_state() -> State:
    """The state of the last poll, without polling or starting the thread."""
    return _process.state


def state() -> State:
    """The current state."""
    return _process.current()


def newest(slug: str, *, poll: bool = True) -> ServedSnapshot:
    """The newest snapshot of a policy. The database is queried only for an unknown policy, and never without `poll`.

    Raises:
        NotFound: there is no such policy.
        Archived: it is archived.
        Unavailable: `no_snapshot`, nothing has been computed yet; `no_database`, no policies could be loaded.
    """
    current = _process.current() if poll else _process.state
    if poll and current.has_database and slug not in current.policies:
        current = _process.poll_again()
    snapshot = current.snapshots.get(slug)
    if snapshot is not None:
        return snapshot
    if slug in current.damaged:
        raise Unavailable("Its snapshots are damaged; the next recompute replaces them.", code="no_snapshot")
    if slug in current.policies:
        raise Unavailable("Its priorities are being computed for the first time.", code="no_snapshot")
    if slug in current.archived:
        raise archived_policy(slug, current.archived[slug])
    if not current.has_database and not current.policies:
        raise Unavailable(
            "The database is unavailable, and this process has no snapshots in memory yet.", code="no_database"
        )
    raise NotFound(f"There is no policy {slug[:80]!r}.")


def is_in_memory(slug: str) -> bool:
    """Whether `newest` returns at once."""
    return slug in _process.state.snapshots and settings.FAIRSHARE_SNAPSHOT_POLL_S > 0


def load_stored(slug: str, snapshot_id: int) -> ServedSnapshot:
    """A stored snapshot by its id; NotFound if it is no longer stored. The last few are cached."""
    return _process.load_stored(slug, snapshot_id)


def poll() -> None:
    """Poll now, in this thread: for commands, and for workers that have just stored a snapshot."""
    _process.poll()


def start() -> None:
    """Start polling, so that snapshots are loaded before the first request."""
    _process.start()


def call_after_polls(call: Callable[[], None]) -> None:
    """Call it in the polling thread after each poll that the database answers."""
    _process._after_poll.append(call)


def forget() -> None:
    """Clear everything, as in a new process."""
    with _process._lock:
        _process.state = State()
        _process._stored.clear()
