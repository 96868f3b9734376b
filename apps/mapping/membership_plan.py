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

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.account_ids import AccountKey, is_reserved
from apps.accounts.models import Account
from apps.mapping.membership_activity import (
    Activity,
    Someone,
    load_activity,
    load_gone,
    load_people,
    load_since,
    made_by_rule,
)
from apps.mapping.rules.resolver import Match, Resolver, match_accounts
from apps.mapping.rules.rule import Rule, entry_name, has_wild
from apps.mapping.rules.rule_set import Rulebook, load_rulebook, people_named
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.publishing.direct import publish_automatic
from apps.policies.publishing.revisions import lock_policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import MAX_DEPTH, MOST_CHILDREN
from apps.policies.tree.stored import load_tree

MOST_OPERATIONS = 1_000  # per run; the next run continues
Operation = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """Changes that the rules require now: members to restore, users to add, idle members to archive."""

    back: list[Operation] = field(default_factory=list)
    joined: list[Operation] = field(default_factory=list)
    idle: list[Operation] = field(default_factory=list)

    @property
    def operations(self) -> list[Operation]:
        """Operations of this run, at most MOST_OPERATIONS."""
        return [*self.back, *self.joined, *self.idle][:MOST_OPERATIONS]

    @property
    def reason(self) -> str:
        """Reason of the change set, with the number of operations of each kind."""
        left, counts = MOST_OPERATIONS, []
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
class Joining:
    """A user who isn't yet a child of the rule's entry, with all their accounts."""

    entry: int
    name: str
    rule: int
    accounts: list[int] = field(default_factory=list)
    seen_at: datetime | None = None  # last sign-in of a user without accounts


