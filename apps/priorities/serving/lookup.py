"""Index from account names to entries.

An index is of one tree, one set of rules and one list of known accounts, and is reused by following snapshots while
these are unchanged. Results are cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey, canonical
from apps.accounts.entry_accounts import is_reserved
from apps.accounts.partition_accounts import first_partition
from apps.core.name_index import NameIndex
from apps.core.strings import Strings
from apps.mapping.rules.account_places import AccountPlaces, places_of_columns
from apps.mapping.rules.entry_names import are_usual
from apps.mapping.rules.resolver import UNMAPPED, Match, Resolver
from apps.policies.tree.stored import TreeColumns
from apps.priorities.serving.named_entries import NamedEntries

_MOST_REMEMBERED_RESULTS = 100_000
_MANY = 8
_SPELLED = "spelled "  # columns of names in canonical spelling


class AccountQuery(NamedTuple):
    """A look-up query; "" means not given. A plain string as query is a user name or DN.

    partition: of a job in Slurm. It decides where the user has an association of that partition.
    """

    user: str = ""
    group: str = ""
    namespace: str = ""
    dn: str = ""
    fqan: str = ""
    project: str = ""
    partition: str = ""


Query = str | AccountQuery
Choices = tuple[tuple[str, "LookupResult"], ...]


class LookupResult(NamedTuple):
    """Result of a query: its entries. joins: index of the *each* rule by which it would join its only entry.

    choices: results by namespace for a query without one, if they differ.
    """

    entries: tuple[int, ...]
    joins: int | None = None
    choices: Choices = ()


class AccountNames(NamedTuple):
    """Accounts whose names a reader may see: all of the entries in `named` (n,), elsewhere only their own.

    own: in canonical spelling.
    """

    named: npt.NDArray[np.bool_]
    own: tuple[AccountKey, ...]

    def includes(self, key: AccountKey, entry: int) -> bool:
        return bool(self.named[entry]) or self.is_own(key)

    def is_own(self, key: AccountKey) -> bool:
        """Whether it is an own account, or one of its names; a group alone isn't."""
        key = canonical(key)
        return bool(key.user_name or key.dn) and any(
            includes(own_key, key) or includes(key, own_key) for own_key in self.own
        )

    def limit(self, query: Query, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """The entries of the mask that an answer to this query may name."""
        key = AccountKey("", query) if isinstance(query, str) else _key_of(query)
        is_own = self.is_own(key) or (isinstance(query, str) and any(query == own_key.dn for own_key in self.own))
        return mask if is_own else mask & self.named


class Readable(NamedTuple):
    """Entries of a snapshot whose numbers a reader may see (n,), and the accounts whose names. names None: all."""

    entries: npt.NDArray[np.bool_]
    names: AccountNames | None


NOTHING = LookupResult(())


def group_names(group: str, namespace: str) -> dict[str, str]:
    """Group and namespace for an answer, if given."""
    return {name: value for name, value in (("group", group), ("namespace", namespace)) if value}


def names_of(key: AccountKey) -> dict[str, str]:
    """All non-empty names of an account."""
    names = ("namespace", "user", "group", "dn", "fqan", "project")
    return {name: text for name, text in zip(names, key, strict=True) if text}


def merge_results(results: Iterable[tuple[str, LookupResult]]) -> LookupResult:
    """The combined result of several namespaces, with them as choices if they differ."""
    hits = [(name, result) for name, result in results if result.entries]
    if not hits:
        return NOTHING
    if len(hits) == 1 or len({(frozenset(result.entries), result.joins) for _name, result in hits}) == 1:
        return hits[0][1]
    entries = dict.fromkeys(entry for _name, result in hits for entry in result.entries)
    return LookupResult(tuple(entries), None, tuple(hits))


def restrict_to(result: LookupResult, mask: npt.NDArray[np.bool_]) -> LookupResult:
    """The result restricted to visible entries; choices that agree after that are combined."""
    if result.choices:
        return merge_results((name, restrict_to(choice, mask)) for name, choice in result.choices)
    return result._replace(entries=tuple(entry for entry in result.entries if mask[entry]))


class LookupIndex:
    """Index from names to entries of one tree."""

    def __init__(self, tree: TreeColumns, places: AccountPlaces, digest: str) -> None:
        self.tree = tree
        self.places = places
        self.digest = digest
        self.resolver = Resolver(places.rules, tree)
        self.named = NamedEntries(self.resolver)
        self._results: dict[Query, LookupResult] = {}

    @classmethod
    def of_columns(
        cls, tree: TreeColumns, columns: Mapping[str, Any], meta: Mapping[str, Any], digest: str
    ) -> LookupIndex:
        index = cls(tree, places_of_columns(columns, meta, digest), digest)
        if any(name.startswith(_SPELLED) for name in columns):
            vars(index)["_keys"] = AccountKeys([columns[f"{_SPELLED}{name}"] for name in AccountKey._fields])
        vars(index)["by_entry"] = columns["by_entry"], columns["entries"]
        for name, field in (("_users", "user_name"), ("_dns", "dn")):
            if f"{field} hash" in columns:
                names = index._keys.column(field)
                vars(index)[name] = NameIndex(names, columns[f"{field} hash"], columns[f"{field} order"])
        return index

    def to_columns(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Columns and meta, from which `of_columns` makes an equal index without any work for each account."""
        columns = self.places.columns
        if self._keys is not self.places.keys:
            columns |= {f"{_SPELLED}{name}": self._keys.column(name) for name in AccountKey._fields}
        columns |= zip(("by_entry", "entries"), self.by_entry, strict=True)
        for field, names in (("user_name", self._users), ("dn", self._dns)):
            if len(names.order):
                columns |= {f"{field} hash": names.hashes, f"{field} order": names.order}
        return columns, self.places.meta

    def find(self, query: Query) -> LookupResult:
        result = self._results.get(query)
        if result is None:
            result = self._resolve(AccountQuery(query) if isinstance(query, str) else query)
            if len(self._results) >= _MOST_REMEMBERED_RESULTS:
                self._results.clear()
            self._results[query] = result
        return result

    def find_many(self, queries: Sequence[Query]) -> list[LookupResult]:
        """`find` for each query. User names that decide alone are found at once, and not remembered."""
        if len(queries) < _MANY:
            return list(map(self.find, queries))
        users = [query for query in queries if isinstance(query, str) and query not in self._results]
        entries = self.plain_entries(users).tolist()
        pairs = zip(users, entries, strict=True)
        plain: dict[Query, LookupResult] = {user: LookupResult((entry,)) for user, entry in pairs if entry >= 0}
        return [plain.get(query) or self.find(query) for query in queries]

    def plain_entries(self, users: Sequence[str]) -> npt.NDArray[np.int32]:
        """For each of many users the only entry, of the known account, or named after them by plain rules.

        −1: `find` has to look at each rule, as it does at once for few users.
        """
        only = np.full(len(users), -1, np.int32)
        joins = self.places.joins
        if len(users) < _MANY or joins is None or self.named.namespaces or not self._keys.column("dn").is_empty:
            return only
        is_ascii = all(map(str.isascii, users))  # half a surrogate pair has no bytes
        asked = Strings.of(users if is_ascii else [user if user.isascii() else "" for user in users])
        is_usual = are_usual(asked)
        n_known, place = self._users.find_only(asked)
        n_named, entry = self.tree.name_index.find_only(asked)
        is_named = is_usual & (n_known == 0) & (n_named == 1)
        is_named[is_named] = self.named.are_named_after_users(entry[is_named])
        rows = np.flatnonzero(is_named)
        only[rows] = np.where(asked.take(rows).differ(self.tree.texts_of(entry[rows])), -1, entry[rows])
        if len(joins) and self.named.has_plain_rules:
            of_account = self.places.entry[place]
            is_known = is_usual & (n_known == 1) & (joins[place] < 0)
            rows = np.flatnonzero(is_known & ((n_named == 0) | ((n_named == 1) & (entry == of_account))))
            names = self._keys.column("user_name").take(place[rows])
            only[rows] = np.where(asked.take(rows).differ(names), -1, of_account[rows])
        return only

    def count_known(self, names: Strings) -> npt.NDArray[np.int32]:
        """For each name how many known accounts have it as user or DN, or another one with its hash."""
        n_known: npt.NDArray[np.int32] = self._users.find_only(names)[0] + self._dns.find_only(names)[0]
        return n_known

    def has_included(self, key: AccountKey) -> bool:
        """Whether some known account of the user has all non-empty fields of this one."""
        return bool(self._known(AccountQuery(key.user_name, key.group_name, key.namespace, "", key.fqan, key.project)))

    def choices(self, query: Query) -> Choices:
        """Results by namespace for a query without one, if they differ; else empty."""
        return self.find(query).choices

    def find_certain(self, query: Query) -> tuple[int, ...]:
        """Entries of a query, if they don't depend on the namespace; else empty."""
        result = self.find(query)
        return () if result.choices else result.entries

    def has_account(self, key: AccountKey) -> bool:
        """Whether the snapshot has exactly this account at an entry."""
        spelled = canonical(key)
        return any(self.places.keys[at] == key for at in self._named_like(spelled.user_name or spelled.dn))

    def prepare(self) -> None:
        """Build cached data, so that the first look-up needn't wait for it."""
        self.named.of_user(AccountKey("", "-"))
        self.find("")
        self.by_entry  # noqa: B018 - cached
        self.tree.engine_tree().competition  # noqa: B018 - cached

    def forget(self) -> None:
        """Empty the cache, for measurements."""
        self._results.clear()

    def path(self, entry: int) -> str:
        return self.tree.path(entry)

    @cached_property
    def _keys(self) -> AccountKeys:
        """Known accounts in canonical spelling, which older snapshots may not have."""
        keys = self.places.keys
        is_usual = (
            keys.column("dn").is_empty and keys.column("fqan").is_empty and not keys.column("user_name").has_inside("=")
        )
        return keys if is_usual else AccountKeys.of(map(canonical, keys))

    @cached_property
    def _users(self) -> NameIndex:
        return NameIndex(self._keys.column("user_name"))

    @cached_property
    def _dns(self) -> NameIndex:
        dns = self._keys.column("dn")
        return NameIndex(() if dns.is_empty else dns)

    def _named_like(self, name: str) -> list[int]:
        """Indices of known accounts with this user name or DN."""
        if not name:
            return []
        users, dns = self._users.find(name), self._dns.find(name)
        return sorted({*users, *dns}) if dns else users

    @cached_property
    def by_entry(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Indices of known accounts, sorted by entry, and their entries."""
        order = np.argsort(self.places.entry, kind="stable").astype(np.int32)
        return order, self.places.entry[order]

    def accounts_of(self, entry: int) -> list[AccountKey]:
        """Known accounts of exactly this entry."""
        return self.accounts_of_each(np.array([entry]))[0]

    def accounts_of_each(self, wanted: npt.NDArray[np.integer[Any]]) -> list[list[AccountKey]]:
        """Known accounts of exactly each of these entries."""
        order, entries = self.by_entry
        wanted = wanted.astype(entries.dtype)  # a search for another type converts the whole column first
        first, last = np.searchsorted(entries, wanted, "left"), np.searchsorted(entries, wanted, "right")
        n_each, ends = last - first, np.cumsum(last - first)
        places = np.repeat(last - ends, n_each) + np.arange(n_each.sum())
        keys = list(self.places.keys.take(order[places]))
        return [keys[end - n : end] for end, n in zip(ends.tolist(), n_each.tolist(), strict=True)]

    def identities(self, entry: int, accounts: Sequence[AccountKey] | None = None) -> tuple[AccountKey, ...]:
        """Names by which a look-up finds the entry: of its known accounts, and by rules.

        Fields that make no difference are empty. accounts: the known ones, from a caller who has them.
        """
        accounts = self.accounts_of(entry) if accounts is None else accounts
        names = list(map(canonical, accounts))

        def is_there(key: AccountKey) -> bool:
            return bool(key.user_name or key.dn) and any(includes(account, key) for account in names)

        for key in self.named.names_of(entry, is_there):
            if self._leads_to(entry, key):
                names.append(key)
        return tuple(names)

    def _leads_to(self, entry: int, key: AccountKey) -> bool:
        result = self._resolve(
            AccountQuery(key.user_name, key.group_name, key.namespace, key.dn, key.fqan, key.project)
        )
        return entry in result.entries and result.joins is None and not result.choices

    def _resolve(self, asked: AccountQuery) -> LookupResult:
        query = _spelled(asked)
        if query.partition:
            query = self._of_partition(query)
        if is_reserved(query.namespace):  # reserved for internal use
            return NOTHING
        known = self._known(query)
        namespaces = [query.namespace] if query.namespace else self._namespaces_for(known)
        keys = [AccountKey(name, query.user, query.group, query.dn, query.fqan, query.project) for name in namespaces]
        if len(keys) == 1:
            result = self._by_name_in(keys[0], known, query.partition)
            return result if result.entries else self._by_rules(keys[0])
        result = merge_results([(key.namespace, self._by_name_in(key, known, query.partition)) for key in keys])
        if not result.entries:
            result = merge_results([(key.namespace, self._by_rules(key)) for key in keys])
        return result._replace(choices=tuple(self._named(result.choices)))

    def _of_partition(self, query: AccountQuery) -> AccountQuery:
        """The query with the partition as the account's, where the user has an entry for it."""
        partition = first_partition(query.partition)
        if partition not in self.named.partitions_of(query.user):
            return query
        return query._replace(partition="", project=query.project or partition)

    def _namespaces_for(self, known: Mapping[int, AccountKey]) -> list[str]:
        """Namespaces that may give different results: those named by rules, and "" for all others, if there are any.

        Namespaces of known accounts of this name are separate, because accounts may be attached individually.
        """
        named = self.named.namespaces
        own = dict.fromkeys(key.namespace for key in known.values())
        others = [""] if not own and (not named or self._other_namespaces) else []
        return list(dict.fromkeys((*named, *own, *others)))

    @cached_property
    def namespaces(self) -> tuple[str, ...]:
        """Namespaces of rules and of known accounts."""
        return tuple(dict.fromkeys((*self.named.namespaces, *self._other_namespaces)))

    def knows_namespace(self, name: str) -> bool:
        """Whether a namespace can match: a rule without a namespace matches all."""
        return name in self.namespaces or any(not rule.namespace for rule in self.places.rules)

    @cached_property
    def _other_namespaces(self) -> tuple[str, ...]:
        """Namespaces of known accounts that no rule names."""
        return tuple(sorted(set(self._keys.column("namespace").coded[0]) - set(self.named.namespaces)))

    def _named(self, choices: Choices) -> Iterator[tuple[str, LookupResult]]:
        """Choices with real namespaces: the result for "" is that of each namespace that no rule names."""
        for namespace, result in choices:
            for name in (namespace,) if namespace else self._other_namespaces:
                yield name, result

    def _by_name_in(self, key: AccountKey, known: Mapping[int, AccountKey], partition: str) -> LookupResult:
        """Entries of known accounts with this name and namespace, and entries that are named after it.

        partition: of the query, unless the user has an entry for it.
        """
        if not known:
            named = self.named.of_user(key)
            return LookupResult(self._in_partition(named, key, partition) if self._has_associations else tuple(named))
        here = [place for place, each in known.items() if not key.namespace or each.namespace == key.namespace]
        matches = list(dict.fromkeys(map(self._placed, here)))
        if len(matches) == 1 and matches[0].joins is not None:
            return LookupResult((matches[0].entry,), matches[0].joins)
        entries = dict.fromkeys(match.entry for match in matches)
        named = [entry for entry in self.named.of_user(key) if entry not in entries]
        left = self._entries_by_rules_only(here) if named and here else set()
        entries.update(dict.fromkeys(entry for entry in named if entry not in left))
        if not self._has_associations:
            return LookupResult(tuple(entries))
        return LookupResult(self._in_partition(list(entries), key, partition))

    @cached_property
    def _has_associations(self) -> bool:
        return self.named.has_associations

    def _in_partition(self, entries: Sequence[int], key: AccountKey, partition: str) -> tuple[int, ...]:
        if key.project:
            return tuple(entries)
        return tuple(self.named.outside_partitions(entries) if partition else self.named.without_partitions(entries))

    def _by_rules(self, key: AccountKey) -> LookupResult:
        """Entry of an unknown name by the rules: as a user name, or if that is unmapped as a DN."""
        match = self.resolver.resolve(key)
        if match.entry == UNMAPPED and not key.dn and key.user_name:
            match = self.resolver.resolve(key._replace(user_name="", dn=key.user_name))
        return NOTHING if match.entry <= 0 and match.joins is None else LookupResult((match.entry,), match.joins)

    def _placed(self, place: int) -> Match:
        """Entry of a known account in the snapshot."""
        if self.places.joins is None:
            return self.resolver.resolve(self.places.keys[place])
        joins = int(self.places.joins[place])
        return Match(int(self.places.entry[place]), None if joins < 0 else joins)

    def _entries_by_rules_only(self, accounts: Sequence[int]) -> set[int]:
        """Entries that rules would give known accounts which are attached to other entries."""
        if self.places.joins is None:
            return set()
        by_rules = ((self.resolver.resolve(self.places.keys[at]).entry, at) for at in accounts)
        return {entry for entry, at in by_rules if entry != self.places.entry[at]}

    def _known(self, query: AccountQuery) -> dict[int, AccountKey]:
        """Known accounts with this name whose other fields match the query, by index."""
        wanted = AccountKey(query.namespace, "", query.group, query.dn, query.fqan, query.project)
        alike = {at: self._keys[at] for at in self._named_like(query.user or query.dn)}
        if not any(wanted):
            return alike
        return {at: key for at, key in alike.items() if includes(key, wanted)}


def _spelled(query: AccountQuery) -> AccountQuery:
    """The query in canonical spelling: DNs are written in different ways."""
    key = canonical(_key_of(query))
    return AccountQuery(key.user_name, key.group_name, key.namespace, key.dn, key.fqan, key.project, query.partition)


def _key_of(query: AccountQuery) -> AccountKey:
    return AccountKey(query.namespace, query.user, query.group, query.dn, query.fqan, query.project)


def includes(key: AccountKey, other: AccountKey) -> bool:
    """Whether one account has all non-empty fields of the other."""
    return all(not text or text == has for has, text in zip(key, other, strict=True))
