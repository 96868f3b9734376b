"""Compare a policy with a current `sacctmgr dump`; write the dump with the policy's shares, or commands for
differences.

Everything except shares stays as in Slurm: organisation, limits, QOS, coordinators and default accounts. Associations
that the policy lacks are listed as comments with the command that removes them, because `sacctmgr load` and these
commands remove nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from apps.core.counts import counted
from apps.core.errors import Invalid
from apps.policies.files.document import plain_number
from apps.policies.formats.base import AssociationChange, Difference
from apps.policies.formats.sacctmgr_dump import Dump, Key, Line, dump_of, has_unquoted_types
from apps.policies.formats.slurm_names import in_command, in_dump, name_of_entry
from apps.policies.formats.slurm_tree import HOW_TO_RUN, MOST_SLURM_SHARES, ROOT, SHARE_KEYS, USE_PARENT, fit
from apps.policies.formats.whole_shares import competitors, members_of, whole_shares
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.names import PARENT
from apps.policies.tree.slurm_associations import association_name, split_association


class Association(NamedTuple):
    """One entry as an association. name: original spelling, of an account or user. shares: a number or "parent".

    row: index in the tree.
    """

    key: Key
    name: str
    above: str
    shares: str
    row: int


def dump_shares(shares: str) -> str:
    """Return shares as a dump writes them."""
    return str(USE_PARENT) if shares == PARENT else shares


def with_shares(line: Line, shares: str) -> dict[str, str]:
    """Return the option that sets the shares of a line; empty if the line already has them."""
    if shares_text(line.shares) == shares:
        return {}
    key = next((key for key in SHARE_KEYS if key in (line.values_at or {})), "Fairshare")
    return {key: dump_shares(shares)}


def shares_text(shares: float | str) -> str:
    return shares if isinstance(shares, str) else str(plain_number(float(shares)))


def associations_of(tree: TreeColumns) -> dict[Key, Association]:
    """Return the associations of a fitted tree, accounts before what is below them."""
    shares, inherit, accounts = tree.shares.tolist(), tree.inherit.tolist(), tree.is_group.tolist()
    associations = {}
    for parent in np.flatnonzero(tree.n_children).tolist():
        above = name_of_entry(tree.name[parent]) if parent else ROOT
        for i in tree.listed_children(parent):
            name, partition = name_of_entry(tree.name[i]), ""
            if not accounts[i]:
                name, partition = split_association(name)
            key = Key(name.lower()) if accounts[i] else Key(above.lower(), name, partition)
            associations[key] = Association(key, name, above, shares_text(PARENT if inherit[i] else shares[i]), i)
    return associations


def fit_to(tree: TreeColumns, dump: Dump) -> TreeColumns:
    """Fit the tree; groups with fractions keep the scale of their shares in the dump."""
    fitted = fit(tree)
    there = dump.associations
    now = np.full(len(tree), np.nan)
    for key, wanted in associations_of(fitted).items():
        line = there.get(key)
        if line is not None and not isinstance(line.shares, str):
            now[wanted.row] = line.shares
    return replace(fitted, shares=whole_shares(tree, MOST_SLURM_SHARES, now))


@dataclass(frozen=True)
class Compared:
    """A tree compared with a current dump. given: the tree; fitted: as Slurm can store it."""

    dump: Dump
    given: TreeColumns
    fitted: TreeColumns

    @cached_property
    def wanted(self) -> dict[Key, Association]:
        return associations_of(self.fitted)

    @cached_property
    def changed(self) -> list[Association]:
        there = self.dump.associations
        return [
            association
            for key, association in self.wanted.items()
            if key in there and shares_text(there[key].shares) != association.shares
        ]

    @cached_property
    def new(self) -> list[Association]:
        return [association for key, association in self.wanted.items() if key not in self.dump.associations]

    @cached_property
    def gone(self) -> list[Line]:
        """Associations that only Slurm has, without its user root."""
        slurms_own = Key(ROOT, ROOT)
        there = self.dump.associations.items()
        return [line for key, line in there if key not in self.wanted and key != slurms_own]

    @cached_property
    def notes(self) -> tuple[str, ...]:
        return (*self._elsewhere(), *self._scaled(), *self._renamed())

    def _elsewhere(self) -> Iterator[str]:
        for key, line in self.dump.associations.items():
            if key in self.wanted and self.wanted[key].above.lower() != line.above.lower():
                above = self.wanted[key].above
                yield (
                    f"{key.account} is below {line.above} there and below {above} in the policy: "
                    f"modify {_selector(key, self.dump.cluster)} set parent={in_command(above)}"
                )

    def _scaled(self) -> Iterator[str]:
        """Yield notes on groups with fractions where many lines change, perhaps only by another scale."""
        above = competitors(self.given)
        has_fractions: Mask = (self.given.shares != np.rint(self.given.shares)) & ~self.given.inherit
        changed = {association.row for association in self.changed}
        for group, members in members_of(above, np.unique(above[has_fractions])):
            rows = members[(members > 0) & (self.given.shares[members] > 0)].tolist()
            n = len(changed.intersection(rows))
            if n > 1 and 2 * n >= len(rows):
                scale = self.fitted.shares[rows[0]] / self.given.shares[rows[0]]
                name = name_of_entry(self.fitted.name[group]) if group else ROOT
                yield (
                    f"{n:,} of {len(rows):,} shares below {name} change: they are written × "
                    f"{plain_number(float(scale))}, because Slurm accepts only whole numbers"
                )

    def _renamed(self) -> Iterator[str]:
        """Yield notes on accounts only in Slurm whose users equal those of an account only in the policy: probably
        renamed."""
        users_here, users_there = _users(self.wanted), _users(self.dump.associations)
        here = {
            users_here[association.key.account]: association.name
            for association in self.new
            if not association.key.user
        }
        for line in self.gone:
            users = frozenset() if line.key.user else users_there[line.key.account]
            if users and users in here:
                yield (
                    f"{line.name} there and {here[users]} in the policy have the same users: if it was renamed in "
                    "Slurm, rename it in the policy first; Slurm renames no account, so these commands add a second one"
                )


def _users(keys: Iterable[Key]) -> defaultdict[str, frozenset[str]]:
    """Return the users of each account."""
    users_by_account: defaultdict[str, set[str]] = defaultdict(set)
    for key in keys:
        if key.user:
            users_by_account[key.account].add(association_name(key.user, key.partition))
    return defaultdict(frozenset, {account: frozenset(users) for account, users in users_by_account.items()})


def _compare(tree: TreeColumns, text: str) -> Compared:
    dump = dump_of(text)
    compared = Compared(dump, tree, fit_to(tree, dump))
    _refuse_cut_off(compared)
    return compared


def _refuse_cut_off(compared: Compared) -> None:
    """Refuse a dump that seems cut off: it lacks most associations, and some of its accounts are empty."""
    n, lacks = len(compared.wanted), len(compared.new)
    empty = {
        association.above
        for association in compared.new
        if Key(association.above.lower()) in compared.dump.associations
        and association.above.lower() not in compared.dump.divided
    }
    if empty and 2 * lacks > n:
        raise Invalid(
            f"The dump has {n - lacks:,} of {n:,} associations of the policy, and nothing below "
            f"{', '.join(sorted(empty)[:3])}: it may be cut off. Write it again; for a cluster that has none of them, "
            "export without a dump.",
            code="bad_document",
        )


def dump_against(tree: TreeColumns, text: str) -> Difference:
    """Write the dump line for line with the tree's shares; new associations are added at the end."""
    compared = _compare(tree, text)
    return _difference(
        compared, lambda: _dump_pieces(compared), (*_of_partitions(compared), *_unquoted_types(compared.dump))
    )


