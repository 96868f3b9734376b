"""Names that look like a sibling's: a reader confuses them, and gives shares to the wrong one."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

from apps.core.invisible import visible
from apps.policies.tree.columns import TreeColumns

# Letters of other scripts, and digits, that most fonts draw like a Latin letter; after folding case, so that those
# which are alike as capitals only are among them.
_LIKE = {
    "a": "аαɑ",
    "b": "вβ",
    "c": "с",
    "d": "ԁ",
    "e": "еε",
    "g": "ɡց",
    "h": "һнհ",
    "i": "іιı",
    "j": "јϳ",
    "k": "кκ",
    "l": "ӏ1|",
    "m": "м",
    "n": "ոռ",
    "o": "оοօ0",
    "p": "рρ",
    "q": "ԛզ",
    "s": "ѕ",
    "t": "тτ",
    "u": "υս",
    "v": "ѵν",
    "w": "ԝω",
    "x": "хχ",
    "y": "уγ",
}
_LIKE_LATIN = {ord(other): latin for latin, others in _LIKE.items() for other in others}


def skeleton(name: str) -> str:
    """One form for names that look alike: wide and styled letters, case, scripts, and 0, 1, I beside letters."""
    text = unicodedata.normalize("NFKC", visible(name))
    if not text.isupper():  # in a word of small letters a large I is drawn like a small l
        text = text.replace("I", "l")
    return unicodedata.normalize("NFKC", text.casefold()).translate(_LIKE_LATIN)


def look_alikes(tree: TreeColumns, entries: Collection[int]) -> list[tuple[int, int]]:
    """(entry, sibling) for each of `entries` that looks like a sibling and has another name; one sibling each."""
    found = []
    wanted = set(entries)
    for parent in sorted({int(tree.parent[i]) for i in wanted if tree.parent[i] >= 0}):
        first: dict[str, int] = {}
        children = sorted(tree.children(parent), key=lambda child: child in wanted)  # those that were there first
        for child in children:
            same = first.setdefault(skeleton(tree.name[child]), child)
            if same != child and child in wanted:
                found.append((child, same))
    return found
