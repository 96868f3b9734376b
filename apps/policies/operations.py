"""Operations of a change set, applied to a tree in memory: pure, checked, each refusal naming its operation and place.

`KINDS` holds one function for each operation; adding one is one function and one line there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol
from uuid import UUID, uuid4

from apps.errors import DomainError, FieldProblem, Invalid, NotFound, TooLarge
from apps.policies.columns import SCOPES, Node, TreeColumns
from apps.policies.names import (
    MAX_DEPTH,
    MOST_CHILDREN,
    MOST_ENTRIES,
    PARENT,
    RESERVE,
    clean_kind,
    clean_name,
    clean_shares,
)
from apps.policies.percent import shares_for_percent
from apps.policies.reshape import Changes, reshaped
from apps.policies.settings import PolicySettings
from apps.policies.working_tree import WorkingTree

MOST_OPERATIONS = 10_000
_LEAF_KINDS = ("user", RESERVE)

Operation = dict[str, Any]
Archived = Callable[[UUID], Sequence[Node]]


class Touch(NamedTuple):
    """One field that an operation sets or depends on; `uid` None is the policy itself."""

    at: int  # index of the operation
    uid: UUID | None
    field: str


class Guard(Protocol):
    """Asked before each change whether the actor may make it; raises NotAllowed or NotFound."""

    def may_see(self, tree: WorkingTree, node: Node, index: int) -> None: ...

    def may_change(self, tree: WorkingTree, node: Node, index: int) -> None: ...

    def may_divide(self, tree: WorkingTree, parent: Node, index: int) -> None: ...

    def may_set_policy(self, index: int) -> None: ...


class Unguarded:
    """For working things out when nobody asks for anything: previews, conflicts."""

    def may_see(self, tree: WorkingTree, node: Node, index: int) -> None: ...

    def may_change(self, tree: WorkingTree, node: Node, index: int) -> None: ...

    def may_divide(self, tree: WorkingTree, parent: Node, index: int) -> None: ...

    def may_set_policy(self, index: int) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """What the operations lead to. `operations` name entries by uid and new entries by the uid they will keep."""

    base: TreeColumns
    settings: PolicySettings
    operations: list[Operation]
    changes: Changes
    touches: tuple[Touch, ...]

    @cached_property
    def tree(self) -> TreeColumns:
        return reshaped(self.base, self.changes) if self.changes else self.base


def apply(tree: TreeColumns, operations: Sequence[Mapping[str, Any]]) -> TreeColumns:
    """The tree after the operations; settings are left alone."""
    return work_out(tree, operations).tree


def work_out(
    tree: TreeColumns,
    operations: Sequence[Mapping[str, Any]],
    *,
    settings: PolicySettings | None = None,
    guard: Guard | None = None,
    archived: Archived | None = None,
) -> Outcome:
    """Apply all operations in order, or raise at the first that can't be.

    archived: gives an archived entry with its subtree as it last was (parents first), nothing when there is none.
    """
    if not isinstance(operations, list | tuple) or not operations:
        raise Invalid("operations must be a list with at least one operation.", fields=[_at("operations", "is empty")])
    if len(operations) > MOST_OPERATIONS:
        raise TooLarge(f"A change set holds at most {MOST_OPERATIONS:,} operations: publish a document instead.")
    edit = _Edit(WorkingTree(tree), settings or PolicySettings(), guard or Unguarded(), archived or (lambda uid: ()))
    resolved = [edit.do(index, operation) for index, operation in enumerate(operations)]
    return Outcome(tree, edit.settings, resolved, edit.tree.changes(), tuple(edit.touches))


class _Edit:
    """The state while operations are applied, and the ways in which they read and refuse."""

    def __init__(self, tree: WorkingTree, settings: PolicySettings, guard: Guard, archived: Archived) -> None:
        self.tree, self.settings, self.guard, self.archived = tree, settings, guard, archived
        self.touches: list[Touch] = []
        self.index = 0
        self.n_entries = len(tree.base)

    def do(self, index: int, operation: object) -> Operation:
        self.index = index
        if not isinstance(operation, Mapping):
            raise self.refusal("", "must be an object")
        kind = operation.get("op")
        known = KINDS.get(kind) if isinstance(kind, str) else None
        if known is None:
            raise self.refusal("op", f"unknown operation {kind!r:.60}; known are {', '.join(KINDS)}")
        for key in operation:
            if key != "op" and key not in known.keys:
                raise self.refusal(str(key)[:60], f"is unknown to {kind}, which takes {', '.join(known.keys)}")
        return {"op": kind, **known.run(self, operation)}

    def refusal(
        self, key: str, message: str, *, kind: type[DomainError] = Invalid, code: str | None = None
    ) -> DomainError:
        where = f"operations[{self.index}]" + (f".{key}" if key else "")
        return kind(f"{where}: {message}.", code=code, fields=[_at(where, message)])

    def touch(self, uid: UUID | None, field: str) -> None:
        self.touches.append(Touch(self.index, uid, field))

    def clean(self, key: str, rule: Callable[[object], Any], value: object) -> Any:
        try:
            return rule(value)
        except ValueError as error:
            raise self.refusal(key, str(error)) from None

    def find(self, value: object, key: str) -> Node:
        """The entry that a uid or a path names; what may not be seen isn't there."""
        node: Node | None = None
        if isinstance(value, str) and value.startswith("/"):
            node = self.tree.find_path(value)
        else:
            node = self.tree.get(self.uid(value, key))
        missing = self.refusal(key, f"there is no entry {str(value)[:140]!r} in this policy", kind=NotFound)
        if node is None:
            raise missing
        try:
            self.guard.may_see(self.tree, node, self.index)
        except NotFound:
            raise missing from None
        return node

    def uid(self, value: object, key: str) -> UUID:
        try:
            return value if isinstance(value, UUID) else UUID(str(value)) if isinstance(value, str) else UUID("")
        except ValueError:
            raise self.refusal(key, "must be an entry's uid, or its path beginning with '/'") from None

    def changeable(self, operation: Mapping[str, Any], *, root_too: bool = False) -> Node:
        node = self.find(operation.get("entry"), "entry")
        if node.parent_uid is None and not root_too:
            raise self.refusal("entry", f"{operation['op']} isn't possible for the root, which has no siblings")
        self.guard.may_change(self.tree, node, self.index)
        return node

    def parent_for(self, value: object, height: int) -> Node:
        """An entry that can take a subtree of this height below it."""
        parent = self.find(value, "parent")
        self.guard.may_divide(self.tree, parent, self.index)
        if parent.kind == RESERVE:
            raise self.refusal("parent", f"{self.tree.path(parent)} is a reserve, which has no children")
        if len(self.tree.lineage(parent)) - 1 + height > MAX_DEPTH:
            raise self.refusal("parent", f"at most {MAX_DEPTH} levels are allowed below the root")
        if self.tree.n_children(parent.uid) >= MOST_CHILDREN:
            raise self.refusal("parent", f"{self.tree.path(parent)} has {MOST_CHILDREN:,} children, the most allowed")
        if not parent.is_group:
            self.touch(parent.uid, "is_group")
            parent = self.tree.replace(parent, is_group=True)
        return parent

    def free_name(self, parent: Node, value: object, *, unless: UUID | None = None) -> str:
        name: str = self.clean("name", clean_name, value)
        taken = self.tree.child_named(parent.uid, name)
        if taken is not None and taken.uid != unless:
            message = f"{self.tree.path(parent)} has a child {name!r} already; siblings need different names"
            raise self.refusal("name", message, code="name_taken")
        return name

    def put(self, nodes: Sequence[Node]) -> None:
        """New entries, parents first."""
        self.n_entries += len(nodes)
        if self.n_entries > MOST_ENTRIES:
            raise self.refusal("", f"a policy has at most {MOST_ENTRIES:,} entries", kind=TooLarge)
        for node in nodes:
            self.tree.add(node)
            self.touch(node.uid, "archived")


