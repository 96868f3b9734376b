"""Members of one entry: accounts, membership rules, recent actions of the rules, and a preview of new rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import Q

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.core.errors import NotAllowed
from apps.mapping.attachments import list_attachments
from apps.mapping.claims import OpenClaim, list_claims
from apps.mapping.membership_activity import load_group_users
from apps.mapping.membership_plan import MembershipState, plan_additions
from apps.mapping.models import Attachment
from apps.mapping.permissions import MapRights
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import RuleSet, list_matched_groups, load_rule_set, member_rules
from apps.policies.access.authority import ActorGuard
from apps.policies.access.scope import Verb
from apps.policies.changesets.drafts import may_edit
from apps.policies.models import ChangeSet, Entry, Revision
from apps.policies.operations.membership_reach import record_reach
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.terms import MembershipRule
from apps.policies.tree.working_tree import WorkingTree
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view
from apps.priorities.selectors.tree import offset

_MOST_MEMBER_ROWS = 100
_MOST_RUNS = 50  # change sets by rule that are searched for recent events
_MOST_EVENTS = 20
_MOST_ADDED_NAMES = 12
_MOST_WAITING_MEMBERS = 50


@dataclass(frozen=True, slots=True)
class MemberAccount:
    """One account at an entry. person: the owner's user name; "" if unknown."""

    key: AccountKey
    person: str


@dataclass(frozen=True, slots=True)
class MemberLine:
    entry: EntryRow
    accounts: Sequence[MemberAccount]


@dataclass(frozen=True, slots=True)
class RuleEvent:
    """An action of a rule. what: `joined`, `back` (unarchived) or `idle` (archived for inactivity)."""

    name: str
    uid: UUID
    what: str
    at: datetime
    revision: int
    is_here: bool  # the entry exists in the current tree


@dataclass(frozen=True)
class MembersPage:
    """The members page. waiting: accounts at the entry itself. members, waiting: empty if names are hidden."""

    view: PolicyView
    entry: EntryRow
    rules: Sequence[MembershipRule]
    reaches: Sequence[int | None]  # of each rule: only accounts below this entry may join; None: of the whole policy
    members: Sequence[MemberLine]
    n_members: int
    next_cursor: str | None
    waiting: Sequence[MemberAccount]
    n_waiting: int
    lately: Sequence[RuleEvent]
    attached: Sequence[Attachment]
    claims: Sequence[OpenClaim]
    may_name: bool
    may_map: bool
    may_rule: bool  # may set and publish rules
    may_draft: bool


@dataclass(frozen=True, slots=True)
class MembersPreview:
    """Effect of new rules. names: of new members, if visible. n_taken: accounts that now count at other entries."""

    n_joined: int
    n_back: int
    n_matched: int
    n_taken: int
    names: Sequence[str]


