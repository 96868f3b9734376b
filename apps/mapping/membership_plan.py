"""Apply membership rules: add users as children of entries, archive them when idle, restore them when active again.

Membership rules of entries and stored *each* rules are handled alike: both are *each* rules of the rule set. Changes
are published as a change set of origin `rule`, at most one per policy and run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.account_index import AccountKeys, load_account_index
from apps.core.derived_state import in_memory
from apps.mapping.membership_activity import (
    Activity,
    SignInUser,
    added_by_rule,
    load_activity,
    load_archived_entries,
    load_group_users,
    load_last_changed,
)
from apps.mapping.rules.entry_names import entry_name
from apps.mapping.rules.placement import Placement, place_accounts
from apps.mapping.rules.resolver import Resolver
from apps.mapping.rules.rule import Rule, has_wildcard
from apps.mapping.rules.rule_set import RuleSet, list_matched_groups, load_rule_set
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.publishing.direct import publish_automatic
from apps.policies.publishing.revisions import lock_policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import MAX_DEPTH, MOST_CHILDREN_OF_ENTRY
from apps.policies.tree.stored import load_tree

DERIVED_STATE = (
    in_memory(
        "_without_idle_members",
        holds="states of policies in which no member was idle",
        key="tree, rules, known accounts, people of groups, hour",
        inputs="those, and usage, which makes no member idle",
        range="one hour",
        ends="another key",
    ),
)

MOST_PLANNED_OPERATIONS = 1_000  # per run; the next run continues
Operation = dict[str, Any]


@dataclass(frozen=True)
class MembershipPlan:
    """Changes that the rules require now: members to restore, users to add, idle members to archive."""

    back: list[Operation] = field(default_factory=list)
    joined: list[Operation] = field(default_factory=list)
    idle: list[Operation] = field(default_factory=list)

    @property
    def operations(self) -> list[Operation]:
        """Operations of this run, at most MOST_PLANNED_OPERATIONS."""
        return [*self.back, *self.joined, *self.idle][:MOST_PLANNED_OPERATIONS]

    @property
    def reason(self) -> str:
        """Reason of the change set, with the number of operations of each kind."""
        left, counts = MOST_PLANNED_OPERATIONS, []
        for group in (self.back, self.joined, self.idle):
            counts.append(min(len(group), left))
            left -= counts[-1]
        n_back, n_joined, n_idle = counts
        parts = []
        if n_joined:
            parts.append(ngettext("%(n)s joined", "%(n)s joined", n_joined) % {"n": n_joined})
        if n_back:
            parts.append(ngettext("%(n)s restored", "%(n)s restored", n_back) % {"n": n_back})
        if n_idle:
            parts.append(ngettext("%(n)s archived as idle", "%(n)s archived as idle", n_idle) % {"n": n_idle})
        return _("Members by rule: %(what)s.") % {"what": ", ".join(parts)}


@dataclass
class UserToAdd:
    """A user who isn't yet a child of the rule's entry, with all their accounts."""

    entry: int
    name: str
    rule: int
    accounts: list[int] = field(default_factory=list)
    seen_at: datetime | None = None  # last sign-in of a user without accounts


@dataclass(frozen=True, eq=False)
class MembershipState:
    """All accounts and the users that rules name, matched to entries by the rules. `ids` is parallel to `keys`."""

    tree: TreeColumns
    rule_set: RuleSet
    ids: npt.NDArray[np.int64]
    keys: AccountKeys
    people: Sequence[SignInUser]

    @cached_property
    def placement(self) -> Placement:
        return place_accounts(self.tree, self.rule_set.rules, self.rule_set.known, self.keys)

    def users_to_add(self) -> dict[tuple[int, str], UserToAdd]:
        """Return the users to be added, by entry and name."""
        users_to_add: dict[tuple[int, str], UserToAdd] = {}
        placement = self.placement
        for at in np.flatnonzero(placement.joins >= 0).tolist():
            key, joins = self.keys[at], int(placement.joins[at])
            name = self.rule_set.rules[joins].names_below(key, self.rule_set.known.persons.get(key))[-1]
            if name:
                user_to_add = self._get_or_add(users_to_add, int(placement.entry[at]), name, joins)
                user_to_add.accounts.append(int(self.ids[at]))
        for user in self.people:
            number = self._rule_for(user)
            if number is not None:
                entry = self.tree.index_of_uid(self.rule_set.rules[number].target_uid)
                if entry is not None and self.tree.child_named(entry, entry_name(user.person.name)) is None:
                    user_to_add = self._get_or_add(users_to_add, entry, user.person.name, number)
                    user_to_add.seen_at = max(user.seen_at, user_to_add.seen_at or user.seen_at)
        return {place: user_to_add for place, user_to_add in users_to_add.items() if self._can_add(user_to_add)}

    def members(self) -> dict[int, tuple[int, list[int]]]:
        """Return members that can be archived when idle: by entry, the days, and the accounts mapped to it."""
        days: dict[int, int | None] = {}
        for entry, rule in self._by_rule():
            if entry in days and days[entry] is None:
                continue
            after = rule.archive_after_idle_days
            days[entry] = None if after is None else max(after, days.get(entry) or 0)
        accounts: dict[int, list[int]] = {
            entry: [] for entry, after in days.items() if after and self._may_archive(entry)
        }
        for at in np.flatnonzero(np.isin(self.placement.entry, list(accounts))).tolist():
            accounts[int(self.placement.entry[at])].append(int(self.ids[at]))
        return {entry: (days[entry] or 0, members) for entry, members in accounts.items()}

    def unmatched_members(self) -> dict[int, int]:
        """Return children that no account or user matches any more, with the days until they are archived."""
        here = set(self.placement.entry[~self.keys.is_reserved].tolist())  # except those of peers
        here |= {entry for entry, _rule in self._by_rule()}
        days_by_entry: dict[int, int] = {}
        for rule in self.rule_set.rules:
            parent = self.tree.index_of_uid(rule.target_uid) if rule.kind == "each" and len(rule.parts) == 1 else None
            if parent is None or rule.archive_after_idle_days is None:
                continue
            for child in self.tree.children(parent):
                if child not in here and self._may_archive(child) and self._kind(child) == rule.member_kind:
                    days_by_entry[child] = max(days_by_entry.get(child, 0), rule.archive_after_idle_days)
        return days_by_entry

    def seen_at(self) -> dict[int, datetime]:
        """Return the last sign-in of users who are members by name, by entry."""
        seen_at = {}
        for user in self.people:
            entry = self._member_entry(user)
            if entry is not None:
                seen_at[entry] = user.seen_at
        return seen_at

    def _by_rule(self) -> Iterator[tuple[int, Rule]]:
        """Yield entries that are members, with their rule."""
        placement = self.placement
        is_member = placement.member >= 0
        for entry, number in zip(
            placement.entry[is_member].tolist(), placement.member[is_member].tolist(), strict=True
        ):
            yield entry, self.rule_set.rules[number]
        for user in self.people:
            entry, number = self._member_entry(user), self._rule_for(user)
            if entry is not None and number is not None:
                yield entry, self.rule_set.rules[number]

    def _member_entry(self, user: SignInUser) -> int | None:
        number = self._rule_for(user)
        parent = None if number is None else self.tree.index_of_uid(self.rule_set.rules[number].target_uid)
        return None if parent is None else self.tree.child_named(parent, entry_name(user.person.name))

    def _rule_for(self, user: SignInUser) -> int | None:
        """Return the first rule that matches this user by sign-in group alone, whatever accounts they have.

        A rule limited to a part of the policy must name the group exactly, and excludes users with accounts elsewhere.
        """
        for number, rule in self._people_rules:
            if not rule.matches_owner(user.person) or self.tree.index_of_uid(rule.target_uid) is None:
                continue
            if rule.reach_uid is None or (not has_wildcard(rule.people) and self._is_mapped_below(user, number)):
                return number
        return None

    def _is_mapped_below(self, user: SignInUser, number: int) -> bool:
        """Return whether all accounts of the user are unmapped, or mapped below the rule's reach."""
        decided = (self._resolver.decide(key) for key in user.accounts)
        return all(self._resolver.may_take(number, each) for each in decided)

    @cached_property
    def _resolver(self) -> Resolver:
        return self.rule_set.on(self.tree)

    @cached_property
    def _people_rules(self) -> list[tuple[int, Rule]]:
        return [
            (number, rule)
            for number, rule in enumerate(self.rule_set.rules)
            if rule.people and not (rule.namespace or rule.group_pattern or rule.fqan_pattern)
        ]

    def _get_or_add(
        self, users_to_add: dict[tuple[int, str], UserToAdd], entry: int, name: str, rule: int
    ) -> UserToAdd:
        named = entry_name(name)
        return users_to_add.setdefault((entry, named), UserToAdd(entry, named, rule))

    def _can_add(self, user: UserToAdd) -> bool:
        """Return whether the child can be added: the name is unused, and the tree's limits allow it."""
        tree, entry = self.tree, user.entry
        return (
            tree.child_named(entry, user.name) is None
            and not tree.is_reserve[entry]
            and int(tree.level[entry]) < MAX_DEPTH
            and int(tree.n_children[entry]) < MOST_CHILDREN_OF_ENTRY
        )

    def _may_archive(self, entry: int) -> bool:
        """Return whether the entry may be archived as idle: an unlocked leaf without dates."""
        tree = self.tree
        free = entry > 0 and not tree.is_group[entry] and not tree.n_children[entry]
        return bool(free and not tree.locked[entry] and not tree.is_reserve[entry] and entry not in tree.dates)

    def _kind(self, entry: int) -> str:
        return self.tree.kind_names[int(self.tree.kind_code[entry])]


