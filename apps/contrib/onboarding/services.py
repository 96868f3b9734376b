"""Propose mapping rules from names in a tree, and a policy from the usage of a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from glob import escape
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from django.db import connection, transaction
from django.utils.translation import gettext as _

from apps.accounts.account_ids import AccountKey, is_reserved, load_account_index
from apps.accounts.actor import Actor
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed
from apps.mapping.rules.problems import RuleProblem, problems_of
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule import Rule, entry_name, text_of
from apps.mapping.rules.rule_set import build_rule_set, load_rules, numbers_of
from apps.mapping.services import set_rules
from apps.mapping.versions import sort_by_tier
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.records import NewChangeSet
from apps.policies.selectors import get_policy, get_revision
from apps.policies.services import make_change_set, make_policy, publish_document
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import new_uid
from apps.policies.tree.stored import load_tree
from apps.usage.models import Source

MOST_RULES = 5_000
_MOST_COMPARED = 2_000  # accounts whose names are compared without letter case


def default_rules(
    tree: TreeColumns,
    namespace: str,
    decisions: Sequence[Mapping[str, str]] = (),
    *,
    maps_by: str = "",
) -> tuple[Rule, ...]:
    """Rules for decided accounts; then for group and user by name from the root; then for nested groups; then for users
    alone.

    A scheduler knows a group by its name anywhere in the tree, so each group below the first level with a unique name
    gets a rule. decisions: as in FirstPolicyDraft. maps_by: kind of the one rule that finds every account as the
    scheduler of the tree does, instead of these.
    """
    rules = [_rule_of_decision(one, namespace) for one in decisions]
    root = tree.uuid(0)
    if maps_by:
        return (*rules, Rule(kind=maps_by, target_uid=root, namespace=namespace))
    for names in ("/{group}/{user}", "/{project}/{user}"):
        rules.append(Rule(kind="glob", target_uid=root, namespace=namespace, user_pattern="*", suffix=names))
    for i in _nested_groups(tree)[:MOST_RULES]:
        rules.append(
            Rule(
                kind="group",
                target_uid=tree.uuid(i),
                namespace=namespace,
                suffix="/{user}",
                group_pattern=escape(text_of(tree.name[i])),
            )
        )
    if _has_users_at_the_top(tree):
        rules.append(Rule(kind="glob", target_uid=root, namespace=namespace, user_pattern="*", suffix="/{user}"))
    return tuple(rules)


def _rule_of_decision(one: Mapping[str, str], namespace: str) -> Rule:
    user, group, fqan = (one.get(name, "") for name in ("user_pattern", "group_pattern", "fqan_pattern"))
    return Rule(
        kind="exact",
        target_uid=UUID(one["entry"]),
        namespace=namespace,
        user_pattern=user,
        group_pattern=group,
        fqan_pattern=fqan,
    )


def _nested_groups(tree: TreeColumns) -> list[int]:
    """Groups below the first level with a unique name."""
    groups = np.flatnonzero(tree.takes_members & (tree.level > 0)).tolist()
    counts = Counter(tree.name[i] for i in groups)
    return [i for i in groups if tree.level[i] > 1 and counts[tree.name[i]] == 1]


def _has_users_at_the_top(tree: TreeColumns) -> bool:
    top = list(tree.children(0))
    return any(not tree.takes_members[i] and not tree.is_reserve[i] for i in top)


@dataclass(frozen=True)
class Mapped:
    """Accounts of usage sources, mapped ones and rules. problems: with the number of the stored rule, from 1.

    other_case: accounts without an entry of their own, and the path of the one that differs by letter case.
    """

    n_accounts: int
    n_mapped: int
    n_rules: int
    problems: Sequence[tuple[int, RuleProblem]] = ()
    other_case: Sequence[tuple[AccountKey, str]] = ()


def count_mapped(policy: Policy, tree: TreeColumns) -> Mapped:
    """Count accounts that the current rules map to entries of this tree."""
    keys = [key for key in load_account_index(use_cache=False).keys if not is_reserved(key.namespace)]
    stored = sort_by_tier(load_rules(policy))
    resolver = build_rule_set(policy, tree, stored).on(tree)
    entries = resolver.resolve_many(keys)
    n_mapped = int((entries != UNMAPPED).sum())
    alike = [key for key, at in zip(keys, entries.tolist(), strict=True) if not resolver.has_own_entry(at)]
    likely = ((key, resolver.likely_entry(key)) for key in alike[:_MOST_COMPARED])
    other_case = [(key, tree.path(at)) for key, at in likely if at is not None]
    namespaces = {key.namespace for key in keys} | set(Source.objects.values_list("namespace", flat=True))
    numbers = enumerate(numbers_of(stored, resolver.rules), 1)
    problems = [(at, one) for at, number in numbers for one in problems_of(resolver, number, namespaces)]
    return Mapped(len(keys), n_mapped, len(resolver.rules), problems, other_case)


@transaction.atomic
def map_by_names(
    *, policy_slug: str, namespace: str | None, maps_by: str, reason: str, at: datetime, actor: Actor
) -> int:
    """Add rules that map users and groups to entries of the same names; returns the number of new rules.

    maps_by: as in default_rules. namespace: that of the user names; None: that of the usage sources if they have
    a single one, and any without sources.

    Raises:
        Invalid: sources have several namespaces, or none has this one.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope="policies:write")
    stored = list(load_rules(policy))
    wanted = default_rules(load_tree(policy), _namespace(namespace), maps_by=maps_by)
    known = {rule.stated for rule in stored}
    new = [rule for rule in wanted if rule not in known]
    set_rules(policy_slug=policy_slug, rules=[*stored, *new], reason=reason, at=at, actor=actor)
    return len(new)


