"""Rebasing a change set on a newer head: which of its operations remain after the choices. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from apps.core.errors import DomainError
from apps.policies.changesets.conflicts import FieldConflict, conflicts, index_in, shape_conflict
from apps.policies.operations.apply import Outcome, work_out
from apps.policies.operations.tree_edits import Archived
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns

Side = Literal["mine", "theirs"]
Operations = list[Mapping[str, Any]]
_SETTINGS = "settings."


@dataclass(frozen=True)
class Settled:
    """The remaining operations, each with its former position; and the conflicts that still need a choice."""

    kept: list[tuple[int, Mapping[str, Any]]]
    open: list[FieldConflict]

    @property
    def operations(self) -> Operations:
        return [operation for _, operation in self.kept]


@dataclass(frozen=True)
class Sides:
    """The two trees between which a change set moves, with their settings."""

    base: TreeColumns
    head: TreeColumns
    base_settings: PolicySettings
    head_settings: PolicySettings
    archived: Archived
    archived_at_base: Archived

    def on_base(self, operations: Operations) -> Outcome:
        return work_out(self.base, operations, settings=self.base_settings, archived=self.archived_at_base)

    def on_head(self, operations: Operations) -> Outcome:
        return work_out(self.head, operations, settings=self.head_settings, archived=self.archived)

    def conflicts(self, operations: Operations) -> list[FieldConflict]:
        return conflicts(
            self.base,
            self.head,
            operations,
            base_settings=self.base_settings,
            head_settings=self.head_settings,
            archived=self.archived,
            archived_at_base=self.archived_at_base,
        )


def settle(sides: Sides, operations: Sequence[Mapping[str, Any]], choices: Mapping[str, Side]) -> Settled:
    """`theirs` drops the operations that set a field, and those that rest on them; `mine` keeps them.

    choices: by the key of a conflict. Each round drops at least one operation or is the last.
    """
    kept = list(enumerate(operations))
    while kept:
        standing = Settled(kept, [])
        try:
            mine = sides.on_base(standing.operations)
        except DomainError as error:  # rests on something that was dropped
            kept = _without(kept, {index_in(error)})
            continue
        found = sides.conflicts(standing.operations)
        waiting = [conflict for conflict in found if conflict.key not in choices]
        if waiting:
            return Settled(kept, waiting)
        shorter = _dropped(kept, mine, [conflict for conflict in found if choices[conflict.key] == "theirs"])
        if shorter != kept:
            kept = shorter
            continue
        try:
            sides.on_head(standing.operations)
        except DomainError as error:
            conflict = shape_conflict(sides.base, sides.head, mine, error)
            if choices.get(conflict.key) != "theirs" or conflict.operation is None:
                return Settled(kept, [conflict])
            kept = _without(kept, {conflict.operation})
            continue
        return standing
    return Settled([], [])


def _dropped(
    kept: list[tuple[int, Mapping[str, Any]]], mine: Outcome, theirs: Sequence[FieldConflict]
) -> list[tuple[int, Mapping[str, Any]]]:
    fields = {(conflict.entry, conflict.field) for conflict in theirs}
    gone = {touch.at for touch in mine.touches if touch.uid is not None and (touch.uid, touch.field) in fields}
    gone |= {conflict.operation for conflict in theirs if conflict.operation is not None}
    parts = {conflict.field.removeprefix(_SETTINGS) for conflict in theirs if conflict.entry is None}
    return [(index, each) for index, each in _without_parts(_without(kept, gone), parts) if each]


def _without(kept: list[tuple[int, Mapping[str, Any]]], gone: set[int]) -> list[tuple[int, Mapping[str, Any]]]:
    return [each for place, each in enumerate(kept) if place not in gone]


def _without_parts(kept: list[tuple[int, Mapping[str, Any]]], parts: set[str]) -> list[tuple[int, Mapping[str, Any]]]:
    """Other parts of the settings that one operation sets stay."""
    found: list[tuple[int, Mapping[str, Any]]] = []
    for index, operation in kept:
        if operation["op"] == "set_policy" and parts & set(operation["settings"]):
            left = {part: value for part, value in operation["settings"].items() if part not in parts}
            found.append((index, {**operation, "settings": left} if left else {}))
        else:
            found.append((index, operation))
    return found
