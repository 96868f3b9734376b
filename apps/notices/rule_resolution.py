"""Which rule decides about a thing: the nearest above it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.core import clock
from apps.notices.kinds import kinds
from apps.notices.kinds.base import Kind, Terms
from apps.notices.models import Rule
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.usage.models import Source


def ensure_site_rules(*, at: datetime) -> None:
    """Safe to run twice and at once."""
    known = set(Rule.objects.filter(policy=None, source=None).values_list("kind", flat=True))
    missing = [Rule(kind=name, is_on=kind.is_on, changed_at=at) for name, kind in kinds().items() if name not in known]
    if missing:
        Rule.objects.bulk_create(missing, ignore_conflicts=True)


def make_site_rules(**_signal: Any) -> None:
    """After the tables are made."""
    ensure_site_rules(at=clock.now())


class Ruling:
    """All rules of one kind, asked place by place."""

    def __init__(self, kind: Kind, rules: Sequence[Rule]) -> None:
        self._kind, self._rules = kind, [rule for rule in rules if rule.kind == kind.name]

    def for_site(self) -> Terms | None:
        return self._terms(self._site_rule())

    def for_source(self, source: Source) -> Terms | None:
        own = next((rule for rule in self._rules if rule.source_id == source.pk), None)
        return self._terms(own or self._site_rule())

    def for_policy(self, policy: Policy, tree: TreeColumns) -> PolicyRuling:
        """A rule at an entry applies to everything below it, and not to the entry itself: whether that one has its
        share is for managers above to watch, whose rules can't be silenced from below.
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
        return PolicyRuling(ruled, [self._terms(rule) for rule in rules])

    def _site_rule(self) -> Rule | None:
        return next((rule for rule in self._rules if rule.policy_id is None and rule.source_id is None), None)

    def _terms(self, rule: Rule | None) -> Terms | None:
        """None where it is off; without any rule the kind's own."""
        if rule is None:
            return self._kind.defaults() if self._kind.is_on else None
        return terms_of(self._kind, rule) if rule.is_on else None


class PolicyRuling:
    """The terms for each entry of one tree."""

    def __init__(self, ruled: npt.NDArray[np.int32], terms: Sequence[Terms | None]) -> None:
        self._ruled, self._terms = ruled, terms

    @property
    def is_off(self) -> bool:
        return all(terms is None for terms in self._terms)

    def terms_at(self, i: int) -> Terms | None:
        return self._terms[int(self._ruled[i])]


def terms_of(kind: Kind, rule: Rule) -> dict[str, float]:
    """Those of the rule; what it leaves out is as the kind says."""
    return {name: float(rule.terms.get(name, default)) for name, default in kind.defaults().items()}
