"""One edit of a change set: the tree being edited, who may edit what of it, and what it touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from apps.core.errors import DomainError, FieldProblem, Invalid, NotAllowed, NotFound, TooLarge
from apps.policies.operations.adjustment_edits import AdjustmentChange
from apps.policies.operations.allocation_edits import AllocationEdit
from apps.policies.operations.membership_reach import Author
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Node
from apps.policies.tree.names import MAX_DEPTH, MOST_CHILDREN_OF_ENTRY, MOST_POLICY_ENTRIES, RESERVE, clean_name
from apps.policies.tree.working_tree import WorkingTree

Archived = Callable[[UUID], Sequence[Node]]


class Touch(NamedTuple):
    """One field that an operation sets or depends on; `uid` None is the policy itself."""

    at: int  # index of the operation
    uid: UUID | None
    field: str


class Guard(Protocol):
    """Access checks before each change; they raise NotAllowed or NotFound."""

    def may_see(self, tree: WorkingTree, node: Node, index: int) -> None: ...

    def may_change(self, tree: WorkingTree, node: Node, index: int, verb: str) -> None: ...

    def may_divide(self, tree: WorkingTree, parent: Node, index: int, verb: str) -> None: ...

    def may_name_below(self, tree: WorkingTree, parent: Node) -> bool: ...

    def may_set_policy(self, index: int) -> None: ...

    def author(self, tree: WorkingTree, node: Node) -> Author | None: ...


class AllowEverything:
    """Allows every operation, for computing without an actor: previews and conflicts."""

    def may_see(self, tree: WorkingTree, node: Node, index: int) -> None: ...

    def may_change(self, tree: WorkingTree, node: Node, index: int, verb: str) -> None: ...

    def may_divide(self, tree: WorkingTree, parent: Node, index: int, verb: str) -> None: ...

    def may_name_below(self, tree: WorkingTree, parent: Node) -> bool:
        return True

    def may_set_policy(self, index: int) -> None: ...

    def author(self, tree: WorkingTree, node: Node) -> Author | None:
        """Return whose rights limit new membership rules of this entry; None for no limit."""
        return None


class Edit:
    """State while operations are applied, with helpers that parse fields and raise errors with their location."""

    def __init__(self, tree: WorkingTree, settings: PolicySettings, guard: Guard, archived: Archived) -> None:
        self.tree, self.settings, self.guard, self.archived = tree, settings, guard, archived
        self.touches: list[Touch] = []
        self.adjusting: list[AdjustmentChange] = []
        self.allocating: list[AllocationEdit] = []
        self.index = 0
        self.is_stored = False  # the operations were checked when they were stored
        self.verb = ""  # the right that the current operation needs
        self.n_entries = len(tree.base)

    def refusal(
        self, key: str, message: str, *, kind: type[DomainError] = Invalid, code: str | None = None
    ) -> DomainError:
        where = f"operations[{self.index}]" + (f".{key}" if key else "")
        return kind(f"{where}: {message}.", code=code, fields=[FieldProblem(where, message)])

    def touch(self, uid: UUID | None, field: str) -> None:
        self.touches.append(Touch(self.index, uid, field))

    def change(self, node: Node, **fields: Any) -> None:
        """Replace fields of an entry, each of which counts as touched."""
        for field in fields:
            self.touch(node.uid, field)
        self.tree.replace(node, **fields)

    def adjust(self, adjusting: AdjustmentChange) -> None:
        self.adjusting.append(adjusting)
        self.touch(adjusting.entry_uid, "adjusted")

    def allocate(self, allocating: AllocationEdit) -> None:
        self.allocating.append(allocating)
        self.touch(allocating.entry_uid, "allocated")

    def clean(self, key: str, rule: Callable[[object], Any], value: object) -> Any:
        try:
            return rule(value)
        except ValueError as error:
            raise self.refusal(key, str(error)) from None

    def find(self, value: object, key: str) -> Node:
        """Return the entry with this uid or path; hidden entries raise the same error as missing ones."""
        node: Node | None = None
        if isinstance(value, str) and value.startswith("/"):
            node = self.tree.find_path(value)
        else:
            node = self.tree.get(self.uid(value, key))
        if node is not None:
            with suppress(NotFound):
                self.guard.may_see(self.tree, node, self.index)
                return node
        raise self.refusal(key, f"there is no entry {str(value)[:140]!r} in this policy", kind=NotFound)

    def uid(self, value: object, key: str) -> UUID:
        try:
            return value if isinstance(value, UUID) else UUID(str(value)) if isinstance(value, str) else UUID("")
        except ValueError:
            raise self.refusal(key, "must be an entry's uid, or its path beginning with '/'") from None

    def changeable(self, operation: Mapping[str, Any], *, root_too: bool = False) -> Node:
        node = self.find(operation.get("entry"), "entry")
        if node.parent_uid is None and not root_too:
            raise self.refusal("entry", f"{operation['op']} isn't possible for the root, which has no siblings")
        self._refuse_mounted(node, above=True)
        self.guard.may_change(self.tree, node, self.index, self.verb)
        return node

    def parent_for(self, value: object, height: int) -> Node:
        """Return an entry under which a subtree of this height may be placed; it becomes a group."""
        parent = self.find(value, "parent")
        self._refuse_mounted(parent, above=False)
        self.guard.may_divide(self.tree, parent, self.index, self.verb)
        if parent.kind == RESERVE:
            raise self.refusal("parent", f"{self.tree.path(parent)} is a reserve, which has no children")
        if len(self.tree.lineage(parent)) - 1 + height > MAX_DEPTH:
            raise self.refusal("parent", f"at most {MAX_DEPTH} levels are allowed below the root")
        if self.tree.n_children(parent.uid) >= MOST_CHILDREN_OF_ENTRY:
            raise self.refusal(
                "parent", f"{self.tree.path(parent)} has {MOST_CHILDREN_OF_ENTRY:,} children, the most allowed"
            )
        if not parent.is_group:
            self.touch(parent.uid, "is_group")
            parent = self.tree.replace(parent, is_group=True)
        return parent

    def _refuse_mounted(self, node: Node, *, above: bool) -> None:
        """Refuse changes below a mount, which only its authority may make. above: the mount itself may be changed."""
        lineage = self.tree.lineage(node)
        for step in lineage[:-1] if above else lineage:
            if step.mount is not None:
                message = (
                    f"{self.tree.path(node)} is maintained by {step.mount.issuer}, whose document is mounted at "
                    f"{self.tree.path(step)}: ask there for the change"
                )
                raise self.refusal("entry", message, kind=NotAllowed, code="mounted")

    def free_name(self, parent: Node, value: object, *, own: str = "", unless: UUID | None = None) -> str:
        """Return a valid, unused name for a child of `parent`. own: the entry's current name, which is always allowed.

        Because errors reveal which names exist, only users who may see all names below `parent` may choose one.
        """
        name: str = own if own and value == own else self.clean("name", clean_name, value)
        taken = self.tree.child_named(parent.uid, name)
        if taken is not None and taken.uid == unless:
            return name
        if not self.guard.may_name_below(self.tree, parent):
            message = (
                f"may not be chosen: you don't see all entries below {self.tree.path(parent)}; "
                "ask a manager of that entry"
            )
            raise self.refusal("name", message, kind=NotAllowed, code="partial_view")
        if taken is not None:
            message = f"{self.tree.path(parent)} has a child {name!r} already; siblings need different names"
            raise self.refusal("name", message, code="name_taken")
        return name

    def put(self, nodes: Sequence[Node]) -> None:
        """Add new entries, parents first."""
        self.n_entries += len(nodes)
        if self.n_entries > MOST_POLICY_ENTRIES:
            raise self.refusal("", f"a policy has at most {MOST_POLICY_ENTRIES:,} entries", kind=TooLarge)
        for node in nodes:
            self.tree.add(node)
            self.touch(node.uid, "archived")
