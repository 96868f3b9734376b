"""A sentence with a stable key: what it says is known by the key, whatever its words are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.functional import Promise


@dataclass(frozen=True, slots=True)
class Keyed:
    """One sentence, or several with their keys one after the other."""

    key: str
    text: str

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True, slots=True)
class Standing:
    """A condition as a badge: class, icon, word and key."""

    css: str
    icon: str
    word: str | Promise
    key: str


def joined(sentences: Iterable[Keyed]) -> Keyed:
    found = [each for each in sentences if each]
    return Keyed(" ".join(each.key for each in found), " ".join(each.text for each in found))