def _namespace(wanted: str | None) -> str:
    known = sorted({name for name in Source.objects.values_list("namespace", flat=True) if not is_reserved(name)})
    if wanted is None and len(known) < 2:
        return known[0] if known else ""
    if wanted in known:
        return wanted
    names = ", ".join(known) or _("none")
    if wanted is None:
        message = _("names one of the namespaces of the usage sources: %(names)s") % {"names": names}
    else:
        message = _("%(name)s is not a namespace of a usage source; choose from %(names)s") % {
            "name": repr(wanted[:80]),
            "names": names,
        }
    raise Invalid(f"--map {message}.", fields=[FieldProblem("--map", message)])


DIGITS = 6  # significant digits of shares in proportion to usage


class GroupUsage(NamedTuple):
    """Usage of one user of one group, in core-seconds."""

    group: str
    user: str
    core_s: float


def propose_tree(used: Sequence[GroupUsage], *, proportional: bool, name: str) -> tuple[dict[str, Any], int, int]:
    """Propose the root of a policy document; returns it with the numbers of groups and users.

    Shares are 1, or core-hours used, with six significant digits; 0 without usage. Accounts without a user (of a group
    itself) add to the group only.
    """
    groups: dict[str, dict[str, float]] = {}
    own: dict[str, float] = {}
    for row in used:
        group = entry_name(row.group)
        users = groups.setdefault(group, {})
        if row.user:
            user = entry_name(row.user)
            users[user] = users.get(user, 0.0) + row.core_s
        else:
            own[group] = own.get(group, 0.0) + row.core_s
    children = []
    for group, users in sorted(groups.items()):
        total = sum(users.values()) + own.get(group, 0.0)
        members = [
            {"name": user, "kind": "user", "shares": _shares(core_s) if proportional else 1}
            for user, core_s in sorted(users.items())
        ]
        shares = _shares(total) if proportional else 1
        children.append({"name": group, "kind": "group", "shares": shares, "children": members})
    root = {"name": name, "kind": "root", "shares": 1, "children": children}
    return root, len(groups), sum(len(users) for users in groups.values())


def operations_towards(tree: TreeColumns, root: dict[str, Any]) -> list[dict[str, Any]]:
    """Operations that add entries of a proposed root that the tree lacks, and set the shares of the others."""
    operations: list[dict[str, Any]] = []
    waiting: list[tuple[dict[str, Any], int | None, str]] = [(root, 0, str(tree.uuid(0)))]
    while waiting:
        node, i, uid = waiting.pop()
        for child in node.get("children", ()):
            known = None if i is None else tree.child_named(i, child["name"])
            if known is None:
                child_uid = str(new_uid())
                added = {key: child[key] for key in ("name", "kind", "shares")}
                is_group = "children" in child
                operations.append({"op": "add", "parent": uid, "uid": child_uid, "is_group": is_group, **added})
            else:
                child_uid = str(tree.uuid(known))
                if tree.inherit[known] or tree.shares[known] != child["shares"]:
                    operations.append({"op": "set_shares", "entry": child_uid, "shares": child["shares"]})
            waiting.append((child, known, child_uid))
    return operations


def _shares(core_s: float) -> float:
    """Core-hours rounded to six significant digits: 214806.123 becomes 214806."""
    return float(f"{Decimal(core_s) / 3600:.{DIGITS}g}")