def script_against(tree: TreeColumns, text: str) -> Difference:
    """Write commands for associations whose shares differ from the tree's, and for new ones."""
    compared = _compare(tree, text)
    return _difference(compared, lambda: _script_pieces(compared))


def _difference(
    compared: Compared, pieces: Callable[[], Iterator[str]], more_notes: tuple[str, ...] = ()
) -> Difference:
    there = compared.dump.associations
    return Difference(
        cluster=compared.dump.cluster,
        changed=[_change(association, shares_text(there[association.key].shares)) for association in compared.changed],
        new=[_change(association, "") for association in compared.new],
        gone=[
            AssociationChange(line.key.account, _user_text(line.key), shares_text(line.shares), "")
            for line in compared.gone
        ],
        notes=(*compared.notes, *more_notes),
        pieces=pieces,
    )


def _change(association: Association, before: str) -> AssociationChange:
    return AssociationChange(association.key.account, _user_text(association.key), before, association.shares)


def _user_text(key: Key) -> str:
    return association_name(key.user, key.partition)


def _of_partitions(compared: Compared) -> Iterator[str]:
    users = [association for association in compared.changed if association.key in compared.dump.in_partitions]
    if users:
        first = ", ".join(f"{association.name} in {association.above}" for association in users[:3]) + (
            ", …" if len(users) > 3 else ""
        )
        yield (
            f"load the file twice, because of associations of one partition ({first}): the first time Slurm changes "
            "these together with the user's own, the second time it sets them back"
        )


