"""Placements in files, which all processes of a host map: a worker that starts needn't place a million accounts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from apps.accounts import account_index
from apps.accounts.account_index import Origin
from apps.core.derived_state import in_files
from apps.core.mapped_columns import delete_abandoned, find_columns, share_columns
from apps.core.release import code_digest
from apps.mapping.rules.resolver import KnownAccounts
from apps.mapping.rules.rule import Rule

DERIVED_STATE = (
    in_files(
        "accounts/*.placement",
        holds="entries of all accounts, for all processes of a host",
        key="as in memory, in the file and its name",
        inputs="tree, rules, accounts",
        range="the accounts at its time",
        ends="files that weren't used longest are deleted",
    ),
)

_MOST = 64  # files; those that were used longest ago are deleted


def name_placement(tree_digest: str, rules: tuple[Rule, ...], known: KnownAccounts, origin: Origin) -> str:
    """A name by all that the placement of the accounts in the host's file follows from."""
    parts = [code_digest(), tree_digest, [rule.to_json() for rule in rules], known.content, *origin]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def find_placement(name: str) -> Mapping[str, Any] | None:
    """Its columns, or None if this host hasn't stored it."""
    shared = find_columns(_path(name), key=name)
    if shared is None:
        return None
    with suppress(OSError):
        os.utime(_path(name))  # used now
    return shared[0]


def share_placement(name: str, columns: Mapping[str, Any]) -> Mapping[str, Any]:
    """Store it; returns the columns of the file, or these if it can't be written."""
    shared = share_columns(_path(name), (columns, {}), key=name)[0]
    with suppress(OSError):
        delete_abandoned(account_index.directory())
        paths = sorted(account_index.directory().glob("*.placement"), key=lambda path: path.stat().st_mtime)
        for path in paths[:-_MOST]:
            path.unlink(missing_ok=True)
    return shared


def _path(name: str) -> Path:
    return account_index.directory() / f"{name[:16]}.placement"
