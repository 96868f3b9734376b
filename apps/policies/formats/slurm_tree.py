"""Slurm's account tree as files describe it: accounts, users and their shares; and as a policy's tree is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from apps.core.counts import counted
from apps.core.errors import TooLarge
from apps.policies.files.document import plain_number
from apps.policies.files.parsed_document import DocumentBuilder, ParsedDocument
from apps.policies.formats.sacctmgr_words import FAIRSHARE, SHARES
from apps.policies.formats.slurm_names import entry_of_name, fitting_name, in_command, name_of_entry
from apps.policies.formats.whole_shares import coded_kinds, plain_names, plain_word, whole_shares
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import MOST_POLICY_ENTRIES, PARENT
from apps.policies.tree.slurm_associations import SEPARATOR, association_name, beside_account, split_association

USE_PARENT = 2_147_483_647  # Fairshare=parent in a dump
MOST_SLURM_SHARES = USE_PARENT - 1
DEFAULT_SHARES = 1
ROOT = "root"

SHARE_KEYS = (FAIRSHARE, SHARES)
_MOST_NAMED_LINES = 20

# If its input has comments, sacctmgr exits with status 1 even though all commands succeed.
HOW_TO_RUN = "run: grep -v '^#' FILE | sacctmgr -i"

# In a comment of a script: user names keep their letter case, as slurmdbd's parameter of this name has it.
KEEPS_CASE = "PreserveCaseUser"


@dataclass
class User:
    """A user's association in an account, of one partition or of all ("") others. place: order in the file."""

    name: str
    shares: float | str
    line: int
    place: int
    partition: str = ""

    @property
    def entry(self) -> str:
        return association_name(self.name, self.partition)


@dataclass
class Account:
    """An account; its name and its parent's are in lower case, as Slurm stores them. users: by names of entries."""

    name: str
    parent: str
    shares: float | str
    line: int
    place: int
    users: dict[str, User] = field(default_factory=dict)


