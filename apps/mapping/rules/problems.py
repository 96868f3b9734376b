"""Find rules that can't match any account, and ambiguous account names, with the reason. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from apps.accounts.account_keys import AccountKey
from apps.mapping.rules.resolver import Resolver
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.slurm_accounts import ambiguous_accounts

_MOST_PROBLEM_NAMES = 5


@dataclass(frozen=True)
class RuleProblem:
    """A problem of a rule. code: stable. entries: those with ambiguous names; if empty, the rule matches no account."""

    code: str
    detail: str = ""
    entries: tuple[int, ...] = ()

    @property
    def matches_nothing(self) -> bool:
        return not self.entries


def problems_of(resolver: Resolver, number: int, namespaces: Collection[str]) -> list[RuleProblem]:
    """Return what prevents one rule from matching. namespaces: of usage sources and known accounts."""
    rule, target = resolver.rules[number], resolver.targets[number]
    problems = []
    if target is None:
        return [RuleProblem("no_entry")]
    if rule.namespace and rule.namespace not in namespaces:
        is_source_gone = "\0" in rule.namespace
        problems.append(RuleProblem("no_source") if is_source_gone else RuleProblem("no_namespace", rule.namespace))
    if _leads_to_root(resolver, rule, target):
        problems.append(RuleProblem("leads_to_root"))
    if rule.kind == "default" and _is_after_default(resolver.rules[:number], rule):
        problems.append(RuleProblem("after_default"))
    if rule.kind == "association":
        ambiguous = ambiguous_accounts(resolver.tree, target)
        names = sorted(ambiguous)
        shown = ", ".join(names[:_MOST_PROBLEM_NAMES]) + (", …" if len(names) > _MOST_PROBLEM_NAMES else "")
        entries = tuple(entry for name in names for entry in ambiguous[name])
        problems += [RuleProblem("ambiguous", shown, entries)] if names else []
    return problems


def problem_text(problem: RuleProblem) -> str:
    texts = {
        "no_entry": _("Matches nothing: its entry is archived."),
        "no_source": _("Matches nothing: its usage source was removed."),
        "no_namespace": _("Matches nothing: no account has the namespace %(name)s."),
        "leads_to_root": _("Matches nothing: it ends at the root, where no usage counts."),
        "after_default": _("Matches nothing: an earlier default rule applies first."),
        "ambiguous": _("Account names that several entries have map nowhere: %(name)s. Rename one of each."),
    }
    return texts[problem.code] % {"name": problem.detail}


def other_case_text(key: AccountKey, path: str) -> str:
    """Say that an account has no entry of its name, and which entry has the name in another letter case."""
    names = [name for name in (key.user_name or key.dn, key.group_name, key.project) if name]
    text = _(
        "%(account)s is not named like an entry, but %(path)s differs by letter case alone: if it is the same, "
        "attach the account there on the page Accounts."
    )
    return text % {"account": " · ".join(names), "path": path}


def _leads_to_root(resolver: Resolver, rule: Rule, target: int) -> bool:
    """Return whether the rule can't lead below the root; *each* rules add children there, share trees search below."""
    if target != 0 or rule.kind in ("each", "share_tree"):
        return False
    if not rule.parts or not resolver.tree.n_children[0]:
        return True
    return "{" not in rule.parts[0] and rule.kind != "association" and resolver.is_dead_end(0, rule.parts[0])


def _is_after_default(before: Sequence[Rule], rule: Rule) -> bool:
    return any(
        other.kind == "default" and other.namespace in ("", rule.namespace) and not other.parts for other in before
    )
