"""Which part of a policy's past a reader may see: what lies, and always lay, within present grants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import numpy as np

from apps.accounts.actor import Actor
from apps.policies.access.scope import Rights, rules_all
from apps.policies.models import Entry, Grant, Policy
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.stored import load_tree


@dataclass(frozen=True)
class Part:
    """Some entries and everything below them, in one tree."""

    tree: TreeColumns
    mask: Mask

    @classmethod
    def below(cls, tree: TreeColumns, tops: Iterable[UUID]) -> Part:
        mask: Mask = np.zeros(len(tree), dtype=np.bool_)
        for i in map(tree.index_of_uid, tops):
            if i is not None:
                mask |= tree.subtree_mask(i)
        return cls(tree, mask)

    def has(self, uid: UUID) -> bool:
        i = self.tree.index_of_uid(uid)
        return i is not None and bool(self.mask[i])


class Reach:
    """Entries of one policy whose log rows a reader may see: those within present grants.

    The log names people: a right to see sums alone opens nothing of it. A moved entry counts if all its parents are
    within reach, and an archived one by its last parent.
    """

    def __init__(self, policy: Policy, actor: Actor, at: datetime) -> None:
        self._policy, tree = policy, load_tree(policy)
        rights = Rights(policy, actor, at)
        by_name = rights.at(*(verb for verb in Grant.Verb if verb != Grant.Verb.VIEW_AGGREGATE))
        tops = {tree.uuid(0)} if rules_all(actor, "policies:read") else by_name
        part = Part.below(tree, tops)
        bound = actor.token.subtree_uid if actor.token else None
        if bound is not None:
            tops = {uid for uid in {*tops, bound} if part.has(uid)}
            within = Part.below(tree, {bound})
            tops = {uid for uid in tops if within.has(uid)}
            part = Part.below(tree, tops)
        self._part, self._tops = part, tops
        self._parents: dict[UUID, set[UUID | None]] = {}
        self._known: dict[UUID, bool] = {}

    @property
    def is_anything(self) -> bool:
        return bool(self._part.mask.any())

    @property
    def is_whole(self) -> bool:
        return bool(self._part.mask[0])

    def name_of(self, uid: UUID) -> str:
        """What it is called now, if it is there and within reach."""
        i = self._part.tree.index_of_uid(uid) if self._part.has(uid) else None
        return "" if i is None else self._part.tree.name[i]

    def uid_at(self, path: str) -> UUID | None:
        """Of the entry with this path now, if it is within reach."""
        i = self._part.tree.index_of_path(path)
        return None if i is None or not self._part.mask[i] else self._part.tree.uuid(i)

    def load_parents(self, uids: Iterable[UUID]) -> None:
        """All parents that these entries ever had, and those of their ancestors: one query a level."""
        unknown = set() if self.is_whole else {uid for uid in uids if self._is_open(uid)}
        while unknown:
            rows = Entry.objects.filter(policy=self._policy, uid__in=unknown).values_list("uid", "parent_uid")
            self._parents |= {uid: set() for uid in unknown}
            for uid, parent in rows.distinct():
                self._parents[uid].add(parent)
            above = {parent for uid in unknown for parent in self._parents[uid] if parent is not None}
            unknown = {uid for uid in above if self._is_open(uid)}

    def covers(self, uids: Iterable[UUID]) -> bool:
        wanted = set(uids)
        self.load_parents(wanted)
        return self.is_whole or all(self._covers(uid) for uid in wanted)

    def _is_open(self, uid: UUID) -> bool:
        """Whether its past decides, and isn't loaded yet: present entries outside the reach need no query."""
        if uid in self._parents or uid in self._tops:
            return False
        return self._part.has(uid) or self._part.tree.index_of_uid(uid) is None

    def _covers(self, uid: UUID) -> bool:
        if uid not in self._known:
            self._known[uid] = False  # of a circle through time nothing is known
            self._known[uid] = self._part.has(uid) if uid in self._tops else self._was_always_within(uid)
        return self._known[uid]

    def _was_always_within(self, uid: UUID) -> bool:
        parents = self._parents.get(uid, set())
        return bool(parents) and all(parent is not None and self._covers(parent) for parent in parents)