class Associations:
    """The associations of one cluster, as a file or commands declare and change them.

    Accounts become groups, unique by name in the cluster; users become leaves by account.
    """

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {ROOT: Account(ROOT, "", DEFAULT_SHARES, 0, 0)}
        self.cluster = ""
        self._unread: Counter[str] = Counter()
        self._notes: list[str] = []
        self._tree = DocumentBuilder()
        self._n = 0

    def account(self, name: str, parent: str, shares: float | str, line: int) -> None:
        lower, above = name.lower(), parent.lower()
        if above not in self.accounts:
            self.problem(name, f"its parent {parent!r:.140} isn't declared before it", line)
        elif lower in self.accounts:
            first = self._where(self.accounts[lower].line)
            self.problem(name, f"is an account already{first}; a cluster has each account once", line)
        else:
            self.accounts[lower] = Account(lower, above, shares, line, self._place())

    def user(self, name: str, account: str, shares: float | str, line: int, partition: str = "") -> None:
        above = self.accounts.get(account.lower())
        entry = association_name(name, partition)
        if above is None:
            self.problem(name, f"its account {account!r:.140} isn't declared before it", line)
        elif entry in above.users:
            first = self._where(above.users[entry].line)
            self.problem(name, f"{entry!r:.140} is repeated in {self._path(above.name)}{first}", line)
        elif SEPARATOR in name:
            self.problem(name, f"a user's name has no {SEPARATOR!r}: it is before a partition's name", line)
        else:
            above.users[entry] = User(name, shares, line, self._place(), partition.lower())

    def _place(self) -> int:
        self._n += 1
        if self._n >= MOST_POLICY_ENTRIES:
            raise TooLarge(f"A policy has at most {MOST_POLICY_ENTRIES:,} entries.")
        return self._n

    def move(self, account: Account, parent: str, line: int) -> None:
        """Move an account with all that is below it; a new parent that is below it takes its place first, as in
        Slurm."""
        above = parent.lower()
        if above not in self.accounts:
            self.problem(account.name, f"its new parent {parent!r:.140} isn't declared before it", line)
        elif above == account.name or account.name == ROOT:
            self.problem(account.name, f"can't be moved below {parent!r:.140}", line)
        else:
            if account.name in self._ancestors(above):
                self.accounts[above].parent = account.parent
            account.parent = above

    def remove_account(self, account: Account) -> None:
        """Remove an account with all that is below it."""
        gone = [name for name in self.accounts if name == account.name or account.name in self._ancestors(name)]
        users = sorted({user.name for name in gone for user in self.accounts[name].users.values()})
        for name in gone:
            del self.accounts[name]
        if len(gone) > 1 or users:
            more = [f"account {name}" for name in gone if name != account.name] + [f"user {user}" for user in users]
            self.note(f"removed with account {account.name}: {_first_of(more)}")

    def _ancestors(self, name: str) -> Iterator[str]:
        while name != ROOT:
            name = self.accounts[name].parent
            yield name

    def _path(self, name: str) -> str:
        above = [ancestor for ancestor in self._ancestors(name) if ancestor != ROOT]
        return "/" + "/".join([*reversed(above), *([name] if name != ROOT else [])])

    def problem(self, key: str, message: str, line: int) -> None:
        """Record a problem, by which the file is refused at the end."""
        self._tree.problem(-1, key, message, line)

    def note(self, what: str) -> None:
        """Note contents that were not read, or read in an unexpected way."""
        self._notes.append(what)

    def unread(self, *what: str) -> None:
        """Count contents that a policy doesn't store."""
        self._unread.update(what)

    def shares_of(self, options: Mapping[str, str], line: int, name: str) -> float | str | None:
        """Return the shares that options set; None if they set none: an empty value counts as missing."""
        text = next((options[key] for key in SHARE_KEYS if options.get(key)), "")
        if not text:
            return None
        try:
            return slurm_shares(text)
        except ValueError as error:
            self.problem(f"Fairshare of {name}", str(error), line)
            return DEFAULT_SHARES

    @staticmethod
    def _where(line: int) -> str:
        return f", first in line {line}" if line else ""

    def declared(self) -> ParsedDocument:
        """Return the tree; its kinds are `user` and empty, as Slurm has no others."""
        ignored = [f"{option} ({n:,} ×)" for option, n in sorted(self._unread.items())]
        ignored += self._notes
        ignored += self._slash_remarks()
        self._build()
        carries = frozenset({"kind", "shares", "is_group"})
        return self._tree.finish(policy=self.cluster, carries=carries, ignored=tuple(ignored))

    def _build(self) -> None:
        below: dict[str, list[Account | User]] = {}
        for account in self.accounts.values():
            below.setdefault(account.parent, []).append(account)
            below.setdefault(account.name, []).extend(account.users.values())
        waiting = [(ROOT, self._tree.add(-1, ROOT, is_group=True))]
        for name, row in waiting:
            accounts = {child.name for child in below[name] if isinstance(child, Account)}
            for child in sorted(below[name], key=lambda each: each.place):
                is_account = isinstance(child, Account)
                entry = child.entry if isinstance(child, User) else child.name
                added = self._tree.add(
                    row,
                    entry_of_name(beside_account(entry) if not is_account and entry in accounts else entry),
                    line=child.line,
                    place=repr(child.name)[:140],
                    kind="" if is_account else "user",
                    shares=child.shares,
                    is_group=is_account,
                )
                if is_account and added >= 0:
                    waiting.append((child.name, added))

    def _slash_remarks(self) -> list[str]:
        """Describe names that are written otherwise in a path."""
        names = {name for account in self.accounts.values() for name in (account.name, *account.users) if "/" in name}
        if not names:
            return []
        written = [f"{name} is {entry_of_name(name)}" for name in sorted(names)]
        what = counted(len(names), "name has", "names have")
        return [f"{what} a /, which a path can't hold: {_first_of(written)}; mapping and exports use Slurm's name"]


def _first_of(texts: list[str]) -> str:
    more = len(texts) - _MOST_NAMED_LINES
    first = ", ".join(texts[:_MOST_NAMED_LINES])
    return f"{first} and {more:,} more" if more > 0 else first


