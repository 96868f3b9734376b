"""Slurm's accounts and users as a tree, as dumps and scripts of `sacctmgr` both state it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from apps.policies.files.parsed_document import Declaration, Declared
from apps.policies.formats.whole_shares import coded_kinds, plain_names, plain_word, whole_shares
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import PARENT

USE_PARENT = 2_147_483_647  # how a dump writes Fairshare=parent
MOST_SHARES = USE_PARENT - 1
ROOT = "root"

_SHARES = ("fairshare", "shares")


class Associations(Declaration):
    """Accounts are groups, known by name in the whole cluster; users are leaves, one for each account they are in."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts: dict[str, int] = {ROOT: self.add(-1, ROOT, is_group=True)}
        self.unread: Counter[str] = Counter()
        self.cluster = ""

    def account(self, name: str, parent: str, shares: float | str, line: int) -> None:
        above = self.accounts.get(parent.lower())
        if above is None:
            self.problem(-1, name, f"its parent {parent!r:.140} isn't declared before it", line)
        elif name.lower() in self.accounts:
            first = self.path(self.accounts[name.lower()])
            self.problem(above, name, f"is an account already, {first}; a cluster has each account once", line)
        else:
            row = self.add(above, name, line=line, place=repr(name)[:140], shares=shares, is_group=True)
            if row >= 0:
                self.accounts[name.lower()] = row

    def user(self, name: str, account: str, shares: float | str, line: int) -> None:
        above = self.accounts.get(account.lower())
        if above is None:
            self.problem(-1, name, f"its account {account!r:.140} isn't declared before it", line)
        else:
            self.add(above, name, line=line, place=repr(name)[:140], kind="user", shares=shares)

    def shares_of(self, options: Mapping[str, str], line: int, name: str) -> float | str:
        given = next((options[key] for key in _SHARES if key in options), "1")
        try:
            return slurm_shares(given)
        except ValueError as error:
            self.problem(-1, f"Fairshare of {name}", str(error), line)
            return 1

    def not_read(self, options: Mapping[str, str], known: frozenset[str]) -> None:
        self.unread.update(key for key in options if key not in known and key not in _SHARES)

    def declared(self) -> Declared:
        """A tree of kinds `user` and unsaid; Slurm knows no others."""
        ignored = tuple(f"{option} ({n:,} ×)" for option, n in sorted(self.unread.items()))
        return self.finish(policy=self.cluster, carries=frozenset({"kind", "shares", "is_group"}), ignored=ignored)


def slurm_shares(text: str) -> float | str:
    """Shares as Slurm writes them; ValueError says what is wrong."""
    if text.lower() == "parent" or text == str(USE_PARENT):
        return PARENT
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > MOST_SHARES:
        raise ValueError(f'{text[:40]!r} is no whole number from 0 to {MOST_SHARES:,}, and not "parent"')
    return int(text)


def is_account(tree: TreeColumns) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Groups and reserves: an account without users has shares and never usage."""
    return np.asarray(tree.is_group | tree.is_reserve | (tree.parent < 0))


def fit(tree: TreeColumns) -> TreeColumns:
    """Accounts and users, named as Slurm names them (accounts in lower case, each once), with whole shares."""
    accounts = is_account(tree)
    words = [plain_word(name) for name in tree.name]
    words = [word.lower() if is_one else word for word, is_one in zip(words, accounts.tolist(), strict=True)]
    names = plain_names(tree, words, accounts)
    kind_names, kind_code = coded_kinds(["" if is_one else "user" for is_one in accounts.tolist()])
    none = np.zeros(len(tree), dtype=np.bool_)
    return replace(
        tree,
        name=names,
        kind_names=kind_names,
        kind_code=kind_code,
        is_group=accounts,
        locked=none,
        shares=whole_shares(tree, MOST_SHARES),
        scope_code=np.zeros(len(tree), dtype=np.uint8),
        scope_sources={},
        dates={},
        members={},
        mount={},
    )
