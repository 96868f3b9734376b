"""The rules of a SAM ledger: opened and changed by administrators, in the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

from django.db import transaction

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.core.errors import FieldProblem, Invalid
from apps.gateway.models import Ledger, Received
from apps.gateway.permissions import policy_to_manage
from apps.gateway.shares import is_held, load_groups, solve
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree

MOST_HOURS = 100_000


@dataclass(frozen=True)
class Rules:
    """entry: the path or uid of the entry whose children are the groups. lost_after_h: hours; None: never."""

    entry: str = "/"
    benefit: str | dict[str, float] | None = None
    booked_at: str = Ledger.BookedAt.START.value
    p_back: float = 0.0
    p_front: float = 1.0
    priority_groups: Mapping[str, float] = field(default_factory=dict)
    lost_after_h: float | None = None


@transaction.atomic
def set_rules(
    *, policy_slug: str, rules: Rules, received: Mapping[str, float] | None, at: datetime, actor: Actor
) -> Ledger:
    """Open the ledger, or replace its rules. received: B[g] of these groups from now on; others stay.

    Raises:
        Invalid: an unknown entry, benefit function or group, or priorities in another order than back < front < groups.
    """
    policy = policy_to_manage(actor, policy_slug)
    ledger = Ledger.objects.select_for_update().filter(policy=policy).first() or Ledger(policy=policy, revision=0)
    _fill(ledger, policy, rules)
    ledger.revision, ledger.changed_at = ledger.revision + 1, at
    groups = load_groups(ledger, policy.slug)
    solve(groups, {}, [])  # names what is wrong with function and priorities
    if is_held(ledger) and ledger.booked_at == Ledger.BookedAt.END:
        raise _wrong("booked_at", "can't be end: this benefit counts while a job runs")
    ledger.save()
    for name, amount in (received or {}).items():
        if name not in groups.uids or name in ledger.priority_groups:
            raise _wrong(f"received.{name[:100]}", "is no fair-share group of this ledger")
        Received.objects.update_or_create(ledger=ledger, entry_uid=groups.uids[name], defaults={"amount": amount})
    details = {**asdict(rules), "received": dict(received or {}), "revision": ledger.revision}
    verb = "policy.sam_rules_set"
    record(actor=actor, verb=verb, at=at, policy_slug=policy.slug, subject=policy.name, details=details)
    return ledger


def _fill(ledger: Ledger, policy: Policy, rules: Rules) -> None:
    tree = load_tree(policy)
    i = tree.index_of_path(rules.entry)
    if i is None:
        raise _wrong("entry", "is no path of this policy")
    if rules.lost_after_h is not None and not 0 < rules.lost_after_h <= MOST_HOURS:
        raise _wrong("lost_after_h", f"must be above 0 and at most {MOST_HOURS}")
    ledger.parent_uid = tree.uuid(i)
    ledger.benefit, ledger.booked_at = rules.benefit, rules.booked_at
    ledger.p_back, ledger.p_front = rules.p_back, rules.p_front
    ledger.priority_groups = dict(rules.priority_groups)
    ledger.lost_after_s = None if rules.lost_after_h is None else max(round(rules.lost_after_h * 3600), 1)


def _wrong(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])
