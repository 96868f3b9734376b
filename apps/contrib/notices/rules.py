"""Notice rules: administrators set them for the site, managers of a whole policy for that policy.

The rule of a policy applies there in place of the site's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.contrib.notices.kind import Kind, Term, Terms
from apps.contrib.notices.kinds import KINDS, is_kind, kind_of
from apps.contrib.notices.models import Rule
from apps.contrib.notices.places import Place, may_set, require_place, sees_whole
from apps.core import clock
from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound, Stale
from apps.policies.models import Policy
from apps.policies.selectors import list_policies

NEW = 0  # version of a rule that doesn't exist yet


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule in the list."""

    rule: Rule
    kind: Kind
    terms: Mapping[str, float]
    may_change: bool


def ensure_site_rules(*, at: datetime) -> None:
    """Create missing rules of the site. Safe to run twice and concurrently."""
    known = set(Rule.objects.filter(policy=None).values_list("kind", flat=True))
    missing = [Rule(kind=kind.name, changed_at=at) for kind in KINDS if kind.name not in known]
    if missing:
        Rule.objects.bulk_create(missing, ignore_conflicts=True)


def make_site_rules(**_signal: Any) -> None:
    """Signal receiver: runs after migrations."""
    ensure_site_rules(at=clock.now())


class RuleIndex:
    """All rules of one kind, looked up by place. Terms are None where the rule is off."""

    def __init__(self, kind: Kind, rules: Sequence[Rule]) -> None:
        self._kind = kind
        self._by_policy = {rule.policy_id: rule for rule in rules if rule.kind == kind.name}

    def for_site(self) -> Terms | None:
        return self._terms(self._by_policy.get(None))

    def for_policy(self, policy: Policy) -> Terms | None:
        return self._terms(self._by_policy.get(policy.pk, self._by_policy.get(None)))

    def _terms(self, rule: Rule | None) -> Terms | None:
        """Without any rule the kind's defaults."""
        if rule is None:
            return self._kind.defaults()
        return terms_of(self._kind, rule) if rule.is_on else None


def terms_of(kind: Kind, rule: Rule) -> dict[str, float]:
    """Terms of the rule, with the kind's defaults for missing ones."""
    return {name: float(rule.terms.get(name, default)) for name, default in kind.defaults().items()}


def list_rules(*, policy_slug: str = "", at: datetime, actor: Actor) -> list[RuleRow]:
    """Rules that the actor may see: the site's, and those of visible policies. policy_slug: only of this one."""
    rules = list(
        Rule.objects.filter(kind__in=[kind.name for kind in KINDS]).select_related("policy").order_by("kind", "pk")
    )
    ruled = {rule.policy_id for rule in rules}
    policies = [policy for policy in list_policies(actor=actor) if policy.pk in ruled]
    known = {policy.pk for policy in policies if policy_slug in ("", policy.slug) and sees_whole(policy, at, actor)}
    visible = [rule for rule in rules if rule.policy_id is None or rule.policy_id in known]
    may_change = {policy: may_set(Place(policy), at, actor) for policy in {rule.policy for rule in visible}}
    return [_row(rule, may_change[rule.policy]) for rule in visible]


def get_rule(*, id: int, at: datetime, actor: Actor) -> RuleRow:
    rule = Rule.objects.select_related("policy").filter(pk=id).first() if 0 < id < 2**63 else None
    is_known = rule is not None and is_kind(rule.kind)
    if rule is not None and rule.policy is not None:
        is_known &= rule.policy in list_policies(actor=actor) and sees_whole(rule.policy, at, actor)
    if rule is None or not is_known:
        raise NotFound(f"There is no rule {id}.")
    return _row(rule, may_set(Place(rule.policy), at, actor))


def _row(rule: Rule, may_change: bool) -> RuleRow:
    kind = kind_of(rule.kind)
    return RuleRow(rule, kind, terms_of(kind, rule), may_change)


