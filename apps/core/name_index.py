"""An index of names as hashes in ascending order: a twelfth of the memory of a dict of a million names.

The hash is equal in all processes, unlike Python's, so that they can share one index. The goal of `bench web_memory`
needs that: 11 MB in a mapped file replace a dict of 110 MB in each process. A thousand names take 2 ms instead of 0.4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from apps.core.sorting import stable_order
from apps.core.strings import Strings, hash_of

I4 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint64]


class NameIndex:
    """Places of names. hashes: ascending; order: the place of each."""

    def __init__(self, names: Sequence[str], hashes: U8 | None = None, order: I4 | None = None) -> None:
        self._names = names
        if hashes is None or order is None:
            unsorted = Strings.of(names).hashes()
            order = stable_order(unsorted).astype(np.int32)
            hashes = unsorted[order]
        self.hashes, self.order = hashes, order

    def find_only(self, names: Sequence[str]) -> tuple[I4, I4]:
        """For each name: the number of places with its hash, 2 for several, and the first of them, −1 for none.

        Equal names have equal hashes, so only these places may have the name.
        """
        wanted = Strings.of(names).hashes()
        if not len(self.hashes):
            return np.zeros(len(names), np.int32), np.full(len(names), -1, np.int32)
        begin, last = self.hashes.searchsorted(wanted), len(self.hashes) - 1
        place, following = np.minimum(begin, last), np.minimum(begin + 1, last)
        is_there = self.hashes[place] == wanted
        is_again = is_there & (place < last) & (self.hashes[following] == wanted)
        return is_there.astype(np.int32) + is_again, np.where(is_there, self.order[place], -1).astype(np.int32)

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
