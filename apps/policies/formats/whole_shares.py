"""Convert names and shares to the nearest values that schedulers can store: plain words and whole numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from apps.policies.tree.columns import F8, Mask, TreeColumns

# Leaves room for an appended number.
_LONGEST_UNIQUE_NAME = 120
_MOST_FACTOR_DIGITS = 9


def coded_kinds(kinds: list[str]) -> tuple[tuple[str, ...], npt.NDArray[np.uint16]]:
    names = tuple(sorted(set(kinds)))
    number = {name: code for code, name in enumerate(names)}
    return names, np.array([number[kind] for kind in kinds], dtype=np.uint16)


def plain_names(tree: TreeColumns, wanted: Sequence[str], together: Mask) -> list[str]:
    """Make names unique among siblings, and among all entries in `together`; of two equal names, the later is changed.

    together: entries whose names must differ in the whole file (Slurm's accounts).
    """
    names = [name[:_LONGEST_UNIQUE_NAME] for name in wanted]
    names[0] = "root"
    everywhere = {"root"}
    parents, is_one = tree.parent.tolist(), together.tolist()
    for children in (tree.children(i) for i in np.flatnonzero(tree.n_children).tolist()):
        here: set[str] = set()
        for i in children:
            taken = here | everywhere if is_one[i] and names[i] in everywhere else here
            if names[i] in taken:
                stem = _qualified(names, parents[i], names[i]) if is_one[i] else names[i]
                names[i] = _numbered(stem, here | everywhere if is_one[i] else here)
            here.add(names[i])
            if is_one[i]:
                everywhere.add(names[i])
    return names


def _qualified(names: list[str], parent: int, name: str) -> str:
    return f"{names[parent]}_{name}"[:_LONGEST_UNIQUE_NAME] if parent > 0 else name


def _numbered(stem: str, taken: set[str]) -> str:
    if stem not in taken:
        return stem
    number = 2
    while f"{stem}_{number}" in taken:
        number += 1
    return f"{stem}_{number}"


def plain_word(name: str) -> str:
    """Replace all characters except letters, digits and ._@+- by _."""
    if name.isascii() and name.replace("_", "").replace("-", "").replace(".", "").isalnum():
        return name
    return "".join(c if c.isalnum() or c in "._@+-" else "_" for c in name)


def competitors(tree: TreeColumns) -> npt.NDArray[np.int32]:
    """Return for each entry the one whose children it competes with: its nearest ancestor that doesn't inherit."""
    above = np.maximum(tree.parent, 0).astype(np.int32)
    for lo, hi in zip(tree.level_starts[2:-1], tree.level_starts[3:], strict=True):
        parents = tree.parent[lo:hi]
        above[lo:hi] = np.where(tree.inherit[parents], above[parents], parents)
    return above


def members_of(
    above: npt.NDArray[np.int32], groups: npt.NDArray[np.int32]
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yield for each group the rows that compete in it."""
    order = np.argsort(above, kind="stable")
    begin, end = np.searchsorted(above[order], groups, "left"), np.searchsorted(above[order], groups, "right")
    for group, lo, hi in zip(groups.tolist(), begin.tolist(), end.tolist(), strict=True):
        yield group, order[lo:hi]


def whole_shares(tree: TreeColumns, most: float, now: F8 | None = None) -> F8:
    """Convert shares to whole numbers up to `most`, in proportion where possible.

    Each group of competitors is multiplied by the smallest power of ten that makes all of its shares whole. Too large
    or too fine shares are rounded, and shares above 0 are at least 1.

    now: the whole numbers in a file (nan: none). A group with fractions keeps the scale that most of its numbers have
    in the file, if all its shares are whole at that scale.
    """
    above, raw_shares = competitors(tree), tree.shares.copy()
    raw_shares[0] = 0  # the root has no siblings
    largest = np.zeros(len(tree))
    np.maximum.at(largest, above, raw_shares)
    power = np.ones(len(tree))
    fractional = np.unique(above[raw_shares != np.rint(raw_shares)])
    open_ = np.zeros(len(tree), dtype=np.bool_)
    open_[fractional] = True
    for digits in range(1, _MOST_FACTOR_DIGITS + 1):
        members = open_[above]
        if not members.any():
            break
        power[open_ & (largest * 10.0**digits <= most)] = 10.0**digits
        scaled = raw_shares[members] * 10.0**digits
        unfinished = np.abs(scaled - np.rint(scaled)) > 1e-9 * np.maximum(scaled, 1)
        still = np.zeros(len(tree), dtype=np.bool_)
        still[above[members][unfinished]] = True
        open_ &= still & (largest * 10.0 ** (digits + 1) <= most)
    power = np.where(largest * power > most, most / np.maximum(largest, 1), power)
    if now is not None:
        for group, rows in members_of(above, fractional):
            power[group] = _scale_of_now(raw_shares[rows], now[rows], most) or power[group]
    shares = np.rint(raw_shares * power[above])
    shares = np.where((raw_shares > 0) & (shares < 1), 1.0, shares)
    shares[0] = tree.shares[0]
    return shares


def _scale_of_now(shares: F8, now: F8, most: float) -> float | None:
    """Return the factor from `shares` to `now` that is the most frequent and makes all of `shares` whole; None if none
    does."""
    counts = np.isfinite(now) & (now > 0) & (shares > 0)
    scales, times = np.unique((now[counts] / shares[counts]).round(9), return_counts=True)
    for scale in scales[np.argsort(-times, kind="stable")].tolist():
        scaled = shares * scale
        is_whole = np.abs(scaled - np.rint(scaled)) <= 1e-9 * np.maximum(scaled, 1)
        if is_whole.all() and scaled.max() <= most:
            return float(scale)
    return None
