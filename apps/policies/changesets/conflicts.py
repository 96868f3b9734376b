"""Conflicts between a change set and the head, field by field (base, mine, theirs), and rebasing by chosen sides.

Conflicts about entries hidden from the actor are filtered. Only the filter needs rights; the rest is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, DomainError, FieldProblem
from apps.policies.access.scope import Visibility, visible_entries
from apps.policies.models import Policy
from apps.policies.operations.apply import Outcome, apply_operations
from apps.policies.operations.tree_edits import Archived, Touch
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import FIELDS, Node, TreeColumns

_ARCHIVED = "archived"
_BACK = "restored"
Side = Literal["mine", "theirs"]
Operations = list[Mapping[str, Any]]
_SETTINGS = "settings."


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """One field that both sides changed; `entry` is None for the policy's settings.

    operation: index of an operation that is invalid on the head, if no field conflicts. can_keep: whether `mine` can be
    chosen. beside: another entry that the conflict reveals, such as the parent of a name.
    """

    entry: UUID | None
    path: str
    field: str
    base: Any
    mine: Any
    theirs: Any
    operation: int | None = None
    can_keep: bool = True
    beside: UUID | None = None
    reason: str = ""  # why the operation doesn't fit the head, where no field of an entry changed

    @property
    def key(self) -> str:
        """Identifies the conflict in choices."""
        return f"{self.entry or 'policy'}:{self.field}"

    def to_json(self) -> dict[str, Any]:
        """Return the conflict as in the REST contract."""
        fields = asdict(self)
        for internal in ("operation", "can_keep", "beside", "reason"):
            del fields[internal]
        return {**fields, "entry": str(self.entry) if self.entry else None}


class EditConflict(Conflict):
    """Raised if a change set's base is outdated in fields that it sets; nothing was published."""

    def __init__(self, conflicts: Sequence[FieldConflict], *, base_number: int, head_number: int) -> None:
        self.conflicts = tuple(conflicts)
        first = self.conflicts[0]
        if first.reason:
            message = (
                f"The change set doesn't fit revision {head_number}: {first.reason}. "
                f"Change it, or make it anew on revision {head_number}."
            )
        else:
            message = (
                f"Revision {head_number} changed {first.field} of {first.path} since revision {base_number}: it is "
                f"{_words(first.theirs)} now. Check the differences, and repeat the change on revision {head_number}."
            )
        super().__init__(message, code="edit_conflict", fields=[_problem(conflict) for conflict in self.conflicts])


HIDDEN = FieldConflict(None, "an entry outside your view", "entry", None, None, None, can_keep=False)


def _problem(c: FieldConflict) -> FieldProblem:
    message = c.reason or f"was {_words(c.base)}, is {_words(c.theirs)}, you want {_words(c.mine)}"
    return FieldProblem(f"{c.path}: {c.field}", message)


def conflicts(
    base: TreeColumns,
    head: TreeColumns,
    operations: Sequence[Mapping[str, Any]],
    *,
    base_settings: PolicySettings | None = None,
    head_settings: PolicySettings | None = None,
    archived: Archived | None = None,
    archived_at_base: Archived | None = None,
    limited: bool = True,
) -> list[FieldConflict]:
    """Return fields that the operations set or depend on, and that changed to another value between base and head.

    archived: archived entries as of the head; archived_at_base: as of the base, if that differs.
    """
    outcome = apply_operations(
        base, operations, settings=base_settings, archived=archived_at_base or archived, limited=limited
    )
    each = (*_field_conflicts(base, head, outcome), *_settings_conflicts(outcome, base_settings, head_settings))
    by_field = {(conflict.entry, conflict.field): conflict for conflict in each}
    if by_field:
        return list(by_field.values())
    try:
        apply_operations(head, outcome.operations, settings=head_settings, archived=archived, limited=limited)
    except DomainError as error:
        return [shape_conflict(base, head, outcome, error)]
    return []