def load_membership_state(policy: Policy, tree: TreeColumns, rule_set: RuleSet) -> MembershipState:
    accounts, people = load_account_index(use_cache=False), load_group_users(list_matched_groups(rule_set.rules))
    return MembershipState(tree, rule_set, accounts.ids, accounts.keys, people)


def plan_membership_changes(policy: Policy, tree: TreeColumns, rule_set: RuleSet, *, at: datetime) -> MembershipPlan:
    """Return the membership changes that are due in a policy at an instant."""
    if not rule_set.has_membership_rules:
        return MembershipPlan()
    state = load_membership_state(policy, tree, rule_set)
    back, joined = plan_additions(policy, state, state.users_to_add(), at=at)
    cache_key = (
        tree.digest,
        rule_set.rules,
        rule_set.known.digest,
        hash(tuple(state.people)),
        int(at.timestamp()) // 3_600,
    )
    if _without_idle_members.get(policy.pk) == cache_key:
        return MembershipPlan(back, joined)
    idle = _plan_archiving(policy, state, at=at)
    if tree.digest and not idle:
        _without_idle_members[policy.pk] = cache_key
    return MembershipPlan(back, joined, idle)


# By policy: state in which no member was idle. Usage can't make members idle, so the check is skipped within the hour.
_without_idle_members: dict[int, tuple[object, ...]] = {}


