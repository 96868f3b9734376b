"""Notice rules: administrators set them for the site and its sources, managers for what is below their entries.

The nearest rule above a thing applies to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.db import IntegrityError, transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound, Stale
from apps.mapping.permissions import load_visibility
from apps.notices.kinds import kind_of, kinds
from apps.notices.kinds.base import Kind, Term, Terms
from apps.notices.models import Rule
from apps.policies.access.scope import WRITE, Visibility, require_scope, rules_all
from apps.policies.models import Policy
from apps.policies.selectors import get_policy, list_policies
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.usage.models import Source
from apps.usage.selectors import get_source


# --- Resolution: the nearest rule above -------------------------------------------------------------------------------
def ensure_site_rules(*, at: datetime) -> None:
    """Create missing rules of the site. Safe to run twice and concurrently."""
    known = set(Rule.objects.filter(policy=None, source=None).values_list("kind", flat=True))
    missing = [Rule(kind=name, is_on=kind.is_on, changed_at=at) for name, kind in kinds().items() if name not in known]
    if missing:
        Rule.objects.bulk_create(missing, ignore_conflicts=True)


def make_site_rules(**_signal: Any) -> None:
    """Signal receiver: runs after migrations."""
    ensure_site_rules(at=clock.now())


class RuleIndex:
    """All rules of one kind, looked up by place."""

    def __init__(self, kind: Kind, rules: Sequence[Rule]) -> None:
        self._kind, self._rules = kind, [rule for rule in rules if rule.kind == kind.name]

    def for_site(self) -> Terms | None:
        return self._terms(self._site_rule())

    def for_source(self, source: Source) -> Terms | None:
        own = next((rule for rule in self._rules if rule.source_id == source.pk), None)
        return self._terms(own or self._site_rule())

    def for_policy(self, policy: Policy, tree: TreeColumns) -> PolicyTerms:
        """Terms for a policy's tree.

        A rule at an entry applies to everything below it and not to the entry itself: that is checked by rules of
        managers above, which can't be switched off from below.
        """
        of_policy = [rule for rule in self._rules if rule.policy_id == policy.pk]
        whole = next((rule for rule in of_policy if rule.entry_uid is None), None)
        placed = [(i, rule) for rule in of_policy if rule.entry_uid and (i := tree.index_of_uid(rule.entry_uid))]
        rules: list[Rule | None] = [whole or self._site_rule()]
        ruled = np.zeros(len(tree), dtype=np.int32)
        for i, rule in sorted(placed, key=lambda each: int(tree.level[each[0]])):
            below = tree.subtree_mask(i)
            below[i] = False
            ruled[below] = len(rules)
            rules.append(rule)
        return PolicyTerms(ruled, [self._terms(rule) for rule in rules])

    def _site_rule(self) -> Rule | None:
        return next((rule for rule in self._rules if rule.policy_id is None and rule.source_id is None), None)

    def _terms(self, rule: Rule | None) -> Terms | None:
        """None if the rule is off; without any rule the kind's defaults."""
        if rule is None:
            return self._kind.defaults() if self._kind.is_on else None
        return terms_of(self._kind, rule) if rule.is_on else None


class PolicyTerms:
    """The terms for each entry of one tree."""

    def __init__(self, ruled: npt.NDArray[np.int32], terms: Sequence[Terms | None]) -> None:
        self._ruled, self._terms = ruled, terms

    @property
    def is_off(self) -> bool:
        return all(terms is None for terms in self._terms)

    def terms_at(self, i: int) -> Terms | None:
        return self._terms[int(self._ruled[i])]


def terms_of(kind: Kind, rule: Rule) -> dict[str, float]:
    """Terms of the rule, with the kind's defaults for missing ones."""
    return {name: float(rule.terms.get(name, default)) for name, default in kind.defaults().items()}


# --- Rules as people set them -----------------------------------------------------------------------------------------
NEW = 0  # version of a rule that doesn't exist yet


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule in the list. path: "" unless the rule is at an entry."""

    rule: Rule
    kind: Kind
    terms: Mapping[str, float]
    path: str
    may_change: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rule applies: the site, a policy, below an entry, or a source."""

    policy: Policy | None = None
    entry_uid: UUID | None = None
    source: Source | None = None


def list_rules(*, policy_slug: str = "", at: datetime, actor: Actor) -> list[RuleRow]:
    """Rules that the actor may see: the site's, and those of visible policies and entries."""
    found = Rule.objects.select_related("policy", "source").order_by("kind", "pk")
    known = {policy.pk: policy for policy in list_policies(actor=actor) if policy_slug in ("", policy.slug)}
    sights: dict[int, Visibility] = {}
    lines = []
    for rule in found:
        if rule.kind not in kinds() or (rule.policy_id is not None and rule.policy_id not in known):
            continue
        if policy_slug and rule.source_id is not None:
            continue
        line = _line(rule, sights, at, actor)
        if line is not None:
            lines.append(line)
    return lines


def get_rule(*, id: int, at: datetime, actor: Actor) -> RuleRow:
    rule = Rule.objects.select_related("policy", "source").filter(pk=id).first() if 0 < id < 2**63 else None
    known = rule is not None and (rule.policy is None or rule.policy in list_policies(actor=actor))
    line = _line(rule, {}, at, actor) if rule is not None and known and rule.kind in kinds() else None
    if line is None:
        raise NotFound(f"There is no rule {id}.")
    return line


def place_of(*, policy_slug: str = "", entry_uid: UUID | None = None, source_slug: str = "", actor: Actor) -> Place:
    """Place by names. Raises NotFound for what the actor may not see."""
    if source_slug and policy_slug:
        message = "A rule is for a policy or for a source, not for both."
        raise Invalid(message, fields=[FieldProblem("source", message)])
    if source_slug:
        return Place(source=get_source(slug=source_slug, actor=actor))
    return Place(policy=get_policy(slug=policy_slug, actor=actor), entry_uid=entry_uid) if policy_slug else Place()


