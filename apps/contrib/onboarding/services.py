"""Propose a policy from the usage of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed
from apps.mapping.rules.entry_names import entry_name
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import load_rules
from apps.mapping.services import set_rules
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.records import NewChangeSet
from apps.policies.selectors import get_revision
from apps.policies.services import make_change_set, make_policy, publish_document
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import new_uid
from apps.policies.tree.stored import load_tree
from apps.usage.models import Source

DIGITS = 6  # significant digits of shares in proportion to usage
_USED = """
SELECT account.group_name, account.user_name, account.dn, sum(bucket.cpu_s)
FROM usage_bucket AS bucket JOIN accounts_account AS account ON account.id = bucket.account_id
WHERE bucket.source_id = %s
GROUP BY account.group_name, account.user_name, account.dn
ORDER BY 1, 2, 3
"""

# A proposed policy counts the whole log without decay; the manager then chooses a half-life.
_OF_A_PROPOSAL: Mapping[str, Any] = {"window": {"length_s": None, "aging": "none"}}


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
    return known if any(known_rule.stated == rule for known_rule in known) else [*known, rule]


def _used(source: Source) -> list[GroupUsage]:
    with connection.cursor() as cursor:
        cursor.execute(_USED, [source.pk])
        return [GroupUsage(group, user or dn, float(cpu_s)) for group, user, dn, cpu_s in cursor.fetchall()]


def _settings_of(policy: Policy) -> PolicySettings:
    return PolicySettings.from_stored(get_revision(policy=policy).settings)