def plan_additions(
    policy: Policy, state: MembershipState, users_to_add: dict[tuple[int, str], UserToAdd], *, at: datetime
) -> tuple[list[Operation], list[Operation]]:
    """Return operations that restore archived members, and that add users who were active recently.

    Recently means within the days after which they would be archived as idle.
    """
    tree, rules = state.tree, state.rule_set.rules
    uid = {entry: tree.uuid(entry) for entry in {user.entry for user in users_to_add.values()}}
    gone = load_archived_entries(policy, ((uid[user.entry], user.name) for user in users_to_add.values()))
    since: dict[tuple[int, str], datetime] = {}
    for place, user in users_to_add.items():
        days, before = rules[user.rule].archive_after_idle_days, gone.get((uid[user.entry], user.name))
        if before is not None:
            since[place] = before.at
        elif days is not None:
            since[place] = at - timedelta(days=days)
    account_ids = [account for place in since for account in users_to_add[place].accounts]
    activity = load_activity(account_ids, since=min(since.values(), default=at) - timedelta(hours=1))
    back: list[Operation] = []
    joined: list[Operation] = []
    for place, user in sorted(users_to_add.items()):
        before = gone.get((uid[user.entry], user.name))
        if before is not None:
            if _is_active_again(user, activity, before.at):
                back.append({"op": "restore", "entry": str(before.uid)})
        elif place not in since or _is_active(user, activity, since[place]):
            joined.append(_add(uid[user.entry], user.name, rules[user.rule]))
    return back, joined


