"""Lists of all leaves, as schedulers get them: made by columns and in blocks, with the memory of one block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.accounts.account_keys import AccountKey
from apps.priorities.serving.entry_json import EntryColumns, dumps, texts_json
from apps.priorities.serving.identities import identities_of_each
from apps.priorities.serving.lookup import AccountNames, AccountQuery, Readable, group_names, names_of
from apps.priorities.serving.served_snapshot import Json, ServedSnapshot

_BLOCK = 5_000  # entries
_FIELDS = EntryColumns._fields
LeafNames = tuple[str | None, str, str, str]  # account, group, namespace and path


@dataclass(frozen=True, eq=False)
class LeafLines:
    """Lines that follow each other: for each account of an entry one, and one for an entry without accounts.

    entries, about, identities: of the entries. accounts: of each line (None for an entry without one); place: of its
    entry. outsiders: by line, fields of accounts that have no entry of their own, in place of the entry's.
    """

    entries: npt.NDArray[np.int64]
    about: EntryColumns
    identities: Sequence[Sequence[AccountKey]]
    accounts: Sequence[AccountKey | None]
    place: Sequence[int]
    outsiders: dict[int, Json]

    def dicts(self) -> Iterator[Json]:
        """Lines with their fields."""
        entries = [dict(zip(_FIELDS, row, strict=True)) for row in zip(*self.about, strict=True)]
        for line, (account, place) in enumerate(zip(self.accounts, self.place, strict=True)):
            own = self.outsiders.get(line) or {
                **entries[place],
                "identities": list(map(names_of, self.identities[place])),
            }
            yield {**_account_fields(account), **own}

    def names(self) -> list[LeafNames]:
        """Of each line."""
        paths = self.about.entry
        return [
            (None, "", "", paths[place])
            if account is None
            else (account[1] or account[3] or account[2], account[2], account[0], paths[place])
            for account, place in zip(self.accounts, self.place, strict=True)
        ]

    def json(self) -> list[str]:
        """Each line as JSON."""
        pairs = zip(self.about.json(), _identities_json(self.identities), strict=True)
        ends = [f'{about},"identities":{identities}}}' for about, identities in pairs]
        begins = _beginnings_json(self.accounts)
        lines = [f"{begin}{ends[place]}" for begin, place in zip(begins, self.place, strict=True)]
        for line, own in self.outsiders.items():
            lines[line] = dumps({**_account_fields(self.accounts[line]), **own})
        return lines

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Account, group, namespace, path, factor, rank, number of ranks, key and identities as JSON of each line."""
        identities = _identities_json(self.identities)
        _path, factor, rank, of, _priorities, _vector, key = self.about
        for line, (names, at) in enumerate(zip(self.names(), self.place, strict=True)):
            own = self.outsiders.get(line)
            if own is None:
                yield (*names, factor[at], rank[at], of[at], key[at], identities[at])
            else:
                yield (*names[:3], own["entry"], own["factor"], own["rank"], own["of"], own["key"], "[]")


def every_leaf(snapshot: ServedSnapshot, readable: Readable | None = None) -> Iterator[Json]:
    """All lines, with their fields."""
    return (line for lines in blocks_of_leaves(snapshot, readable) for line in lines.dicts())


def blocks_of_leaves(snapshot: ServedSnapshot, readable: Readable | None = None) -> Iterator[LeafLines]:
    """All ranked leaves and all entries with accounts.

    Their identities are the names by which a look-up finds the entry, with or without usage.
    """
    mask, names = readable or (None, None)
    wanted = snapshot.values.is_ranked.copy()
    wanted[snapshot.index.places.entry] = True
    if mask is not None:
        wanted &= mask
    entries = np.flatnonzero(wanted)
    for begin in range(0, len(entries), _BLOCK):
        yield _block(snapshot, entries[begin : begin + _BLOCK], names, is_restricted=mask is not None)


def _block(
    snapshot: ServedSnapshot, entries: npt.NDArray[np.int64], names: AccountNames | None, *, is_restricted: bool
) -> LeafLines:
    known: list[Any] = snapshot.index.accounts_of_each(entries)
    identities: list[Any] = identities_of_each(snapshot.index, entries, known)
    if names is not None:
        for row in np.flatnonzero(~names.named[entries]).tolist():
            known[row] = list(filter(names.is_own, known[row]))
            identities[row] = list(filter(names.is_own, identities[row]))
    accounts = [account for each in known for account in each or (None,)]
    place = [row for row, each in enumerate(known) for _account in each or (None,)]
    groups = set(np.flatnonzero(np.frombuffer(snapshot.unranked_groups, np.bool_)[entries]).tolist())
    outsiders = {
        line: snapshot.of_outsider(int(entries[row]), is_restricted=is_restricted)
        for line, (account, row) in enumerate(zip(accounts, place, strict=True) if groups else ())
        if row in groups and account is not None and snapshot.is_outsider(_query_of(account), int(entries[row]))
    }
    return LeafLines(entries, snapshot.describe_columns(entries), identities, accounts, place, outsiders)


def _query_of(key: AccountKey) -> AccountQuery:
    return AccountQuery(key.user_name, key.group_name, key.namespace, key.dn, key.fqan, key.project)


def _account_fields(account: AccountKey | None) -> Json:
    if account is None:
        return {"account": None}
    name = account.user_name or account.dn or account.group_name
    return {"account": name, **group_names(account.group_name, account.namespace)}


def _beginnings_json(accounts: Sequence[AccountKey | None]) -> list[str]:
    """Lines up to their entries. Most differ from the ones before in the user's name only."""
    names = texts_json([None if each is None else each[1] or each[3] or each[2] for each in accounts])
    namespace = group = others = ""
    begins = []
    for account, name in zip(accounts, names, strict=True):
        if account is None:
            begins.append('{"account":null,')
            continue
        if account[0] != namespace or account[2] != group:
            namespace, group = account[0], account[2]
            others = f"{dumps(group_names(group, namespace))[1:-1]}," if group or namespace else ""
        begins.append(f'{{"account":{name},{others}')
    return begins


def _identities_json(identities: Sequence[Sequence[AccountKey]]) -> list[str]:
    """The names of each entry as a list in JSON. Most differ from the ones before in the user's name only."""
    users = iter(texts_json([key[1] for keys in identities for key in keys]))
    namespace: str | None = None
    others: tuple[str, ...] = ()
    before = after = ""
    texts = []
    for keys in identities:
        pieces = []
        for key in keys:
            user = next(users)
            if key[0] != namespace or key[2:] != others:
                namespace, others = key[0], key[2:]
                before, after = (dumps(names_of(AccountKey(*each)))[1:-1] for each in ((namespace,), ("", "", *others)))
                before, after = f"{before}," if before else "", f",{after}" if after else ""
            pieces.append(f'{{{before}"user":{user}{after}}}' if key[1] else dumps(names_of(key)))
        texts.append(f"[{pieces[0] if len(pieces) == 1 else ','.join(pieces)}]")
    return texts
