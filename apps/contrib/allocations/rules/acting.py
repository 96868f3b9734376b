"""Rules that are on act: each one's steps of today are one change set, published in one transaction with their record.

A policy's lock orders workers, and a step's key is unique: two workers, a worker that is killed, or a second call on
the same day take no step twice. A step that was undone isn't taken again, since its record stays.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db import transaction

from apps.accounts.actor import Actor
from apps.contrib.allocations.models import RuleStep
from apps.contrib.allocations.rules.engine import steps_on
from apps.contrib.allocations.rules.loading import (
    MOST_RULED_DAYS,
    RuledPolicy,
    add_steps_taken,
    load_used,
    make_state,
    ruled_allocations,
)
from apps.contrib.allocations.rules.state import DAY, RuledState, UsedByDay
from apps.contrib.allocations.rules.step import (
    AmountEffect,
    CarryEffect,
    LimitsEffect,
    SharesEffect,
    Step,
    facts_of,
)
from apps.core.errors import DomainError
from apps.policies.account_limits import LONGEST_LIMIT_REASON
from apps.policies.allocation_rules import AllocationRule, rules_of
from apps.policies.changesets.change_sets import load_revision
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.operations.allocation_edits import AllocationEdit
from apps.policies.publishing.direct import publish_automatic
from apps.policies.publishing.revisions import lock_policy
from apps.runs.fault_points import fault_point

log = logging.getLogger(__name__)
_MOST_REASONS = 20
_LONGEST_RULE_REASON = 4_000


def act_on_rules(*, at: datetime, zone: ZoneInfo) -> list[RuleStep]:
    """Take the steps of this instant of all policies' rules that are on; one that fails doesn't stop the others."""
    taken: list[RuleStep] = []
    for policy in Policy.objects.filter(head_number__gt=0).order_by("pk"):
        ruled = _ruled(policy, at, zone)
        rules = [rule for rule in rules_of(ruled.settings.rules) if rule.is_on]
        if not rules:
            continue
        used = load_used(ruled, ruled_allocations(ruled, rules), not_before=ruled.today - MOST_RULED_DAYS * DAY)
        for rule in rules:
            try:
                taken += _act(policy.pk, rule.name, used, at, zone)
            except DomainError as error:
                log.warning("%s: the rule %s can't act: %s", policy.slug, rule.name, error.message)
    return taken


def _ruled(policy: Policy, at: datetime, zone: ZoneInfo) -> RuledPolicy:
    tree, settings = load_revision(policy, policy.head_number)
    return RuledPolicy(policy, tree, settings, at, zone)


@transaction.atomic
def _act(policy_id: int, name: str, used: dict[str, UsedByDay], at: datetime, zone: ZoneInfo) -> list[RuleStep]:
    """Take a rule's steps of today, as it and the allocations are under the lock. used: of just before."""
    ruled = _ruled(lock_policy(policy_id), at, zone)
    rules = rules_of(ruled.settings.rules)
    rule = next((each for each in rules if each.name == name and each.is_on), None)
    if rule is None:
        return []
    state = make_state(ruled, ruled_allocations(ruled, rules), used)
    add_steps_taken(state, ruled, [name])
    steps = list(steps_on([rule], state, ruled.today))
    if not steps:
        return []
    revision = _publish(ruled, rule, steps)
    fault_point("allocations.rules.after_publish")
    return RuleStep.objects.bulk_create([_record(ruled, state, step, revision) for step in steps])


def _publish(ruled: RuledPolicy, rule: AllocationRule, steps: Sequence[Step]) -> Revision | None:
    """One change set of all steps, by the rule; None if they only notify."""
    operations = [operation for step in steps for operation in operations_of(step)]
    limits = _limits_after(ruled, rule, steps)
    if limits is not None:
        operations.append({"op": "set_policy", "settings": {"limits": limits}})
    if not operations:
        return None
    reasons = [step.reason for step in steps if step.changes]
    more = f"; and {len(reasons) - _MOST_REASONS} more" if len(reasons) > _MOST_REASONS else ""
    return publish_automatic(
        policy_id=ruled.policy.pk,
        operations=operations,
        origin=ChangeSet.Origin.ALLOCATION,
        reason=f"{rule.name}: {'; '.join(reasons[:_MOST_REASONS])}{more}"[:_LONGEST_RULE_REASON],
        at=ruled.at,
        author=Actor(user=None, via="worker", rule=rule.name),
    )


def operations_of(step: Step) -> list[dict[str, Any]]:
    """Operations of a change set for a step, without limits, which are one operation for all steps."""
    operations: list[dict[str, Any]] = []
    for effect in step.effects:
        if isinstance(effect, SharesEffect):
            operations.append({"op": "set_shares", "entry": str(effect.entry_uid), "shares": effect.after})
        elif isinstance(effect, AmountEffect):
            edit = AllocationEdit(effect.allocation_uid, step.entry_uid, effect.before, effect.after, step.rule)
            operations.append({"op": "allocate", **edit.to_json()})
        elif isinstance(effect, CarryEffect):
            edit = AllocationEdit(
                effect.allocation_uid,
                step.entry_uid,
                None,
                effect.amount,
                step.rule,
                effect.unit,
                effect.starts_on,
                effect.ends_on,
                effect.carried_from,
            )
            operations.append({"op": "allocate", **edit.to_json()})
    return operations


def _limits_after(ruled: RuledPolicy, rule: AllocationRule, steps: Sequence[Step]) -> list[dict[str, Any]] | None:
    """All limits of the policy after the steps; None if they order none."""
    limits = {limit["entry"]: limit for limit in ruled.settings.limits}
    ordered = [(step, effect) for step in steps for effect in step.effects if isinstance(effect, LimitsEffect)]
    for step, effect in ordered:
        entry = str(effect.entry_uid)
        limits.pop(entry, None)
        if effect.qos is not None or effect.grp_tres_mins is not None:
            limits[entry] = {
                "entry": entry,
                "qos": effect.qos,
                "grp_tres_mins": None if effect.grp_tres_mins is None else dict(effect.grp_tres_mins),
                "rule": rule.name,
                "since": step.on.isoformat(),
                "reason": f"{rule.name}: {step.formula}"[
                    :LONGEST_LIMIT_REASON
                ],  # without path or numbers: settings are public
            }
    return list(limits.values()) if ordered else None


def _record(ruled: RuledPolicy, state: RuledState, step: Step, revision: Revision | None) -> RuleStep:
    level = state.levels.get((step.rule, step.entry_uid))
    lowered = None if level is None or step.level is None or level.shares is None else list(level.shares)
    facts = facts_of(step)
    return RuleStep(
        policy=ruled.policy,
        rule=step.rule,
        key=step.key,
        entry_uid=step.entry_uid,
        allocation_uid=step.allocation_uid,
        on=step.on,
        at=ruled.at,
        level=step.level,
        number=revision.number if revision is not None and step.changes else None,
        facts={**facts, "lowered": lowered, "n_changed": step.n_changed},
    )
