"""The list of a policy's entries: columns of the tree page, its file, REST and the command `tree`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from apps.core import clock
from apps.federation.mounts.selectors import provenance_of_mount
from apps.priorities.entry_order import json_number
from apps.priorities.metering import CORE_S, UNITS
from apps.priorities.records import EntryRow
from apps.priorities.selectors import PolicyView
from apps.web.listing import Column, Listing, answer_serializer
from apps.web.rest.priority_fields import NumberField
from apps.web.shell import presentation
from apps.web.shell.lines import OF_PARENT, values

STATES = ("over", "under", "on", "idle", "unknown")


@dataclass(frozen=True, slots=True)
class TreeRow:
    """An entry as files and REST have it. On the page it is a `lines.Line`, which has an `entry`, too.

    of: whether target and actual are fractions of the parent or of the total. own_column: name of the number of the
    algorithm that is shown; "" if it has none.
    """

    view: PolicyView
    entry: EntryRow
    of: str = OF_PARENT
    own_column: str = ""

    @property
    def uid(self) -> str:
        return str(self.entry.uid)

    @property
    def actual(self) -> float | None:
        return values(self.entry, self.of)[0]

    @property
    def target(self) -> float | None:
        return values(self.entry, self.of)[1]

    @property
    def deviation_points(self) -> float | None:
        actual, target = values(self.entry, self.of)
        return None if actual is None or target is None else (actual - target) * 100

    @property
    def own(self) -> float | None:
        return self.entry.columns.get(self.own_column)

    @property
    def own_numbers(self) -> dict[str, Any]:
        """The algorithm's own, by their names; infinity is a text."""
        return {name: json_number(value) for name, value in self.entry.columns.items()}

    @property
    def priority(self) -> Any:
        """Infinity is a text."""
        return json_number(self.entry.priority)

    @property
    def usage_core_s(self) -> float | None:
        return self.entry.usage if self.view.usage_unit == CORE_S else None

    @property
    def computed_usage(self) -> float | None:
        """None before the first recompute."""
        return None if self.view.snapshot is None else self.entry.usage

    @property
    def computed_core_s(self) -> float | None:
        return self.computed_usage if self.view.usage_unit == CORE_S else None

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
    "Its usage and all numbers that depend on it are hidden: it has fewer than five active members, one member has "
    "more than four fifths of the usage, or differences of visible numbers would reveal such a group"
)
_PRIORITY = (
    "Value of the policy's operator among siblings: −1 to 1, for gridwide the deviation in points; higher is sooner, 0 "
    "is on target"
)
_SCOPE = "Scope of usage by which its children are compared; empty: that of its parent"
_SOURCES = "Usage sources to which the scope is limited; empty: all"
_HIDDEN_CHILDREN = "Number of children that the caller may not see"

# The page and its file differ from REST: levels count from 1, fractions follow `of`, and only leaves have a rank.
TREE = Listing(
    cells="pages/tree/_cells.html",
    columns=(
        Column("path", str, "entry.path", on="answer file csv", beside="entry"),
        Column("uid", UUID, on="answer file"),
        Column("name", str, "entry.name", on="answer file csv", beside="entry"),
        Column("kind", str, "entry.kind", on="answer file csv", beside="entry"),
        Column("level", int, "entry.depth", on="file"),
        Column("level", int, "entry.level", on="csv", beside="entry"),
        Column(
            "shares", float | None, "entry.shares", "null: inherited", on="answer file csv table", title=_("Shares")
        ),
        Column("inherits", bool, "entry.inherits", on="file"),
        Column("locked", bool, "entry.locked", "Only managers above the entry may change it", on="answer file"),
        Column("target", float | None, "entry.target", on="answer file"),
        Column("target", float | None, on="csv table", title=_("Target"), sort="target"),
        Column("target_global", float | None, "entry.target_global", on="answer file"),
        Column("actual", float | None, "entry.actual", on="answer file"),
        Column("actual", float | None, on="csv table", title=_("Actual")),
        Column("actual_global", float | None, "entry.actual_global", on="file"),
        Column("balance", str, on="table", title=_("Balance"), sort="deviation"),
        Column("deviation_points", float | None, "entry.deviation_points", on="file"),
        Column("deviation_points", float | None, on="csv", beside="balance"),
        Column("state", serializers.ChoiceField(STATES), "entry.state", on="answer file csv", beside="balance"),
        Column("usage_core_s", float | None, "computed_core_s", on="file"),
        Column("trend", str, on="table", title=_("14 days")),
        Column("own", float | None, on="csv"),
        Column("own", str, on="table", title=_("Algorithm")),
        Column(
            "priority",
            float | None,
            "entry.priority",
            on="file csv table",
            title=_("Priority"),
            write=presentation.signed,
        ),
        Column("priority", NumberField(allow_null=True, help_text=_PRIORITY)),
        Column(
            "rank", int | None, "entry.rank", "Of a user; of a group that of its best ranked user", on="answer file"
        ),
        Column(
            "rank",
            int | None,
            "entry.leaf_rank",
            on="csv table",
            title=_("Rank"),
            write=presentation.count,
            sort="rank",
        ),
        Column("factor", float | None, "entry.factor", "Of the entry that `rank` is of", on="answer file"),
        Column(
            "factor",
            float | None,
            "entry.leaf_factor",
            on="csv table",
            title=_("Factor"),
            write=presentation.factor,
            sort="factor",
        ),
        Column("n_children", int, "entry.n_children", on="answer file"),
        Column("suppressed", bool, "entry.suppressed", _SUPPRESSED, on="answer file"),
        Column("usage", float | None, "computed_usage", on="file"),
        Column("usage", float | None, "entry.usage", "Current usage in usage_unit; null: hidden"),
        Column(
            "usage_unit",
            serializers.ChoiceField(UNITS, help_text="Unit of the policy's metric"),
            "view.usage_unit",
            on="answer file",
        ),
        Column("usage_core_s", float | None, "", "Core-seconds; null: hidden, or another unit"),
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
        "usage state suppressed locked n_children hidden_children columns scope scope_sources mount children"
    },
)

EntrySerializer = answer_serializer(TREE, "Entry")


def entry_of(view: PolicyView, i: int) -> dict[str, Any]:
    """One entry as REST answers it, with an empty list of children."""
    row = TreeRow(view, view.row(i, position=(1, 1)))
    return {column.name: column.read(row) for column in TREE.on("answer")}


def rows_below(view: PolicyView, top: int, depth: int | None) -> Iterator[TreeRow]:
    """Visible entries at and below an entry, parents first. depth: levels below it; None: all."""
    mask = view.visibility.mask
    for level in view.tree.subtree(top)[: None if depth is None else depth + 1]:
        for i in level:
            if mask[i]:
                yield TreeRow(view, view.row(i, position=(1, 1)))


def rows_of(
    view: PolicyView, entries: Iterable[EntryRow], of: str = OF_PARENT, own_column: str = ""
) -> Iterator[TreeRow]:
    return (TreeRow(view, entry, of, own_column) for entry in entries)


def csv_columns(shown: Collection[str], own_column: str) -> list[Column]:
    """Columns of a file for those of a table. The algorithm's number has its own name."""
    columns = [column for column in TREE.on("csv") if (column.beside or column.name) in {"entry", *shown}]
    return [replace(column, name=own_column, value="own") if column.name == "own" else column for column in columns]
