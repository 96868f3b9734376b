"""Slurm's account tree as `sacctmgr dump` writes it and `sacctmgr load` reads it; scripts are read here too."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from apps.policies.files.declared import Declaration, Declared
from apps.policies.files.document import plain
from apps.policies.formats.base import Format, not_this, wrong
from apps.policies.formats.fitting import coded_kinds, plain_names, plain_word, whole_shares
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import PARENT

USE_PARENT = 2_147_483_647  # how a dump writes Fairshare=parent
MOST_SHARES = USE_PARENT - 1
ROOT = "root"
LABEL = "sacctmgr dump"

_LINE = re.compile(r"(Cluster|Parent|Account|User)\s*-\s*(.*)", re.IGNORECASE)
_NAME = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^:'\"]+)")
_OPTION = re.compile(r"\s*:\s*([A-Za-z]+)\s*=\s*('[^']*'|\"[^\"]*\"|[^:]*)")
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


def read(text: str) -> Declared:
    """A dump, or a script of commands, by its first line."""
    from apps.policies.formats import sacctmgr_script

    return sacctmgr_script.read(text) if sacctmgr_script.FORMAT.looks_like(text) else _read_dump(text)


def _read_dump(text: str) -> Declared:
    found = Associations()
    parent, cluster = "", ""
    for line, raw in enumerate(text.split("\n"), 1):
        content = raw.strip()
        if not content or content.startswith("#"):
            continue
        match = _LINE.fullmatch(content)
        if match is None:
            if not cluster:
                raise not_this(LABEL, line, f"{content[:60]!r} isn't a line such as Cluster - 'name'")
            found.problem(-1, "", f"{content[:60]!r} is none of Cluster, Parent, Account and User", line)
            continue
        word = match[1].capitalize()
        name, options = _options(found, match[2], line)
        if not cluster and word != "Cluster":
            raise not_this(LABEL, line, "a dump begins with a line Cluster - 'name'")
        if word == "Cluster":
            if cluster:
                raise wrong(line, f"a second cluster, {name!r:.140}, begins; import each by itself")
            cluster = found.cluster = name
            found.not_read(options, frozenset())
        elif word == "Parent":
            parent = name
            if name.lower() not in found.accounts:
                found.problem(-1, "Parent", f"{name!r:.140} isn't declared before it", line)
        elif not parent:
            found.problem(-1, word, "stands before the first line Parent - 'name'", line)
        else:
            _take(found, word, name, options, parent, line)
    if not cluster:
        raise not_this(LABEL, 1, "there is no line Cluster - 'name'")
    return found.declared()


def _take(found: Associations, word: str, name: str, options: dict[str, str], parent: str, line: int) -> None:
    if "partition" in options:
        found.unread["associations of one partition"] += 1
        return
    if parent.lower() not in found.accounts:
        return  # said once, at the line of the parent
    shares = found.shares_of(options, line, name)
    if word == "Account":
        found.not_read(options, frozenset({"description", "organization"}))
        found.account(name, parent, shares, line)
    else:
        found.not_read(options, frozenset({"defaultaccount"}))
        found.user(name, parent, shares, line)


def _options(found: Associations, text: str, line: int) -> tuple[str, dict[str, str]]:
    """`'name':Option=value:Option='value'`; colons within quotes belong to the value."""
    match = _NAME.match(text)
    if match is None:
        found.problem(-1, "", f"{text[:60]!r} doesn't begin with a name in quotes", line)
        return "?", {}
    name, at, options = next(part for part in match.groups() if part is not None).strip(), match.end(), {}
    while at < len(text):
        option = _OPTION.match(text, at)
        if option is None:
            found.problem(-1, name, f"{text[at : at + 60]!r} isn't an option such as :Fairshare=1", line)
            break
        options[option[1].lower()] = option[2].strip().strip("'\"")
        at = option.end()
    return name, options


def is_account(tree: TreeColumns) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Groups, and what is left over on purpose: an account without users has shares and never usage."""
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
        tree, name=names, kind_names=kind_names, kind_code=kind_code, is_group=accounts, locked=none,
        shares=whole_shares(tree, MOST_SHARES), scope_code=np.zeros(len(tree), dtype=np.uint8), scope_sources={},
        dates={}, members={}, mount={},
    )  # fmt: skip


def write(tree: TreeColumns, settings: PolicySettings) -> Iterator[str]:
    """The tree is a fitted one."""
    yield f"# {tree.policy_slug} revision {tree.number}\n"
    yield f"Cluster - '{plain_word(tree.policy_slug) or 'cluster'}':Fairshare=1\n"
    shares, inherit, accounts = tree.shares.tolist(), tree.inherit.tolist(), tree.is_group.tolist()
    for parent in np.flatnonzero(tree.n_children).tolist():
        yield f"Parent - '{tree.name[parent] if parent else ROOT}'\n"
        for i in sorted(tree.listed_children(parent), key=lambda i: accounts[i]):
            fairshare = USE_PARENT if inherit[i] else plain(shares[i])
            if accounts[i]:
                yield f"Account - '{tree.name[i]}':Description='{tree.name[i]}':Fairshare={fairshare}\n"
            else:
                default = tree.name[parent] if parent else ROOT
                yield f"User - '{tree.name[i]}':DefaultAccount='{default}':Fairshare={fairshare}\n"


def _looks_like(text: str) -> bool:
    return bool(re.search(r"^(# )?Cluster - '", text, re.MULTILINE))


FORMAT = Format(
    name="sacctmgr",
    label="Slurm sacctmgr",
    reference="https://slurm.schedmd.com/sacctmgr.html#SECTION_FLAT-FILE-DUMP-AND-LOAD",
    sample="""\
Cluster - 'demo':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'physics':Description='physics dept':Organization='science':Fairshare=60
Parent - 'physics'
User - 'alice':DefaultAccount='physics':Fairshare=2
User - 'bob':DefaultAccount='physics':Fairshare=2147483647
""",
    media_type="text/x-sacctmgr",
    suffix=".cfg",
    carries=("name", "user or group", "shares", "inherit"),
    read=read,
    write=write,
    looks_like=_looks_like,
    fit=fit,
)
