"""Slurm's account tree: parsing into entries, and reading and writing `sacctmgr` scripts. Dumps use it, too."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from apps.core.counts import counted
from apps.policies.files.document import plain_number
from apps.policies.files.parsed_document import DocumentBuilder, ParsedDocument
from apps.policies.formats.base import wrong_format
from apps.policies.formats.whole_shares import coded_kinds, plain_names, plain_word, whole_shares
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import PARENT

# --- The tree ---------------------------------------------------------------------------------------------------------
USE_PARENT = 2_147_483_647  # Fairshare=parent in a dump
MOST_SHARES = USE_PARENT - 1
ROOT = "root"

SHARES = ("fairshare", "shares")
_MOST_NAMED = 20


class Associations(DocumentBuilder):
    """The tree of a Slurm cluster. Accounts become groups, unique by name in the cluster; users become leaves by
    account."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts: dict[str, int] = {ROOT: self.add(-1, ROOT, is_group=True)}
        self.unread: Counter[str] = Counter()
        # Partitions of a user's associations, by (user, account).
        self.partitions: dict[tuple[str, str], list[str]] = {}
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

    def of_partition(self, user: str, account: str, partition: str) -> None:
        """Note an association limited to a partition; a policy has one entry for a user in an account in all
        partitions."""
        self.partitions.setdefault((user, account), []).append(partition)

    def shares_of(self, options: Mapping[str, str], line: int, name: str) -> float | str:
        given = next((options[key] for key in SHARES if key in options), "1")
        try:
            return slurm_shares(given)
        except ValueError as error:
            self.problem(-1, f"Fairshare of {name}", str(error), line)
            return 1

    def not_read(self, options: Mapping[str, str], known: frozenset[str]) -> None:
        self.unread.update(key for key in options if key not in known and key not in SHARES)

    def declared(self) -> ParsedDocument:
        """Return the tree; its kinds are `user` and empty, as Slurm has no others."""
        ignored = [f"{option} ({n:,} ×)" for option, n in sorted(self.unread.items())]
        ignored += self._partition_remarks()
        carries = frozenset({"kind", "shares", "is_group"})
        return self.finish(policy=self.cluster, carries=carries, ignored=tuple(ignored))

    def _partition_remarks(self) -> list[str]:
        """Describe the associations limited to a partition, and users without an entry because they have no others."""
        if not self.partitions:
            return []
        users, n = list(self.partitions), sum(map(len, self.partitions.values()))
        alone = [(user, account) for user, account in users if not self._has_entry(user, account)]
        remarks = [f"{counted(n, 'association')} of one partition: {_named(users)}"]
        if alone:
            remarks.append(f"no entry, as they have associations of one partition alone: {_named(alone)}")
        return remarks

    def _has_entry(self, user: str, account: str) -> bool:
        above = self.accounts.get(account.lower())
        return above is not None and self.child(above, user) is not None


def _named(users: list[tuple[str, str]]) -> str:
    first = ", ".join(f"{user} in {account}" for user, account in users[:_MOST_NAMED])
    more = len(users) - _MOST_NAMED
    return f"{first} and {more:,} more" if more > 0 else first


def slurm_shares(text: str) -> float | str:
    """Parse shares as Slurm writes them; raise ValueError with the reason if they are invalid."""
    if text.lower() == "parent" or text == str(USE_PARENT):
        return PARENT
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > MOST_SHARES:
        raise ValueError(f'{text[:40]!r} is neither a whole number from 0 to {MOST_SHARES:,} nor "parent"')
    return int(text)


