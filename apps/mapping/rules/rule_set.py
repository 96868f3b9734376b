"""The complete rule set of a policy, in the order in which its parts are tried:

1. Attachments: an account attached to an entry by hand is mapped there.
2. Stored exact rules.
3. Membership rules of the tree's entries: those of deeper entries first, then by the order of entries in the tree, then
by their order in the entry.
4. All other stored rules, in their stored order.
5. Default rules.

The first match decides. Rules whose entry is archived, or that lead only to the root, are skipped.

Rules whose author maps accounts only in a part of the policy come after all of these except default rules. They take no
account from entries outside that part: see `resolver.Resolver.decide`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from uuid import UUID

from django.contrib.auth.models import Group
from django.db import connection

from apps.accounts.account_keys import AccountKey, canonical
from apps.accounts.models import Account, User
from apps.accounts.people import normalise_group
from apps.accounts.request_cache import once_per_request
from apps.mapping.models import Attachment, MappingRule
from apps.mapping.rules.resolver import KnownAccounts, Resolver, reach_of
from apps.mapping.rules.rule import Person, Rule
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.terms import WHOLE_POLICY, MembershipRule, read_members
from apps.usage.models import Source

_TIERS = {"exact": 0, "default": 2}  # of stored rules; membership rules follow tier 0
_STORED = (
    "kind",
    "target_uid",
    "namespace",
    "source",
    "user_pattern",
    "group_pattern",
    "fqan_pattern",
    "suffix",
    "member_shares",
    "archive_after_idle_days",
    "reach_uid",
    "written_at",
)
_NO_SOURCE = "\0"  # a namespace that no account has

# The condition is that of the index policies_entry_members.
_MEMBERS = """
SELECT DISTINCT members::text FROM policies_entry WHERE policy_id = %s AND members <> '[]'::jsonb ORDER BY 1
"""

_NAMESPACES = """
SELECT named.slug, COALESCE(source.namespace, '') FROM (
    SELECT unnest(%s::text[]) AS slug
    UNION SELECT source FROM mapping_mappingrule WHERE policy_id = %s AND source <> '') AS named
LEFT JOIN usage_source AS source ON source.slug = named.slug ORDER BY 1
"""

_PEOPLE = """
SELECT md5(COALESCE(string_agg(concat_ws(':', account.id, person.username, team.name), ',' ORDER BY account.id, team.id), ''))
FROM accounts_account AS account
JOIN accounts_user AS person ON person.id = account.person_id AND person.is_active
JOIN accounts_user_groups AS belongs ON belongs.user_id = person.id
JOIN auth_group AS team ON team.id = belongs.group_id AND team.name = ANY(%s)
"""  # noqa: E501


@dataclass(frozen=True, eq=False)
class RuleSet:
    """The rules of a policy and one of its trees, with what is known of single accounts."""

    rules: tuple[Rule, ...]
    known: KnownAccounts

    def on(self, tree: TreeColumns) -> Resolver:
        return Resolver(self.rules, tree, self.known)

    @property
    def has_membership_rules(self) -> bool:
        return any(rule.kind == "each" for rule in self.rules)


def load_rule_set(policy: Policy, tree: TreeColumns, *, of: User | None = None) -> RuleSet:
    """Load the current rule set. of: load only this user's accounts."""
    return build_rule_set(policy, tree, load_rules(policy), of=of)


def build_rule_set(
    policy: Policy, tree: TreeColumns, stored: Sequence[Rule], *, of: User | None = None, with_attached: bool = True
) -> RuleSet:
    """Build the rule set with these stored rules. with_attached: whether to load attached accounts."""
    namespaces = _namespaces(tree, stored)
    rules = in_order(with_namespaces(stored, namespaces), rules_of_tree(tree, namespaces))
    return RuleSet(rules, load_known_accounts(policy, rules, of=of, with_attached=with_attached))


def with_namespaces(stored: Sequence[Rule], namespaces: Mapping[str, str]) -> list[Rule]:
    """Replace sources by the namespace of their accounts; a missing source matches nothing."""
    return [
        replace(rule, namespace=namespaces.get(rule.source, _NO_SOURCE), source="") if rule.source else rule
        for rule in stored
    ]


