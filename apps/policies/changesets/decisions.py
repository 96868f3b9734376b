"""Which waiting change sets one person may decide about: asked for many of one policy, reading its tree once."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from uuid import UUID

from apps.accounts.actor import Actor
from apps.core.errors import DomainError, NotAllowed, NotFound
from apps.policies.access.authority import ActorGuard
from apps.policies.access.scope import Rights, Verb, rules_all
from apps.policies.changesets.account_moves import refuse_account_moves
from apps.policies.changesets.change_sets import ChangeSetAccess, settings_of
from apps.policies.models import ChangeSet, Policy
from apps.policies.operations.apply import work_out
from apps.policies.operations.whole_trees import is_document
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_archived, load_tree
from apps.policies.tree.working_tree import WorkingTree


class Decider:
    """What an actor may decide in one policy, on its head. Nothing is written, and the result isn't binding later."""

    def __init__(self, policy: Policy, actor: Actor, at: datetime) -> None:
        self._policy, self._actor, self._at = policy, actor, at
        self.access = ChangeSetAccess(policy, actor, at)

    @cached_property
    def tree(self) -> TreeColumns:
        return load_tree(self._policy)

    @cached_property
    def may_decide_at_all(self) -> bool:
        """Cheap: most people decide nothing anywhere."""
        return rules_all(self._actor) or bool(
            Rights(self._policy, self._actor, self._at).at(Verb.PUBLISH, Verb.APPROVE)
        )

    def decides_shares_of(self, uid: UUID) -> bool:
        """Whether the actor may publish the entry's own shares: by rights above it."""
        if not self.may_decide_at_all:
            return False
        working = WorkingTree(self.tree)
        node = working.get(uid)
        if node is None or node.parent_uid is None:
            return False
        try:
            self._publishes.may_see(working, node, 0)
            self._publishes.may_change(working, node, 0, Verb.EDIT_SHARES)
        except (NotAllowed, NotFound):
            return False
        return True

    def may_publish(self, change_set: ChangeSet) -> bool:
        return self.may_decide_at_all and self._passes(change_set, self._publishes)

    def may_approve(self, change_set: ChangeSet) -> bool:
        """A second person's yes: never one's own change set."""
        own = self._actor.user is not None and change_set.author_id == self._actor.user.pk
        return not own and self.may_decide_at_all and self._passes(change_set, self._approves)

    @cached_property
    def _publishes(self) -> ActorGuard:
        return ActorGuard(policy=self._policy, tree=self.tree, actor=self._actor, at=self._at, besides=(Verb.PUBLISH,))

    @cached_property
    def _approves(self) -> ActorGuard:
        return ActorGuard(policy=self._policy, tree=self.tree, actor=self._actor, at=self._at, instead=Verb.APPROVE)

    @cached_property
    def _settings(self) -> PolicySettings:
        return settings_of(self._policy, self._policy.head_number)

    def _passes(self, change_set: ChangeSet, guard: ActorGuard) -> bool:
        """Change sets that no longer fit the head wait for the policy's managers, and for their author."""
        if not self.access.may_see(change_set):
            return False
        try:
            if is_document(change_set):
                guard.may_set_policy(0)
                return True
            outcome = work_out(
                self.tree,
                change_set.operations,
                settings=self._settings,
                guard=guard,
                archived=lambda uid: load_archived(self._policy, uid),
            )
            if guard is self._publishes:
                refuse_account_moves(outcome, policy=self._policy, actor=self._actor, at=self._at)
        except (NotAllowed, NotFound):
            return False
        except DomainError:
            return rules_all(self._actor)
        return True
