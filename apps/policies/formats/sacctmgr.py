"""Slurm's account tree as `sacctmgr dump` writes it and `sacctmgr load` reads it; scripts are read here too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from apps.policies.files.document import plain
from apps.policies.files.parsed_document import Declared
from apps.policies.formats import slurm_tree
from apps.policies.formats.base import Format, not_this, wrong
from apps.policies.formats.slurm_tree import ROOT, USE_PARENT, Associations, fit, slurm_shares
from apps.policies.formats.whole_shares import plain_word
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import PARENT

LABEL = "sacctmgr dump"

_LINE = re.compile(r"(Cluster|Parent|Account|User)\s*-\s*(.*)", re.IGNORECASE)
_WORD = re.compile(r"\s*(?:Cluster|Parent|Account|User)\s*-\s*", re.IGNORECASE)
_NAME = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^:'\"]+)")
_OPTION = re.compile(r"\s*:\s*([A-Za-z]+)\s*=\s*('[^']*'|\"[^\"]*\"|[^:]*)")


def read(text: str) -> Declared:
    """A dump, or a script of commands, by its first line."""
    return slurm_tree.read(text) if slurm_tree.looks_like(text) else _read_dump(text)


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
        name, options, *_ = _options(found, content, line)
        if not cluster and word != "Cluster":
            raise not_this(LABEL, line, "a dump begins with a line Cluster - 'name'")
        if word == "Cluster":
            if cluster:
                raise wrong(line, f"a second cluster, {name!r:.140}, begins; import each one separately")
            cluster = found.cluster = name
            found.not_read(options, frozenset())
        elif word == "Parent":
            parent = name
            if name.lower() not in found.accounts:
                found.problem(-1, "Parent", f"{name!r:.140} isn't declared before it", line)
        elif not parent:
            found.problem(-1, word, "is before the first line Parent - 'name'", line)
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


def _options(found: Associations, text: str, line: int) -> tuple[str, dict[str, str], int, int]:
    """`'name':Option=value:Option='value'`, perhaps behind `Word - `; colons within quotes belong to the value.

    Returns the name, the options, and where in the text the value of Fairshare begins and ends (where it has none,
    both are the end).
    """
    begin = end = len(text)
    start = word.end() if (word := _WORD.match(text)) else 0
    match = _NAME.match(text, start)
    if match is None:
        found.problem(-1, "", f"{text[start : start + 60]!r} doesn't begin with a name in quotes", line)
        return "?", {}, begin, end
    name, at, options = next(part for part in match.groups() if part is not None).strip(), match.end(), {}
    while at < len(text):
        option = _OPTION.match(text, at)
        if option is None:
            found.problem(-1, name, f"{text[at : at + 60]!r} isn't an option such as :Fairshare=1", line)
            break
        options[option[1].lower()] = option[2].strip().strip("'\"")
        if option[1].lower() in slurm_tree.SHARES:
            begin, end = option.span(2)
        at = option.end()
    return name, options, begin, end


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


# --- Against the state of now -----------------------------------------------------------------------------------------
# Everything but shares stays as it is in the dump: organisation, limits, QOS, coordinators, default accounts, and the
# associations of one partition. An association that the policy doesn't have is named in a comment: `sacctmgr load` and
# these commands take nothing away.
class _Key(NamedTuple):
    """Of an association in a cluster. user: "" of an account's own; accounts are known by name, wherever they lie."""

    account: str
    user: str = ""


class _Wanted(NamedTuple):
    """above: the account that this one is below. shares: a whole number, or "parent"."""

    key: _Key
    above: str
    shares: str


class _Line(NamedTuple):
    """text: as it stands; begin, end: of the value of its Fairshare there, both its length where it has none."""

    key: _Key
    above: str
    shares: float | str
    text: str
    begin: int
    end: int

    def has(self, wanted: _Wanted) -> bool:
        return wanted.shares == _said(self.shares)


class _Dump(NamedTuple):
    """lines: an association of an account or of a user in an account, or any other line as it stands. in_partitions:
    users in an account who also have associations of one partition there."""

    cluster: str
    lines: list[str | _Line]
    in_partitions: set[_Key]

    @property
    def associations(self) -> dict[_Key, _Line]:
        return {line.key: line for line in self.lines if isinstance(line, _Line)}


