"""Thresholds act from settings to dated change sets, once each, and are re-armed when hours are added."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest
import yaml
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.contrib.allocations.models import RuleStep
from apps.contrib.allocations.services import AllocationChange, change_allocation, tag_of
from apps.policies.files.exports import export_policy
from apps.policies.files.import_export import FileImport, plan_import
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.ordered_limits import AccountLimit, account_limits
from tests import priority_site
from tests.contrib.allocations.ruled_site import act, allocate, publish_rules, rule, shares, uid_of, undo
from tests.grants import make_grant
from tests.priority_site import AS_OF, Site
from tests.sign_in import sign_in

_clock = priority_site._clock
make_site, site = priority_site.make_site, priority_site.site

USED = 55.0  # core-hours of physics on the site
LOWER = rule("thresholds", {"levels": [{"percent": 75, "notify": True}, {"percent": 100, "shares": 1}]}, name="Used up")
STOP = rule(
    "thresholds",
    {"levels": [{"percent": 90, "qos": "low"}, {"percent": 100, "grp_tres_mins": {"cpu": 0}}]},
    name="Stop",
)
DAY = timedelta(days=1)


def test_a_used_up_allocation_lowers_shares_by_a_change_set_of_the_rule(site: Site) -> None:
    allocate(site, USED)
    publish_rules(site, LOWER)
    before = site.policy.head_number
    (step,) = act(site)
    assert shares(site) == 1
    revision = Revision.objects.get(policy=site.policy, number=before + 1)
    assert (revision.author, revision.author_name, revision.change_set.origin) == (None, "rule Used up", "allocation")
    assert revision.reason == "Used up: /physics: use = U / A · 100"
    assert revision.published_at == AS_OF
    assert (step.number, step.level, step.on) == (revision.number, 2, date(2026, 11, 20))
    assert dict(step.facts["numbers"]) == {"U": USED, "A": USED, "use": 100}


def test_a_second_run_changes_nothing(site: Site) -> None:
    allocate(site, USED)
    publish_rules(site, LOWER)
    act(site)
    n = ChangeSet.objects.count()
    assert act(site) == [] == act(site, AS_OF + DAY)
    assert (ChangeSet.objects.count(), RuleStep.objects.count()) == (n, 1)


def test_a_notice_alone_makes_no_revision(site: Site) -> None:
    allocate(site, USED / 0.8)
    publish_rules(site, LOWER)
    before = site.policy.head_number
    (step,) = act(site)
    assert (step.level, step.number, step.facts["percent"]) == (1, None, 75)
    assert site.policy.head_number == before


def test_added_hours_give_shares_back_and_arm_the_rule_again(site: Site) -> None:
    allocation = allocate(site, USED)
    publish_rules(site, LOWER)
    original = shares(site)
    act(site)
    _set_amount(site, allocation, 200)
    (step,) = act(site)  # at once
    assert (step.level, shares(site)) == (0, original)
    _set_amount(site, allocation, 50)
    assert act(site) == []  # on the same day it doesn't lower them twice
    (step,) = act(site, AS_OF + 2 * DAY)
    assert (step.level, shares(site)) == (2, 1)


def test_an_allocation_beside_counts_as_added_hours(site: Site) -> None:
    allocate(site, USED)
    publish_rules(site, LOWER)
    act(site)
    allocate(site, 100)
    (step,) = act(site, AS_OF + DAY)
    assert (step.level, dict(step.facts["numbers"])["A"]) == (0, USED + 100)


def test_what_was_undone_is_not_done_again(site: Site) -> None:
    allocate(site, USED)
    publish_rules(site, LOWER)
    original = shares(site)
    (step,) = act(site)
    undo(site, step.number or 0)
    assert shares(site) == original
    assert act(site, AS_OF + DAY) == []
    assert shares(site) == original


def test_shares_that_a_person_changed_since_stay(site: Site) -> None:
    from apps.policies.services import change_shares

    allocation = allocate(site, USED)
    publish_rules(site, LOWER)
    act(site)
    change_shares(
        policy_slug=site.slug, entry_uid=uid_of(site, "/physics"), shares=7, reason="Mine.", at=AS_OF, actor=COMMAND
    )
    _set_amount(site, allocation, 200)
    (step,) = act(site, AS_OF + DAY)
    assert (step.level, step.number) == (0, None)
    site.policy.refresh_from_db()
    assert shares(site) == 7


def test_limits_are_ordered_and_cleared_in_the_history(site: Site) -> None:
    allocation = allocate(site, USED)
    publish_rules(site, STOP)
    act(site)
    physics = uid_of(site, "/physics")
    reason = "Stop: use = U / A · 100"
    limit = AccountLimit(physics, "low", {"cpu": 0}, reason, date(2026, 11, 20))
    assert account_limits(site.policy, AS_OF) == [limit]
    assert account_limits(site.policy, AS_OF - timedelta(seconds=1)) == []
    _set_amount(site, allocation, USED / 0.95)
    act(site, AS_OF + DAY)
    (limit,) = account_limits(site.policy, AS_OF + DAY)
    assert (limit.qos, limit.grp_tres_mins) == ("low", None)
    _set_amount(site, allocation, 1_000)
    act(site, AS_OF + 2 * DAY)
    assert account_limits(site.policy, AS_OF + 2 * DAY) == []
    assert account_limits(site.policy, AS_OF) != []


@pytest.mark.parametrize("has_limits", [False, True])
def test_a_document_neither_orders_a_limit_again_nor_takes_one_back(site: Site, has_limits: bool) -> None:
    """A pipeline imports its own file each night, whatever rules have ordered since."""
    allocate(site, USED)
    publish_rules(site, STOP)
    act(site)
    limits = account_limits(site.policy, AS_OF)
    assert limits
    for name in ("json", "yaml"):
        text = export_policy(policy_slug=site.slug, format=name, at=AS_OF, actor=COMMAND).text()
        document = yaml.safe_load(text)
        assert "limits" not in document["settings"]
        if has_limits:
            document["settings"]["limits"] = []
            text = json.dumps(document, default=str)
        plan = plan_import(
            file=FileImport(policy_slug=site.slug, format=name, content=text.encode()), at=AS_OF, actor=COMMAND
        )
        assert plan.changed_settings == ()
        assert any("settings.limits" in each for each in plan.ignored) == has_limits


def test_who_sees_no_numbers_of_an_entry_reads_none_of_a_rule_at_it(site: Site) -> None:
    allocate(site, USED)
    publish_rules(site, STOP)
    (step,) = act(site)
    Policy.objects.update(visibility=Policy.Visibility.PATH)
    person = User.objects.create_user("carol")
    make_grant(person, uid_of(site, "/biology"), "viewer", policy=site.policy, verbs=["view_members"], reason="r")
    carol = sign_in(Client(), person)
    asked = f"/api/v1/policies/{site.slug}"
    answers = [carol.get(f"{asked}{each}") for each in ("", "/revisions", f"/revisions/{step.number}/diff")]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    for answer in answers:
        for word in ("physics", str(uid_of(site, "/physics")), "U = ", '"limits"'):
            assert word not in answer.content.decode(), answer.content
    listed = answers[1].json()["results"]
    assert next(each for each in listed if each["number"] == step.number)["is_outside_view"]


def test_a_limit_is_cleared_on_the_day_of_its_order_as_soon_as_hours_are_added(site: Site) -> None:
    allocation = allocate(site, USED)
    publish_rules(site, STOP)
    act(site)
    later = AS_OF + timedelta(minutes=1)
    _set_amount(site, allocation, 1_000)
    act(site, later)
    assert account_limits(site.policy, later) == []
    _set_amount(site, allocation, USED)
    assert act(site, later) == [], "it rises once a day"
    (again,) = act(site, AS_OF + DAY)
    assert again.level == 2


def test_undoing_the_revision_takes_a_limit_back(site: Site) -> None:
    allocate(site, USED)
    publish_rules(site, STOP)
    (step,) = act(site)
    undo(site, step.number or 0)
    assert account_limits(site.policy, AS_OF) == []


def test_the_owner_bounds_how_far_shares_are_lowered_and_how_many_entries_a_day(site: Site) -> None:
    allocate(site, USED)
    allocate(site, 1, "/biology")
    publish_rules(site, LOWER | {"most": {"percent": 50, "entries": 1}})
    original = {path: shares(site, path) for path in ("/physics", "/biology")}
    assert len(act(site)) == 1 == len(act(site, AS_OF + DAY))
    assert {path: shares(site, path) for path in original} == {path: n / 2 for path, n in original.items()}


@pytest.mark.parametrize("mode", ["off", "shadow"])
def test_a_rule_that_is_not_on_changes_nothing(site: Site, mode: str) -> None:
    allocate(site, USED)
    publish_rules(site, LOWER | {"mode": mode})
    assert act(site) == []


def _set_amount(site: Site, allocation, amount: float) -> None:  # type: ignore[no-untyped-def]
    allocation.refresh_from_db()
    change_allocation(
        policy_slug=site.slug,
        allocation_uid=allocation.uid,
        tag=tag_of(allocation),
        change=AllocationChange(amount=amount, reason="More."),
        at=AS_OF,
        actor=COMMAND,
    )