def _set_shares(edit: _Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation)
    if "shares" not in operation:
        raise edit.refusal("shares", f'is needed: a number, "{PARENT}", or an object with percent and from')
    wanted = operation["shares"]
    if isinstance(wanted, Mapping):
        return {"entry": str(node.uid), "shares": _set_percent(edit, node, wanted)}
    shares = edit.clean("shares", clean_shares, PARENT if wanted == PARENT else _number(wanted))
    if shares is None and node.kind == RESERVE:
        raise edit.refusal("shares", "a reserve needs a number: it has no children to pass shares on to")
    edit.touch(node.uid, "shares")
    edit.tree.replace(node, shares=shares)
    return {"entry": str(node.uid), "shares": PARENT if shares is None else shares}


def _number(value: object) -> object:
    return "null" if value is None else value  # null is no way to write *inherit* in a request


def _set_percent(edit: _Edit, node: Node, wanted: Mapping[str, Any]) -> Operation:
    if set(wanted) - {"percent", "from"} or "percent" not in wanted:
        raise edit.refusal("shares", 'must be {"percent": …, "from": "siblings", "reserve" or a list of siblings}')
    assert node.parent_uid is not None, "the root was refused"  # noqa: S101 - an invariant, not input
    siblings = [child for child in edit.tree.children(node.parent_uid) if child.uid != node.uid]
    source = wanted.get("from", "siblings")
    resolved: object = source
    if source == "siblings":
        givers = [child for child in siblings if not child.locked and child.shares is not None]
    elif source == RESERVE:
        givers = [child for child in siblings if child.kind == RESERVE]
        if not givers:
            raise edit.refusal("shares.from", "there is no reserve beside this entry; add one, of kind reserve, first")
    elif isinstance(source, list) and source:
        chosen = {edit.find(value, f"shares.from[{i}]").uid for i, value in enumerate(source)}
        givers = [child for child in siblings if child.uid in chosen]
        if len(givers) != len(chosen):
            raise edit.refusal("shares.from", "may name siblings of the entry only")
        resolved = [str(child.uid) for child in givers]
    else:
        raise edit.refusal("shares.from", 'must be "siblings", "reserve" or a list of siblings')
    try:
        after = shares_for_percent(node, siblings, givers, wanted["percent"])
    except ValueError as error:
        raise edit.refusal("shares.percent", str(error)) from None
    edit.touch(node.parent_uid, "children")
    for each in [node, *siblings]:
        edit.touch(each.uid, "shares")  # the percentage depends on all of them
        if each.uid in after:
            if each is not node and source != "siblings":
                edit.guard.may_change(edit.tree, each, edit.index)
            edit.tree.replace(each, shares=after[each.uid])
    return {"percent": wanted["percent"], "from": resolved}


