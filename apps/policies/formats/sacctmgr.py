"""The format of `sacctmgr dump` and `sacctmgr load`; reading also accepts `sacctmgr` scripts.

A policy is written as the dump that it was last imported from, line for line, with all changes since. Values that a
policy doesn't store (organisation, description, limits, QOS, coordinators, …) stay with the line of their entry, also
if the entry is renamed or moved. Associations that no longer exist become comments with the command that removes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from django.utils.translation import gettext_noop

from apps.policies.files.document import plain_number
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.formats import sacctmgr_commands
from apps.policies.formats.base import Format, LastImport, refuse_many_lines
from apps.policies.formats.sacctmgr_against import (
    Association,
    Compared,
    associations_of,
    dump_against,
    fit_to,
    new_line,
    removals,
    with_shares,
)
from apps.policies.formats.sacctmgr_dump import Dump, Key, Line, dump_of, read_dump
from apps.policies.formats.slurm_names import in_dump, name_of_entry
from apps.policies.formats.slurm_tree import ROOT, USE_PARENT, cluster_lines, fit
from apps.policies.formats.whole_shares import plain_word
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.slurm_associations import split_association


def update_dump(tree: TreeColumns, dump: Dump, then: TreeColumns, cluster: str) -> Iterator[str]:
    """Write the last import's dump with the changes of the current tree. then: the tree after that import. Neither is
    fitted."""
    work = _DumpUpdate(Compared(dump, tree, fit_to(tree, dump)), then, cluster or dump.cluster)
    yield from work.pieces()


@dataclass
class _Section:
    """A line Parent and the lines below it; the first section has no parent. fresh: texts of added lines."""

    head: Line | None
    lines: list[Line] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    # Current names of accounts that moved into the section.
    declares: set[str] = field(default_factory=set)


class _DumpUpdate:
    def __init__(self, compared: Compared, then: TreeColumns, cluster: str) -> None:
        self._dump, self._now, self._cluster = compared.dump, compared, cluster
        row_now = {uid.tobytes(): i for i, uid in enumerate(compared.given.uid)}
        by_row = {association.row: association for association in compared.wanted.values()}
        fitted = fit(then)
        self._before: dict[Key, Association | None] = {
            key: by_row.get(row_now.get(then.uid[old.row].tobytes(), -1))
            for key, old in associations_of(fitted).items()
        }
        self._claimed = {association.row for association in self._before.values() if association is not None}
        self._gone: list[Line] = []
        self._fresh_heads: set[int] = set()

    def pieces(self) -> Iterator[str]:
        sections = self._sections()
        self._place_moved_and_new(sections)
        for section in self._in_order(sections):
            yield from self._texts(section)
        yield from removals(self._gone, self._cluster)

    def _entry(self, line: Line) -> Association | None:
        """Return the current association of a line; None if its entry was archived or never existed."""
        association = self._before.get(line.key)
        if association is None:
            association = self._now.wanted.get(line.key)
            association = None if association is None or association.row in self._claimed else association
        if association is None and line.partition and line.key not in self._before:
            return self._before.get(line.key.in_all)
        return association

    @cached_property
    def _account_names(self) -> dict[str, str]:
        """Current account names by their names in the dump, without archived ones."""
        names = {ROOT: ROOT}
        for line in self._dump.lines:
            if line.word == "Account" and (association := self._entry(line)) is not None:
                names[line.name.lower()] = association.name
        return names

    def _keeps(self, line: Line) -> bool:
        """Return whether to copy a line without entry: Slurm's user root."""
        return line.key == Key(ROOT, ROOT) and self._entry(line) is None and line.above.lower() in self._account_names

    def _is_moved(self, line: Line) -> bool:
        association = self._entry(line)
        return (
            association is not None
            and association.above.lower() != self._account_names.get(line.above.lower(), "").lower()
        )

    def _sections(self) -> list[_Section]:
        sections = [_Section(None)]
        for line in self._dump.lines:
            if line.word == "Parent":
                sections.append(_Section(line))
            else:
                sections[-1].lines.append(line)
        return sections

    def _place_moved_and_new(self, sections: list[_Section]) -> None:
        last = {self._parent(section): section for section in sections if section.head is not None}

        def place(above: str, text: str, declared: str) -> None:
            if above.lower() not in last:
                last[above.lower()] = _Section(Line(f"Parent - {in_dump(above)}", "Parent", above))
                self._fresh_heads.add(id(last[above.lower()]))
                sections.append(last[above.lower()])
            last[above.lower()].fresh.append(text)
            if declared:
                last[above.lower()].declares.add(declared)

        known = set()
        for line in self._dump.lines:
            association = self._entry(line) if line.word in ("Account", "User") else None
            if association is None:
                continue
            known.add(association.key)
            if self._is_moved(line):
                place(
                    association.above,
                    f"{self._rewritten(line, association)}\n",
                    "" if association.key.user else association.key.account,
                )
        for key, association in self._now.wanted.items():
            if key not in known:
                place(association.above, new_line(association), "" if key.user else key.account)

    def _parent(self, section: _Section) -> str:
        """Return the current name of the section's account in lower case, or "" if it was archived."""
        if section.head is None:
            return ""
        if id(section) in self._fresh_heads:
            return section.head.name.lower()
        return self._account_names.get(section.head.name.lower(), "").lower()

    def _in_order(self, sections: list[_Section]) -> Iterator[_Section]:
        """Yield sections in their order, but each after the line that declares its account."""
        declared, waiting = {ROOT}, dict[str, list[_Section]]()
        for section in sections:
            ready = [section]
            while ready:
                part = ready.pop(0)
                parent = self._parent(part)
                if part.head is not None and parent and parent not in declared:
                    waiting.setdefault(parent, []).append(part)
                    continue
                yield part
                new = self._declared_by(part)
                declared |= new
                ready += [each for name in sorted(new) for each in waiting.pop(name, [])]

    def _declared_by(self, section: _Section) -> set[str]:
        stay = {
            association.key.account
            for line in section.lines
            if line.word == "Account" and (association := self._entry(line)) is not None and not self._is_moved(line)
        }
        return stay | section.declares

    def _texts(self, section: _Section) -> Iterator[str]:
        is_gone = section.head is not None and not self._parent(section)
        if section.head is not None and not is_gone:
            name = self._account_names.get(section.head.name.lower(), section.head.name)
            renamed = name if name.lower() != section.head.name.lower() else ""
            yield f"{section.head.with_values({}, renamed)}\n"
        for line in section.lines:
            yield from self._text(line, is_gone)
        yield from section.fresh

    def _text(self, line: Line, is_gone: bool) -> Iterator[str]:
        if line.word == "Cluster":
            yield f"{line.with_values({}, self._cluster)}\n"
        elif line.word not in ("Account", "User"):
            if not is_gone:
                yield f"{line.text}\n"
        elif self._keeps(line):
            yield f"{line.with_values({})}\n"
        elif (association := self._entry(line)) is None:
            self._gone.append(line)
        elif not self._is_moved(line):
            yield f"{self._rewritten(line, association)}\n"

    def _rewritten(self, line: Line, association: Association) -> str:
        """Return the line with the current shares, name, and account names.

        Slurm renames no accounts and moves no users: after a load, the previous association exists as well.
        """
        is_follower = bool(line.partition) and not association.key.partition
        now = association.key._replace(partition=line.key.partition) if is_follower else association.key
        if now != line.key:
            self._gone.append(line)
        values = {} if is_follower else with_shares(line, association.shares)
        if now.partition != line.key.partition:
            values["partition"] = f"'{now.partition}'"
        renamed = association.name if association.name.lower() != line.name.lower() or association.key.user else ""
        return line.with_values({**values, **self._accounts_named(line, association)}, renamed)

    def _accounts_named(self, line: Line, association: Association) -> dict[str, str]:
        """Return changed values of the default account and coordinated accounts that were renamed or archived."""
        options, values = line.options or {}, dict[str, str]()
        default = options.get("defaultaccount", "")
        if default != self._renamed(default):
            values["defaultaccount"] = in_dump(self._renamed(default) or association.above)
        coordinated = options.get("coordinator", "").split(",")
        names = [self._renamed(name) for name in coordinated]
        if names != coordinated:
            values["coordinator"] = in_dump(",".join(filter(None, names)))
        return values

    def _renamed(self, account: str) -> str:
        """Return an account's current name: as in the dump if unchanged, or "" if it was archived."""
        name = self._account_names.get(account.lower(), "")
        return account if name.lower() == account.lower() else name


