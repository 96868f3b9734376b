"""The newest snapshot of each policy in files: its tree, its index of names and its values, ready to be served.

All processes of a host map them, so that a million entries are in memory once. The first one that needs a file writes
it. A process that starts while the database is unavailable serves them, too. A file that is missing, damaged, of other
content or of another format is made again; where it can't be written, the process has the columns in its own memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from apps import engine
from apps.core.blobs import CorruptBlob
from apps.core.derived_state import in_files
from apps.core.mapped_columns import Columns, delete_abandoned, is_mapped, map_columns, map_or_make
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.files import link_tree, map_tree
from apps.policies.tree.mapped import columns_of_tree, tree_key, tree_of_columns
from apps.priorities.serving.lookup import LookupIndex
from apps.priorities.snapshot_values import Values, columns_of_values, values_of_columns

DERIVED_STATE = (
    in_files(
        "snapshots/*.snapshot",
        "snapshots/*@*",
        holds="newest snapshots and their trees, places and names, for all processes and outages",
        key="policy; digest, format and engine of each part",
        inputs="stored snapshots",
        range="the newest of each policy",
        ends="a newer one replaces it; a file whose digest differs isn't read",
    ),
)

logger = logging.getLogger(__name__)
FORMAT = 1  # of the other columns: another one for other names, types or meanings
_WAIT_S, _RETRY_S = 5.0, 0.02  # for another process that writes the same files
_KINDS = ("tree", "places", "values")


@dataclass(frozen=True)
class Copy:
    """A snapshot in files. row: its fields and the policy's."""

    row: dict[str, Any]
    index: LookupIndex
    values: Values
    meta: Mapping[str, Any]


@contextlib.contextmanager
def one_writer(slug: str) -> Iterator[None]:
    """One process at a time makes the files of a policy; one that waits too long, or can't lock, makes them too."""
    try:
        directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory() / f".{slug}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        yield
        return
    try:
        until = time.monotonic() + _WAIT_S
        while not _is_locked(lock) and time.monotonic() < until:
            time.sleep(_RETRY_S)
        yield
    finally:
        os.close(lock)


def _is_locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def share_tree(slug: str, digest: str, load: Callable[[], TreeColumns]) -> TreeColumns:
    """The tree of a digest: of a large one, the file of its revision gets a second name, under which it is served.

    load: from memory, that file or the database.
    """
    path = _path(slug, "tree", digest)
    if not path.exists() or link_tree(digest, path):
        tree = load()
        if not is_mapped(tree.parent):  # this process has published it
            tree = map_tree(digest, lambda: tree)
        if link_tree(digest, path):
            return tree
    return tree_of_columns(*_shared(slug, "tree", digest, lambda: columns_of_tree(load())), digest)


def share_index(slug: str, tree: TreeColumns, digest: str, load: Callable[[], LookupIndex]) -> LookupIndex:
    """The index of names of a tree and of places with this digest."""
    columns, meta = _shared(slug, "places", digest, lambda: load().to_columns())
    return LookupIndex.of_columns(tree, columns, meta, digest)


def share_values(
    slug: str, digest: str, load: Callable[[], tuple[Values, Mapping[str, Any]]]
) -> tuple[Values, Mapping[str, Any]]:
    """The values and metadata of a snapshot's digest."""

    def make() -> Columns:
        values, meta = load()
        return columns_of_values(values), meta

    columns, meta = _shared(slug, "values", digest, make)
    return values_of_columns(columns), meta


def write_row(row: Mapping[str, Any], *, tree: str, places: str) -> None:
    """Name the files that are served, when all are written, and delete the policy's other ones.

    row: fields of the snapshot and its policy. tree, places: digests.
    """
    digests = {"tree": tree, "places": places, "values": row["digest"]}
    try:
        content = json.dumps({**row, "digests": digests, "format": FORMAT}).encode()
        unfinished = directory() / f".{row['slug']}@{os.getpid()}.row"
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
        unfinished.replace(_row_path(row["slug"]))
        _delete_all_but(row["slug"], {_path(row["slug"], kind, digest) for kind, digest in digests.items()})
    except OSError as error:
        logger.warning("No copy of snapshot %s in %s: %s", row["id"], directory(), error)


def delete_files(slug: str) -> None:
    """Delete all files of a policy that no longer exists."""
    with contextlib.suppress(OSError):
        _row_path(slug).unlink(missing_ok=True)
        _delete_all_but(slug, set())


def read_copies() -> Iterator[Copy]:
    """All readable copies; a damaged one is logged and skipped."""
    if not directory().is_dir():
        return
    for path in sorted(directory().glob("*.snapshot")):
        copy = _read_copy(path)
        if copy is not None:
            yield copy


def _read_copy(path: Path) -> Copy | None:
    try:
        digest, _, content = path.read_bytes().partition(b"\n")
        if hashlib.sha256(content).hexdigest().encode() != digest:
            raise CorruptBlob("The checksum doesn't match.")
        row = json.loads(content)
        parts = {
            kind: map_columns(_path(row["slug"], kind, digest), key=_key(kind, digest))
            for kind, digest in row["digests"].items()
        }
        tree = tree_of_columns(*parts["tree"], row["digests"]["tree"])
        index = LookupIndex.of_columns(tree, *parts["places"], row["digests"]["places"])
        return Copy(row, index, values_of_columns(parts["values"][0]), parts["values"][1])
    except (OSError, ValueError, KeyError) as error:
        logger.warning("The snapshot copy %s can't be read: %s", path.name, error)
        return None


def _shared(slug: str, kind: str, digest: str, make: Callable[[], Columns]) -> Columns:
    return map_or_make(_path(slug, kind, digest), key=_key(kind, digest), make=make)


def _delete_all_but(slug: str, kept: set[Path]) -> None:
    """Delete files of other content. A process that has mapped one keeps it."""
    for kind in _KINDS:
        for path in directory().glob(f"{slug}@*.{kind}"):
            if path not in kept:
                path.unlink(missing_ok=True)
    delete_abandoned(directory(), f".{slug}@*")


def directory() -> Path:
    return Path(settings.VAR) / "snapshots"


def _row_path(slug: str) -> Path:
    return directory() / f"{slug}.snapshot"


def _path(slug: str, kind: str, digest: str) -> Path:
    return directory() / f"{slug}@{digest[:16]}.{kind}"


def _key(kind: str, digest: str) -> str:
    return tree_key(digest) if kind == "tree" else f"{kind} {digest}, format {FORMAT}, engine {engine.VERSION}"
