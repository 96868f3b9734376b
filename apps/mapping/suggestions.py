"""Suggestions of rules for unmapped accounts."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.accounts.grid_names import common_name, group_of_fqan, is_dn
from apps.core.derived_state import in_memory
from apps.core.name_index import NameIndex
from apps.core.strings import Strings
from apps.mapping.rules.entry_names import text_of
from apps.mapping.rules.resolver import UNMAPPED
from apps.policies.tree.columns import TreeColumns

DERIVED_STATE = (
    in_memory(
        "_name_indexes",
        holds="names of a tree, for suggestions",
        key="digest of the tree",
        inputs="the tree",
        range="one tree",
        ends="the newest ones push it out",
    ),
)

MOST_SUGGESTIONS = 3
_name_indexes: LRUCache[Hashable, NameIndex] = LRUCache(2)  # by tree: a million names take two seconds
_FEWEST_NEIGHBOURS = 2
_SURE_ENOUGH = 0.5  # minimum fraction of the neighbours at the suggested entry
# Confidence of a suggestion by its only reason.
SURE = {
    "same_name": 0.90,
    "same_name_folded": 0.84,
    "without_realm": 0.78,
    "common_name": 0.74,
    "initial_and_surname": 0.60,
    "group_name": 0.85,
    "group_name_folded": 0.80,
    "fqan_group": 0.80,
    "fqan_vo": 0.62,
    "project_name": 0.70,
}
_IN_ITS_GROUP = 0.7  # reduction of the doubt if an ancestor has the name of the account's group
_AMONG_SEVERAL = 0.5  # factor of the confidence if several entries have the name


@dataclass(frozen=True)
class Suggestion:
    """A suggested entry, the reason, and the confidence from 0 to 1. n of n_of: neighbours mapped there."""

    entry: int
    why: str
    sure: float
    n: int = 0
    n_of: int = 0


@dataclass(frozen=True, eq=False)
class Suggester:
    """Suggests entries of one tree. neighbours: by group, the entries of its mapped accounts."""

    tree: TreeColumns
    neighbours: Mapping[tuple[str, ...], Counter[int]]

    def suggest(self, key: AccountKey) -> list[Suggestion]:
        """Return suggestions with the highest confidence first, at most one per entry."""
        best: dict[int, Suggestion] = {}
        for suggestion in (*self._by_person(key), *self._by_group(key), *self._by_neighbours(key)):
            if suggestion.entry not in best or suggestion.sure > best[suggestion.entry].sure:
                best[suggestion.entry] = suggestion
        order = sorted(
            best.values(), key=lambda each: (-round(each.sure, 6), -int(self.tree.level[each.entry]), each.entry)
        )
        return order[:MOST_SUGGESTIONS]

    def _by_person(self, key: AccountKey) -> Iterator[Suggestion]:
        groups = {normalise_name(text) for text in _groups_of(key)}
        for text, why in _persons_of(key):
            yield from self._named(text, why, groups)

    def _by_group(self, key: AccountKey) -> Iterator[Suggestion]:
        whole = group_of_fqan(key.fqan).strip("/").split("/") if key.fqan else []
        for text, why in (
            (key.group_name, "group_name"),
            (whole[-1] if whole else "", "fqan_group"),
            (whole[0] if len(whole) > 1 else "", "fqan_vo"),
            (key.project, "project_name"),
        ):
            if text:
                yield from self._named(text, why, {normalise_name(text) for text in whole[:-1]})

    def _named(self, text: str, why: str, groups: set[str]) -> Iterator[Suggestion]:
        entries = self._names.find(normalise_name(text))
        entries = [at for at in entries if at > 0 and not self.tree.is_reserve[at]]
        steps = {entry: self._steps_up(entry, groups) for entry in entries[:20]}
        nearest = min((n for n in steps.values() if n), default=0)
        for entry in entries[:20]:
            is_same = text_of(self.tree.name[entry]) == text
            base = SURE[why] if is_same or f"{why}_folded" not in SURE else SURE[f"{why}_folded"]
            reason = why if is_same or f"{why}_folded" not in SURE else f"{why}_folded"
            if (
                nearest and steps[entry] == nearest
            ):  # a user of hep and hep/atlas has an entry in each: prefer the nearest
                sure = base + (1 - base) * _IN_ITS_GROUP
            else:
                sure = base if len(entries) == 1 else base * _AMONG_SEVERAL
            yield Suggestion(entry, reason, sure)

    def _steps_up(self, entry: int, groups: set[str]) -> int:
        """Return the number of levels up to the nearest ancestor named like a group, 0 if there is none."""
        above = reversed(self.tree.ancestors(entry)[1:])
        return next((n for n, at in enumerate(above, 1) if normalise_name(text_of(self.tree.name[at])) in groups), 0)

    def _by_neighbours(self, key: AccountKey) -> Iterator[Suggestion]:
        for place in groups_of(key):
            there = self.neighbours.get(place)
            if not there or there.total() < _FEWEST_NEIGHBOURS:
                continue
            entry, n = there.most_common(1)[0]
            part = n / there.total()
            if entry > 0 and part >= _SURE_ENOUGH:
                yield Suggestion(entry, "neighbours", 0.5 + 0.45 * part * (1 - 1 / (n + 1)), n, there.total())

    @cached_property
    def _names(self) -> NameIndex:
        key = self.tree.digest or self.tree  # a tree that was never stored has no digest
        index = _name_indexes.get(key)
        if index is None:
            names = Strings.of(normalise_name(text_of(name)) for name in self.tree.name)
            index = _name_indexes[key] = NameIndex(names)
        return index


def groups_of(key: AccountKey) -> list[tuple[str, ...]]:
    """Return the groups of an account: of its source, and of its FQAN in any source."""
    groups: list[tuple[str, ...]] = []
    if key.group_name:
        groups.append(("group", key.namespace, key.group_name))
    if key.fqan:
        groups.append(("fqan", group_of_fqan(key.fqan)))
    return groups


def find_neighbours(
    tree: TreeColumns, keys: AccountKeys, entries: npt.NDArray[np.int32], wanted: set[tuple[str, ...]]
) -> dict[tuple[str, ...], Counter[int]]:
    """Return by group the number of its accounts per entry; a member's account counts for its parent."""
    neighbours: dict[tuple[str, ...], Counter[int]] = {}
    groups, of_group = keys.column("group_name").coded
    fqans, of_fqan = keys.column("fqan").coded
    wanted_groups, wanted_fqans = ({place[-1] for place in wanted if place[0] == kind} for kind in ("group", "fqan"))
    is_near = np.array([group in wanted_groups for group in groups], np.bool_)[of_group]
    is_near |= np.array([bool(fqan) and group_of_fqan(fqan) in wanted_fqans for fqan in fqans], np.bool_)[of_fqan]
    for at in np.flatnonzero(is_near & (entries != UNMAPPED)).tolist():
        entry = int(entries[at])
        for place in groups_of(keys[at]):
            if place in wanted:
                is_member = not tree.n_children[entry] and not tree.is_group[entry]
                above = int(tree.parent[entry]) if is_member else entry
                neighbours.setdefault(place, Counter())[above if above > 0 else entry] += 1
    return neighbours


