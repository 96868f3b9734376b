"""Leaves that have a uid, a name, a kind and shares alone, as texts by column: nearly all entries of a large policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from apps.policies.files.document import plain_number
from apps.policies.tree.columns import SPARSE, Mask, TreeColumns
from apps.policies.tree.names import PARENT

Entries = npt.NDArray[np.integer[Any]]
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
_UID_CHARACTERS = 36
_IS_HYPHEN = np.isin(np.arange(_UID_CHARACTERS), (8, 13, 18, 23))


class PlainLeaves(NamedTuple):
    """Some of them: columns of texts. kind, shares: as a format writes them."""

    uid: list[str]
    name: list[str]
    kind: list[str]
    shares: list[str]


def plain_leaves(tree: TreeColumns) -> Mask:
    """Mask of the leaves that have nothing else."""
    is_plain: Mask = ~(tree.is_group | tree.locked) & (tree.scope_code == 0)
    is_plain[0] = False  # it has no shares
    for name in SPARSE:
        is_plain[list(getattr(tree, name))] = False
    return is_plain


def columns_of_leaves(tree: TreeColumns, entries: Entries, write: Callable[[str | float], str]) -> PlainLeaves:
    """write: a text or a number, as a format writes it."""
    kinds = [*map(write, tree.kind_names)]
    return PlainLeaves(
        uid=uid_texts(tree.uid[entries]),
        name=tree.names_of(entries),
        kind=[*map(kinds.__getitem__, tree.kind_code[entries].tolist())],
        shares=shares_texts(tree, entries, write),
    )


def shares_texts(tree: TreeColumns, entries: Entries, write: Callable[[str | float], str]) -> list[str]:
    """The shares of each entry as a document has them. Each value that occurs is written once."""
    values = tree.shares[entries].tolist()
    written = {value: write(plain_number(value)) for value in set(values)}
    texts = [*map(written.__getitem__, values)]
    for row in np.flatnonzero(tree.inherit[entries]).tolist():
        texts[row] = write(PARENT)
    return texts


def uid_texts(uids: npt.NDArray[np.uint8]) -> list[str]:
    """`str` of each uid (n, 16)."""
    characters = np.full((len(uids), _UID_CHARACTERS), ord("-"), np.uint8)
    characters[:, ~_IS_HYPHEN] = _HEX[uids].reshape(len(uids), -1)
    text = characters.tobytes().decode("ascii")
    return [text[at : at + _UID_CHARACTERS] for at in range(0, len(text), _UID_CHARACTERS)]