@dataclass(frozen=True, eq=False)
class Census:
    """All accounts and the users that rules name, matched to entries by the rules. `ids` is parallel to `keys`."""

    tree: TreeColumns
    book: Rulebook
    ids: Sequence[int]
    keys: Sequence[AccountKey]
    people: Sequence[Someone]

    @cached_property
    def matches(self) -> list[Match]:
        return match_accounts(self.tree, self.book.rules, self.book.known, self.keys)

    def joining(self) -> dict[tuple[int, str], Joining]:
        """Return the users to be added, by entry and name."""
        found: dict[tuple[int, str], Joining] = {}
        for account, key, match in zip(self.ids, self.keys, self.matches, strict=True):
            if match.joins is None:
                continue
            rule, person = self.book.rules[match.joins], self.book.known.persons.get(key)
            name = rule.names_below(key, person)[-1]
            if name:
                self._note(found, match.entry, name, match.joins).accounts.append(account)
        for someone in self.people:
            number = self._rule_for(someone)
            if number is not None:
                entry = self.tree.index_of_uid(self.book.rules[number].target_uid)
                if entry is not None and self.tree.child_named(entry, entry_name(someone.person.name)) is None:
                    one = self._note(found, entry, someone.person.name, number)
                    one.seen_at = max(someone.seen_at, one.seen_at or someone.seen_at)
        return {place: one for place, one in found.items() if self._fits(one)}

    def members(self) -> dict[int, tuple[int, list[int]]]:
        """Return members that can be archived when idle: by entry, the days, and the accounts mapped to it."""
        days: dict[int, int | None] = {}
        for entry, rule in self._by_rule():
            if entry in days and days[entry] is None:
                continue
            after = rule.archive_after_idle_days
            days[entry] = None if after is None else max(after, days.get(entry) or 0)
        accounts: dict[int, list[int]] = {entry: [] for entry, after in days.items() if after and self._may_rest(entry)}
        for account, match in zip(self.ids, self.matches, strict=True):
            if match.entry in accounts:
                accounts[match.entry].append(account)
        return {entry: (days[entry] or 0, mine) for entry, mine in accounts.items()}

    def deserted(self) -> dict[int, int]:
        """Return children that no account or user matches any more, with the days until they are archived."""
        led = zip(self.keys, self.matches, strict=True)
        here = {match.entry for key, match in led if not is_reserved(key.namespace)}  # except those of peers
        here |= {entry for entry, _rule in self._by_rule()}
        found: dict[int, int] = {}
        for rule in self.book.rules:
            parent = self.tree.index_of_uid(rule.target_uid) if rule.kind == "each" and len(rule.parts) == 1 else None
            if parent is None or rule.archive_after_idle_days is None:
                continue
            for child in self.tree.children(parent):
                if child not in here and self._may_rest(child) and self._kind(child) == rule.member_kind:
                    found[child] = max(found.get(child, 0), rule.archive_after_idle_days)
        return found

    def seen_at(self) -> dict[int, datetime]:
        """Return the last sign-in of users who are members by name, by entry."""
        found = {}
        for someone in self.people:
            entry = self._member_entry(someone)
            if entry is not None:
                found[entry] = someone.seen_at
        return found

    def _by_rule(self) -> Iterator[tuple[int, Rule]]:
        """Yield entries that are members, with their rule."""
        for match in self.matches:
            if match.member is not None:
                yield match.entry, self.book.rules[match.member]
        for someone in self.people:
            entry, number = self._member_entry(someone), self._rule_for(someone)
            if entry is not None and number is not None:
                yield entry, self.book.rules[number]

    def _member_entry(self, someone: Someone) -> int | None:
        number = self._rule_for(someone)
        parent = None if number is None else self.tree.index_of_uid(self.book.rules[number].target_uid)
        return None if parent is None else self.tree.child_named(parent, entry_name(someone.person.name))

    def _rule_for(self, someone: Someone) -> int | None:
        """Return the first rule that matches this user by sign-in group alone, whatever accounts they have.

        A rule limited to a part of the policy must name the group exactly, and excludes users with accounts elsewhere.
        """
        for number, rule in self._for_people:
            if not rule.takes_person(someone.person) or self.tree.index_of_uid(rule.target_uid) is None:
                continue
            if rule.reach_uid is None or (not has_wild(rule.people) and self._counts_below(someone, number)):
                return number
        return None

    def _counts_below(self, someone: Someone, number: int) -> bool:
        """Return whether all accounts of the user are unmapped, or mapped below the rule's reach."""
        decided = (self._resolver.decide(key) for key in someone.accounts)
        return all(self._resolver.may_take(number, each) for each in decided)

    @cached_property
    def _resolver(self) -> Resolver:
        return self.book.on(self.tree)

    @cached_property
    def _for_people(self) -> list[tuple[int, Rule]]:
        return [
            (number, rule)
            for number, rule in enumerate(self.book.rules)
            if rule.people and not (rule.namespace or rule.group_pattern or rule.fqan_pattern)
        ]

    def _note(self, found: dict[tuple[int, str], Joining], entry: int, name: str, rule: int) -> Joining:
        named = entry_name(name)
        return found.setdefault((entry, named), Joining(entry, named, rule))

    def _fits(self, one: Joining) -> bool:
        """Return whether the child can be added: the name is unused, and the tree's limits allow it."""
        tree, entry = self.tree, one.entry
        return (
            tree.child_named(entry, one.name) is None
            and not tree.is_reserve[entry]
            and int(tree.level[entry]) < MAX_DEPTH
            and int(tree.n_children[entry]) < MOST_CHILDREN
        )

    def _may_rest(self, entry: int) -> bool:
        """Return whether the entry may be archived as idle: an unlocked leaf without dates."""
        tree = self.tree
        free = entry > 0 and not tree.is_group[entry] and not tree.n_children[entry]
        return bool(free and not tree.locked[entry] and not tree.is_reserve[entry] and entry not in tree.dates)

    def _kind(self, entry: int) -> str:
        return self.tree.kind_names[int(self.tree.kind_code[entry])]


def take_census(policy: Policy, tree: TreeColumns, book: Rulebook) -> Census:
    rows = list(Account.objects.order_by("id").values_list("id", *AccountKey._fields))
    keys = [AccountKey(*row[1:]) for row in rows]
    return Census(tree, book, [row[0] for row in rows], keys, load_people(people_named(book.rules)))


