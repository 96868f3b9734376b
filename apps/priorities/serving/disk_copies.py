"""Copies of the newest snapshots on disk, so that a process can serve them while the database is unavailable.

Each file has a checksum. Only its owner may read it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.core.blobs import CorruptBlob
from apps.mapping.rules.account_places import AccountPlaces, unpack_places
from apps.policies.tree.columns import TreeColumns, pack_tree, unpack_tree

logger = logging.getLogger(__name__)

Copy = tuple[dict[str, Any], bytes, TreeColumns, AccountPlaces]  # header, packed snapshot, tree, places


def write_copy(row: dict[str, Any], data: bytes | memoryview, tree: TreeColumns, places: AccountPlaces) -> None:
    """Write a snapshot, its tree and its places where no copy exists. A failure, such as a full disk, is logged only.

    row: fields of the snapshot, to which the digests of tree and places are added.
    """
    try:
        _directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        slug, places_digest = row["slug"], places.digest
        parts = {_part_path(slug, tree.digest, "tree"), _part_path(slug, places_digest, "places")}
        for path in parts:
            if not path.exists():
                _write(path, pack_tree(tree)[0] if path.suffix == ".tree" else places.packed[0])
        head = {**row, "tree_digest": tree.digest, "places_digest": places_digest}
        _write(_snapshot_path(slug), json.dumps(head).encode() + b"\n" + bytes(data))
        for old in _part_paths(slug):
            if old not in parts:
                old.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("No copy of snapshot %s in %s: %s", row["id"], _directory(), error)


def delete_copies(slug: str) -> None:
    """Delete all files of a policy that no longer exists."""
    for path in (_snapshot_path(slug), *_part_paths(slug)):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def read_copies() -> Iterator[Copy]:
    """All readable copies; a damaged one is logged and skipped."""
    if not _directory().is_dir():
        return
    for path in sorted(_directory().glob("*.snapshot")):
        copy = _read_verified(path)
        if copy is not None:
            yield copy


def read_copy(slug: str) -> Copy | None:
    """The copy of one policy; None if it is missing or damaged."""
    path = _snapshot_path(slug)
    return _read_verified(path) if path.exists() else None


def _read_verified(path: Path) -> Copy | None:
    try:
        head, data = _read(path).split(b"\n", 1)
        row = json.loads(head)
        tree_blob = _read(_part_path(row["slug"], row["tree_digest"], "tree"))
        places_blob = _read(_part_path(row["slug"], row["places_digest"], "places"))
        tree = unpack_tree(tree_blob, row["tree_digest"])
        return row, data, tree, unpack_places(places_blob, row["places_digest"])
    except (OSError, ValueError, KeyError, CorruptBlob) as error:
        logger.warning("The snapshot copy %s is damaged: %s", path.name, error)
        return None


def _directory() -> Path:
    return Path(settings.VAR) / "snapshots"


def _snapshot_path(slug: str) -> Path:
    return _directory() / f"{slug}.snapshot"


def _part_path(slug: str, digest: str, kind: str) -> Path:
    return _directory() / f"{slug}@{digest[:16]}.{kind}"


def _part_paths(slug: str) -> list[Path]:
    return [*_directory().glob(f"{slug}@*.tree"), *_directory().glob(f"{slug}@*.places")]


def _write(path: Path, content: bytes) -> None:
    """Write checksum and content to a temporary file and rename it, so that no incomplete file has the name."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    unfinished.replace(path)


def _read(path: Path) -> bytes:
    digest, _, content = path.read_bytes().partition(b"\n")
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise CorruptBlob("The checksum doesn't match.")
    return content