def _add(edit: _Edit, operation: Mapping[str, Any]) -> Operation:
    kind = edit.clean("kind", clean_kind, operation.get("kind", "group"))
    parent = edit.parent_for(operation.get("parent"), 1)
    name = edit.free_name(parent, operation.get("name"))
    shares = edit.clean("shares", clean_shares, _number(operation.get("shares", 1)))
    if kind == RESERVE and shares is None:
        raise edit.refusal("shares", "a reserve needs a number: it has no children to pass shares on to")
    is_group = operation.get("is_group", kind not in _LEAF_KINDS)
    if not isinstance(is_group, bool) or (is_group and kind == RESERVE):
        raise edit.refusal("is_group", "must be true or false, and false for a reserve")
    uid = edit.uid(operation["uid"], "uid") if operation.get("uid") is not None else uuid4()
    if edit.tree.get(uid) is not None or edit.archived(uid):
        raise edit.refusal("uid", "belongs to another entry; leave it out")
    edit.put([Node(uid, parent.uid, name, kind, shares, is_group)])
    return {
        "parent": str(parent.uid), "name": name, "kind": kind, "shares": PARENT if shares is None else shares,
        "is_group": is_group, "uid": str(uid),
    }  # fmt: skip


def _rename(edit: _Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation, root_too=True)
    if node.parent_uid is None:
        name: str = edit.clean("name", clean_name, operation.get("name"))
    else:
        parent = edit.tree.get(node.parent_uid)
        assert parent is not None, "every entry but the root has a parent"  # noqa: S101 - an invariant, not input
        name = edit.free_name(parent, operation.get("name"), unless=node.uid)
    edit.touch(node.uid, "name")
    edit.tree.replace(node, name=name)
    return {"entry": str(node.uid), "name": name}


def _move(edit: _Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation)
    goal = edit.find(operation.get("parent"), "parent")
    if any(step.uid == node.uid for step in edit.tree.lineage(goal)):
        message = f"{edit.tree.path(goal)} lies below {edit.tree.path(node)}, which can't go below itself"
        raise edit.refusal("parent", message, code="cycle")
    same_parent = goal.uid == node.parent_uid
    parent = goal if same_parent else edit.parent_for(str(goal.uid), 1 + edit.tree.height(node))
    name = edit.free_name(parent, operation.get("name", node.name), unless=node.uid)
    fields: dict[str, Any] = {"parent_uid": parent.uid, "name": name}
    resolved: Operation = {"entry": str(node.uid), "parent": str(parent.uid)}
    edit.touch(node.uid, "parent_uid")
    if name != node.name:
        edit.touch(node.uid, "name")
        resolved["name"] = name
    if "shares" in operation:
        shares = edit.clean("shares", clean_shares, _number(operation["shares"]))
        edit.touch(node.uid, "shares")
        fields["shares"] = shares
        resolved["shares"] = PARENT if shares is None else shares
    edit.tree.replace(node, **fields)
    return resolved


