"""Slurm's account tree as `sacctmgr dump` writes it and `sacctmgr load` reads it; scripts are read here too."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from apps.policies.files.document import plain
from apps.policies.files.parsed_document import Declared
from apps.policies.formats import slurm_tree
from apps.policies.formats.base import Format, not_this, wrong
from apps.policies.formats.slurm_tree import ROOT, USE_PARENT, Associations, fit
from apps.policies.formats.whole_shares import plain_word
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns

LABEL = "sacctmgr dump"

_LINE = re.compile(r"(Cluster|Parent|Account|User)\s*-\s*(.*)", re.IGNORECASE)
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
        name, options = _options(found, match[2], line)
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
