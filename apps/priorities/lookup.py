"""From the names that schedulers ask for to entries: everything that survives from snapshot to snapshot.

An index belongs to one tree, one set of rules and one list of known accounts; answers are remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apps.accounts.entry_names import is_reserved
from apps.accounts.intern import AccountKey, canonical
from apps.policies.trees import TreeColumns
from apps.priorities.mapping import UNMAPPED, Match, Resolver
from apps.priorities.snapshots import AccountPlaces

_MOST_REMEMBERED = 500_000


class AccountQuery(NamedTuple):
    """What somebody asks for; "" is not said. A bare string asks for a user (or DN) of that name."""

    user: str = ""
    group: str = ""
    namespace: str = ""
    dn: str = ""
    fqan: str = ""
    project: str = ""


Query = str | AccountQuery


class Found(NamedTuple):
    """The entries of one query, or the *each* rule by which it would join its one entry. Neither: unmapped."""

    entries: tuple[int, ...]
    joins: int | None = None


NOTHING = Found(())


class LookupIndex:
    """Names to entries of one tree."""

    def __init__(self, tree: TreeColumns, places: AccountPlaces, digest: str) -> None:
        self.tree = tree
        self.places = places
        self.digest = digest
        self.resolver = Resolver(places.rules, tree)
        self._found: dict[Query, Found] = {}
        self._paths: dict[int, str] = {}

    def find(self, query: Query) -> Found:
        found = self._found.get(query)
        if found is None:
            found = self._work_out(AccountQuery(query) if isinstance(query, str) else query)
            if len(self._found) >= _MOST_REMEMBERED:
                self._found.clear()
            self._found[query] = found
        return found

    def prepare(self) -> None:
        """Build what the first look-up would else wait for."""
        self.find("")
        self.by_entry  # noqa: B018 - cached
        self.tree.engine_tree().competition  # noqa: B018 - cached

    def forget(self) -> None:
        """As if nobody had asked yet: for measurements."""
        self._found.clear()
        self._paths.clear()

    def path(self, entry: int) -> str:
        path = self._paths.get(entry)
        if path is None:
            if len(self._paths) >= _MOST_REMEMBERED:
                self._paths.clear()
            path = self._paths[entry] = self.tree.path(entry)
        return path

    @cached_property
    def _keys(self) -> list[AccountKey]:
        """In the one spelling of names; a snapshot of before may have others."""
        return [canonical(key) for key in self.places.keys]

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        """Places of the known accounts by user name and by DN."""
        found: dict[str, list[int]] = {}
        for place, key in enumerate(self._keys):
            for name in {key.user_name, key.dn} - {""}:
                found.setdefault(name, []).append(place)
        return found

    @cached_property
    def by_entry(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Places of the known accounts in the order of their entries, and those entries."""
        order = np.argsort(self.places.entry, kind="stable")
        return order, self.places.entry[order]

    def accounts_of(self, entry: int) -> list[AccountKey]:
        """The known accounts that are at this very entry."""
        order, entries = self.by_entry
        lo, hi = np.searchsorted(entries, [entry, entry + 1])
        return [self.places.keys[place] for place in order[lo:hi].tolist()]

    def _work_out(self, asked: AccountQuery) -> Found:
        query = _spelled(asked)
        if is_reserved(query.namespace):  # no scheduler's name
            return NOTHING
        places = self._known(query)
        known = list(dict.fromkeys(map(self._placed, places)))
        if len(known) == 1 and known[0].joins is not None:
            return Found((known[0].entry,), known[0].joins)
        entries = dict.fromkeys(match.entry for match in known)
        key = AccountKey(query.namespace, query.user, query.group, query.dn, query.fqan, query.project)
        if not query.group and not query.fqan:
            named = self.resolver.entries_named(query.user or query.dn, key)
            left = self._left(places)
            entries.update(dict.fromkeys(entry for entry in named if entry not in left))
        if entries:
            return Found(tuple(entries))
        match = self._by_rules(key)
        return NOTHING if match.entry == UNMAPPED else Found((match.entry,), match.joins)

    def _by_rules(self, key: AccountKey) -> Match:
        """A name never seen before goes where the rules lead, as a user's or, where that leads nowhere, as a DN."""
        match = self.resolver.resolve(key)
        if match.entry == UNMAPPED and not key.dn and key.user_name:
            match = self.resolver.resolve(key._replace(user_name="", dn=key.user_name))
        return match

    def _placed(self, place: int) -> Match:
        """Where a known account was when the snapshot was computed."""
        if self.places.joins is None:
            return self.resolver.resolve(self.places.keys[place])
        joins = int(self.places.joins[place])
        return Match(int(self.places.entry[place]), None if joins < 0 else joins)

    def _left(self, places: Sequence[int]) -> set[int]:
        """Entries to which rules would lead known accounts that were attached elsewhere."""
        if self.places.joins is None:
            return set()
        led = ((self.resolver.resolve(self.places.keys[place]).entry, place) for place in places)
        return {entry for entry, place in led if entry != self.places.entry[place]}

    def _known(self, query: AccountQuery) -> list[int]:
        """Places of the known accounts of this name that agree with everything else said."""
        said = AccountKey(query.namespace, "", query.group, query.dn, query.fqan, query.project)
        return [
            place
            for place in self._by_name.get(query.user or query.dn, ())
            if all(not asked or asked == has for asked, has in zip(said, self._keys[place], strict=True))
        ]


def _spelled(query: AccountQuery) -> AccountQuery:
    """In the spelling of accounts: schedulers and people write DNs as they like."""
    key = canonical(AccountKey(query.namespace, query.user, query.group, query.dn, query.fqan, query.project))
    return AccountQuery(key.user_name, key.group_name, key.namespace, key.dn, key.fqan, key.project)
