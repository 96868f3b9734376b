"""Who may see which notice: the one rule for pages, REST, mail and webhooks."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from uuid import UUID

import numpy as np

from apps.accounts.actor import Actor
from apps.core.errors import DomainError
from apps.mapping.permissions import MapRights
from apps.policies.access.scope import Rights, Verb, administers_policies, administers_within_bounds, require_policy
from apps.policies.models import Policy
from apps.policies.requests.inbox import Decider
from apps.policies.tree.columns import Mask
from apps.priorities.selectors.rows import PolicyView, open_view


class PolicyVisibility:
    """What one reader may see of one policy; each part is computed on first use."""

    def __init__(self, policy: Policy, actor: Actor, at: datetime) -> None:
        self.policy, self._actor, self._at = policy, actor, at
        self.rights = Rights(policy, actor, at)
        self._rules = administers_within_bounds(actor, "policies:read")

    @cached_property
    def view(self) -> PolicyView:
        return open_view(policy_slug=self.policy.slug, actor=self._actor)

    @cached_property
    def decider(self) -> Decider:
        return Decider(self.policy, self._actor, self._at)

    @cached_property
    def _map_rights(self) -> MapRights:
        return MapRights(self.policy, self.view.tree, self._actor, self._at)

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

    def has_place_below(self, uid: UUID | None) -> bool:
        """Whether the reader sees the entry, and has an account or holds a grant below it."""
        i = None if uid is None else self.view.tree.index_of_uid(uid)
        if i is None or not self.view.visibility.may_see(i):
            return False
        below = self.view.tree.subtree_mask(i)
        below[i] = False
        granted = (self.view.tree.index_of_uid(granted_uid) for granted_uid in self.rights.anywhere)
        return any(below[own] for own in self.view.own_entries) or any(at is not None and below[at] for at in granted)

    def maps_accounts_at(self, uid: UUID | None) -> bool:
        i = None if uid is None else self.view.tree.index_of_uid(uid)
        return i is not None and self._map_rights.may_map(i)

    def holds_over_all(self, verb: Verb) -> bool:
        return administers_policies(self._actor, "policies:read") or self.view.tree.uuid(0) in self.rights.at(verb)


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