def require_set_anywhere(*, at: datetime, actor: Actor) -> None:
    """Raise NotAllowed for actors who decide neither for the site nor for a policy."""
    policies = list_policies(actor=actor)
    if not any(may_set(Place(policy), at, actor) for policy in policies):
        require_place(Place(), at, actor)


def set_rule(
    *,
    kind: str,
    policy: Policy | None,
    is_on: bool,
    terms: Mapping[str, Any],
    version: int,
    at: datetime,
    actor: Actor,
) -> Rule:
    """Create or change the rule of a policy, or of the site.

    version: of the rule that the caller read, 0 for a new one.

    Raises:
        Invalid: limits out of range, each with its field; a policy for a kind that watches none.
        NotAllowed: others decide there.
        Stale: it was changed or created meanwhile.
    """
    chosen = kind_of(kind)
    require_place(Place(policy), at, actor)
    if policy is not None and chosen.watches != "policy":
        what = "usage sources" if chosen.watches == "source" else "the site"
        message = f"{chosen.name} watches {what}: its rule is the site's."
        raise Invalid(message, fields=[FieldProblem("kind", message)])
    clean = checked_terms(chosen, terms)
    with transaction.atomic():
        rule = Rule.objects.filter(kind=chosen.name, policy=policy).select_for_update(no_key=True).first()
        if (rule.version if rule else NEW) != version:
            raise Stale("Another person changed this rule: check it again.")
        before = None if rule is None else {"is_on": rule.is_on, "terms": rule.terms}
        rule = rule or Rule(kind=chosen.name, policy=policy)
        rule.version = version + 1
        rule.is_on, rule.terms, rule.changed_at, rule.author_name = is_on, clean, at, actor.name
        try:
            with transaction.atomic():
                rule.save()
        except IntegrityError as error:
            raise Stale("Another person created this rule at the same time: check it again.") from error
        _note("notice_rule.set", rule, {"before": before, "after": {"is_on": is_on, "terms": clean}}, at, actor)
    return rule


def remove_rule(*, id: int, version: int, at: datetime, actor: Actor) -> None:
    """Remove the rule of a policy; the site's applies again. Rules of the site can be turned off, not removed."""
    row = get_rule(id=id, at=at, actor=actor)
    require_place(Place(row.rule.policy), at, actor)
    if row.rule.policy is None:
        raise Conflict("The site's rule can be turned off, not removed: others rest on it.", code="site_rule")
    with transaction.atomic():
        n_removed = Rule.objects.filter(pk=id, version=version).delete()[0]
        if not n_removed:
            raise Stale("Another person changed this rule: check it again.")
        _note("notice_rule.removed", row.rule, {"before": dict(row.terms)}, at, actor)


def checked_terms(kind: Kind, terms: Mapping[str, Any]) -> dict[str, float]:
    """The terms as numbers.

    Raises:
        Invalid: an unknown limit, or one out of its range; each with its field.
    """
    known = {term.name: term for term in kind.terms}
    problems, clean = [], {}
    for name, value in terms.items():
        if name not in known:
            problems.append(FieldProblem(f"terms.{str(name)[:40]}", f"is unknown; known: {', '.join(known) or 'none'}"))
        elif problem := _problem(known[name], value):
            problems.append(FieldProblem(f"terms.{name}", problem))
        else:
            clean[name] = int(value) if known[name].is_whole else float(value)
    if problems:
        raise Invalid(f"{problems[0].where} {problems[0].message}.", fields=problems)
    return {name: value for name, value in clean.items() if value != known[name].default}


def _problem(term: Term, value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_right = is_number and term.lowest <= value <= term.highest and (not term.is_whole or value == int(value))
    what = "a whole number" if term.is_whole else "a number"
    return "" if is_right else f"is {what} from {term.lowest:g} to {term.highest:g}"


def _note(verb: str, rule: Rule, details: Mapping[str, Any], at: datetime, actor: Actor) -> None:
    audit.record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=rule.policy.slug if rule.policy else "",
        subject=rule.kind,
        details=details,
    )
