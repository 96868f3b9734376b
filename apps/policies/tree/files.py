"""Large trees of stored revisions in files, which all processes of a host map into memory.

Pages compare revisions: without files, each process would unpack a second and a third tree of a million entries, and
hold 250 MB of its own for each. The first process that needs a tree writes it. A file that is missing, damaged or of
another format is made again; where it can't be written, the process keeps the tree in its own memory.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from apps.core.derived_state import in_files
from apps.core.mapped_columns import delete_abandoned, find_columns, share_columns
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.mapped import columns_of_tree, tree_key, tree_of_columns

DERIVED_STATE = (
    in_files(
        "trees/*.tree",
        holds="large trees of revisions, for all processes of a host",
        key="digest of the tree, format, engine",
        inputs="the stored tree",
        range="one tree",
        ends="trees that were used later push it out; a file whose digest differs isn't read",
    ),
)

logger = logging.getLogger(__name__)
_LEAST_MAPPED_ENTRIES = 20_000  # smaller trees are unpacked as fast, and cost a process little memory
_MOST_TREE_FILES = 32
_MOST_TREE_FILE_BYTES = 4 * 1024**3  # of all files together: 38 trees of a million entries


def map_tree(digest: str, load: Callable[[], TreeColumns]) -> TreeColumns:
    """The tree of a digest: a large one from its file, which is written if there is none.

    load: reads it from the database. What it raises is passed on.
    """
    path, key = _path(digest), tree_key(digest)
    columns = find_columns(path, key=key) if os.path.exists(path) else None
    if columns is None:
        tree = load()
        if len(tree) < _LEAST_MAPPED_ENTRIES:
            return tree
        with contextlib.suppress(OSError):
            directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        columns = share_columns(path, columns_of_tree(tree), key=key)
        _delete_unused()
    else:
        with contextlib.suppress(OSError):
            os.utime(path)  # the time of its last use decides which files stay
    return tree_of_columns(*columns, digest)


def link_tree(digest: str, path: Path) -> bool:
    """Give the file of a tree a second name, which stays when trees that were used later push it out.

    Returns whether both are one file; not where another one has the name, or none here is of this tree.
    """
    with contextlib.suppress(OSError):
        os.link(_path(digest), path)
    return path.exists() and _path(digest).exists() and path.samefile(_path(digest))


def directory() -> Path:
    return Path(settings.VAR) / "trees"


def _path(digest: str) -> Path:
    return directory() / f"{digest[:32]}.tree"


def _delete_unused() -> None:
    """Delete the files that were used least recently, beyond the bounds. A process that has mapped one keeps it."""
    try:
        delete_abandoned(directory())
        files = [(path.stat(), path) for path in directory().glob("*.tree")]
        left = _MOST_TREE_FILE_BYTES
        for place, (status, path) in enumerate(sorted(files, key=lambda each: -each[0].st_mtime_ns)):
            left -= status.st_size
            if place >= _MOST_TREE_FILES or (left < 0 and place):
                path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("Trees in %s that aren't used can't be deleted: %s", directory(), error)
