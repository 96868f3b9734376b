"""Whether an actor may do an operation at an instant: checked when it is drafted, and again when it is published."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core.errors import NotAllowed
from apps.policies.access.scope import (
    WRITE,
    Rights,
    Verb,
    locked_by,
    require_policy,
    require_scope,
    rules_all,
    visible_entries,
)
from apps.policies.models import Policy
from apps.policies.operations.tree_edits import Author, Unguarded
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.terms import WHOLE_POLICY
from apps.policies.tree.working_tree import WorkingTree

_PROPOSE = "Propose the change instead."
_OF_THE_TREE = (Verb.EDIT_SHARES, Verb.EDIT_STRUCTURE)  # what locks protect, and what moves targets


class AuthorGuard(Unguarded):
    """Asks for nothing; rules for members reach as far as this author's rights do."""

    def __init__(self, *, policy: Policy, tree: TreeColumns, user: User | None, at: datetime) -> None:
        actor = Actor(user=user, via="worker")
        is_here = user is None or user.is_active
        self._rights = ActorGuard(policy=policy, tree=tree, actor=actor, at=at, only_see=True) if is_here else None

    def author(self, tree: WorkingTree, node: Node) -> Author | None:
        return None if self._rights is None else self._rights.author(tree, node)


class ActorGuard:
    """Checks every operation, when it is applied, against the actor's rights.

    only_see: a draft may hold what its author may only request. besides: verbs that publishing needs on top of the
    operation's own. instead: the one verb checked in place of the operation's own.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        tree: TreeColumns,
        actor: Actor,
        at: datetime,
        only_see: bool = False,
        besides: tuple[str, ...] = (),
        instead: str | None = None,
    ) -> None:
        self._policy, self._actor, self._only_see = policy, actor, only_see
        self._besides, self._instead, self._at = besides, instead, at
        require_policy(actor, policy.slug)
        require_scope(actor, WRITE)
        self._rules = rules_all(actor)
        self._rights = Rights(policy, actor, at)
        self._sees = visible_entries(policy=policy, tree=tree, actor=actor, at=at, rights=self._rights)
        self._root = tree.uuid(0)
        self._mine: set[UUID] | None = None

    def may_see(self, tree: WorkingTree, node: Node, index: int) -> None:
        """Seen is what was visible before, and what this change set itself put below something that is."""
        step: Node | None = node
        while step is not None:
            i = tree.base.index_of_uid(step.uid)
            if i is not None:
                self._sees.require(i)
                return
            step = tree.get(step.parent_uid) if step.parent_uid else None

    def may_divide(self, tree: WorkingTree, parent: Node, index: int, verb: str) -> None:
        """Below an entry: holders of the verb there, or above."""
        place = _competing_at(tree, parent) if verb in _OF_THE_TREE else parent
        self._demand(verb, [step.uid for step in tree.lineage(place)], tree, parent, index)

    def may_name_below(self, tree: WorkingTree, parent: Node) -> bool:
        """By rights alone, whatever lies there; what this change set put there belongs to where it put it."""
        nearest = (tree.base.index_of_uid(step.uid) for step in reversed(tree.lineage(parent)))
        return self._sees.may_name_below(next(i for i in nearest if i is not None))

    def may_change(self, tree: WorkingTree, node: Node, index: int, verb: str) -> None:
        """An entry's own shares, name and parent: holders of the verb above it, never at it alone."""
        above = tree.lineage(node)[:-1]
        if above and verb in _OF_THE_TREE:
            above = tree.lineage(_competing_at(tree, above[-1]))
        self._demand(verb, [step.uid for step in above], tree, node, index)
        if node.locked and verb in _OF_THE_TREE and not self._rules and not self._only_see:
            if self._mine is None:
                self._mine = locked_by(self._policy, self._actor)
            if node.uid not in self._mine:
                locked = f"operations[{index}]: {tree.path(node)} is locked"
                raise NotAllowed(f"{locked}; ask the person who locked it, or an administrator.", code="locked")

    def may_set_policy(self, index: int) -> None:
        """Settings affect every entry: only holders of rights at the root set them."""
        missing = [] if self._only_see else self._missing(Verb.EDIT_STRUCTURE, [self._root])
        if missing and Verb.EDIT_STRUCTURE not in missing:
            raise NotAllowed(f"operations[{index}]: {_lacks(missing)} for the policy's settings. {_PROPOSE}")
        if missing:
            raise NotAllowed(f"operations[{index}]: only an administrator changes a policy's settings.")

    def author(self, tree: WorkingTree, node: Node) -> Author:
        """With the highest entry at or above this one where accounts are mapped; without any, the entry itself."""
        lineage, at = [step.uid for step in tree.lineage(node)], self._at.astimezone(UTC).isoformat()
        for depth, uid in enumerate(lineage):
            if self._reaches(Verb.MAP_ACCOUNTS, lineage[: depth + 1]):
                return Author(str(uid) if depth else WHOLE_POLICY, at)
        return Author(str(node.uid), at)

    def _verbs(self, verb: str) -> tuple[str, ...]:
        return (self._instead,) if self._instead else (verb, *self._besides)

    def _reaches(self, verb: str, lineage: list[UUID]) -> bool:
        """Whether the verb is granted at an entry of this lineage."""
        bound = self._actor.token.subtree_uid if self._actor.token else None
        if bound is not None and bound not in lineage:
            return False
        return self._rules or not self._rights.at(verb).isdisjoint(lineage)

    def _demand(self, verb: str, lineage: list[UUID], tree: WorkingTree, node: Node, index: int) -> None:
        missing = [] if self._only_see else self._missing(verb, lineage)
        if missing and verb not in missing:
            raise NotAllowed(f"operations[{index}]: {_lacks(missing)} for {tree.path(node)}. {_PROPOSE}")
        if missing:
            raise NotAllowed(
                f"operations[{index}]: you may not change {tree.path(node)}; only an authority of an entry above it "
                f"may. {_PROPOSE}"
            )

    def _missing(self, verb: str, lineage: list[UUID]) -> list[str]:
        return [each for each in self._verbs(verb) if not self._reaches(each, lineage)]


def _lacks(verbs: list[str]) -> str:
    """Who may change an entry, and not publish it, is told the right that is missing."""
    return f"you lack the right {' and '.join(verbs)}"


def _competing_at(tree: WorkingTree, parent: Node) -> Node:
    """Where the children of an entry compete: below one that inherits its shares they do so one level up."""
    while parent.shares is None and parent.parent_uid is not None:
        above = tree.get(parent.parent_uid)
        assert above is not None, "every entry but the root has a parent"  # noqa: S101 - an invariant, not input
        parent = above
    return parent