def _dump_of(text: str) -> _Dump:
    """
    Raises:
        Invalid: it is no dump of one cluster, a line of it can't be read, or it is cut off.
    """
    if slurm_tree.looks_like(text):
        raise not_this(LABEL, 1, "it is a script; sacctmgr dump writes the state of now")
    if text and not text.endswith("\n"):
        raise wrong(text.count("\n") + 1, "the dump is cut off within its last line: write it again")
    cluster = read(text).policy
    if plain_word(cluster) != cluster:
        raise not_this(LABEL, 1, f"{cluster[:60]!r} is no name of a cluster")
    lines: list[str | _Line] = []
    in_partitions: set[_Key] = set()
    parent = ""
    for raw in text.split("\n")[:-1]:
        match = _LINE.fullmatch(raw.strip())
        name, options, begin, end = ("", {}, 0, 0) if match is None else _options(Associations(), raw, 0)
        if match is not None and match[1].capitalize() == "Parent":
            parent = name
        is_association = match is not None and match[1].capitalize() in ("Account", "User")
        if not is_association or match is None:
            lines.append(raw)
            continue
        key = _Key(name.lower()) if match[1].capitalize() == "Account" else _Key(parent.lower(), name)
        if "partition" in options:
            in_partitions.add(key)
            lines.append(raw)
            continue
        lines.append(_Line(key, parent, slurm_shares(raw[begin:end].strip(" '\"") or "1"), raw, begin, end))
    return _Dump(cluster, lines, in_partitions)


def _wanted_of(tree: TreeColumns) -> list[_Wanted]:
    """Of a fitted tree; accounts before what is below them."""
    shares, inherit, accounts = tree.shares.tolist(), tree.inherit.tolist(), tree.is_group.tolist()
    found = []
    for parent in np.flatnonzero(tree.n_children).tolist():
        above = tree.name[parent] if parent else ROOT
        for i in tree.listed_children(parent):
            key = _Key(tree.name[i].lower()) if accounts[i] else _Key(above.lower(), tree.name[i])
            found.append(_Wanted(key, above, _said(PARENT if inherit[i] else shares[i])))
    return found


def write_against(tree: TreeColumns, dump_text: str) -> Iterator[str]:
    """The dump line for line, with the shares of a fitted tree; what is new is added at the end."""
    dump, wanted = _dump_of(dump_text), {each.key: each for each in _wanted_of(tree)}
    for line in dump.lines:
        if isinstance(line, str) or line.key not in wanted or line.has(wanted[line.key]):
            yield f"{line if isinstance(line, str) else line.text}\n"
            continue
        fairshare = _in_dump(wanted[line.key].shares)
        before = line.text[: line.begin] if line.begin < line.end else f"{line.text}:Fairshare="
        yield f"{before}{fairshare}{line.text[line.end :] if line.begin < line.end else ''}\n"
    parent = None
    for new in wanted.values():
        if new.key in dump.associations:
            continue
        if new.above != parent:
            parent = new.above
            yield f"Parent - '{parent}'\n"
        word = f"User - '{new.key.user}'" if new.key.user else f"Account - '{new.key.account}'"
        yield f"{word}:Fairshare={_in_dump(new.shares)}\n"
    yield from _notes(wanted, dump)


def write_script_against(tree: TreeColumns, dump_text: str) -> Iterator[str]:
    """Commands for the associations whose shares differ from those of a fitted tree, and for those that are new."""
    dump, wanted = _dump_of(dump_text), {each.key: each for each in _wanted_of(tree)}
    there = dump.associations
    yield f"# {tree.policy_slug} revision {tree.number}, against the dump of {dump.cluster}; sacctmgr -i < this file\n"
    for each in wanted.values():
        if each.key not in there:
            yield _add(each, dump.cluster)
        elif not there[each.key].has(each):
            command = f"modify {_which(each.key, dump.cluster)} set fairshare={each.shares}\n"
            # Without a partition in it, it would change the associations of each partition, too.
            yield f"# also of each partition: {command}" if each.key in dump.in_partitions else command
    yield from _notes(wanted, dump)


def _said(shares: float | str) -> str:
    return shares if isinstance(shares, str) else str(plain(float(shares)))


def _in_dump(shares: str) -> str:
    return str(USE_PARENT) if shares == PARENT else shares


def _which(key: _Key, cluster: str) -> str:
    who = f"user where name={key.user} account={key.account}" if key.user else f"account where name={key.account}"
    return f"{who} cluster={cluster}"


def _add(new: _Wanted, cluster: str) -> str:
    name, where = (new.key.user, "user") if new.key.user else (new.key.account, "account")
    below = "account" if new.key.user else "parent"
    return f"add {where} name={name} {below}={new.above} cluster={cluster} fairshare={new.shares}\n"


def _notes(wanted: dict[_Key, _Wanted], dump: _Dump) -> Iterator[str]:
    """What the policy says otherwise and shares can't bring about, as comments."""
    for key, line in dump.associations.items():
        if key not in wanted:
            if key != _Key(ROOT, ROOT):  # Slurm's own
                yield f"# not in the policy: remove {_which(key, dump.cluster)}\n"
        elif wanted[key].above.lower() != line.above.lower():
            yield f"# {key.account} is below {line.above} there and below {wanted[key].above} in the policy\n"


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
    write_against=write_against,
    has_associations=True,
)
