"""A sentence with a stable key: what it says is known by the key, whatever its words are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keyed:
    """One sentence, or several with their keys one after the other."""

    key: str
    text: str

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)


def joined(sentences: Iterable[Keyed]) -> Keyed:
    found = [each for each in sentences if each]
    return Keyed(" ".join(each.key for each in found), " ".join(each.text for each in found))