def _unquoted_types(dump: Dump) -> Iterator[str]:
    n = sum(has_unquoted_types(line) for line in dump.lines)
    if n:
        yield (
            f"Slurm writes types of TRES without quotes, and can't load them: put them in quotes, as in "
            f"GrpTRES='gres/gpu:a100=4' ({counted(n, 'line')})"
        )


def _dump_pieces(compared: Compared) -> Iterator[str]:
    for line in compared.dump.lines:
        wanted = compared.wanted.get(line.key) if line.is_association else None
        yield f"{line.with_values({} if wanted is None else with_shares(line, wanted.shares))}\n"
    parent = None
    for new in compared.new:
        if new.above != parent:
            parent = new.above
            yield f"Parent - {in_dump(parent)}\n"
        yield new_line(new)
    yield from _comments(compared)
    for note in _of_partitions(compared):
        yield f"# {note}\n"


def new_line(new: Association) -> str:
    limited = f":Partition={in_dump(new.key.partition)}" if new.key.partition else ""
    word = "User" if new.key.user else "Account"
    return f"{word} - {in_dump(new.name)}{limited}:Fairshare={dump_shares(new.shares)}\n"


def _script_pieces(compared: Compared) -> Iterator[str]:
    tree, cluster = compared.fitted, compared.dump.cluster
    yield f"# {tree.policy_slug} revision {tree.number}, against the dump of {cluster}; {HOW_TO_RUN}\n"
    for each in compared.wanted.values():
        there = compared.dump.associations.get(each.key)
        if there is None:
            yield _add(each, cluster)
        elif shares_text(there.shares) != each.shares:
            # Without a partition, a command also changes the associations of each partition (Slurm 22.05.8).
            of_none = " partition=''" if each.key in compared.dump.in_partitions else ""
            yield f"modify {_selector(each.key, cluster)}{of_none} set fairshare={each.shares}\n"
    yield from _comments(compared)


def _selector(key: Key, cluster: str) -> str:
    account = in_command(key.account)
    who = f"user where name={in_command(key.user)} account={account}" if key.user else f"account where name={account}"
    limited = f" partition={in_command(key.partition)}" if key.partition else ""
    return f"{who} cluster={cluster}{limited}"


def _add(new: Association, cluster: str) -> str:
    where, below = ("user", "account") if new.key.user else ("account", "parent")
    name, above = in_command(new.name), in_command(new.above)
    limited = f" partition={in_command(new.key.partition)}" if new.key.partition else ""
    return f"add {where} name={name} {below}={above} cluster={cluster}{limited} fairshare={new.shares}\n"


def removal(line: Line, cluster: str) -> str:
    """Return the command that removes an association, as a comment."""
    return f"# not in the policy: remove {_selector(line.key, cluster)}\n"


def removals(lines: list[Line], cluster: str) -> Iterator[str]:
    """Yield removals of users first, then accounts upwards: Slurm refuses to remove accounts that are a default
    account."""
    users = [line for line in lines if line.key.user]
    accounts = [line for line in lines if not line.key.user]
    for line in (*users, *reversed(accounts)):
        yield removal(line, cluster)


def _comments(compared: Compared) -> Iterator[str]:
    yield from removals(compared.gone, compared.dump.cluster)
    for note in compared.notes:
        yield f"# {note}\n"
