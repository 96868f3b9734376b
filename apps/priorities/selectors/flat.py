"""A policy's entries, accounts and sums as flat tables: what one actor may see of them, row by row."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from apps.core.tables import Column, Row
from apps.policies.tree.columns import Mask
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.serving.lookup_index import ServedSnapshot

ENTRY_COLUMNS = (
    Column("path"), Column("uid"), Column("name"), Column("kind"), Column("level", "whole"),
    Column("shares", "number"), Column("inherits", "flag"), Column("locked", "flag"), Column("target", "number"),
    Column("target_global", "number"), Column("actual", "number"), Column("actual_global", "number"),
    Column("deviation_points", "number"), Column("state"), Column("usage_core_s", "number"),
    Column("priority", "number"), Column("rank", "whole"), Column("factor", "number"), Column("n_children", "whole"),
    Column("suppressed", "flag"),
)  # fmt: skip
PRIORITY_COLUMNS = (
    Column("account"), Column("group"), Column("namespace"), Column("entry"), Column("factor", "number"),
    Column("rank", "whole"), Column("of", "whole"), Column("key"), Column("identities"),
)  # fmt: skip


def entry_rows(view: PolicyView, top: int, depth: int | None) -> Iterator[Row]:
    """The entry and what is below it that the actor may see, parents first."""
    mask = view.visibility.mask
    for level in view.tree.subtree(top)[: None if depth is None else depth + 1]:
        for i in level:
            if mask[i]:
                yield _entry(view, i)


def _entry(view: PolicyView, i: int) -> Row:
    row = view.row(i, position=(1, 1))
    return (
        row.path, str(row.uid), row.name, row.kind, row.level - 1, row.shares, row.shares is None, row.locked,
        row.target, row.target_global, row.actual, row.actual_global, row.deviation_points, row.state,
        None if view.snapshot is None else row.usage_core_s, row.priority, row.rank, row.factor, row.n_children,
        row.suppressed,
    )  # fmt: skip


def priority_rows(snapshot: ServedSnapshot, mask: Mask | None) -> Iterator[Row]:
    """Every leaf as schedulers get it; identities as the JSON text of the list."""
    for line in snapshot.every_leaf(mask=mask):
        yield (
            line["account"], line.get("group", ""), line.get("namespace", ""), line["entry"], line["factor"],
            line["rank"], line["of"], line["key"], orjson.dumps(line["identities"]).decode(),
        )  # fmt: skip
