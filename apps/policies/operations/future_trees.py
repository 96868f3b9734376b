"""What a tree becomes when the dates of changed entries begin and end: what is planned is decided about now."""

from __future__ import annotations

from collections.abc import Iterator

from apps.core.errors import DomainError
from apps.policies.operations.apply import Operation, apply
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.reshape import Changes


def trees_to_come(after: TreeColumns, changes: Changes) -> Iterator[TreeColumns]:
    """The tree when dates that this change sets begin, and when they end."""
    dated = [
        node
        for before, node in changes.values()
        if node is not None and node.dates is not None and (before is None or before.dates != node.dates)
    ]
    for operations in ([*_at_start(dated)], [*_at_end(dated)]):
        if operations:
            try:
                yield apply(after, operations)
            except DomainError:
                continue  # such an end can't come about as things are


def _at_start(dated: list[Node]) -> Iterator[Operation]:
    for node in dated:
        if node.dates is not None and node.dates.shares is not None:
            yield {"op": "set_shares", "entry": str(node.uid), "shares": node.dates.shares}


def _at_end(dated: list[Node]) -> Iterator[Operation]:
    for node in dated:
        end = node.dates.at_end if node.dates is not None and node.dates.ends_on is not None else "keep"
        if end == "archive":
            yield {"op": "archive", "entry": str(node.uid)}
        elif end != "keep":
            yield {"op": "set_shares", "entry": str(node.uid), "shares": 0 if end == "zero" else end}
