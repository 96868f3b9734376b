"""Operations for shares with an end date (boosts), and the trees that result when dates of changed entries take effect.

A boost gives an entry other shares until a day, after which its former shares are restored automatically. Future trees
are checked when the change is published.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid
from apps.policies.operations.apply import Operation, tree_after
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import PARENT
from apps.policies.tree.terms import Dates
from apps.policies.tree.working_tree import Changes


def future_trees(after: TreeColumns, changes: Changes) -> Iterator[TreeColumns]:
    """Yield the tree after the start dates that a change sets have come, and after its end dates have come."""
    dated = [
        node
        for before, node in changes.values()
        if node is not None and node.dates is not None and (before is None or before.dates != node.dates)
    ]
    for operations in ([*_at_start(dated)], [*_at_end(dated)]):
        if operations:
            try:
                yield tree_after(after, operations)
            except DomainError:
                continue  # invalid in the current tree


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


def is_boost(dates: Dates | None) -> bool:
    """Return whether these dates only restore the former shares after a day."""
    if dates is None or dates.ends_on is None:
        return False
    return dates.starts_on is None and dates.shares is None and isinstance(dates.at_end, float | int)


def former_shares(node: Node) -> float | None:
    """Return the entry's shares without a current boost; None is *inherit*."""
    if node.dates is not None and is_boost(node.dates):
        return float(node.dates.at_end)
    return node.shares


def shares_operations(node: Node, shares: float | None, until: date | None, *, where: str) -> list[Operation]:
    """Return operations that give an entry these shares until a last day (None: no end).

    Empty if the entry already has them until then. where: field name for errors.
    """
    entry = str(node.uid)
    operations: list[Operation] = []
    if shares != node.shares:
        operations.append({"op": "set_shares", "entry": entry, "shares": PARENT if shares is None else shares})
    dates = _dates(node, shares, until, where)
    if dates != (node.dates.to_json() if node.dates else None):
        operations.append({"op": "set_dates", "entry": entry, "dates": dates})
    return operations


def _dates(node: Node, shares: float | None, until: date | None, where: str) -> dict[str, Any] | None:
    """Return the dates to set: those that the entry keeps, those of the boost, or None."""
    if node.dates is not None and not is_boost(node.dates):
        if until is not None:
            message = "already has dates: change them on its page"
            raise Conflict(f"{node.name} {message}.", code="has_dates", fields=[FieldProblem(where, message)])
        return node.dates.to_json()
    if until is None:
        return None
    former = former_shares(node)
    if former is None or shares is None:
        message = "inherits its shares: give it a number without an end first"
        raise Invalid(f"{node.name} {message}.", code="inherits", fields=[FieldProblem(where, message)])
    return Dates(ends_on=until, at_end=former).to_json()