def is_account(tree: TreeColumns) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Mask of groups and reserves, which become accounts; a reserve is an account without users, so without usage."""
    return np.asarray(tree.is_group | tree.is_reserve | (tree.parent < 0))


def fit(tree: TreeColumns) -> TreeColumns:
    """Return the tree as Slurm can store it: account names in lower case and unique, whole shares, nothing else."""
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


# --- Commands ---------------------------------------------------------------------------------------------------------
LABEL = "script of sacctmgr commands"

_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
_ADD, _CHANGE = ("add", "create"), ("modify", "update")
_TAKE_AWAY = ("delete", "remove")
_ONLY_SHOWN = ("list", "show", "dump", "load", "exit", "quit", "help", "version", "archive", "reconfigure")
_VERBS = (*_ADD, *_CHANGE, *_TAKE_AWAY, *_ONLY_SHOWN)
_FIRST = re.compile(rf"(?:sacctmgr\s+(?:-\S+\s+)*)?(?:{'|'.join(_VERBS)})\b", re.IGNORECASE)


def read(text: str) -> ParsedDocument:
    found = Associations()
    n_commands = 0
    for line, raw in enumerate(text.split("\n"), 1):
        content = raw.strip()
        if not content or content.startswith("#"):
            continue
        words = [word for word in _WORD.findall(content) if not word.startswith("-")]
        if words and words[0].lower().endswith("sacctmgr"):
            words = words[1:]
        if not words or words[0].lower() not in _VERBS:
            if not n_commands:
                raise wrong_format(LABEL, line, f"{content[:60]!r} isn't a command such as add account")
            found.problem(-1, "", f"{content[:60]!r} isn't a command of sacctmgr", line)
            continue
        n_commands += 1
        _apply_command(found, words, line)
    if not n_commands:
        raise wrong_format(LABEL, 1, "it contains no command")
    return found.declared()


def _apply_command(found: Associations, words: list[str], line: int) -> None:
    verb, kind = words[0].lower(), words[1].lower() if len(words) > 1 else ""
    kind = {"accounts": "account", "users": "user"}.get(kind, kind)
    if verb in _ONLY_SHOWN:
        return
    if kind == "cluster" and verb in _ADD:
        bare, options = _options(words[2:])
        found.cluster = found.cluster or next(iter(_listed(options, "name", "names") or bare), "")
        found.not_read(options, frozenset({"name", "names"}))
    elif kind not in ("account", "user"):
        found.unread[f"{verb} {kind}"] += 1
    elif verb in _ADD:
        _add(found, kind, words[2:], line)
    elif verb in _CHANGE:
        _change(found, kind, words[2:], line)
    else:
        found.problem(-1, f"{verb} {kind}", "isn't supported: remove it, and what it deletes, from the script", line)


def _add(found: Associations, kind: str, words: list[str], line: int) -> None:
    bare, options = _options(words)
    names = _listed(options, "name", "names") or bare
    shares = found.shares_of(options, line, ", ".join(names)[:140])
    if not names:
        found.problem(-1, f"add {kind}", "has no names", line)
    partitions = _listed(options, "partition", "partitions")
    if partitions:
        accounts = _listed(options, "account", "accounts", "acct") or _listed(options, "defaultaccount") or [ROOT]
        for name, account, partition in product(names, accounts, partitions):
            found.of_partition(name, account, partition)
        return
    for name in names:
        if kind == "account":
            found.account(name, (_listed(options, "parent") or [ROOT])[0], shares, line)
            continue
        accounts = _listed(options, "account", "accounts", "acct") or _listed(options, "defaultaccount")
        if not accounts:
            found.problem(-1, name, "is added without an account", line)
        for account in accounts:
            found.user(name, account, shares, line)
    known = {"name", "names", "account", "accounts", "acct", "parent", "defaultaccount", "cluster", "clusters"}
    found.not_read(options, frozenset(known | {"description", "organization"}))


def _change(found: Associations, kind: str, words: list[str], line: int) -> None:
    """Apply `modify user where name=… account=… set fairshare=…`; other options are ignored."""
    at = next((i for i, word in enumerate(words) if word.lower() == "set"), len(words))
    bare, which = _options([word for word in words[:at] if word.lower() != "where"])
    options = _options(words[at + 1 :])[1]
    found.not_read(options, frozenset())
    if not {"fairshare", "shares"} & set(options):
        return
    shares = found.shares_of(options, line, kind)
    names = _listed(which, "name", "names", *((kind, f"{kind}s"))) or bare
    rows = _rows(found, kind, names, _listed(which, "account", "accounts", "acct"))
    if not rows:
        found.problem(-1, f"modify {kind}", f"{', '.join(names)[:140]!r} isn't declared before it", line)
    for row in rows:
        found.inherit[row] = shares == PARENT
        found.shares[row] = 0.0 if isinstance(shares, str) else shares


def _rows(found: Associations, kind: str, names: list[str], accounts: list[str]) -> list[int]:
    if kind == "account":
        return [found.accounts[name.lower()] for name in names if found.accounts.get(name.lower())]
    among = [found.accounts.get(account.lower(), -1) for account in accounts] or list(found.accounts.values())
    rows = (found.child(account, name) for account in among for name in names)
    return [row for row in rows if row is not None]


def _options(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Split words into names without a key, and values by key."""
    bare: list[str] = []
    options: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            options[key.lower().rstrip("+-")] = value.replace("'", "").replace('"', "")
        else:
            bare += [name for name in word.replace("'", "").replace('"', "").split(",") if name]
    return bare, options


def _listed(options: dict[str, str], *keys: str) -> list[str]:
    return [name for key in keys for name in options.get(key, "").split(",") if name]


# If its input has comments, sacctmgr exits with status 1 even though all commands succeed.
HOW_TO_RUN = "run: grep -v '^#' FILE | sacctmgr -i"


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
    """Write a fitted tree as commands."""
    name, first = cluster_lines(tree, cluster, f"; {HOW_TO_RUN}")
    yield first
    yield f"add cluster Name={name} Fairshare=1\n"
    shares, inherit, accounts = tree.shares.tolist(), tree.inherit.tolist(), tree.is_group.tolist()
    for parent in np.flatnonzero(tree.n_children).tolist():
        above = tree.name[parent] if parent else ROOT
        for i in tree.listed_children(parent):
            fairshare = PARENT if inherit[i] else plain_number(shares[i])
            if accounts[i]:
                yield f"add account Name={tree.name[i]} Parent={above} Fairshare={fairshare}\n"
            else:
                yield f"add user Name={tree.name[i]} Account={above} Fairshare={fairshare}\n"


def looks_like(text: str) -> bool:
    first = next((line.strip() for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")), "")
    return bool(_FIRST.match(first))