_USED = """
SELECT account.group_name, account.user_name, account.dn, sum(bucket.cpu_s)
FROM usage_bucket AS bucket JOIN accounts_account AS account ON account.id = bucket.account_id
WHERE bucket.source_id = %s
GROUP BY account.group_name, account.user_name, account.dn
ORDER BY 1, 2, 3
"""


# A proposed policy counts the whole log without decay; the manager then chooses a half-life.
_OF_A_PROPOSAL: Mapping[str, Any] = {"window": {"length_s": None, "aging": "none"}}


@dataclass(frozen=True)
class Proposal:
    """The proposed policy: a draft (`revision` is None) or a published revision."""

    n_groups: int
    n_users: int
    change_set: ChangeSet
    revision: Revision | None


@dataclass(frozen=True)
class PolicyProposal:
    """A policy to propose from a source. settings: parts of PolicySettings; others stay."""

    policy_slug: str
    source_slug: str
    proportional: bool = False
    settings: Mapping[str, Any] | None = None
    publish: bool = False
    reason: str = ""


def propose_policy(proposal: PolicyProposal, *, at: datetime, actor: Actor) -> Proposal:
    """Create a policy or change set from the groups and users of a source, with the rule that maps them.

    Shares are equal or in proportion to usage. A missing policy is created. `settings` are parts of PolicySettings;
    others stay. A draft adds entries and changes shares; publishing replaces the tree and archives other entries.
    """
    if not actor.is_admin:
        raise NotAllowed(_("Only administrators may propose a whole policy."))
    source = Source.objects.filter(slug=proposal.source_slug).first()
    if source is None:
        raise Invalid(
            _("There is no usage source %(slug)s: import its records first.") % {"slug": proposal.source_slug},
            fields=[FieldProblem("source", "is unknown")],
        )
    used = _used(source)
    if not used:
        raise Conflict(
            _("Source %(slug)s has no usage yet: import its records first.") % {"slug": proposal.source_slug},
            code="no_usage",
        )
    root, n_groups, n_users = propose_tree(used, proportional=proposal.proportional, name=proposal.policy_slug)
    with transaction.atomic():
        policy, wanted, is_new = _policy_for(proposal.policy_slug, proposal.settings or {}, at=at, actor=actor)
        revision = None
        if proposal.publish:
            document = {"policy": proposal.policy_slug, "settings": wanted.to_json(), "root": root}
            revision = publish_document(
                policy_slug=proposal.policy_slug, document=document, reason=proposal.reason, at=at, actor=actor
            )
            change_set = revision.change_set
        else:
            operations = operations_towards(load_tree(policy), root)
            if wanted != _settings_of(policy):
                operations.append({"op": "set_policy", "settings": wanted.to_json()})
            change_set = make_change_set(
                policy_slug=proposal.policy_slug,
                new=NewChangeSet(operations=operations, reason=proposal.reason),
                at=at,
                actor=actor,
            )
        if proposal.publish or is_new:
            policy.refresh_from_db()
            rules = _with_rule_of(policy, source, load_tree(policy).uuid(0))
            set_rules(policy_slug=proposal.policy_slug, rules=rules, at=at, actor=actor)
    return Proposal(n_groups, n_users, change_set, revision)


def _policy_for(
    slug: str, settings: Mapping[str, Any], *, at: datetime, actor: Actor
) -> tuple[Policy, PolicySettings, bool]:
    """The policy, its wanted settings, and whether it was created."""
    policy = Policy.all_objects.filter(slug=slug).first()
    if policy is not None:
        return policy, PolicySettings.from_json(settings, base=_settings_of(policy)), False
    wanted = PolicySettings.from_json(settings, base=PolicySettings.from_json(_OF_A_PROPOSAL))
    return make_policy(slug=slug, name=slug, settings=wanted, at=at, actor=actor), wanted, True


def _with_rule_of(policy: Policy, source: Source, root_uid: UUID) -> list[Rule]:
    """The policy's rules, with one for all groups and users of the source's namespace added if missing."""
    suffix = "/{group}/{user}"
    rule = Rule(kind="glob", namespace=source.namespace, target_uid=root_uid, user_pattern="*", suffix=suffix)
    known = list(load_rules(policy))
    return known if any(one.stated == rule for one in known) else [*known, rule]


def _used(source: Source) -> list[GroupUsage]:
    with connection.cursor() as cursor:
        cursor.execute(_USED, [source.pk])
        return [GroupUsage(group, user or dn, float(cpu_s)) for group, user, dn, cpu_s in cursor.fetchall()]


def _settings_of(policy: Policy) -> PolicySettings:
    return PolicySettings.from_stored(get_revision(policy=policy).settings)
