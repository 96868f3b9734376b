"""An index of names as hashes in ascending order: a twelfth of the memory of a dict of a million names.

The hash is equal in all processes, unlike Python's, so that they can share one index.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from apps.core.strings import Strings, hash_of

I4 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint64]


class NameIndex:
    """Places of names. hashes: ascending; order: the place of each."""

    def __init__(self, names: Sequence[str], hashes: U8 | None = None, order: I4 | None = None) -> None:
        self._names = names
        if hashes is None or order is None:
            unsorted = Strings.of(names).hashes()
            order = np.argsort(unsorted, kind="stable").astype(np.int32)
            hashes = unsorted[order]
        self.hashes, self.order = hashes, order

    def find_only(self, names: Sequence[str]) -> tuple[I4, I4]:
        """For each name: the number of places with its hash, and the first of them, −1 for none.

        Equal names have equal hashes, so at most that many places have the name.
        """
        wanted = Strings.of(names).hashes()
        begin = self.hashes.searchsorted(wanted)
        n_alike = self.hashes.searchsorted(wanted, "right") - begin
        first = np.full(len(names), -1, np.int32)
        first[n_alike > 0] = self.order[begin[n_alike > 0]]
        return n_alike.astype(np.int32), first

    def find(self, name: str) -> list[int]:
        """Return the places of this name, ascending."""
        wanted, found = np.uint64(hash_of(name)), []
        for place in range(int(self.hashes.searchsorted(wanted)), len(self.hashes)):
            if self.hashes[place] != wanted:
                break
            at = int(self.order[place])
            if self._names[at] == name:
                found.append(at)
        return found
