"""Apply the operations of a change set to a tree in memory. Pure; errors name the operation and the field.

`KINDS` lists one function for each operation; a new operation needs a function and a line there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

from apps.core.errors import FieldProblem, Invalid, TooLarge
from apps.policies.operations.adjustment_edits import (
    AddedAdjustment,
    AdjustmentChange,
    RevokedAdjustment,
    read_adjustment,
)
from apps.policies.operations.allocation_edits import AllocationEdit, read_allocation
from apps.policies.operations.membership_reach import narrow_reach, record_reach
from apps.policies.operations.percent import own_shares_for_percent, require_own_whole, shares_for_percent
from apps.policies.operations.tree_edits import AllowEverything, Archived, Edit, Guard, Touch
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import SCOPES, Node, TreeColumns
from apps.policies.tree.names import PARENT, RESERVE, clean_kind, clean_name, clean_shares, new_uid
from apps.policies.tree.terms import read_dates, read_members, read_mounted
from apps.policies.tree.working_tree import Changes, WorkingTree, apply_changes
from apps.policies.units import units_of

MOST_APPLIED_OPERATIONS = 10_000
Operation = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """Result of the operations. `operations` have their references resolved to uids, also those of new entries."""

    base: TreeColumns
    settings: PolicySettings
    operations: list[Operation]
    changes: Changes
    touches: tuple[Touch, ...]
    adjusting: tuple[AdjustmentChange, ...] = ()
    allocating: tuple[AllocationEdit, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether tree, adjustments and allocations would stay; settings are compared separately."""
        return not self.changes and not self.adjusting and not self.allocating

    @cached_property
    def tree(self) -> TreeColumns:
        return apply_changes(self.base, self.changes) if self.changes else self.base


def digest_of_operations(operations: Sequence[Mapping[str, Any]]) -> str:
    """For keys of what follows from operations, which may not be valid: a number may have any length."""
    return sha256(json.dumps(operations, default=str).encode()).hexdigest()


def added_uids(operations: Iterable[Mapping[str, Any]]) -> Iterator[UUID]:
    """Yield the uids that operations give to new entries; of requests, those that can be read."""
    for operation in operations:
        if operation.get("op") == "add" and operation.get("uid") is not None:
            with suppress(ValueError):
                yield UUID(str(operation["uid"]))


def tree_after(tree: TreeColumns, operations: Sequence[Mapping[str, Any]]) -> TreeColumns:
    """Return the tree after the operations; changes of settings are ignored."""
    return apply_operations(tree, operations).tree


def apply_operations(
    tree: TreeColumns,
    operations: Sequence[Mapping[str, Any]],
    *,
    settings: PolicySettings | None = None,
    guard: Guard | None = None,
    archived: Archived | None = None,
    limited: bool = True,
    is_stored: bool = False,
    n_checked: int = 0,
) -> Outcome:
    """Apply all operations in order; raise at the first invalid one.

    archived: returns an archived entry with its descendants, parents first, or nothing if there is none. limited: allow
    at most MOST_APPLIED_OPERATIONS. is_stored: the operations were checked when they were stored, so that an algorithm
    of a package that is no longer installed is accepted. n_checked: so many of the first were checked with this tree
    before, and are an earlier outcome's: of their plain shares, only whether the entry is seen is checked again.
    """
    if not isinstance(operations, list | tuple) or not operations:
        empty = FieldProblem("operations", "must be a list with at least one operation")
        raise Invalid(f"{empty.where} {empty.message}.", fields=[empty])
    if limited and len(operations) > MOST_APPLIED_OPERATIONS:
        raise TooLarge(
            f"A change set holds at most {MOST_APPLIED_OPERATIONS:,} operations: publish a document instead."
        )
    edit = Edit(
        WorkingTree(tree), settings or PolicySettings(), guard or AllowEverything(), archived or (lambda uid: ())
    )
    edit.is_stored = is_stored
    resolved = [
        _apply_again(edit, index, operation) if index < n_checked else _apply_one(edit, index, operation)
        for index, operation in enumerate(operations)
    ]
    return Outcome(
        tree,
        edit.settings,
        resolved,
        edit.tree.changes(),
        tuple(edit.touches),
        tuple(edit.adjusting),
        tuple(edit.allocating),
    )


