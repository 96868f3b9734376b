"""Names by which look-ups find entries, for many entries at once.

Siblings mostly differ in the user's name only: what rules make of one of them holds for the others, too. Wherever that
isn't certain, `LookupIndex.identities` is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.accounts.account_keys import AccountKey, canonical
from apps.mapping.rules.entry_names import are_usual
from apps.priorities.serving.lookup import LookupIndex, includes
from apps.priorities.serving.named_entries import SiblingShapes

Accounts = Sequence[Sequence[AccountKey]]
Names = Sequence[AccountKey]


def identities_of_each(
    index: LookupIndex, entries: npt.NDArray[np.integer[Any]], accounts: Accounts
) -> list[Sequence[AccountKey]]:
    """`LookupIndex.identities` of each entry. accounts: the known ones of each."""
    tree, texts = index.tree, index.tree.texts_of(entries)
    names = list(texts)
    is_like_siblings = ~tree.is_reserve[entries] & (tree.n_children[entries] == 0) & (tree.parent[entries] >= 0)
    is_like_siblings &= are_usual(texts) & ~np.isin(entries, index.named.starts)
    is_known: list[bool] = []  # asked where some siblings haven't one account each
    kinds = np.stack([tree.parent[entries], tree.takes_members[entries], tree.is_group[entries], is_like_siblings])
    begins = np.flatnonzero(np.append(True, (kinds[:, 1:] != kinds[:, :-1]).any(axis=0))[: len(entries)])
    identities: list[Sequence[AccountKey]] = []
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(entries)], strict=True):
        siblings = None
        if is_like_siblings[begin] and (shapes := index.named.shapes_of(int(entries[begin]))) is not None:
            siblings = _Siblings(index, shapes)
        if siblings is not None and siblings.have_one_account_each(names[begin:end], accounts[begin:end]):
            identities += accounts[begin:end]
            continue
        is_known = is_known or (index.count_known(texts) > 0).tolist()
        for row in range(begin, end):
            own = None if siblings is None else siblings.identities(names[row], accounts[row], is_known=is_known[row])
            identities.append(index.identities(int(entries[row]), accounts[row]) if own is None else own)
    return identities


class _Siblings:
    """Leaves of one group that rules know apart by their names only."""

    def __init__(self, index: LookupIndex, shapes: SiblingShapes) -> None:
        self._index, self._shapes = index, shapes
        self._covered: dict[tuple[str, ...], bool] = {}
        self._alone = self._complete((), "")

    def have_one_account_each(self, names: Sequence[str], accounts: Accounts) -> bool:
        """Whether the identities of each are its only account: for all of them, which takes less than for each."""
        if self._shapes.mentioned or set(map(len, accounts)) != {1}:
            return False
        keys = [account for (account,) in accounts]
        if [key[1] for key in keys] != names:
            return False
        alike = {(key[2:], key[0]): key for key in keys}
        return all(map(self._is_covered, alike.values()))

    def identities(self, name: str, accounts: Names, *, is_known: bool) -> Names | None:
        """Of one of them, None if that isn't certain. is_known: whether some account may have its name."""
        if name in self._shapes.mentioned:
            return None
        if not accounts and not is_known:
            if self._alone is None:
                return None
            return [AccountKey(key[0], name, *key[2:]) for key in self._alone]
        if len(accounts) == 1 and accounts[0][1] == name and self._is_covered(accounts[0]):
            return accounts
        return self._complete(accounts, name)

    def _is_covered(self, account: AccountKey) -> bool:
        """`_covers`, which is the same for accounts that differ in the user only."""
        namespace, _user, *others = account
        of_account = (namespace, *others)
        covers = self._covered.get(of_account)
        if covers is None:
            covers = self._covered[of_account] = self._covers(account)
        return covers

    def _covers(self, account: AccountKey) -> bool:
        """Whether all that rules may make of its user's name is included in the account."""
        shapes = (key._replace(user_name=account.user_name) for key, leads in self._shapes.keys if leads is not False)
        return canonical(account) == account and all(includes(account, key) for key in shapes)

    def _complete(self, accounts: Names, name: str) -> Names | None:
        """The accounts, and keys of the name that none of them includes; None if one may not lead to the entry.

        name: "" for any name that no account has.
        """
        names = list(map(canonical, accounts))
        for shape, leads in self._shapes.keys:
            key = shape._replace(user_name=name) if name else shape
            if leads is False or any(includes(each, key) for each in names):
                continue
            if leads is None or (name and self._index.has_included(key)):
                return None
            names.append(key)
        return names
