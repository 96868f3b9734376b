"""What a file format of policies is: how it is read and written, and what of a policy it has no place for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import numpy as np

from apps.core.errors import FieldProblem, Invalid
from apps.policies.files.document import Address
from apps.policies.files.parsed_document import Declared
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns


def same(tree: TreeColumns) -> TreeColumns:
    """Fits what has a place for everything."""
    return tree


def names_and_shares(tree: TreeColumns) -> TreeColumns:
    """Fits what has a place for names and shares alone: inherited shares become 1, everything else is dropped."""
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
class Remembered:
    """What the last import left: the cluster's name, and the file as it was, with the tree that it became."""

    cluster: str = ""
    text: str = ""
    tree: TreeColumns | None = None


_MOST_SHOWN = 200


@dataclass(frozen=True)
class AssociationChange:
    """An association whose shares differ."""

    account: str
    user: Annotated[str, '"": the account itself']
    before: Annotated[str, 'Shares in the file, or "parent"; "": it is new']
    after: Annotated[str, 'Shares in the policy; "": only the file has it, and keeps it']


@dataclass(frozen=True)
class Difference:
    """A policy against a file with the state of now. pieces: the file or the commands that bring the policy about.

    notes: what shares can't bring about, or bring about besides.
    """

    cluster: str
    changed: Sequence[AssociationChange]
    new: Sequence[AssociationChange]
    gone: Sequence[AssociationChange]
    notes: tuple[str, ...]
    pieces: Callable[[], Iterator[str]]

    @property
    def shown(self) -> Sequence[AssociationChange]:
        return (*self.changed, *self.new, *self.gone)[:_MOST_SHOWN]

    @property
    def in_words(self) -> str:
        counts = f"{len(self.changed):,} changed, {len(self.new):,} new, {len(self.gone):,} only there"
        return f"{self.cluster}: {counts}"

    def to_json(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "n_changed": len(self.changed),
            "n_new": len(self.new),
            "n_only_there": len(self.gone),
            "changes": [asdict(each) for each in self.shown],
            "notes": list(self.notes),
        }


WHOLE_TREE = (
    "settings",
    "uid",
    "name",
    "kind",
    "shares",
    "inherit",
    "scope",
    "locks",
    "dates",
    "rules for members",
    "mounts",
)


@dataclass(frozen=True)
class Format:
    """One way to write a policy down.

    fit: the tree as the format can say it, entry by entry (the same rows): without what it has no place for, with
    names and numbers that it can carry. What differs from the tree is what an export drops; an import compares a file
    with the fitted tree, so that a file that was exported changes nothing.
    against: a tree (not a fitted one) against the text of a file with the state of now. write_remembered: such a tree
    with what the last import left; the file has what a policy has no place for. remembers: what an import leaves.
    has_associations: its groups are Slurm's accounts, each of which has one name in the whole tree.
    looks_like: whether a text is probably this; asked to say what a file of the wrong format is instead.
    """

    name: str
    label: str
    reference: str
    sample: str
    media_type: str
    suffix: str
    carries: tuple[str, ...]
    read: Callable[[str], Declared]
    write: Callable[[TreeColumns, PolicySettings], Iterator[str]]
    looks_like: Callable[[str], bool]
    fit: Callable[[TreeColumns], TreeColumns] = same
    has_settings: bool = False
    against: Callable[[TreeColumns, str], Difference] | None = None
    remembers: Callable[[str, Declared], Remembered | None] | None = None
    write_remembered: Callable[[TreeColumns, Remembered], Iterator[str]] | None = None
    has_associations: bool = False


def not_this(label: str, line: int, message: str) -> Invalid:
    """The file isn't of the format at all."""
    return Invalid(f"The file is no {label}: line {line}: {message}.", code="bad_document")


def wrong(line: int, message: str) -> Invalid:
    """One place of the file that makes reading on pointless."""
    said = f"line {line}: {message}."
    return Invalid(said, code="bad_document", fields=[FieldProblem(f"line {line}", message)])


def line_finder(places: Callable[[], Iterable[tuple[Address, int]]]) -> Callable[[Sequence[Address]], list[int]]:
    """Lines of values by address; what isn't there has the line of the nearest thing around it."""

    def find(addresses: Sequence[Address]) -> list[int]:
        wanted = {address[:n] for address in addresses for n in range(len(address) + 1)}
        found = {address: line for address, line in places() if address in wanted}
        return [_nearest(found, address) for address in addresses]

    return find


def _nearest(found: dict[Address, int], address: Address) -> int:
    return next((found[address[:n]] for n in range(len(address), -1, -1) if address[:n] in found), 1)