def load_rules(policy: Policy) -> tuple[Rule, ...]:
    """Load the policy's stored rules in their order, without membership rules of its tree."""
    rows = MappingRule.objects.filter(policy=policy).order_by("position").values(*_STORED)
    return once_per_request(("rules", policy.pk), lambda: tuple(Rule(**row) for row in rows))


def load_rules_of(policies: Sequence[Policy]) -> dict[int, list[Rule]]:
    """The stored rules of each policy in their order, by its id."""
    rules: dict[int, list[Rule]] = {policy.pk: [] for policy in policies}
    rows = MappingRule.objects.filter(policy__in=policies).order_by("position").values("policy_id", *_STORED)
    for row in rows if policies else ():
        rules[row.pop("policy_id")].append(Rule(**row))
    return rules


def in_order(stored: Sequence[Rule], of_tree: Iterable[Rule]) -> tuple[Rule, ...]:
    """Combine stored rules and membership rules in the order in which they are tried (see the module's docstring)."""
    tiers: list[list[Rule]] = [[], [], []]
    for rule in stored:
        tiers[tier_of(rule)].append(rule)
    return (*tiers[0], *of_tree, *tiers[1], *tiers[2])


def numbers_of(stored: Sequence[Rule], rules: Sequence[Rule]) -> list[int]:
    """Return the index of each stored rule among all rules. stored: sorted by `sort_by_tier`."""
    n_exact, n_of_tree = sum(tier_of(rule) == 0 for rule in stored), len(rules) - len(stored)
    return [at if at < n_exact else at + n_of_tree for at in range(len(stored))]


def tier_of(rule: Rule) -> int:
    """Return 0 for exact rules, 2 for default rules, 1 for all others."""
    return _TIERS.get(rule.kind, 1)


def rules_of_tree(tree: TreeColumns, namespaces: Mapping[str, str]) -> list[Rule]:
    """Return the membership rules of all entries, deeper ones first. namespaces: of the sources, by slug."""
    entries = sorted(tree.members, key=lambda i: (-int(tree.level[i]), i))
    return [rule_of(tree, i, members, namespaces) for i in entries for members in tree.members[i]]


def rule_of(tree: TreeColumns, i: int, members: MembershipRule, namespaces: Mapping[str, str]) -> Rule:
    """Convert a membership rule to a mapping rule; with a missing source, it matches nothing."""
    uid = tree.uuid(i)
    reaches_all = members.reach == WHOLE_POLICY
    return Rule(
        kind="each",
        target_uid=uid,
        written_at=members.written_at,
        reach_uid=None if reaches_all else UUID(members.reach) if members.reach else uid,
        namespace=namespaces.get(members.source, _NO_SOURCE) if members.source else "",
        group_pattern=_escape_brackets(members.group),
        fqan_pattern=_escape_brackets(members.fqan),
        people=_people_pattern(members),
        member_shares=members.shares,
        member_kind=members.kind,
        archive_after_idle_days=members.archive_after_days,
    )


def member_rules(tree: TreeColumns, i: int) -> list[tuple[MembershipRule, int | None]]:
    """Return the membership rules of an entry, each with its reach: an entry, or None for the whole policy."""
    return [(members, reach_of(tree, rule_of(tree, i, members, {}), i)) for members in tree.members.get(i, ())]


def load_known_accounts(
    policy: Policy, rules: Sequence[Rule], *, of: User | None, with_attached: bool = True
) -> KnownAccounts:
    """Load attached accounts, and accounts whose owner is in a sign-in group that the rules name."""
    names = list_matched_groups(rules)
    persons = Account.objects.filter(person__groups__name__in=names, person__is_active=True) if names else None
    if of is not None:
        persons = None if persons is None else persons.filter(person=of)
    owners: dict[AccountKey, tuple[str, set[str]]] = {}
    if persons is not None:
        rows = persons.values_list("person__username", "person__groups__name", *AccountKey._fields)
        for username, group, *key in rows.iterator(chunk_size=20_000):
            owners.setdefault(AccountKey(*key), (username, set()))[1].add(group)
    people = {key: Person(name, frozenset(groups)) for key, (name, groups) in owners.items()}
    return KnownAccounts(_attached(policy, of) if with_attached else {}, people)