def plan_members(policy: Policy, tree: TreeColumns, book: Rulebook, *, at: datetime) -> Plan:
    """Return the membership changes that are due in a policy at an instant."""
    if not book.has_members:
        return Plan()
    census = take_census(policy, tree, book)
    back, joined = plan_joining(policy, census, census.joining(), at=at)
    asked = (tree.digest, book.rules, book.known.digest, hash(tuple(census.people)), int(at.timestamp()) // 3_600)
    if _found_awake.get(policy.pk) == asked:
        return Plan(back, joined)
    idle = _plan_idle(policy, census, at=at)
    if tree.digest and not idle:
        _found_awake[policy.pk] = asked
    return Plan(back, joined, idle)


# By policy: state in which no member was idle. Usage can't make members idle, so the check is skipped within the hour.
_found_awake: dict[int, tuple[object, ...]] = {}


def plan_joining(
    policy: Policy, census: Census, joining: dict[tuple[int, str], Joining], *, at: datetime
) -> tuple[list[Operation], list[Operation]]:
    """Return operations that restore archived members, and that add users who were active recently.

    Recently means within the days after which they would be archived as idle.
    """
    tree, rules = census.tree, census.book.rules
    uid = {entry: tree.uuid(entry) for entry in {one.entry for one in joining.values()}}
    gone = load_gone(policy, ((uid[one.entry], one.name) for one in joining.values()))
    since: dict[tuple[int, str], datetime] = {}
    for place, one in joining.items():
        days, before = rules[one.rule].archive_after_idle_days, gone.get((uid[one.entry], one.name))
        if before is not None:
            since[place] = before.at
        elif days is not None:
            since[place] = at - timedelta(days=days)
    asked = [account for place in since for account in joining[place].accounts]
    activity = load_activity(asked, since=min(since.values(), default=at) - timedelta(hours=1))
    back: list[Operation] = []
    joined: list[Operation] = []
    for place, one in sorted(joining.items()):
        before = gone.get((uid[one.entry], one.name))
        if before is not None:
            if _is_back(one, activity, before.at):
                back.append({"op": "restore", "entry": str(before.uid)})
        elif place not in since or _is_alive(one, activity, since[place]):
            joined.append(_add(uid[one.entry], one.name, rules[one.rule]))
    return back, joined


def apply_members(*, at: datetime) -> list[Revision]:
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


def _plan_of(policy: Policy, at: datetime) -> Plan:
    tree = load_tree(policy)
    return plan_members(policy, tree, load_rulebook(policy, tree), at=at)


def _plan_idle(policy: Policy, census: Census, *, at: datetime) -> list[Operation]:
    tree, members, deserted, seen = census.tree, census.members(), census.deserted(), census.seen_at()
    asked = [account for _days, accounts in members.values() for account in accounts]
    longest = max((days for days, _accounts in members.values()), default=0)
    activity = load_activity(asked, since=at - timedelta(days=longest, hours=1))
    idle: dict[int, datetime] = {}
    for entry, (days, accounts) in members.items():
        since = at - timedelta(days=days)
        if activity.is_idle(accounts, since) and not (not accounts and entry in seen and seen[entry] > since):
            idle[entry] = since
    by_rule = made_by_rule(policy, [tree.uuid(entry) for entry in deserted])
    idle |= {entry: at - timedelta(days=days) for entry, days in deserted.items() if tree.uuid(entry) in by_rule}
    touched = load_since(policy, [tree.uuid(entry) for entry in idle])
    return [
        {"op": "archive", "entry": str(tree.uuid(entry))}
        for entry, since in sorted(idle.items())
        if touched.get(tree.uuid(entry), at) <= since
    ]


def _is_back(one: Joining, activity: Activity, gone_at: datetime) -> bool:
    if not one.accounts:
        return one.seen_at is not None and one.seen_at > gone_at
    return activity.came_back(one.accounts, gone_at)


def _is_alive(one: Joining, activity: Activity, since: datetime) -> bool:
    if not one.accounts:
        return one.seen_at is not None and one.seen_at > since
    return not activity.is_idle(one.accounts, since)


def _add(parent: UUID, name: str, rule: Rule) -> Operation:
    return {
        "op": "add",
        "parent": str(parent),
        "name": name,
        "kind": rule.member_kind,
        "shares": rule.member_shares,
        "is_group": False,
    }