def _apply_one(edit: Edit, index: int, operation: object) -> Operation:
    edit.index = index
    if not isinstance(operation, Mapping):
        raise edit.refusal("", "must be an object")
    kind = operation.get("op")
    known = KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise edit.refusal("op", f"unknown operation {kind!r:.60}; known are {', '.join(KINDS)}")
    edit.verb = known.verb
    for key in operation:
        if key != "op" and key not in known.keys:
            raise edit.refusal(str(key)[:60], f"is unknown to {kind}, which takes {', '.join(known.keys)}")
    return {"op": kind, **known.run(edit, operation)}


def _apply_again(edit: Edit, index: int, operation: Mapping[str, Any]) -> Operation:
    """Apply a checked operation, as `_apply_one` did: the shares of an entry depend on nothing before them."""
    if operation["op"] != "set_shares" or isinstance(operation["shares"], Mapping):
        return _apply_one(edit, index, operation)
    edit.index = index
    node, shares = edit.find(operation["entry"], "entry"), operation["shares"]
    edit.change(node, shares=None if shares == PARENT else float(shares))
    return {"op": "set_shares", "entry": str(node.uid), "shares": shares if shares == PARENT else float(shares)}


def _set_shares(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation)
    if "shares" not in operation:
        raise edit.refusal("shares", f'is needed: a number, "{PARENT}", or an object with percent and from')
    wanted = operation["shares"]
    if isinstance(wanted, Mapping):
        return {"entry": str(node.uid), "shares": _set_percent(edit, node, wanted)}
    shares = _read_shares(edit, node.kind, wanted)
    edit.change(node, shares=shares)
    return {"entry": str(node.uid), "shares": PARENT if shares is None else shares}


def _read_shares(edit: Edit, kind: str, value: object) -> float | None:
    """Read the shares of an entry of this kind."""
    shares: float | None = edit.clean("shares", clean_shares, _number(value))
    if shares is None and kind == RESERVE:
        raise edit.refusal("shares", "a reserve needs a number: it has no children to pass shares on to")
    return shares


def _read_is_group(edit: Edit, kind: str, value: object) -> bool:
    if not isinstance(value, bool) or (value and kind == RESERVE):
        raise edit.refusal("is_group", "must be true or false, and false for a reserve")
    return value


def _number(value: object) -> object:
    return "null" if value is None else value  # requests must not write *inherit* as null


def _set_percent(edit: Edit, node: Node, wanted: Mapping[str, Any]) -> Operation:
    """Set a percentage of the group. `from`: siblings that give up shares; without it, they keep theirs."""
    if set(wanted) - {"percent", "from"} or "percent" not in wanted:
        message = 'must be {"percent": …} or {"percent": …, "from": "siblings", "reserve" or a list of siblings}'
        raise edit.refusal("shares", message)
    assert node.parent_uid is not None, "the root was refused"  # noqa: S101 - an invariant, not input
    group = edit.tree.get(node.parent_uid)
    siblings = [child for child in edit.tree.children(node.parent_uid) if child.uid != node.uid]
    resolved: object = None
    after: Mapping[UUID, float | None]
    try:
        if group is not None:
            require_own_whole(group)
        if "from" not in wanted:
            after = {node.uid: clean_shares(own_shares_for_percent(node, siblings, wanted["percent"]))}
        else:
            resolved, givers = _givers(edit, siblings, wanted["from"])
            after = shares_for_percent(node, siblings, givers, wanted["percent"])
    except ValueError as error:
        raise edit.refusal("shares.percent", str(error)) from None
    edit.touch(node.parent_uid, "children")
    for each in [node, *siblings]:
        edit.touch(each.uid, "shares")  # the percentage depends on all of them
        if each.uid in after:
            if each is not node and resolved != "siblings":
                edit.guard.may_change(edit.tree, each, edit.index, edit.verb)
            edit.tree.replace(each, shares=after[each.uid])
    return {"percent": wanted["percent"]} | ({"from": resolved} if "from" in wanted else {})