def _attached(policy: Policy, of: User | None) -> dict[AccountKey, UUID]:
    """Return the entries of attached accounts; for one user, cached for the request."""
    if of is not None:
        return dict(once_per_request(("attached", policy.pk, of.pk), lambda: _read_attached(policy, of)))
    return _read_attached(policy, None)


def _read_attached(policy: Policy, of: User | None) -> dict[AccountKey, UUID]:
    attached = Attachment.objects.filter(policy=policy)
    if of is not None:
        attached = attached.filter(account__person=of) | attached.filter(account__user_name=of.username)
    keys = [f"account__{name}" for name in AccountKey._fields]
    places = {AccountKey(*row[1:]): row[0] for row in attached.order_by("pk").values_list("entry_uid", *keys)}
    return places | {canonical(key): uid for key, uid in places.items() if canonical(key) not in places}


def list_matched_groups(rules: Iterable[Rule]) -> list[str]:
    """Return the sign-in groups that the rules match."""
    patterns = {rule.people for rule in rules if rule.people}
    return _list_groups(patterns) if patterns else []


def _list_groups(patterns: Collection[str]) -> list[str]:
    names = Group.objects.order_by("name").values_list("name", flat=True)
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


@dataclass(frozen=True)
class RuleInputs:
    """What decides the mapping besides rules, trees and accounts, and changes without a new version of the mapping.

    people: digest of the members of sign-in groups in membership rules, and of the owners of accounts; "" if no rule is
    for such groups. namespaces: of the sources that rules name, by slug; "" for one that doesn't exist.
    """

    people: str
    namespaces: Mapping[str, str]

    @classmethod
    def of_tree(cls, policy: Policy, tree: TreeColumns, stored: Sequence[Rule] | None = None) -> RuleInputs:
        """For the membership rules of one tree, and stored rules: the present ones of the policy by default."""
        return cls._of(policy, _membership_rules(tree), stored)

    @classmethod
    def of_revisions(cls, policy: Policy) -> RuleInputs:
        """For the membership rules of all revisions of the policy, and its present stored rules."""
        with connection.cursor() as cursor:
            cursor.execute(_MEMBERS, [policy.pk])
            listed = [json.loads(members) for (members,) in cursor.fetchall()]
        return cls._of(policy, [rule for raw in listed for rule in read_members(raw, stored=True)], None)

    @classmethod
    def _of(cls, policy: Policy, members: Sequence[MembershipRule], stored: Sequence[Rule] | None) -> RuleInputs:
        named = {rule.source for rule in members} | {rule.source for rule in stored or ()}
        with connection.cursor() as cursor:
            cursor.execute(_NAMESPACES, [sorted(named - {""}), policy.pk if stored is None else None])
            return cls(people_digest(members), dict(cursor.fetchall()))


def _membership_rules(tree: TreeColumns) -> list[MembershipRule]:
    return [rule for rules in tree.members.values() for rule in rules]


def people_digest(members: Iterable[MembershipRule]) -> str:
    """Return a digest that changes when a member of a group in these rules, or an account's owner, changes.

    "" if no rule is for sign-in groups.
    """
    patterns = {_people_pattern(rule) for rule in members if rule.people}
    if not patterns:
        return ""
    names = _list_groups(patterns)
    with connection.cursor() as cursor:
        cursor.execute(_PEOPLE, [names])
        return str(cursor.fetchone()[0])


def _namespaces(tree: TreeColumns, stored: Sequence[Rule]) -> dict[str, str]:
    slugs = {rule.source for rule in _membership_rules(tree)} | {rule.source for rule in stored}
    slugs.discard("")
    return dict(Source.all_objects.filter(slug__in=slugs).values_list("slug", "namespace")) if slugs else {}


def _people_pattern(members: MembershipRule) -> str:
    return _escape_brackets(_group(members.people))


def _group(people: str) -> str:
    try:
        return normalise_group(people) if people else ""
    except ValueError:
        return people


def _escape_brackets(pattern: str) -> str:
    """Escape [ in a pattern: membership rules allow * and ?, but no character sets."""
    return pattern.replace("[", "[[]")