def _field_conflicts(base: TreeColumns, head: TreeColumns, outcome: Outcome) -> Iterator[FieldConflict]:
    for at, uid, field in outcome.touches:
        i = None if uid is None else base.index_of_uid(uid)
        # Settings, or an entry that the change set itself adds.
        if uid is None or i is None:
            k = None if uid is None or field != _ARCHIVED else head.index_of_uid(uid)
            if k is not None and str(uid) == outcome.operations[at].get("entry"):
                yield FieldConflict(uid, head.path(k), field, _ARCHIVED, _BACK, _BACK, operation=at, can_keep=False)
            continue
        before, path = base.node(i), base.path(i)
        j = head.index_of_uid(uid)
        changed = outcome.changes.get(uid)
        after = changed[1] if changed else before
        if j is None:
            if after is not None:
                place = field if field in FIELDS else _ARCHIVED
                wanted = _value(after, field)
                yield FieldConflict(uid, path, place, _value(before, field), wanted, _ARCHIVED, can_keep=False)
        elif field == "children":
            yield from _member_conflict(base, head, i, j)
        elif field == _ARCHIVED:
            yield from _archive_conflicts(base, head, i, j)
        else:
            head_node = head.node(j)
            was, is_now, wanted = (None if n is None else _value(n, field) for n in (before, head_node, after))
            if is_now not in (was, wanted):
                yield FieldConflict(uid, path, field, was, wanted, is_now)


def _archive_conflicts(base: TreeColumns, head: TreeColumns, i: int, j: int) -> Iterator[FieldConflict]:
    """Yield conflicts of an archived entry: fields that the head changed, and children that it added or removed."""
    before, after = base.node(i), head.node(j)
    for field in FIELDS:
        was, is_now = _value(before, field), _value(after, field)
        if was != is_now:
            yield FieldConflict(before.uid, base.path(i), field, was, _ARCHIVED, is_now)
    yield from (replace(c, mine=_ARCHIVED) for c in _member_conflict(base, head, i, j))


def _member_conflict(base: TreeColumns, head: TreeColumns, i: int, j: int) -> Iterator[FieldConflict]:
    was = {base.uuid(child): base.name[child] for child in base.children(i)}
    is_now = {head.uuid(child): head.name[child] for child in head.children(j)}
    if was.keys() != is_now.keys():
        names = sorted(was.values())
        yield FieldConflict(base.uuid(i), base.path(i), "children", names, names, sorted(is_now.values()))


def _settings_conflicts(
    outcome: Outcome, base: PolicySettings | None, head: PolicySettings | None
) -> Iterator[FieldConflict]:
    was, is_now, wanted = ((s or PolicySettings()).parts() for s in (base, head, outcome.settings))
    for _, uid, field in outcome.touches:
        part = field.removeprefix("settings.")
        if uid is None and is_now[part] not in (was[part], wanted[part]):
            yield FieldConflict(None, "the policy", field, was[part], wanted[part], is_now[part])


def index_in(error: DomainError) -> int:
    """Return the index of the operation that an error is about."""
    where = error.fields[0].where if error.fields else error.message
    number = where.removeprefix("operations[").partition("]")[0]
    return int(number) if number.isdecimal() else 0