def set_rule(
    *, kind: str, place: Place, is_on: bool, terms: Mapping[str, Any], version: int, at: datetime, actor: Actor
) -> Rule:
    """Create or change a rule. version: of the rule that the caller read, 0 for a new one.

    Raises:
        Invalid: limits out of range, each with its field.
        Stale: it was changed or created meanwhile.
    """
    chosen = kind_of(kind)
    require_place(place, at, actor)
    _require_fit(chosen, place)
    clean = checked_terms(chosen, terms)
    with transaction.atomic():
        rule = _rules_at(chosen.name, place).select_for_update(no_key=True).first()
        if (rule.version if rule else NEW) != version:
            raise Stale("Another person changed this rule: check it again.")
        before = None if rule is None else {"is_on": rule.is_on, "terms": rule.terms}
        rule = rule or Rule(kind=chosen.name, policy=place.policy, entry_uid=place.entry_uid, source=place.source)
        rule.version = version + 1
        rule.is_on, rule.terms, rule.changed_at, rule.author_name = is_on, clean, at, actor.name
        _save(rule)
        after = {"is_on": is_on, "terms": clean}
        _note("notice_rule.set", chosen.name, place, {"before": before, "after": after}, at, actor)
    return rule


def remove_rule(*, id: int, version: int, at: datetime, actor: Actor) -> None:
    """Remove a rule; the next rule above applies again. Rules of the site can be turned off, not removed."""
    line = get_rule(id=id, at=at, actor=actor)
    place = Place(line.rule.policy, line.rule.entry_uid, line.rule.source)
    require_place(place, at, actor)
    if place == Place():
        raise Conflict("The site's rule can be turned off, not removed: others rest on it.", code="site_rule")
    with transaction.atomic():
        n_removed = Rule.objects.filter(pk=id, version=version).delete()[0]
        if not n_removed:
            raise Stale("Another person changed this rule: check it again.")
        _note("notice_rule.removed", line.kind.name, place, {"before": dict(line.terms)}, at, actor)


def may_set(place: Place, at: datetime, actor: Actor) -> bool:
    """Whether the actor may set rules here: administrators everywhere, managers at their entries and below."""
    if not actor.has_scope(WRITE):
        return False
    if place.policy is None:
        return actor.is_admin
    tree = load_tree(place.policy)
    i = 0 if place.entry_uid is None else tree.index_of_uid(place.entry_uid)
    if i is None:
        return rules_all(actor)
    sees = load_visibility(policy=place.policy, tree=tree, at=at, actor=actor)
    return sees.may_see(i) and sees.may_divide(i)


def require_place(place: Place, at: datetime, actor: Actor) -> None:
    """Raises:
    NotFound: the actor sees no such entry.
    NotAllowed: rules there belong to other managers.
    """
    require_scope(actor, WRITE)
    if place.policy is not None and place.entry_uid is not None:
        tree = load_tree(place.policy)
        load_visibility(policy=place.policy, tree=tree, at=at, actor=actor).require(tree.index_of_uid(place.entry_uid))
    if not may_set(place, at, actor):
        raise NotAllowed(
            "Administrators set this for the site and its sources; managers of an entry set it below that entry."
        )


def checked_terms(kind: Kind, given: Mapping[str, Any]) -> dict[str, float]:
    """The terms as numbers.

    Raises:
        Invalid: an unknown limit, or one out of its range; each with its field.
    """
    known = {term.name: term for term in kind.terms}
    problems, clean = [], {}
    for name, value in given.items():
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


def _require_fit(kind: Kind, place: Place) -> None:
    fits = {"policy": place.source is None, "source": place.policy is None, "site": place == Place()}[kind.watches]
    if not fits:
        message = {"policy": "watches policies, not sources", "source": "watches sources, not policies"}.get(
            kind.watches, "is one for the whole site"
        )
        raise Invalid(f"{kind.name} {message}.", fields=[FieldProblem("kind", message)])


def _line(rule: Rule, sights: dict[int, Visibility], at: datetime, actor: Actor) -> RuleRow | None:
    kind, path = kinds()[rule.kind], ""
    if rule.policy is None:
        may = may_set(Place(source=rule.source), at, actor)
        return RuleRow(rule, kind, terms_of(kind, rule), path, may)
    if rule.policy.pk not in sights:
        sights[rule.policy.pk] = load_visibility(policy=rule.policy, tree=load_tree(rule.policy), at=at, actor=actor)
    sees = sights[rule.policy.pk]
    i = 0 if rule.entry_uid is None else sees.tree.index_of_uid(rule.entry_uid)
    if i is None or not sees.may_see(i):
        return None
    path = sees.tree.path(i) if rule.entry_uid else ""
    return RuleRow(rule, kind, terms_of(kind, rule), path, actor.has_scope(WRITE) and sees.may_divide(i))


def _rules_at(kind: str, place: Place) -> Any:
    return Rule.objects.filter(kind=kind, policy=place.policy, entry_uid=place.entry_uid, source=place.source)


def _save(rule: Rule) -> None:
    try:
        with transaction.atomic():
            rule.save()
    except IntegrityError as error:
        raise Stale("Another person created this rule at the same time: check it again.") from error


def _note(verb: str, kind: str, place: Place, details: Mapping[str, Any], at: datetime, actor: Actor) -> None:
    audit.record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=place.policy.slug if place.policy else "",
        entry_uid=place.entry_uid,
        subject=f"{kind} {place.source.slug}" if place.source else kind,
        details=details,
    )
