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
from apps.policies.tree.columns import TreeColumns, pack_tree, unpack_tree

logger = logging.getLogger(__name__)

Copy = tuple[dict[str, Any], bytes, TreeColumns]  # header, packed snapshot, tree


def write_copy(row: dict[str, Any], data: bytes | memoryview, tree: TreeColumns) -> None:
    """Write a snapshot, and its tree if no copy of it exists. A failure, such as a full disk, is logged only."""
    try:
        _directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        tree_path = _tree_path(row["slug"], tree.digest)
        if not tree_path.exists():
            _write(tree_path, pack_tree(tree)[0])
        _write(_snapshot_path(row["slug"]), json.dumps(row).encode() + b"\n" + bytes(data))
        for old in _directory().glob(f"{row['slug']}@*.tree"):
            if old != tree_path:
                old.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("No copy of snapshot %s in %s: %s", row["id"], _directory(), error)


def delete_copies(slug: str) -> None:
    """Delete all files of a policy that no longer exists."""
    for path in (_snapshot_path(slug), *_directory().glob(f"{slug}@*.tree")):
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
        tree_blob = _read(_tree_path(row["slug"], row["tree_digest"]))
        return row, data, unpack_tree(tree_blob, row["tree_digest"])
    except (OSError, ValueError, KeyError, CorruptBlob) as error:
        logger.warning("The snapshot copy %s is damaged: %s", path.name, error)
        return None


def _directory() -> Path:
    return Path(settings.VAR) / "snapshots"


def _snapshot_path(slug: str) -> Path:
    return _directory() / f"{slug}.snapshot"


def _tree_path(slug: str, digest: str) -> Path:
    return _directory() / f"{slug}@{digest[:16]}.tree"


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