def read(text: str) -> ParsedDocument:
    """Read a dump or a script of commands, detected by the first line."""
    refuse_many_lines(text)
    return sacctmgr_commands.read(text) if sacctmgr_commands.looks_like(text) else read_dump(text)


def write(tree: TreeColumns, settings: PolicySettings, cluster: str = "") -> Iterator[str]:
    """Write a fitted tree as a dump."""
    name, first = cluster_lines(tree, cluster)
    yield first
    yield f"Cluster - '{name}':Fairshare=1\n"
    shares, inherit, accounts = tree.shares.tolist(), tree.inherit.tolist(), tree.is_group.tolist()
    for parent in np.flatnonzero(tree.n_children).tolist():
        above = in_dump(name_of_entry(tree.name[parent]) if parent else ROOT)
        yield f"Parent - {above}\n"
        for i in sorted(tree.listed_children(parent), key=lambda i: accounts[i]):
            fairshare = USE_PARENT if inherit[i] else plain_number(shares[i])
            name = in_dump(name_of_entry(tree.name[i]))
            if accounts[i]:
                yield f"Account - {name}:Description={name}:Fairshare={fairshare}\n"
            else:
                user, partition = split_association(name_of_entry(tree.name[i]))
                limited = f":Partition={in_dump(partition)}" if partition else ""
                yield f"User - {in_dump(user)}{limited}:DefaultAccount={above}:Fairshare={fairshare}\n"


def remembers(text: str, declared: ParsedDocument) -> LastImport | None:
    """Return what to store of an import: a whole dump, or only the cluster's name of a script."""
    cluster = declared.policy if plain_word(declared.policy) == declared.policy else ""
    if sacctmgr_commands.looks_like(text):
        return LastImport(cluster) if cluster else None
    return LastImport(cluster, text if cluster else "")


def _write_remembered(tree: TreeColumns, last: LastImport) -> Iterator[str]:
    if last.text and last.tree is not None:
        return update_dump(tree, dump_of(last.text), last.tree, last.cluster)
    return write(fit(tree), PolicySettings(), last.cluster)


def _looks_like(text: str) -> bool:
    return bool(re.search(r"^[^\S\n]*+(# )?(Cluster|Machine)\s*+- ?\S", text, re.MULTILINE | re.IGNORECASE))


FORMAT = Format(
    name="sacctmgr",
    label=gettext_noop("Slurm sacctmgr"),
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
    carries=("name", gettext_noop("user or group"), "shares", "inherit"),
    read=read,
    write=write,
    looks_like=_looks_like,
    fit=fit,
    against=dump_against,
    remembers=remembers,
    write_remembered=_write_remembered,
    has_associations=True,
    maps_by="association",
)