def shape_conflict(base: TreeColumns, head: TreeColumns, outcome: Outcome, error: DomainError) -> FieldConflict:
    """Return the conflict of sides that are valid alone but not together: a duplicate name, a cycle, an archived
    parent."""
    where = error.fields[0].where if error.fields else "operations[0]"
    index = index_in(error)
    operation = outcome.operations[index]
    known = {"name_taken": "name", "cycle": "parent_uid", "not_found": _ARCHIVED}
    part = where.rpartition(".")[2]
    field = known.get(error.code, part)
    is_parent_missing = error.code == "not_found" and part == "parent"
    named = operation.get("parent") if is_parent_missing else operation.get("entry") or operation.get("parent")
    touch = next((t for t in outcome.touches if t.at == index), Touch(index, None, field))
    uid = UUID(named) if named else touch.uid
    i = None if uid is None else base.index_of_uid(uid)
    before = None if i is None or field not in FIELDS else _value(base.node(i), field)
    j = None if uid is None else head.index_of_uid(uid)
    is_gone = uid is not None and i is not None and j is None
    reason = error.fields[0].message if error.fields else error.message
    return FieldConflict(
        uid,
        _path_of(uid, base, outcome.tree),
        field,
        before,
        operation.get("name") or operation.get("parent"),
        _ARCHIVED if is_gone else reason,
        operation=index,
        can_keep=False,
        beside=UUID(operation["parent"]) if operation.get("parent") else _parent_of(head, j) or _parent_of(base, i),
        reason="" if is_gone else reason,
    )


def _path_of(uid: UUID | None, base: TreeColumns, changed: TreeColumns) -> str:
    """Path of an entry in the base, else where the operations put it."""
    for tree in (base, changed):
        i = None if uid is None else tree.index_of_uid(uid)
        if i is not None:
            return tree.path(i)
    return "the policy"


def _parent_of(tree: TreeColumns, i: int | None) -> UUID | None:
    return None if i is None or i == 0 else tree.uuid(int(tree.parent[i]))


def _value(node: Node, field: str) -> Any:
    return node.field_json(field) if field in FIELDS else False


