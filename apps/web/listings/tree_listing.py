"""The list of a policy's entries: columns of the tree page, its file, REST and the command `tree`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from apps.core import clock
from apps.federation.mounts.selectors import provenance_of_mount
from apps.priorities.entry_order import json_number
from apps.priorities.metering import UNITS
from apps.priorities.records import EntryRow
from apps.priorities.selectors import PolicyView
from apps.priorities.selectors.row_columns import each_row
from apps.priorities.selectors.tree import blocks_of_rows
from apps.priorities.selectors.tree_listing import Arrangement
from apps.priorities.sentences import numbers
from apps.priorities.usage_factors import CORE_S
from apps.web.listings.listing import Column, Listing, answer_serializer, csv_cell
from apps.web.rest.priority_fields import NumberField
from apps.web.shell.lines import OF_PARENT, OF_TOTAL, values

STATES = ("over", "under", "on", "idle", "unknown")


@dataclass(frozen=True, slots=True)
class TreeRow:
    """An entry as files and REST have it. On the page it is a `lines.Line`, which has an `entry`, too.

    own_column: name of the number of the algorithm that is shown; "" if it has none.
    """

    view: PolicyView
    entry: EntryRow
    own_column: str = ""

    @property
    def uid(self) -> str:
        return str(self.entry.uid)

    @property
    def deviation_global_points(self) -> float | None:
        actual, target = values(self.entry, OF_TOTAL)
        return None if actual is None or target is None else (actual - target) * 100

    @property
    def own(self) -> float | None:
        return self.entry.columns.get(self.own_column)

    @property
    def own_numbers(self) -> dict[str, Any]:
        """The algorithm's own, by their names; infinity is a text."""
        return {name: json_number(value) for name, value in self.entry.columns.items()}

    @property
    def usage(self) -> float | None:
        """None before the first recompute."""
        return None if self.view.snapshot is None else self.entry.usage

    @property
    def usage_core_s(self) -> float | None:
        return self.usage if self.view.usage_unit == CORE_S else None

    @property
    def scope_sources(self) -> list[str]:
        return list(self.entry.scope_sources)

    @property
    def mount(self) -> dict[str, Any] | None:
        view = self.view
        index = view.tree.index_of_uid(self.entry.uid) if view.tree.mount else None
        provenance = None if index is None else provenance_of_mount(view.policy, view.tree, index, at=clock.now())
        if provenance is None:
            return None
        is_now = view.revision == view.policy.head_number
        return {
            "issuer": provenance.issuer,
            "publication": provenance.publication,
            "version": provenance.version if is_now and provenance.version else None,
            "age_s": provenance.age_s if is_now else None,
        }

    @property
    def children(self) -> list[Any]:
        """Filled by who nests the rows."""
        return []


class MountedSerializer(serializers.Serializer[Any]):
    issuer = serializers.CharField(help_text="Authority that maintains the subtree")
    publication = serializers.CharField()
    version = serializers.IntegerField(allow_null=True, help_text="Current version; null: none yet, or a past tree")
    age_s = serializers.FloatField(
        allow_null=True,
        help_text="Seconds since it was last confirmed, at the time of this answer; null: never, or a past tree",
    )


_OWN_NUMBERS = "The algorithm's own numbers, under the names that its scheduler uses"
_SUPPRESSED = (
    "Its usage and all numbers that depend on it are hidden: it has fewer than five active users, one user has "
    "more than four fifths of the usage, or differences of visible numbers would reveal such a group"
)
_PRIORITY = (
    "Value of the policy's operator among siblings: −1 to 1, for gridwide the deviation in points; higher is sooner, 0 "
    "is on target"
)
_SCOPE = "Scope of usage by which its children are compared; empty: that of its parent"
_SOURCES = "Usage sources to which the scope is limited; empty: all"
_HIDDEN_CHILDREN = "Number of children that the caller may not see"

# Which column a file of the page has where fractions are of the total.
_OF_TOTAL = {
    "target": "target_global",
    "actual": "actual_global",
    "deviation_points": "deviation_global_points",
}


def _leaf_rank(line: Any) -> str:
    return "" if line.entry.leaf_rank is None else numbers.count(line.entry.leaf_rank)


def _leaf_factor(line: Any) -> str:
    return "" if line.entry.leaf_factor is None else numbers.factor(line.entry.leaf_factor)