def slurm_shares(text: str) -> float | str:
    """Parse shares as Slurm writes and reads them; raise ValueError with the reason if they are invalid.

    Slurm compares the six letters of `parent` only; a negative number sets the default again.
    """
    if text.lower().startswith(PARENT) or text == str(USE_PARENT):
        return PARENT
    if re.fullmatch(r"-[0-9]{1,10}", text):
        return DEFAULT_SHARES
    if not re.fullmatch(r"\+?[0-9]{1,10}", text) or int(text) > MOST_SLURM_SHARES:
        raise ValueError(f'{text[:40]!r} is neither a whole number from 0 to {MOST_SLURM_SHARES:,} nor "parent"')
    return int(text)


def is_account(tree: TreeColumns) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Mask of groups and reserves, which become accounts; a reserve is an account without users, so without usage."""
    return np.asarray(tree.is_group | tree.is_reserve | (tree.parent < 0))


def fit(tree: TreeColumns) -> TreeColumns:
    """Return the tree as Slurm can store it: account names in lower case and unique, whole shares, nothing else."""
    accounts = is_account(tree)
    named = zip(tree.name, accounts.tolist(), strict=True)
    words = [fitting_name(name, is_lower=True) if is_one else _fitting_association(name) for name, is_one in named]
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
        shares=whole_shares(tree, MOST_SLURM_SHARES),
        scope_code=np.zeros(len(tree), dtype=np.uint8),
        scope_sources={},
        dates={},
        members={},
        mount={},
    )


def _fitting_association(name: str) -> str:
    user, partition = split_association(name)
    fitting, limited = fitting_name(user, is_lower=False), plain_word(partition)
    return beside_account(fitting) if name == beside_account(user) else association_name(fitting, limited)


def cluster_lines(tree: TreeColumns, cluster: str, how: str = "") -> tuple[str, str]:
    """Return the cluster's name (by default the policy's) and the first lines of a file, which name the source."""
    first = f"# {tree.policy_slug} revision {tree.number}{how}\n"
    if cluster:
        return cluster, first
    name = plain_word(tree.policy_slug) or "cluster"
    return (
        name,
        f"{first}# The cluster has the policy's name, {name}: export with another name if Slurm uses another\n",
    )


def write(tree: TreeColumns, settings: PolicySettings, cluster: str = "") -> Iterator[str]:
    """Write a fitted tree as commands, each for this cluster alone: without a name, Slurm applies it to all clusters.

    Slurm makes its user root together with the cluster.
    """
    name, first = cluster_lines(tree, cluster, f"; {HOW_TO_RUN}")
    yield first
    yield "# Leave out the first command if Slurm has the cluster already: sacctmgr would end with status 1\n"
    shares, inherit, accounts = tree.shares.tolist(), tree.inherit.tolist(), tree.is_group.tolist()
    if any(name != name.lower() for name, is_one in zip(tree.name, accounts, strict=True) if not is_one):
        yield f"# User names with capital letters need Parameters={KEEPS_CASE} in slurmdbd.conf\n"
    yield f"add cluster Name={name} Fairshare=1\n"
    for parent in np.flatnonzero(tree.n_children).tolist():
        above = in_command(name_of_entry(tree.name[parent])) if parent else ROOT
        for i in tree.listed_children(parent):
            fairshare = PARENT if inherit[i] else plain_number(shares[i])
            child = in_command(name_of_entry(tree.name[i]))
            if accounts[i]:
                yield f"add account Name={child} Parent={above} Cluster={name} Fairshare={fairshare}\n"
            elif above == child == ROOT:
                yield f"modify user where Name={ROOT} Account={ROOT} Cluster={name} set Fairshare={fairshare}\n"
            else:
                user, partition = split_association(name_of_entry(tree.name[i]))
                limited = f" Partition={in_command(partition)}" if partition else ""
                where = f"Account={above}{limited} Cluster={name}"
                yield f"add user Name={in_command(user)} {where} Fairshare={fairshare}\n"
