"""The `Format` record of a policy file format: how to read and write it, and which parts of a policy it can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from django.utils.translation import gettext_noop

from apps.core.errors import FieldProblem, Invalid, TooLarge
from apps.policies.files.document import Address
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import MOST_POLICY_ENTRIES

_MOST_SHOWN_DIFFERENCES = 200

WHOLE_TREE = (  # marked here once, for all formats
    gettext_noop("settings"),
    gettext_noop("uid"),
    gettext_noop("name"),
    gettext_noop("kind"),
    gettext_noop("shares"),
    gettext_noop("inherit"),
    gettext_noop("scope"),
    gettext_noop("locks"),
    gettext_noop("dates"),
    gettext_noop("membership rules"),
    gettext_noop("mounts"),
)


def fit_unchanged(tree: TreeColumns) -> TreeColumns:
    """Return the tree unchanged, for formats that can hold everything."""
    return tree


def names_and_shares(tree: TreeColumns) -> TreeColumns:
    """Fit formats that hold only names and shares: inherited shares become 1, everything else is dropped."""
    none = np.zeros(len(tree), dtype=np.bool_)
    return replace(
        tree,
        shares=np.where(tree.inherit, 1.0, tree.shares),
        inherit=none,
        kind_names=("",),
        kind_code=np.zeros(len(tree), dtype=np.uint16),
        is_group=tree.n_children > 0,
        locked=none,
        scope_code=np.zeros(len(tree), dtype=np.uint8),
        scope_sources={},
        dates={},
        members={},
        mount={},
    )


@dataclass(frozen=True)
class LastImport:
    """Data of the last import: the cluster's name, the file's text, and the tree that it became."""

    cluster: str = ""
    text: str = ""
    tree: TreeColumns | None = None


def refuse_many_lines(text: str, per_entry: int = 2) -> None:
    """Count lines before they are split and read; per_entry: lines that an entry may take, with comments.

    Raises:
        TooLarge: there are more than the most entries of a policy take.
    """
    if text.count("\n") > per_entry * MOST_POLICY_ENTRIES:
        lines = per_entry * MOST_POLICY_ENTRIES
        most = f"{lines:,} lines are read, and a policy has at most {MOST_POLICY_ENTRIES:,} entries"
        raise TooLarge(f"The file is too long: at most {most}.")


@dataclass(frozen=True)
class AssociationChange:
    """An association whose shares differ between a file and the policy."""

    account: str
    user: Annotated[str, '"": the account itself']
    before: Annotated[str, 'Shares in the file, or "parent"; "": it is new']
    after: Annotated[str, 'Shares in the policy; "": only the file has it, and keeps it']


@dataclass(frozen=True)
class Difference:
    """A policy compared with a file of the current state. pieces: writes the file or commands that apply the policy.

    notes: differences that shares can't remove, and side effects.
    """

    cluster: str
    changed: Sequence[AssociationChange]
    new: Sequence[AssociationChange]
    gone: Sequence[AssociationChange]
    notes: tuple[str, ...]
    pieces: Callable[[], Iterator[str]]

    @property
    def shown(self) -> Sequence[AssociationChange]:
        return (*self.changed, *self.new, *self.gone)[:_MOST_SHOWN_DIFFERENCES]

    @property
    def in_words(self) -> str:
        counts = f"{self.n_changed:,} changed, {self.n_new:,} new, {self.n_only_there:,} only there"
        return f"{self.cluster}: {counts}"

    @property
    def n_changed(self) -> int:
        return len(self.changed)

    @property
    def n_new(self) -> int:
        return len(self.new)

    @property
    def n_only_there(self) -> int:
        return len(self.gone)


@dataclass(frozen=True)
class Format:
    """One file format of policies.

    fit: returns the tree as the format can hold it, with the same rows. The difference to the tree is what an export
    drops. An import compares a file with the fitted tree, so that an exported file changes nothing.
    against: compares a tree (not fitted) with the text of a file of the current state. remembers: returns the data of
    an import to be stored. write_remembered: writes a tree (not fitted) with the data of the last import, which
    preserves values that a policy doesn't hold.
    has_associations: its groups are Slurm accounts, whose names are unique in the whole tree.
    maps_by: the kind of the one mapping rule that finds the entry of every account; "each": a rule for each group, by
    its whole path with dots, whose users aren't in the tree; "": rules for groups by name.
    needs_cluster: exports must name the cluster, because Slurm applies the file to all clusters otherwise.
    with_sections: adds lists of plug-ins, by key, to what `write` yields; None for formats that hold the tree alone.
    looks_like: returns whether a text is probably in this format; used to name the right format in errors.
    """

    name: str
    label: str
    reference: str
    sample: str
    media_type: str
    suffix: str
    carries: tuple[str, ...]
    read: Callable[[str], ParsedDocument]
    write: Callable[[TreeColumns, PolicySettings], Iterator[str]]
    looks_like: Callable[[str], bool]
    fit: Callable[[TreeColumns], TreeColumns] = fit_unchanged
    has_settings: bool = False
    against: Callable[[TreeColumns, str], Difference] | None = None
    remembers: Callable[[str, ParsedDocument], LastImport | None] | None = None
    write_remembered: Callable[[TreeColumns, LastImport], Iterator[str]] | None = None
    has_associations: bool = False
    needs_cluster: bool = False
    with_sections: Callable[[Iterator[str], Mapping[str, Any]], Iterator[str]] | None = None
    maps_by: str = ""


def wrong_format(label: str, line: int, message: str) -> Invalid:
    """Return the error for a file of another format."""
    return Invalid(f"The file is not a {label}: line {line}: {message}.", code="bad_document")


def invalid_line(line: int, message: str) -> Invalid:
    """Return the error for an invalid line that makes further reading pointless."""
    whole = f"line {line}: {message}."
    return Invalid(whole, code="bad_document", fields=[FieldProblem(f"line {line}", message)])


def line_finder(places: Callable[[], Iterable[tuple[Address, int]]]) -> Callable[[Sequence[Address]], list[int]]:
    """Return a function that finds the lines of values by address; for missing values, the nearest enclosing value's
    line."""

    def find(addresses: Sequence[Address]) -> list[int]:
        wanted = {address[:n] for address in addresses for n in range(len(address) + 1)}
        line_of = {address: line for address, line in places() if address in wanted}
        return [_nearest(line_of, address) for address in addresses]

    return find


def _nearest(line_of: dict[Address, int], address: Address) -> int:
    return next((line_of[address[:n]] for n in range(len(address), -1, -1) if address[:n] in line_of), 1)