def _givers(edit: Edit, siblings: Sequence[Node], source: object) -> tuple[object, list[Node]]:
    """Return `from` with siblings as uids, and the siblings that give up shares."""
    if source == "siblings":
        return source, [child for child in siblings if not child.locked and child.shares is not None]
    if source == RESERVE:
        givers = [child for child in siblings if child.kind == RESERVE]
        if not givers:
            raise edit.refusal("shares.from", "there is no reserve beside this entry; add one, of kind reserve, first")
        return source, givers
    if isinstance(source, list) and source:
        chosen = {edit.find(value, f"shares.from[{i}]").uid for i, value in enumerate(source)}
        givers = [child for child in siblings if child.uid in chosen]
        if len(givers) != len(chosen):
            raise edit.refusal("shares.from", "may name siblings of the entry only")
        return [str(child.uid) for child in givers], givers
    raise edit.refusal("shares.from", 'must be "siblings", "reserve" or a list of siblings')


def _add(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    kind = edit.clean("kind", clean_kind, operation.get("kind", "group"))
    parent = edit.parent_for(operation.get("parent"), 1)
    name = edit.free_name(parent, operation.get("name"))
    shares = _read_shares(edit, kind, operation.get("shares", 1))
    is_group = _read_is_group(edit, kind, operation.get("is_group", False))
    uid = edit.uid(operation["uid"], "uid") if operation.get("uid") is not None else new_uid()
    if edit.tree.get(uid) is not None or edit.archived(uid):
        raise edit.refusal("uid", "belongs to another entry; leave it out")
    edit.put([Node(uid, parent.uid, name, kind, shares, is_group)])
    added = {"name": name, "kind": kind, "shares": PARENT if shares is None else shares, "is_group": is_group}
    return {"parent": str(parent.uid), **added, "uid": str(uid)}


def _rename(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation, root_too=True)
    if node.parent_uid is None:
        name: str = edit.clean("name", clean_name, operation.get("name"))
    else:
        parent = edit.tree.get(node.parent_uid)
        assert parent is not None, "every entry but the root has a parent"  # noqa: S101 - an invariant, not input
        name = edit.free_name(parent, operation.get("name"), own=node.name, unless=node.uid)
    edit.change(node, name=name)
    return {"entry": str(node.uid), "name": name}


def _move(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation)
    goal = edit.find(operation.get("parent"), "parent")
    if any(step.uid == node.uid for step in edit.tree.lineage(goal)):
        message = f"{edit.tree.path(goal)} is below {edit.tree.path(node)}, which can't go below itself"
        raise edit.refusal("parent", message, code="cycle")
    same_parent = goal.uid == node.parent_uid
    parent = goal if same_parent else edit.parent_for(str(goal.uid), 1 + edit.tree.height(node))
    name = edit.free_name(parent, operation.get("name", node.name), own=node.name, unless=node.uid)
    fields: dict[str, Any] = {"parent_uid": parent.uid}
    resolved: Operation = {"entry": str(node.uid), "parent": str(parent.uid)}
    if name != node.name:
        fields["name"] = resolved["name"] = name
    if "shares" in operation:
        fields["shares"] = shares = edit.clean("shares", clean_shares, _number(operation["shares"]))
        resolved["shares"] = PARENT if shares is None else shares
    edit.change(node, **fields)
    return resolved


def _archive(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation)
    for below in edit.tree.subtree(node):
        if below.locked:
            edit.guard.may_change(edit.tree, below, edit.index, edit.verb)
    gone = edit.tree.remove(node)
    edit.n_entries -= len(gone)
    for each in gone:
        edit.touch(each.uid, "archived")
    return {"entry": str(node.uid)}


def _restore(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    uid = edit.uid(operation.get("entry"), "entry")
    nodes = [] if edit.tree.get(uid) is not None else list(edit.archived(uid))
    if not nodes:
        raise edit.refusal("entry", "is no archived entry of this policy; give the uid it had")
    top, rest = nodes[0], []
    depth = {top.uid: 1}
    # Skip entries that are in the tree again by another operation, with their descendants.
    for node in nodes[1:]:
        if node.parent_uid in depth and edit.tree.get(node.uid) is None:
            depth[node.uid] = depth[node.parent_uid] + 1
            rest.append(node)
    former = None if top.parent_uid is None else edit.tree.get(top.parent_uid)
    if former is None and operation.get("parent") is None:
        raise edit.refusal("parent", "is needed: its former parent is archived, too")
    wanted = operation.get("parent") if operation.get("parent") is not None else str(top.parent_uid)
    parent = edit.parent_for(wanted, max(depth.values()))
    # Restoring below another parent is also a move, which needs rights at both parents.
    if former is not None and former.uid != parent.uid:
        edit.guard.may_divide(edit.tree, edit.find(str(former.uid), "entry"), edit.index, edit.verb)
    name = edit.free_name(parent, operation.get("name", top.name), own=top.name)
    edit.put([replace(top, parent_uid=parent.uid, name=name), *rest])
    for node in (top, *rest):
        if node.members:  # limited to the rights of the user who restores it
            here = edit.find(str(node.uid), "entry")
            author = edit.guard.author(edit.tree, here)
            edit.tree.replace(here, members=narrow_reach(node.members, author=author, tree=edit.tree))
    return {"entry": str(uid), "parent": str(parent.uid), "name": name}


def _set_scope(edit: Edit, operation: Mapping[str, Any]) -> Operation:
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
    edit.change(node, scope=scope, scope_sources=slugs)
    return {"entry": str(node.uid), "scope": scope, "sources": list(slugs)}


def _lock(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation, root_too=True)
    locked = operation.get("locked", True)
    if not isinstance(locked, bool):
        raise edit.refusal("locked", "must be true or false")
    edit.change(node, locked=locked)
    return {"entry": str(node.uid), "locked": locked}


def _set_kind(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation, root_too=True)
    kind = edit.clean("kind", clean_kind, operation.get("kind", node.kind))
    n_children = edit.tree.n_children(node.uid)
    is_group = _read_is_group(edit, kind, operation.get("is_group", node.is_group and kind != RESERVE))
    if n_children and not is_group:
        raise edit.refusal("entry", f"has {n_children:,} children: move or archive them first")
    if kind == RESERVE and (node.shares is None or node.parent_uid is None or node.members):
        raise edit.refusal("kind", "a reserve must have its own shares and no membership rules, and can't be the root")
    edit.change(node, kind=kind, is_group=is_group)
    return {"entry": str(node.uid), "kind": kind, "is_group": is_group}


def _set_dates(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.changeable(operation)
    dates = edit.clean("dates", read_dates, operation.get("dates"))
    edit.change(node, dates=dates)
    return {"entry": str(node.uid), "dates": None if dates is None else dates.to_json()}


def _set_members(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.find(operation.get("entry"), "entry")
    edit.parent_for(str(node.uid), 1)  # adding children takes rights at the entry
    edit.guard.may_divide(edit.tree, node, edit.index, "map_accounts")  # and the rule maps accounts
    members = edit.clean("members", partial(read_members, stored=True), operation.get("members", []))
    author = edit.guard.author(edit.tree, node)
    recorded = record_reach(members, standing=node.members, author=author, tree=edit.tree)
    edit.change(edit.find(str(node.uid), "entry"), members=recorded)
    return {"entry": str(node.uid), "members": [rule.stored() for rule in members]}


def _mount(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    """Set or remove a mount; existing children stay until its first document is published."""
    node = edit.changeable(operation, root_too=True)
    mounted = edit.clean("mount", read_mounted, operation.get("mount"))
    if mounted is not None:
        if node.kind == RESERVE or node.members:
            raise edit.refusal("entry", "is a reserve or has membership rules, so nothing can be mounted there")
        inner = next((each for each in edit.tree.subtree(node) if each.mount and each.uid != node.uid), None)
        if inner is not None:
            raise edit.refusal("entry", f"has a mount below it, {edit.tree.path(inner)}: mounts don't nest")
        edit.tree.replace(node, is_group=True)
        node = edit.find(str(node.uid), "entry")
    edit.change(node, mount=mounted)
    return {"entry": str(node.uid), "mount": None if mounted is None else mounted.to_json()}


def _adjust_usage(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.find(operation.get("entry"), "entry")
    edit.guard.may_change(edit.tree, node, edit.index, edit.verb)
    if node.kind == RESERVE:
        raise edit.refusal("entry", "is a reserve, which has no usage to correct")
    if "revokes" in operation:
        uid = edit.uid(operation["revokes"], "revokes")
        edit.adjust(RevokedAdjustment(uid, node.uid))
        return {"entry": str(node.uid), "revokes": str(uid)}
    adjustment: AddedAdjustment = edit.clean("", read_adjustment, operation)
    adjustment = replace(adjustment, entry_uid=node.uid)
    edit.adjust(adjustment)
    return adjustment.to_json()


def _allocate(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    node = edit.find(operation.get("entry"), "entry")
    if node.parent_uid is None or node.kind == RESERVE:
        raise edit.refusal("entry", "is the root or a reserve, which has no allocation")
    edit.guard.may_change(edit.tree, node, edit.index, edit.verb)
    allocating: AllocationEdit = edit.clean("", partial(read_allocation, entry_uid=node.uid), operation)
    if allocating.is_new and allocating.unit not in (unit.symbol for unit in units_of(edit.settings.units)):
        raise edit.refusal("unit", "must be a unit of the policy")
    edit.allocate(allocating)
    return allocating.to_json()


def _set_policy(edit: Edit, operation: Mapping[str, Any]) -> Operation:
    edit.guard.may_set_policy(edit.index)
    changes = operation.get("settings")
    if not isinstance(changes, Mapping) or not changes:
        raise edit.refusal("settings", "must be an object with the settings to change")
    try:
        read = PolicySettings.from_operation if edit.is_stored else PolicySettings.from_json
        edit.settings = read(changes, base=edit.settings)
    except Invalid as error:
        here = f"operations[{edit.index}]"
        fields = [FieldProblem(f"{here}.{problem.where}", problem.message) for problem in error.fields]
        raise Invalid(f"{here}.{error.message}", code=error.code, fields=fields) from None
    for part in changes:
        edit.touch(None, f"settings.{part}")
    return {"settings": dict(changes)}


class _Kind(NamedTuple):
    run: Callable[[Edit, Mapping[str, Any]], Operation]
    keys: tuple[str, ...]
    verb: str  # the right that the operation needs, see Grant.Verb


KINDS: dict[str, _Kind] = {
    "set_shares": _Kind(_set_shares, ("entry", "shares"), "edit_shares"),
    "add": _Kind(_add, ("parent", "name", "kind", "shares", "is_group", "uid"), "edit_structure"),
    "rename": _Kind(_rename, ("entry", "name"), "edit_structure"),
    "move": _Kind(_move, ("entry", "parent", "name", "shares"), "edit_structure"),
    "archive": _Kind(_archive, ("entry",), "edit_structure"),
    "restore": _Kind(_restore, ("entry", "parent", "name"), "edit_structure"),
    "set_scope": _Kind(_set_scope, ("entry", "scope", "sources"), "edit_structure"),
    "lock": _Kind(_lock, ("entry", "locked"), "edit_structure"),
    "set_kind": _Kind(_set_kind, ("entry", "kind", "is_group"), "edit_structure"),
    "set_dates": _Kind(_set_dates, ("entry", "dates"), "edit_shares"),
    "set_members": _Kind(_set_members, ("entry", "members"), "edit_structure"),
    "mount": _Kind(_mount, ("entry", "mount"), "mount"),
    "adjust_usage": _Kind(
        _adjust_usage, ("entry", "resource", "amount_s", "at", "note", "uid", "revokes"), "manage_usage"
    ),
    "allocate": _Kind(
        _allocate,
        ("entry", "allocation", "was", "amount", "unit", "starts_on", "ends_on", "rule", "carried_from"),
        "edit_shares",
    ),
    "set_policy": _Kind(_set_policy, ("settings",), "edit_structure"),
}