def normalise_name(text: str) -> str:
    """Remove case, diacritics and separators, so that `Åsa.Ek` and `asa-ek` become equal."""
    if text.isascii():
        return text.lower() if text.isalnum() else "".join(filter(str.isalnum, text)).lower()
    plain = unicodedata.normalize("NFKD", text.replace("ø", "o").replace("Ø", "O").replace("ł", "l").replace("Ł", "L"))
    return "".join(char for char in plain if char.isalnum()).casefold()


def _persons_of(key: AccountKey) -> Iterator[tuple[str, str]]:
    """Yield possible names of the account's user, with the reason."""
    dn = key.dn or (key.user_name if is_dn(key.user_name) else "")
    if key.user_name and key.user_name != dn:
        yield key.user_name, "same_name"
        user, at, _realm = key.user_name.partition("@")
        if at and user:
            yield user, "without_realm"
    name = common_name(dn) if dn else ""
    words = [word for word in name.replace(".", " ").split() if not word.isdigit()]
    if words:
        yield "".join(words), "common_name"
        user, at, _realm = name.partition("@")
        if at and user:
            yield user, "common_name"
    if len(words) > 1:
        yield words[0][0] + words[-1], "initial_and_surname"


def _groups_of(key: AccountKey) -> list[str]:
    whole = group_of_fqan(key.fqan).strip("/").split("/") if key.fqan else []
    return [text for text in (key.group_name, key.project, *whole) if text]
