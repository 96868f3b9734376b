"""Workers at the same moment, and one that is killed: each step of a rule is taken once, with its change set."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apps.contrib.allocations.models import RuleStep
from apps.contrib.allocations.rules.acting import act_on_rules
from apps.policies.models import Revision
from apps.runs.fault_points import VARIABLE, InjectedFault
from tests import priority_site
from tests.contrib.allocations.ruled_site import ZONE, allocate, publish_rules, rule, shares
from tests.killed_process import work_until_killed
from tests.policies.publishing.test_concurrent_publishing import at_once
from tests.priority_site import AS_OF, Site

_clock = priority_site._clock
make_site, site = priority_site.make_site, priority_site.site

LOWER = rule("thresholds", {"levels": [{"percent": 100, "shares": 1}]}, name="Used up")


def work() -> list[RuleStep]:
    return act_on_rules(at=AS_OF, zone=ZONE)


def ruled(site: Site) -> int:
    """The number of the revision before any step."""
    allocate(site, 55)
    publish_rules(site, LOWER)
    return site.policy.head_number


@pytest.mark.faults
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("place", ["policies.publish.after_head", "allocations.rules.after_publish"])
def test_a_killed_worker_leaves_nothing_and_the_next_one_acts(site: Site, place: str) -> None:
    before = ruled(site)
    work_until_killed(work, fault=f"{place}:kill")
    assert RuleStep.objects.count() == 0
    assert Revision.objects.filter(policy=site.policy).latest("number").number == before
    assert len(work()) == 1
    site.policy.refresh_from_db()
    assert (site.policy.head_number, shares(site)) == (before + 1, 1)
    assert work() == []


@pytest.mark.django_db(transaction=True)
def test_workers_at_the_same_moment_act_once(site: Site) -> None:
    before = ruled(site)
    calls: list[Callable[[], object]] = [work, work, work]
    answers = at_once(*calls)
    assert sorted(len(steps) for steps in answers) == [0, 0, 1]  # type: ignore[arg-type]
    assert Revision.objects.filter(policy=site.policy).latest("number").number == before + 1


def test_a_step_that_fails_leaves_no_change_set(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ruled(site)
    monkeypatch.setenv(VARIABLE, "allocations.rules.after_publish:raise")
    with pytest.raises(InjectedFault):
        work()
    site.policy.refresh_from_db()
    assert (site.policy.head_number, RuleStep.objects.count(), shares(site)) == (before, 0, 60)


def test_the_worker_takes_each_kind_of_step_and_undoing_takes_it_back(site: Site) -> None:
    """Aging and a carry-over of last year's rest: amounts change in the history, and come back with it."""
    from datetime import date

    from apps.policies.models import Allocation
    from tests.contrib.allocations.ruled_site import act, undo

    last = allocate(site, 400, starts_on=date(2025, 1, 1), ends_on=date(2025, 12, 31))
    this = allocate(site, 365)
    aging = rule("aging", {"interval_days": 90}, name="Aging")
    carry = rule("carry_over", {"percent": 50, "most_percent": None, "days": 365}, name="Carry over")
    publish_rules(site, aging, carry)
    by_rule = {step.rule: step for step in act(site)}
    this.refresh_from_db()
    # 323 days are 3 intervals: 270 of 365 hours aged by 20 November; 200 carried hours paid for the 55 that were used.
    assert (this.amount, this.by_rules) == (365 - 270, -270)
    made = Allocation.objects.get(carried_from=last.uid)
    assert (made.amount, made.starts_on, made.ends_on) == (200, date(2026, 1, 1), date(2026, 12, 31))
    undo(site, by_rule["Aging"].number or 0)
    undo(site, by_rule["Carry over"].number or 0)
    this.refresh_from_db()
    made.refresh_from_db()
    assert (this.amount, this.by_rules) == (365, 0)
    assert made.withdrawn_at is not None
    assert act(site) == []


def test_an_operation_on_an_amount_that_changed_since_is_refused(site: Site) -> None:
    from apps.accounts.actor import COMMAND
    from apps.core.errors import Conflict
    from apps.policies.models import Allocation
    from apps.policies.publishing.direct import publish_operations

    allocation = allocate(site, 100)
    operation = {"op": "allocate", "entry": "/physics", "allocation": str(allocation.uid), "was": 90, "amount": 50}
    with pytest.raises(Conflict, match="has not the amount 90"):
        publish_operations(policy_slug=site.slug, operations=[operation], reason="r", at=AS_OF, actor=COMMAND)
    other = {**operation, "was": 100, "entry": "/biology"}
    with pytest.raises(Conflict, match="has not the amount"):
        publish_operations(policy_slug=site.slug, operations=[other], reason="r", at=AS_OF, actor=COMMAND)
    assert Allocation.objects.get(uid=allocation.uid).amount == 100