def apply_membership_rules(*, at: datetime) -> list[Revision]:
    """Publish the due membership changes, one change set per policy. A second run changes nothing.

    Policies with due changes are locked one by one, and their changes are computed again under the lock, so that only
    one of two concurrent runs makes them.
    """
    published = []
    for policy in Policy.objects.filter(head_number__gt=0).order_by("pk"):
        if not _plan_of(policy, at).operations:
            continue
        with transaction.atomic():
            locked = lock_policy(policy.pk)
            plan = _plan_of(locked, at)
            if not plan.operations:
                continue
            revision = publish_automatic(
                policy_id=locked.pk, operations=plan.operations, origin=ChangeSet.Origin.RULE, reason=plan.reason, at=at
            )
        if revision is not None:
            published.append(revision)
    return published


def _plan_of(policy: Policy, at: datetime) -> MembershipPlan:
    tree = load_tree(policy)
    return plan_membership_changes(policy, tree, load_rule_set(policy, tree), at=at)


def _plan_archiving(policy: Policy, state: MembershipState, *, at: datetime) -> list[Operation]:
    tree, members, unmatched_members, seen = state.tree, state.members(), state.unmatched_members(), state.seen_at()
    account_ids = [account for _days, accounts in members.values() for account in accounts]
    longest = max((days for days, _accounts in members.values()), default=0)
    activity = load_activity(account_ids, since=at - timedelta(days=longest, hours=1))
    idle: dict[int, datetime] = {}
    for entry, (days, accounts) in members.items():
        since = at - timedelta(days=days)
        if activity.is_idle(accounts, since) and not (not accounts and entry in seen and seen[entry] > since):
            idle[entry] = since
    by_rule = added_by_rule(policy, [tree.uuid(entry) for entry in unmatched_members])
    idle |= {
        entry: at - timedelta(days=days) for entry, days in unmatched_members.items() if tree.uuid(entry) in by_rule
    }
    touched = load_last_changed(policy, [tree.uuid(entry) for entry in idle])
    return [
        {"op": "archive", "entry": str(tree.uuid(entry))}
        for entry, since in sorted(idle.items())
        if touched.get(tree.uuid(entry), at) <= since
    ]


def _is_active_again(user: UserToAdd, activity: Activity, gone_at: datetime) -> bool:
    if not user.accounts:
        return user.seen_at is not None and user.seen_at > gone_at
    return activity.has_new_activity(user.accounts, gone_at)


def _is_active(user: UserToAdd, activity: Activity, since: datetime) -> bool:
    if not user.accounts:
        return user.seen_at is not None and user.seen_at > since
    return not activity.is_idle(user.accounts, since)


def _add(parent: UUID, name: str, rule: Rule) -> Operation:
    return {
        "op": "add",
        "parent": str(parent),
        "name": name,
        "kind": rule.member_kind,
        "shares": rule.member_shares,
        "is_group": False,
    }
