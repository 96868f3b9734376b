"""What two editors changed at once, field by field: base, mine and theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import UUID

from apps.core.errors import Conflict, DomainError, FieldProblem
from apps.policies.operations.apply import Outcome, work_out
from apps.policies.operations.tree_edits import Archived, Touch
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import FIELDS, Node, TreeColumns

_ARCHIVED = "archived"
_BACK = "restored"


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """One field that both sides changed; `entry` None is the policy's settings.

    operation: the one that can't follow the head, where no field conflicts. can_keep: whether mine can be put over
    theirs at all. beside: the other entry that it may name, the parent that a name is for.
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

    @property
    def key(self) -> str:
        """Names it where choices are made."""
        return f"{self.entry or 'policy'}:{self.field}"

    def to_json(self) -> dict[str, Any]:
        """As the REST contract has it."""
        told = asdict(self)
        del told["operation"], told["can_keep"], told["beside"]
        return {**told, "entry": str(self.entry) if self.entry else None}


class EditConflict(Conflict):
    """A change set whose base is stale where it matters. Nothing was published."""

    def __init__(self, conflicts: Sequence[FieldConflict], *, base_number: int, head_number: int) -> None:
        self.conflicts = tuple(conflicts)
        first = self.conflicts[0]
        super().__init__(
            f"Revision {head_number} changed {first.field} of {first.path} since revision {base_number}: it is "
            f"{_words(first.theirs)} now. Check the differences, and repeat the change on revision {head_number}.",
            code="edit_conflict",
            fields=[_problem(conflict) for conflict in self.conflicts],
        )


def _problem(c: FieldConflict) -> FieldProblem:
    said = f"was {_words(c.base)}, is {_words(c.theirs)}, you want {_words(c.mine)}"
    return FieldProblem(f"{c.path}: {c.field}", said)


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
    """Fields that the operations set, or rest on, and that changed between base and head to something else.

    archived: as of the head; archived_at_base: as of the base, where that may be something else.
    """
    mine = work_out(base, operations, settings=base_settings, archived=archived_at_base or archived, limited=limited)
    each = (*_field_conflicts(base, head, mine), *_settings_conflicts(mine, base_settings, head_settings))
    found = {(conflict.entry, conflict.field): conflict for conflict in each}
    if found:
        return list(found.values())
    try:
        work_out(head, mine.operations, settings=head_settings, archived=archived, limited=limited)
    except DomainError as error:
        return [shape_conflict(base, head, mine, error)]
    return []


def _field_conflicts(base: TreeColumns, head: TreeColumns, mine: Outcome) -> Iterator[FieldConflict]:
    for at, uid, field in mine.touches:
        i = None if uid is None else base.index_of_uid(uid)
        if uid is None or i is None:  # settings, or an entry that the change set itself brings
            k = None if uid is None or field != _ARCHIVED else head.index_of_uid(uid)
            if k is not None and str(uid) == mine.operations[at].get("entry"):
                yield FieldConflict(uid, head.path(k), field, _ARCHIVED, _BACK, _BACK, operation=at, can_keep=False)
            continue
        before, path = base.node(i), base.path(i)
        j = head.index_of_uid(uid)
        changed = mine.changes.get(uid)
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
            theirs = head.node(j)
            was, is_now, wanted = (None if n is None else _value(n, field) for n in (before, theirs, after))
            if is_now not in (was, wanted):
                yield FieldConflict(uid, path, field, was, wanted, is_now)


def _archive_conflicts(base: TreeColumns, head: TreeColumns, i: int, j: int) -> Iterator[FieldConflict]:
    """I archive what they changed, or what they put something into."""
    before, theirs = base.node(i), head.node(j)
    for field in FIELDS:
        was, is_now = _value(before, field), _value(theirs, field)
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
    mine: Outcome, base: PolicySettings | None, head: PolicySettings | None
) -> Iterator[FieldConflict]:
    was, is_now, wanted = ((s or PolicySettings()).to_json() for s in (base, head, mine.settings))
    for _, uid, field in mine.touches:
        part = field.removeprefix("settings.")
        if uid is None and is_now[part] not in (was[part], wanted[part]):
            yield FieldConflict(None, "the policy", field, was[part], wanted[part], is_now[part])


def index_in(error: DomainError) -> int:
    """Which operation was refused."""
    where = error.fields[0].where if error.fields else error.message
    number = where.removeprefix("operations[").partition("]")[0]
    return int(number) if number.isdecimal() else 0


def shape_conflict(base: TreeColumns, head: TreeColumns, mine: Outcome, error: DomainError) -> FieldConflict:
    """Each side is valid alone and both together are no tree: a duplicate name, a cycle, an archived parent."""
    where = error.fields[0].where if error.fields else "operations[0]"
    index = index_in(error)
    operation = mine.operations[index]
    known = {"name_taken": "name", "cycle": "parent_uid", "not_found": _ARCHIVED}
    field = known.get(error.code, where.rpartition(".")[2])
    named = operation.get("entry") or operation.get("parent")
    touch = next((t for t in mine.touches if t.at == index), Touch(index, None, field))
    uid = UUID(named) if named else touch.uid
    i = None if uid is None else base.index_of_uid(uid)
    before = None if i is None or field not in FIELDS else _value(base.node(i), field)
    path = "the policy" if i is None else base.path(i)
    j = None if uid is None else head.index_of_uid(uid)
    theirs = _ARCHIVED if uid is not None and i is not None and j is None else error.message
    wanted = operation.get("name") or operation.get("parent")
    beside = UUID(operation["parent"]) if operation.get("parent") else _parent_of(head, j) or _parent_of(base, i)
    return FieldConflict(uid, path, field, before, wanted, theirs, operation=index, can_keep=False, beside=beside)


def _parent_of(tree: TreeColumns, i: int | None) -> UUID | None:
    return None if i is None or i == 0 else tree.uuid(int(tree.parent[i]))


def _value(node: Node, field: str) -> Any:
    return node.said(field) if field in FIELDS else False


def _words(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
