"""A policy as the `sacctmgr dump` that it was last imported from, line for line, with what changed since.

What no policy has (organisation, description, limits, QOS, coordinators, …) follows its entry: a line keeps it when
the entry is renamed or moved. Associations that are no more become comments with the words that remove them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from apps.policies.formats.sacctmgr_against import (
    Compared,
    Wanted,
    fit_to,
    new_line,
    removals,
    wanted_of,
    with_shares,
)
from apps.policies.formats.sacctmgr_dump import Dump, Key, Line
from apps.policies.formats.slurm_tree import ROOT, fit
from apps.policies.tree.columns import TreeColumns


def write_kept(tree: TreeColumns, dump: Dump, then: TreeColumns, cluster: str = "") -> Iterator[str]:
    """tree: of now; then: as it was after the import of the dump. Neither is a fitted one."""
    work = _Rewriting(Compared(dump, tree, fit_to(tree, dump)), then, cluster or dump.cluster)
    yield from work.pieces()


@dataclass
class _Section:
    """A line Parent and what is below it, up to the next; the first has no parent. fresh: texts of new lines."""

    head: Line | None
    lines: list[Line] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    declares: set[str] = field(default_factory=set)  # accounts, of now


class _Rewriting:
    def __init__(self, compared: Compared, then: TreeColumns, cluster: str) -> None:
        self._dump, self._now, self._cluster = compared.dump, compared, cluster
        row_now = {uid.tobytes(): i for i, uid in enumerate(compared.given.uid)}
        by_row = {one.row: one for one in compared.wanted.values()}
        fitted = fit(then)
        self._before: dict[Key, Wanted | None] = {
            key: by_row.get(row_now.get(then.uid[old.row].tobytes(), -1)) for key, old in wanted_of(fitted).items()
        }
        self._claimed = {one.row for one in self._before.values() if one is not None}
        self._gone: list[Line] = []
        self._fresh_heads: set[int] = set()

    def pieces(self) -> Iterator[str]:
        sections = self._sections()
        self._place_moved_and_new(sections)
        for section in self._in_order(sections):
            yield from self._texts(section)
        yield from removals(self._gone, self._cluster)

    # --- Who is who ---------------------------------------------------------------------------------------------------
    def _entry(self, line: Line) -> Wanted | None:
        """What the association of a line is now; None where its entry was archived, or never was."""
        one = self._before.get(line.key)
        if one is None:
            one = self._now.wanted.get(line.key)
            return None if one is None or one.row in self._claimed else one
        return one

    @cached_property
    def _account_names(self) -> dict[str, str]:
        """Names of now by those in the dump; without archived ones."""
        found = {ROOT: ROOT}
        for line in self._dump.lines:
            if line.word == "Account" and (one := self._entry(line)) is not None:
                found[line.name.lower()] = one.name
        return found

    def _keeps(self, line: Line) -> bool:
        """Lines that no entry stands for stay: of Slurm's own user root, and of users of one partition alone."""
        is_of_partition = bool(line.partition) and line.key not in self._before
        is_kept = line.key == Key(ROOT, ROOT) or is_of_partition
        return is_kept and self._entry(line) is None and line.above.lower() in self._account_names

    def _is_moved(self, line: Line) -> bool:
        one = self._entry(line)
        return one is not None and one.above.lower() != self._account_names.get(line.above.lower(), "").lower()

    # --- Sections -----------------------------------------------------------------------------------------------------
    def _sections(self) -> list[_Section]:
        found = [_Section(None)]
        for line in self._dump.lines:
            if line.word == "Parent":
                found.append(_Section(line))
            else:
                found[-1].lines.append(line)
        return found

    def _place_moved_and_new(self, sections: list[_Section]) -> None:
        last = {self._parent(section): section for section in sections if section.head is not None}

        def place(above: str, text: str, declared: str) -> None:
            if above.lower() not in last:
                last[above.lower()] = _Section(Line(f"Parent - '{above}'", "Parent", above))
                self._fresh_heads.add(id(last[above.lower()]))
                sections.append(last[above.lower()])
            last[above.lower()].fresh.append(text)
            if declared:
                last[above.lower()].declares.add(declared)

        known = set()
        for line in self._dump.lines:
            one = self._entry(line) if line.word in ("Account", "User") else None
            if one is None:
                continue
            known.add(one.key)
            if self._is_moved(line):
                place(one.above, f"{self._rewritten(line, one)}\n", "" if one.key.user else one.key.account)
        for key, one in self._now.wanted.items():
            if key not in known:
                place(one.above, new_line(one), "" if key.user else key.account)

    def _parent(self, section: _Section) -> str:
        """Its account by the name of now, in lower case; "" where that was archived."""
        if section.head is None:
            return ""
        if id(section) in self._fresh_heads:
            return section.head.name.lower()
        return self._account_names.get(section.head.name.lower(), "").lower()

    def _in_order(self, sections: list[_Section]) -> Iterator[_Section]:
        """As they were, but each after the line that declares its account."""
        declared, waiting = {ROOT}, dict[str, list[_Section]]()
        for section in sections:
            ready = [section]
            while ready:
                one = ready.pop(0)
                parent = self._parent(one)
                if one.head is not None and parent and parent not in declared:
                    waiting.setdefault(parent, []).append(one)
                    continue
                yield one
                new = self._declared_by(one)
                declared |= new
                ready += [each for name in sorted(new) for each in waiting.pop(name, [])]

    def _declared_by(self, section: _Section) -> set[str]:
        stay = {
            one.key.account
            for line in section.lines
            if line.word == "Account" and (one := self._entry(line)) is not None and not self._is_moved(line)
        }
        return stay | section.declares

    # --- Lines --------------------------------------------------------------------------------------------------------
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
            yield f"{line.text}\n"
        elif (one := self._entry(line)) is None:
            self._gone.append(line)
        elif not self._is_moved(line):
            yield f"{self._rewritten(line, one)}\n"

    def _rewritten(self, line: Line, one: Wanted) -> str:
        """Shares and name of now; and accounts that it names elsewhere, by theirs.

        Slurm renames no account and moves no user: after a load the association of before is there, too.
        """
        if one.key != line.key:
            self._gone.append(line)
        values = {} if line.partition else with_shares(line, one.shares)
        renamed = one.name if one.name.lower() != line.name.lower() or one.key.user else ""
        return line.with_values({**values, **self._accounts_named(line, one)}, renamed)

    def _accounts_named(self, line: Line, one: Wanted) -> dict[str, str]:
        """The default account and the accounts coordinated, where one of them was renamed or archived."""
        options, found = line.options or {}, dict[str, str]()
        default = options.get("defaultaccount", "")
        if default != self._renamed(default):
            found["defaultaccount"] = f"'{self._renamed(default) or one.above}'"
        coordinated = options.get("coordinator", "").split(",")
        names = [self._renamed(name) for name in coordinated]
        if names != coordinated:
            found["coordinator"] = f"'{','.join(filter(None, names))}'"
        return found

    def _renamed(self, account: str) -> str:
        """Its name of now: as written if it has that still, "" where it was archived."""
        name = self._account_names.get(account.lower(), "")
        return account if name.lower() == account.lower() else name