def _words(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def shown_conflicts(
    field_conflicts: Sequence[FieldConflict],
    *,
    policy: Policy,
    base: TreeColumns,
    head: TreeColumns,
    actor: Actor,
    at: datetime,
) -> list[FieldConflict]:
    """Return conflicts that the actor may now read; if there is none of them, one that reveals nothing."""
    seen = [visible_entries(policy=policy, tree=tree, actor=actor, at=at) for tree in (base, head)]
    access = _BothSides(*seen)
    return [access.without_hidden_names(each) for each in field_conflicts if access.shows(each)] or [HIDDEN]


def refuse_hidden(shown: Sequence[FieldConflict], work: Callable[[], object]) -> None:
    """If all conflicts are hidden, raise the error that the actor would get without a conflict.

    Otherwise the error would reveal that a hidden entry changed, or which names hidden entries have. work: applies the
    operations with the actor's rights.

    Raises:
        NotAllowed: `partial_view`.
        NotFound: an operation is about an entry that the actor doesn't see.
    """
    if list(shown) == [HIDDEN]:
        work()


@dataclass(frozen=True)
class _BothSides:
    base: Visibility
    head: Visibility

    def shows(self, conflict: FieldConflict) -> bool:
        """Return whether the actor sees all entries that it names, and may learn the name that it reveals."""
        if not all(self._sees(uid) for uid in (conflict.entry, conflict.beside) if uid is not None):
            return False
        at = None if conflict.beside is None else self.head.tree.index_of_uid(conflict.beside)
        return conflict.field != "name" or at is None or self.head.may_name_below(at)

    def _sees(self, uid: UUID) -> bool:
        """Return whether the entry is visible in the head, or else in the base; added entries always are."""
        for side in (self.head, self.base):
            i = side.tree.index_of_uid(uid)
            if i is not None:
                return side.may_see(i)
        return True

    def without_hidden_names(self, conflict: FieldConflict) -> FieldConflict:
        """Remove hidden entries from lists of children."""
        if conflict.field != "children" or conflict.entry is None:
            return conflict
        was, wanted, is_now = conflict.base, conflict.mine, conflict.theirs
        uid = conflict.entry
        return replace(
            conflict,
            base=_seen_children(self.base, uid, was),
            mine=_seen_children(self.base, uid, wanted),
            theirs=_seen_children(self.head, uid, is_now),
        )


def _seen_children(sees: Visibility, uid: UUID, names: Any) -> Any:
    i = sees.tree.index_of_uid(uid)
    if i is None or not isinstance(names, list):
        return names
    return [name for name in names if (child := sees.tree.child_named(i, name)) is None or sees.may_see(child)]


@dataclass(frozen=True)
class ResolvedConflicts:
    """The remaining operations with their former indexes, and the conflicts that still need a choice."""

    kept: list[tuple[int, Mapping[str, Any]]]
    open: list[FieldConflict]

    @property
    def operations(self) -> Operations:
        return [operation for _, operation in self.kept]


@dataclass(frozen=True)
class MergeSides:
    """Base and head of a rebase, each with settings and archived entries."""

    base: TreeColumns
    head: TreeColumns
    base_settings: PolicySettings
    head_settings: PolicySettings
    archived: Archived
    archived_at_base: Archived

    def on_base(self, operations: Operations) -> Outcome:
        return apply_operations(self.base, operations, settings=self.base_settings, archived=self.archived_at_base)

    def on_head(self, operations: Operations) -> Outcome:
        return apply_operations(self.head, operations, settings=self.head_settings, archived=self.archived)

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


def resolve_conflicts(
    sides: MergeSides, operations: Sequence[Mapping[str, Any]], choices: Mapping[str, Side]
) -> ResolvedConflicts:
    """Resolve conflicts: `theirs` drops operations that set the field, and those that depend on them; `mine` keeps
    them.

    choices: by the key of the conflict. Each round drops at least one operation or is the last one.
    """
    kept = list(enumerate(operations))
    while kept:
        standing = ResolvedConflicts(kept, [])
        try:
            outcome = sides.on_base(standing.operations)
        except DomainError as error:  # depends on a dropped operation
            kept = _without(kept, {index_in(error)})
            continue
        field_conflicts = sides.conflicts(standing.operations)
        waiting = [conflict for conflict in field_conflicts if conflict.key not in choices]
        if waiting:
            return ResolvedConflicts(kept, waiting)
        shorter = _dropped(
            kept, outcome, [conflict for conflict in field_conflicts if choices[conflict.key] == "theirs"]
        )
        if shorter != kept:
            kept = shorter
            continue
        try:
            sides.on_head(standing.operations)
        except DomainError as error:
            conflict = shape_conflict(sides.base, sides.head, outcome, error)
            if choices.get(conflict.key) != "theirs" or conflict.operation is None:
                return ResolvedConflicts(kept, [conflict])
            kept = _without(kept, {conflict.operation})
            continue
        return standing
    return ResolvedConflicts([], [])


def _dropped(
    kept: list[tuple[int, Mapping[str, Any]]], outcome: Outcome, field_conflicts: Sequence[FieldConflict]
) -> list[tuple[int, Mapping[str, Any]]]:
    fields = {(conflict.entry, conflict.field) for conflict in field_conflicts}
    gone = {touch.at for touch in outcome.touches if touch.uid is not None and (touch.uid, touch.field) in fields}
    gone |= {conflict.operation for conflict in field_conflicts if conflict.operation is not None}
    parts = {conflict.field.removeprefix(_SETTINGS) for conflict in field_conflicts if conflict.entry is None}
    return [(index, each) for index, each in _without_parts(_without(kept, gone), parts) if each]


def _without(kept: list[tuple[int, Mapping[str, Any]]], gone: set[int]) -> list[tuple[int, Mapping[str, Any]]]:
    return [each for place, each in enumerate(kept) if place not in gone]


def _without_parts(kept: list[tuple[int, Mapping[str, Any]]], parts: set[str]) -> list[tuple[int, Mapping[str, Any]]]:
    """Drop these parts of settings; other parts that the same operation sets stay."""
    operations: list[tuple[int, Mapping[str, Any]]] = []
    for index, operation in kept:
        if operation["op"] == "set_policy" and parts & set(operation["settings"]):
            left = {part: value for part, value in operation["settings"].items() if part not in parts}
            operations.append((index, {**operation, "settings": left} if left else {}))
        else:
            operations.append((index, operation))
    return operations