def _archive(edit: _Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation)
    for below in edit.tree.subtree(node):
        if below.locked:
            edit.guard.may_change(edit.tree, below, edit.index)
    gone = edit.tree.remove(node)
    edit.n_entries -= len(gone)
    for each in gone:
        edit.touch(each.uid, "archived")
    return {"entry": str(node.uid)}


def _restore(edit: _Edit, operation: Mapping[str, Any]) -> Operation:
    uid = edit.uid(operation.get("entry"), "entry")
    nodes = [] if edit.tree.get(uid) is not None else list(edit.archived(uid))
    if not nodes:
        raise edit.refusal("entry", "is no archived entry of this policy; give the uid it had")
    nodes = [node for node in nodes if node is nodes[0] or edit.tree.get(node.uid) is None]
    top = nodes[0]
    depth = {top.uid: 1}
    for node in nodes[1:]:
        depth[node.uid] = depth.get(node.parent_uid or top.uid, 1) + 1
    former = None if top.parent_uid is None else edit.tree.get(top.parent_uid)
    if former is None and operation.get("parent") is None:
        raise edit.refusal("parent", "is needed: the entry it was below is archived too")
    wanted = operation.get("parent") if operation.get("parent") is not None else str(top.parent_uid)
    parent = edit.parent_for(wanted, max(depth.values()))
    name = edit.free_name(parent, operation.get("name", top.name))
    edit.put([replace(top, parent_uid=parent.uid, name=name), *nodes[1:]])
    return {"entry": str(uid), "parent": str(parent.uid), "name": name}


def _set_scope(edit: _Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation, root_too=True)
    scope = operation.get("scope")
    if not isinstance(scope, str) or scope not in SCOPES:
        raise edit.refusal("scope", 'must be "local", "global", or "" for the parent\'s')
    sources = operation.get("sources", [])
    if not isinstance(sources, list) or len(sources) > 1_000:
        raise edit.refusal("sources", "must be a list of sources' slugs, empty for all of the scope")
    sources = [edit.clean(f"sources[{i}]", clean_name, slug) for i, slug in enumerate(sources)]
    if sources and not scope:
        raise edit.refusal("sources", "can be narrowed only together with a scope")
    slugs = tuple(dict.fromkeys(sources))
    edit.touch(node.uid, "scope")
    edit.touch(node.uid, "scope_sources")
    edit.tree.replace(node, scope=scope, scope_sources=slugs)
    return {"entry": str(node.uid), "scope": scope, "sources": list(slugs)}


def _lock(edit: _Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation, root_too=True)
    locked = operation.get("locked", True)
    if not isinstance(locked, bool):
        raise edit.refusal("locked", "must be true or false")
    edit.touch(node.uid, "locked")
    edit.tree.replace(node, locked=locked)
    return {"entry": str(node.uid), "locked": locked}


def _set_policy(edit: _Edit, operation: Mapping[str, Any]) -> Operation:
    edit.guard.may_set_policy(edit.index)
    given = operation.get("settings")
    if not isinstance(given, Mapping) or not given:
        raise edit.refusal("settings", "must be an object with the settings to change")
    try:
        edit.settings = PolicySettings.from_json(given, base=edit.settings)
    except Invalid as error:
        fields = [_at(f"operations[{edit.index}].{problem.where}", problem.message) for problem in error.fields]
        raise Invalid(f"operations[{edit.index}].{error.message}", code=error.code, fields=fields) from None
    for part in given:
        edit.touch(None, f"settings.{part}")
    return {"settings": dict(given)}


class _Kind(NamedTuple):
    run: Callable[[_Edit, Mapping[str, Any]], Operation]
    keys: tuple[str, ...]


KINDS: dict[str, _Kind] = {
    "set_shares": _Kind(_set_shares, ("entry", "shares")),
    "add": _Kind(_add, ("parent", "name", "kind", "shares", "is_group", "uid")),
    "rename": _Kind(_rename, ("entry", "name")),
    "move": _Kind(_move, ("entry", "parent", "name", "shares")),
    "archive": _Kind(_archive, ("entry",)),
    "restore": _Kind(_restore, ("entry", "parent", "name")),
    "set_scope": _Kind(_set_scope, ("entry", "scope", "sources")),
    "lock": _Kind(_lock, ("entry", "locked")),
    "set_policy": _Kind(_set_policy, ("settings",)),
}


def _at(where: str, message: str) -> FieldProblem:
    return FieldProblem(where, message)
