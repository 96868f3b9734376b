"""Rights on the account mapping, and visibility of trees including users' own entries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from uuid import UUID

import numpy as np
from django.utils.translation import gettext as _

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.selectors import list_accounts_of
from apps.core.errors import NotAllowed, NotFound
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rule_set
from apps.policies.access.scope import Rights, Verb, Visibility, administers_within_bounds, visible_entries
from apps.policies.models import Policy
from apps.policies.selectors import get_policy, past_visibility_mask
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree

WRITE = "policies:write"


def own_keys(actor: Actor) -> list[AccountKey]:
    """Return the keys of the actor's accounts; without accounts, a key with only the user name."""
    if actor.user is None:
        return []
    accounts = list_accounts_of(actor.user)
    keys = [AccountKey(a.namespace, a.user_name, a.group_name, a.dn, a.fqan, a.project) for a in accounts]
    return keys or [AccountKey("", actor.user.username)]


def load_visibility(
    *, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor, rights: Rights | None = None
) -> Visibility:
    """Return what the actor may see of any tree of the policy; own accounts are mapped by the current rules.

    rights: the actor's rights, if already loaded.
    """
    resolver = load_rule_set(policy, tree, of=actor.user).on(tree) if actor.user is not None else None
    own = {resolver.resolve(key).entry for key in own_keys(actor)} - {UNMAPPED} if resolver is not None else set()
    return visible_entries(policy=policy, tree=tree, actor=actor, at=at, own_entries=sorted(own), rights=rights)


def load_past_visibility(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> Visibility:
    """Return what the actor may see of a past tree by current grants, read-only.

    Entries must have been visible then, and if they still exist, also now.
    """
    then = load_visibility(policy=policy, tree=tree, at=at, actor=actor)
    mask = then.mask
    if not then.all_visible:
        mask = past_visibility_mask(then, load_visibility(policy=policy, tree=load_tree(policy), at=at, actor=actor))
    nothing = np.zeros(len(tree), dtype=np.bool_)
    return Visibility(tree, mask, nothing, bool(mask.all()), nothing, then.outright & mask, nothing)


def load_whole_tree(*, policy: Policy, number: int, at: datetime, actor: Actor) -> TreeColumns:
    """Load a past tree for actors who may see all of it: publishing a partial document by mistake would archive the
    rest."""
    tree = load_tree(policy, number)
    if not load_past_visibility(policy=policy, tree=tree, at=at, actor=actor).all_visible:
        raise NotAllowed("You see only a part of this policy: request the tree of that part.", code="partial_view")
    return tree


@dataclass(frozen=True)
class MapRights:
    """Where in a tree an actor may map accounts, and where they may read names of accounts and users."""

    policy: Policy
    tree: TreeColumns
    actor: Actor
    at: datetime

    @cached_property
    def sees(self) -> Visibility:
        return load_visibility(policy=self.policy, tree=self.tree, at=self.at, actor=self.actor, rights=self._rights)

    @cached_property
    def _rights(self) -> Rights:
        return Rights(self.policy, self.actor, self.at)

    def may_map(self, i: int) -> bool:
        return self.actor.has_scope(WRITE) and self.holds(i, Verb.MAP_ACCOUNTS)

    def may_place(self, i: int) -> bool:
        """Return whether the actor's change of the tree may move accounts from or to this entry."""
        return self.actor.has_scope(WRITE) and self.holds(i, Verb.MAP_ACCOUNTS, Verb.EDIT_STRUCTURE)

    def reach_of(self, i: int) -> UUID | None:
        """Return the entry that limits an actor's rule which leads here; None: the whole policy."""
        lineage = [*self.tree.ancestors(i), i]
        top = next((step for step in lineage if self.may_map(step)), i)
        return self.tree.uuid(top) if top else None

    def may_name(self, i: int) -> bool:
        """Return whether the actor may read names of accounts and users at the entry."""
        return self.holds(i, Verb.MAP_ACCOUNTS, Verb.VIEW_MEMBERS)

    @property
    def maps_anywhere(self) -> bool:
        """Whether the actor may map accounts anywhere in the tree."""
        if not self.actor.has_scope(WRITE):
            return False
        return administers_within_bounds(self.actor) or bool(self._rights.at(Verb.MAP_ACCOUNTS))

    def entries_mapped(self, limit: int) -> list[int]:
        """Return entries where the actor may map accounts, highest first, at most `limit`."""
        tree = self.tree
        granted = (tree.index_of_uid(uid) for uid in self._rights.at(Verb.MAP_ACCOUNTS))
        tops = [0] if self.may_map(0) else sorted(i for i in granted if i is not None and self.may_map(i))
        below = (i for top in tops for level in tree.subtree(top) for i in level)
        fit = (i for i in below if i > 0 and not tree.is_reserve[i] and self.sees.may_see(i))
        return list(dict.fromkeys(islice(fit, limit)))

    @property
    def reads_anywhere(self) -> bool:
        """Whether the actor may read names of accounts anywhere in the tree."""
        return administers_within_bounds(self.actor, "policies:read") or bool(
            self._rights.at(Verb.MAP_ACCOUNTS, Verb.VIEW_MEMBERS)
        )

    def require_anywhere(self) -> None:
        """Require an entry where the actor reads names; raise NotFound for actors who see nothing of the tree."""
        if not self.sees.mask.any():
            raise NotFound(_("Not found, or not visible to you."))
        if not self.reads_anywhere:
            raise NotAllowed(_("The account mapping is visible to managers of a part of this policy."))

    def require(self, uid: UUID) -> int:
        """Return the index of an entry where the actor maps accounts; raise NotFound if it is hidden."""
        i = self.sees.require(self.tree.index_of_uid(uid))
        if not self.may_map(i):
            raise NotAllowed(
                _("You may not map accounts to %(path)s: ask a manager of that entry.") % {"path": self.tree.path(i)}
            )
        return i

    def holds(self, i: int, *verbs: str) -> bool:
        """Return whether one of these verbs is granted at the entry or above it."""
        lineage = {self.tree.uuid(at) for at in (*self.tree.ancestors(i), i)}
        if not self.actor.reaches_entry(lineage):
            return False
        return administers_within_bounds(self.actor) or not self._rights.at(*verbs).isdisjoint(lineage)


def rights_in(policy_slug: str, *, at: datetime, actor: Actor, scope: str = "policies:read") -> MapRights:
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    return MapRights(policy, load_tree(policy), actor, at)
