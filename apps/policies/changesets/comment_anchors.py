"""Comments stay at the operation they are about when operations are rewritten, dropped or put in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.policies.models import ChangeSet

Operations = Sequence[Mapping[str, Any]]


def anchors(before: Operations, after: Operations) -> dict[int, int | None]:
    """From each old place to the new one: the same operation, else the first that does the same to the same entry."""
    found: dict[int, int | None] = {}
    taken: set[int] = set()
    for is_same in (_is_equal, _is_about_the_same):
        for old, operation in enumerate(before):
            if found.get(old) is not None:
                continue
            new = next((i for i, each in enumerate(after) if i not in taken and is_same(operation, each)), None)
            found[old] = new
            if new is not None:
                taken.add(new)
    return found


def reanchor(change_set: ChangeSet, after: Operations) -> None:
    """Before its operations are replaced."""
    if change_set.operations != after:
        move_anchors(change_set, anchors(change_set.operations, after))


def move_anchors(change_set: ChangeSet, places: Mapping[int, int | None]) -> None:
    """Comments on what is gone become comments on the whole."""
    for comment in change_set.comments.exclude(operation=None):
        place = places.get(comment.operation) if comment.operation is not None else None
        if place != comment.operation:
            comment.operation = place
            comment.save(update_fields=["operation"])


def _is_equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one == other


def _is_about_the_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.get("op") == other.get("op") and _subject(one) == _subject(other)


def _subject(operation: Mapping[str, Any]) -> tuple[Any, ...]:
    """The entry it is about; one that is added by where, and under which name."""
    if operation.get("entry"):
        return (operation["entry"],)
    return operation.get("uid"), operation.get("parent"), operation.get("name")
