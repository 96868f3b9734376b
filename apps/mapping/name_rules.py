"""Mapping rules from the names in a tree, and how many accounts rules map to entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from glob import escape
from uuid import UUID

import numpy as np
from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.account_index import load_account_index
from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.entry_accounts import is_reserved
from apps.core.errors import FieldProblem, Invalid
from apps.mapping.rules.entry_names import text_of
from apps.mapping.rules.problems import RuleProblem, problems_of
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import build_rule_set, load_rules, numbers_of
from apps.mapping.services import set_rules
from apps.mapping.versions import sort_by_tier
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.usage.models import Source

_MOST_NESTED = 5_000  # groups that get a rule of their own
MOST_NAMES_COMPARED = 2_000  # accounts whose names are compared without letter case


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
    gets a rule. decisions: as in FirstPolicyDraft. maps_by: as in Format, what finds every account as the scheduler of
    the tree does, instead of these.
    """
    rules = [_rule_of_decision(decision, namespace) for decision in decisions]
    root = tree.uuid(0)
    if maps_by == "each":
        return (*rules, *_rules_of_dotted_groups(tree, namespace))
    if maps_by:
        return (*rules, Rule(kind=maps_by, target_uid=root, namespace=namespace))
    for names in ("/{group}/{user}", "/{project}/{user}"):
        rules.append(Rule(kind="glob", target_uid=root, namespace=namespace, user_pattern="*", suffix=names))
    for i in _nested_groups(tree)[:_MOST_NESTED]:
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


def _rules_of_dotted_groups(tree: TreeColumns, namespace: str) -> Iterator[Rule]:
    """Make each user of a group a child of it, by the names on its path with dots between."""
    for i in np.flatnonzero(tree.takes_members & (tree.level > 0)).tolist()[:_MOST_NESTED]:
        yield Rule(
            kind="each",
            target_uid=tree.uuid(i),
            namespace=namespace,
            user_pattern="*",
            group_pattern=escape(".".join(tree.path(i)[1:].split("/"))),
        )


def _rule_of_decision(decision: Mapping[str, str], namespace: str) -> Rule:
    user, group, fqan = (decision.get(name, "") for name in ("user_pattern", "group_pattern", "fqan_pattern"))
    return Rule(
        kind="exact",
        target_uid=UUID(decision["entry"]),
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
    likely = ((key, resolver.likely_entry(key)) for key in alike[:MOST_NAMES_COMPARED])
    other_case = [(key, tree.path(at)) for key, at in likely if at is not None]
    namespaces = {key.namespace for key in keys} | set(Source.objects.values_list("namespace", flat=True))
    numbers = enumerate(numbers_of(stored, resolver.rules), 1)
    problems = [(at, problem) for at, number in numbers for problem in problems_of(resolver, number, namespaces)]
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
