"""Who may see which notice: the one rule for pages, REST, mail and webhooks."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from uuid import UUID

import numpy as np

from apps.accounts.actor import Actor
from apps.core.errors import DomainError, NotFound
from apps.policies.access.holders import GrantLine, get_grant_line
from apps.policies.access.scope import Rights, Verb, require_policy, rules_all, rules_within
from apps.policies.models import Policy
from apps.policies.requests.inbox import Decider
from apps.policies.tree.columns import Mask
from apps.priorities.selectors.rows import PolicyView, open_view


class PolicyVisibility:
    """What one reader may see of one policy; each part is computed on first use."""

    def __init__(self, policy: Policy, actor: Actor, at: datetime) -> None:
        self.policy, self._actor, self._at = policy, actor, at
        self.rights = Rights(policy, actor, at)
        self._rules = rules_within(actor, "policies:read")

    @cached_property
    def view(self) -> PolicyView:
        return open_view(policy_slug=self.policy.slug, actor=self._actor)

    @cached_property
    def decider(self) -> Decider:
        return Decider(self.policy, self._actor, self._at)

    def grant(self, number: int) -> GrantLine | None:
        """None if there is no such grant or the reader may not see it."""
        try:
            return get_grant_line(policy_slug=self.policy.slug, grant_id=number, at=self._at, actor=self._actor)
        except NotFound:
            return None

    @cached_property
    def _concerned(self) -> Mask:
        """Mask of entries at or below a grant of the reader, and of the path to their own entries."""
        tree = self.view.tree
        mask: Mask = np.full(len(tree), self._rules, dtype=np.bool_)
        for uid in self.rights.anywhere:
            i = tree.index_of_uid(uid)
            if i is not None:
                mask |= tree.subtree_mask(i)
        for own in self.view.own_entries:
            mask[[*tree.ancestors(own), own]] = True
        return mask

    def concerns(self, uid: UUID | None) -> bool:
        """Whether the reader sees the entry and holds a grant at or above it, or it is on their own path."""
        i = None if uid is None else self.view.tree.index_of_uid(uid)
        return i is not None and self.view.visibility.may_see(i) and bool(self._concerned[i])

    def sees_exact_numbers(self, uid: UUID | None) -> bool:
        """Whether pages show the reader the entry's exact numbers: on the own path, and for entries seen by name.

        Readers of sums, which are rounded and of complete days, get no numbers in notices.
        """
        i = None if uid is None else self.view.tree.index_of_uid(uid)
        return i is not None and bool(self.view.visibility.outright[i])

    def sees_all_children(self, uid: UUID | None) -> bool:
        """Whether the reader sees exact numbers of every child of the entry, and holds a role there."""
        i = None if uid is None else self.view.tree.index_of_uid(uid)
        if i is None:
            return False
        children = list(self.view.tree.children(i))
        return bool(self._concerned[children].all() and self.view.visibility.outright[children].all())

    def edits_shares_around(self, uid: UUID | None) -> bool:
        """Whether the reader may edit shares in the entry's group, or below the entry."""
        i = None if uid is None else self.view.tree.index_of_uid(uid)
        if i is None:
            return False
        sees, parent = self.view.visibility, int(self.view.tree.parent[i])
        return sees.may_see(i) and (sees.may_divide(i) or (parent >= 0 and sees.may_divide(parent)))

    def holds_over_all(self, verb: Verb) -> bool:
        return rules_all(self._actor, "policies:read") or self.view.tree.uuid(0) in self.rights.at(verb)


class Reader:
    """One user (or the system) who reads notices at one instant."""

    def __init__(self, actor: Actor, at: datetime) -> None:
        self.actor, self.at = actor, at
        self._known: dict[int, PolicyVisibility | None] = {}

    @property
    def is_admin(self) -> bool:
        return self.actor.is_admin

    @property
    def user_id(self) -> int | None:
        return self.actor.user.pk if self.actor.user else None

    def of(self, policy: Policy | None) -> PolicyVisibility | None:
        """None if the reader may not see the policy."""
        if policy is None:
            return None
        if policy.pk not in self._known:
            self._known[policy.pk] = self._open(policy)
        return self._known[policy.pk]

    def _open(self, policy: Policy) -> PolicyVisibility | None:
        try:
            require_policy(self.actor, policy.slug)
            sight = PolicyVisibility(policy, self.actor, self.at)
            return sight if sight.view.visibility.mask.any() else None
        except DomainError:
            return None