def get_members_page(*, policy_slug: str, uid: UUID, actor: Actor, cursor: str | None = None) -> MembersPage:
    """The members page of a visible entry. cursor: first member."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    i = view.require(uid)
    rights = MapRights(view.policy, view.tree, actor, view.now)
    may_name = rights.may_name(i)
    leaves = [j for j in view.visible_children(i) if not view.tree.n_children[j] and not view.tree.is_reserve[j]]
    start = offset(cursor)
    shown = leaves[start : start + _MOST_MEMBER_ROWS]
    accounts = _accounts_at(view, [i, *shown]) if may_name else {}
    waiting = accounts.get(i, [])
    return MembersPage(
        view=view,
        entry=view.row(i),
        rules=view.tree.members.get(i, ()),
        reaches=[reach for _rule, reach in member_rules(view.tree, i)],
        members=[MemberLine(view.row(j, position=(1, 1)), accounts.get(j, [])) for j in shown] if may_name else [],
        n_members=len(leaves),
        next_cursor=str(start + _MOST_MEMBER_ROWS) if len(leaves) > start + _MOST_MEMBER_ROWS else None,
        waiting=waiting[:_MOST_WAITING_MEMBERS],
        n_waiting=len(waiting),
        lately=_recent_events(view, uid) if may_name else [],
        attached=list_attachments(rights, entry_uid=uid) if may_name else [],
        claims=list_claims(rights, view.tree.subtree_mask(i)) if rights.may_map(i) else [],
        may_name=may_name,
        may_map=rights.may_map(i) and i > 0,
        may_rule=may_rule(rights, i),
        may_draft=may_edit(view.policy, actor, view.now),
    )


def may_rule(rights: MapRights, i: int) -> bool:
    """Whether the actor may set and publish the membership rules of an entry."""
    if rights.tree.is_reserve[i] or not rights.actor.has_scope("policies:write"):
        return False
    return all(rights.holds(i, verb) for verb in (Verb.EDIT_STRUCTURE, Verb.MAP_ACCOUNTS, Verb.PUBLISH))


def preview_members(
    *, policy_slug: str, entry_uid: UUID, members: Sequence[MembershipRule], at: datetime, actor: Actor
) -> MembersPreview:
    """Preview new rules in place of an entry's present ones; for users who may set them.

    Names of new members are shown if all their accounts count here already; administrators see all names.
    """
    view = open_view(policy_slug=policy_slug, actor=actor)
    i = view.require(entry_uid)
    rights = MapRights(view.policy, view.tree, actor, view.now)
    if not may_rule(rights, i):
        raise NotAllowed("You may not set membership rules here: propose the rule instead.")
    working = WorkingTree(view.tree)
    guard = ActorGuard(policy=view.policy, tree=view.tree, actor=actor, at=view.now, only_see=True)
    author = guard.author(working, view.tree.node(i))
    current = view.tree.members.get(i, ())
    after = _with_members(view.tree, i, record_reach(members, standing=current, author=author, tree=working))
    rule_set = load_rule_set(view.policy, after)
    own = [rule for rule in rule_set.rules if rule.kind == "each" and rule.target_uid == entry_uid]
    membership = _membership_state_of(after, rule_set, own)
    users_to_add = {place: user for place, user in membership.users_to_add().items() if user.entry == i}
    back, joined = plan_additions(view.policy, membership, users_to_add, at=at)
    matched, n_taken, here = _count_matched(view, membership, i)
    sees_all_names = actor.is_admin
    named = [
        user.name for user in users_to_add.values() if sees_all_names or (user.accounts and set(user.accounts) <= here)
    ]
    added = {operation["name"] for operation in joined}
    names = [name for name in sorted(named) if name in added][:_MOST_ADDED_NAMES]
    return MembersPreview(len(joined), len(back), matched, n_taken, names)


def _with_members(tree: TreeColumns, i: int, members: Sequence[MembershipRule]) -> TreeColumns:
    others = {at: rules for at, rules in tree.members.items() if at != i}
    return replace(tree, members={**others, i: tuple(members)} if members else others, digest="")


def _membership_state_of(tree: TreeColumns, rule_set: RuleSet, own: Sequence[Rule]) -> MembershipState:
    """A membership of only those accounts and people that may match one of these rules."""
    wanted = Q(pk__in=[])
    for rule in own:
        condition = Q()
        if rule.namespace:
            condition &= Q(namespace=rule.namespace) if "\0" not in rule.namespace else Q(pk__in=[])
        if rule.group_pattern:
            condition &= Q(group_name__regex=f"^{_regex(rule.group_pattern)}$")
        if rule.fqan_pattern:
            condition &= Q(fqan__regex=f"^{_regex(rule.fqan_pattern.rstrip('/'))}(/.*)?$")
        if rule.people:
            condition &= Q(person__groups__name__in=list_matched_groups([rule]))
        wanted |= condition
    accounts = Account.objects.filter(wanted).distinct().order_by("id") if own else Account.objects.none()
    rows = list(accounts.values_list("id", *AccountKey._fields))
    people = load_group_users(list_matched_groups(own))
    ids = np.array([row[0] for row in rows], np.int64)
    return MembershipState(tree, rule_set, ids, AccountKeys.of(AccountKey(*row[1:]) for row in rows), people)


def _count_matched(view: PolicyView, membership: MembershipState, i: int) -> tuple[int, int, set[int]]:
    """Number of accounts matched, number of these at other entries now, and ids of those at or below this entry."""
    rule_set = load_rule_set(view.policy, view.tree)
    resolver, below = rule_set.on(view.tree), view.tree.subtree_mask(i)
    n_matched = n_taken = 0
    here: set[int] = set()
    placement, uid = membership.placement, membership.tree.uuid(i)
    own = [number for number, rule in enumerate(membership.rule_set.rules) if rule.target_uid == uid]
    number = np.where(placement.joins >= 0, placement.joins, placement.member)
    for at in np.flatnonzero(np.isin(number, own)).tolist():
        n_matched += 1
        now, decided = resolver.decide(membership.keys[at])
        if now.entry != UNMAPPED and below[now.entry]:
            here.add(int(membership.ids[at]))
        elif not resolver.is_free((now, decided)):
            n_taken += 1
    return n_matched, n_taken, here


def _accounts_at(view: PolicyView, entries: Sequence[int]) -> dict[int, list[MemberAccount]]:
    """Accounts at each of these entries in the newest snapshot."""
    if view.snapshot is None:
        return {}
    keys: dict[int, list[AccountKey]] = {}
    for i in entries:
        at = int(view.snapshot_index[i])
        if at >= 0:
            keys[i] = view.snapshot.index.accounts_of(at)
    persons = _persons({key for account_keys in keys.values() for key in account_keys[:_MOST_MEMBER_ROWS]})
    return {i: [MemberAccount(key, persons.get(key, "")) for key in account_keys] for i, account_keys in keys.items()}


def _persons(keys: set[AccountKey]) -> dict[AccountKey, str]:
    if not keys:
        return {}
    names = {key.user_name for key in keys if key.user_name}
    dns = {key.dn for key in keys if key.dn}
    owned = Account.objects.filter(Q(user_name__in=names) | Q(dn__in=dns), person__isnull=False)
    rows: list[Any] = list(owned.values_list("person__username", *AccountKey._fields))
    return {AccountKey(*row[1:]): row[0] for row in rows}


def _recent_events(view: PolicyView, uid: UUID) -> list[RuleEvent]:
    """Recent actions of rules on the children of an entry, newest first."""
    runs = Revision.objects.filter(policy=view.policy, change_set__origin=ChangeSet.Origin.RULE)
    at = dict(runs.order_by("-number").values_list("number", "published_at")[:_MOST_RUNS])
    if not at:
        return []
    rows = Entry.objects.filter(policy=view.policy, parent_uid=uid)
    opened = rows.filter(since__in=at).order_by("-since", "name").values_list("uid", "name", "since")[:_MOST_EVENTS]
    closed = rows.filter(until__in=at).order_by("-until", "name").values_list("uid", "name", "until")[:_MOST_EVENTS]
    before = Entry.objects.filter(policy=view.policy, uid__in=[known for known, _name, _since in opened])
    first: dict[UUID, int] = {}
    for known, since in before.values_list("uid", "since"):
        first[known] = min(since, first.get(known, since))
    events = [(number, name, known, "joined" if first[known] == number else "back") for known, name, number in opened]
    events += [(number, name, known, "idle") for known, name, number in closed if number is not None]
    events.sort(key=lambda event: (-event[0], event[1]))
    return [
        RuleEvent(name, known, what, at[number], number, view.tree.index_of_uid(known) is not None)
        for number, name, known, what in events[:_MOST_EVENTS]
    ]


def _regex(pattern: str) -> str:
    """A pattern of `*` and `?` as a regular expression of the database; a bracket is literal."""
    literal = pattern.replace("[[]", "[")
    return "".join(".*" if char == "*" else "." if char == "?" else re.escape(char) for char in literal)