TREE = Listing(
    cells="pages/tree/_cells.html",
    columns=(
        Column("path", str, "entry.path", on="answer file csv", beside="entry"),
        Column("uid", UUID, on="answer file"),
        Column("name", str, "entry.name", on="answer file csv", beside="entry"),
        Column("kind", str, "entry.kind", on="answer file csv", beside="entry"),
        Column("level", int, "entry.depth", on="file"),
        Column(
            "shares", float | None, "entry.shares", "null: inherited", on="answer file csv table", title=_("Shares")
        ),
        Column("inherits", bool, "entry.inherits", on="file"),
        Column("locked", bool, "entry.locked", "Only managers above the entry may change it", on="answer file"),
        Column("target", float | None, "entry.target", on="answer file csv table", title=_("Target"), sort="target"),
        Column("target_global", float | None, "entry.target_global", on="answer file csv", beside="target"),
        Column("actual", float | None, "entry.actual", on="answer file csv table", title=_("Actual")),
        Column("actual_global", float | None, "entry.actual_global", on="file csv", beside="actual"),
        Column("balance", str, on="table", title=_("Balance"), sort="deviation"),
        Column("deviation_points", float | None, "entry.deviation_points", on="file csv", beside="balance"),
        Column("deviation_global_points", float | None, on="csv", beside="balance"),
        Column("state", serializers.ChoiceField(STATES), "entry.state", on="answer file csv", beside="balance"),
        Column("trend", str, on="table", title=_("14 days")),
        Column("own", str, on="table", title=_("Algorithm")),
        Column(
            "priority",
            NumberField(allow_null=True, help_text=_PRIORITY),
            "entry.priority",
            on="answer file csv table",
            title=_("Priority"),
            write=numbers.signed,
        ),
        Column(
            "rank",
            int | None,
            "entry.rank",
            "1 + the users strictly ahead of it; of a group, ahead of its own vector",
            on="answer file csv table",
            title=_("Rank"),
            show=_leaf_rank,
            sort="rank",
        ),
        Column(
            "factor",
            float | None,
            "entry.factor",
            "By its rank or its vector, as the policy says",
            on="answer file csv table",
            title=_("Factor"),
            show=_leaf_factor,
            sort="factor",
        ),
        Column("n_children", int, "entry.n_children", on="answer file"),
        Column("suppressed", bool, "entry.suppressed", _SUPPRESSED, on="answer file"),
        Column(
            "usage", float | None, text="Current usage in usage_unit; null: hidden, or not computed", on="answer file"
        ),
        Column(
            "usage_unit",
            serializers.ChoiceField(UNITS, help_text="Unit of the policy's metric"),
            "view.usage_unit",
            on="answer file",
        ),
        Column("usage_core_s", float | None, "", "Core-seconds; null: hidden, or another unit", on="answer file"),
        Column("hidden_children", int, "entry.hidden_children", _HIDDEN_CHILDREN),
        Column(
            "columns",
            serializers.DictField(child=NumberField(allow_null=True), help_text=_OWN_NUMBERS),
            "own_numbers",
        ),
        Column("scope", serializers.CharField(allow_blank=True, help_text=_SCOPE), "entry.scope"),
        Column("scope_sources", serializers.ListField(child=serializers.CharField(), help_text=_SOURCES)),
        Column("mount", MountedSerializer(allow_null=True, help_text="The mounted publication; null: none")),
        Column(
            "children",
            serializers.ListField(child=serializers.DictField(), help_text="Entries of the same form, down to `depth`"),
        ),
    ),
    orders={
        "answer": "usage_unit usage_core_s uid name path kind shares target target_global actual priority rank factor "
        "usage state suppressed locked n_children hidden_children columns scope scope_sources mount children",
        "file": "path uid name kind level shares inherits locked target target_global actual actual_global "
        "deviation_points state usage_core_s",
    },
)

EntrySerializer = answer_serializer(TREE, "Entry")


def entry_of(view: PolicyView, i: int) -> dict[str, Any]:
    """One entry as REST answers it, with an empty list of children."""
    row = TreeRow(view, view.row(i, position=(1, 1)))
    answer = {column.name: column.read(row) for column in TREE.on("answer")}
    return {**answer, "priority": json_number(answer["priority"])}


def rows_below(view: PolicyView, top: int, depth: int | None) -> Iterator[TreeRow]:
    """Visible entries at and below an entry, parents first. depth: levels below it; None: all."""
    mask = view.visibility.mask
    for level in view.tree.subtree(top)[: None if depth is None else depth + 1]:
        entries = level.start + np.flatnonzero(mask[level.start : level.stop])
        alone = np.ones(len(entries), np.int64)
        rows = each_row(view, entries, place=alone, size=alone, is_open=np.zeros(len(entries), np.bool_))
        yield from (TreeRow(view, row) for row in rows)


def rows_of(view: PolicyView, entries: Iterable[EntryRow], own_column: str = "") -> Iterator[TreeRow]:
    return (TreeRow(view, entry, own_column) for entry in entries)


def csv_blocks(
    view: PolicyView, arranged: Arrangement, columns: Sequence[Column], own_column: str
) -> Iterator[list[Sequence[Any]]]:
    """`csv_rows` of all rows of an arrangement by column: rows are made only where a column needs them."""
    for block in blocks_of_rows(view, arranged):
        known = [
            block.own_column(own_column) if column.value == "own" else block.column(_field_of(column))
            for column in columns
        ]
        rows = [*rows_of(view, block.rows(), own_column)] if None in known else []
        pairs = zip(columns, known, strict=True)
        yield [[csv_cell(column.read(row)) for row in rows] if cells is None else cells for column, cells in pairs]


def _field_of(column: Column) -> str:
    """The field of an entry that the column reads; "" for other columns. Fields are texts, numbers and uids."""
    field = str(column.value)
    return field.removeprefix("entry.") if field.startswith("entry.") else ""


def csv_columns(shown: Collection[str], own_column: str, of: str = OF_PARENT) -> list[Column]:
    """Columns of a file for those of a table.

    own_column: name of the algorithm's number. of: whether fractions are of the parent or of the total.
    """
    left_out = set(_OF_TOTAL.values() if of == OF_PARENT else _OF_TOTAL)
    wanted, columns = {"entry", *shown}, []
    for column in TREE.columns:
        if column.name == "own" and "own" in shown:
            columns.append(Column(own_column, float | None, "own", on="csv"))
        elif column.name not in left_out and "csv" in column.faces and (column.beside or column.name) in wanted:
            columns.append(column)
    return columns
