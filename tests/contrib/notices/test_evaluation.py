"""Notices are opened once, change with their cause, close with it, and reach whom they concern."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.models import User
from apps.contrib.notices import evaluation, selectors
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.kinds import KINDS, kind_of
from apps.contrib.notices.models import Mark, Notice, Rule
from apps.contrib.notices.rules import NEW, set_rule
from apps.core.errors import Invalid, NotFound
from apps.policies.models import ChangeSet, Policy
from apps.usage.models import Source
from tests.contrib.notices.notices_site import give_core_hours
from tests.instants import AT
from tests.refusals import refused
from tests.small_site import Site

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def page(user: User) -> Actor:
    return Actor(user=user, via="page")


def late(hours: float = 12) -> Source:
    """cluster-a, whose interval is an hour and whose newest usage is so old."""
    Source.objects.update(expected_every_s=3600, last_received_at=AT - hours * HOUR)
    return Source.objects.get()


def of_kind(name: str, **more: Any) -> Notice:
    return Notice.objects.get(kind=name, **more)


def test_a_cause_opens_one_notice_in_repeated_evaluations(site: Site) -> None:
    late(6)
    assert evaluate(at=AT) == 1
    assert evaluate(at=AT) == 0
    assert evaluate(at=AT + HOUR) == 0
    notice = of_kind("late_source")
    assert notice.opened_at == notice.news_at == AT
    assert notice.facts["hours"] == 7
    sentence = kind_of("late_source").describe(notice.facts)
    assert sentence.key == "late_source.late"
    assert all(part in sentence.text for part in ("Cluster A", "7 hours"))


def test_a_notice_closes_automatically_and_reopens_when_the_cause_returns(site: Site) -> None:
    late()
    evaluate(at=AT)
    late(0)
    evaluate(at=AT + HOUR)
    assert of_kind("late_source").closed_at == AT + HOUR
    late(12)
    assert evaluate(at=AT + 2 * HOUR) == 1
    assert Notice.objects.filter(kind="late_source").count() == 2
    assert of_kind("late_source", closed_at=None).opened_at == AT + 2 * HOUR


def test_an_evaluation_that_was_overtaken_changes_nothing(site: Site) -> None:
    late(6)
    evaluate(at=AT)
    evaluate(at=AT + 9 * HOUR)
    notice = of_kind("late_source")
    evaluate(at=AT + HOUR)
    again = of_kind("late_source")
    assert (again.facts, again.level, again.changed_at) == (notice.facts, notice.level, AT + 9 * HOUR)


def test_a_kind_opens_a_limited_number_of_notices_at_one_place(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("/physics", "/biology"):
        give_core_hours(site, ends_on=(AT + DAY).date(), path=path)
    monkeypatch.setattr(evaluation, "MOST_OPEN_NOTICES", 1)
    assert evaluate(at=AT, only={"ending_allocations"}) == 1
    monkeypatch.setattr(evaluation, "MOST_OPEN_NOTICES", 2)
    assert evaluate(at=AT, only={"ending_allocations"}) == 1


def test_notices_about_one_person_hide_none_about_another(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other's request is the oldest, so that it is found last."""
    monkeypatch.setattr(evaluation, "MOST_OF_PERSON", 3)
    monkeypatch.setattr(evaluation, "MOST_OPEN_NOTICES", 3)
    for author in (site.ben, *[site.pia] * 8):
        ChangeSet.objects.create(
            policy=site.policy,
            base_number=1,
            state="withdrawn",
            origin="request",
            asks_entry_uid=site.uid("/physics"),
            author=author,
            author_name=author.username,
            decided_name="admin",
            created_at=AT,
            updated_at=AT,
        )
    assert evaluate(at=AT, only={"request_decided"}) == 4
    about = Notice.objects.filter(kind="request_decided").values_list("facts__user", flat=True)
    assert sorted(about) == sorted([site.ben.pk, *[site.pia.pk] * 3])


def test_a_worsened_notice_is_unread_again_and_a_continuing_one_is_not(site: Site) -> None:
    late(4)
    evaluate(at=AT)
    line = selectors.list_open_notices(page(site.admin), AT)[0]
    selectors.mark_read(ids=[line.notice.pk], at=AT, actor=page(site.admin))
    evaluate(at=AT + HOUR)
    assert selectors.count_unread(at=AT + HOUR, actor=page(site.admin)) == 0
    evaluate(at=AT + 20 * HOUR)
    assert of_kind("late_source").level == "bad"
    assert selectors.count_unread(at=AT + 20 * HOUR, actor=page(site.admin)) == 1


def test_the_database_rejects_a_second_open_notice(site: Site) -> None:
    late()
    evaluate(at=AT)
    notice = of_kind("late_source")
    notice.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        notice.save(force_insert=True)


def test_a_failing_kind_does_not_block_others(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    late()
    real = evaluation._update_notices

    def settle(kind: Any, *more: Any) -> int:
        if kind.name == "waiting_decisions":
            raise RuntimeError("broken")
        return real(kind, *more)

    monkeypatch.setattr(evaluation, "_update_notices", settle)
    assert evaluate(at=AT) == 1


def test_old_closed_notices_are_deleted(site: Site) -> None:
    late()
    evaluate(at=AT)
    late(0)
    evaluate(at=AT + HOUR)
    evaluate(at=AT + 89 * DAY)
    assert Notice.objects.filter(closed_at=AT + HOUR).exists()
    evaluate(at=AT + 91 * DAY)
    assert not Notice.objects.filter(closed_at=AT + HOUR).exists()


def test_every_kind_has_a_default_rule(db: None) -> None:
    assert set(Rule.objects.values_list("kind", flat=True)) == {kind.name for kind in KINDS}


def test_a_disabled_rule_opens_nothing_and_closes_its_notices(site: Site) -> None:
    late()
    evaluate(at=AT)
    set_rule(kind="late_source", policy=None, is_on=False, terms={}, version=1, at=AT, actor=SYSTEM)
    evaluate(at=AT + HOUR)
    assert of_kind("late_source").closed_at == AT + HOUR


def test_the_rule_of_a_policy_precedes_that_of_the_site(site: Site) -> None:
    give_core_hours(site, ends_on=(AT + 40 * DAY).date())
    assert evaluate(at=AT, only={"ending_allocations"}) == 0
    terms = {"days": 50}
    set_rule(kind="ending_allocations", policy=site.policy, is_on=True, terms=terms, version=NEW, at=AT, actor=SYSTEM)
    assert evaluate(at=AT, only={"ending_allocations"}) == 1


@pytest.mark.parametrize(
    ("kind", "terms", "named"),
    [
        ("waiting_decisions", {"days": 0}, {"1", "366"}),
        ("waiting_decisions", {"days": 7.5}, {"1", "366"}),
        ("waiting_decisions", {"days": True}, {"1", "366"}),
        ("waiting_decisions", {"weeks": 1}, {"days"}),
        ("unmapped_usage", {"percent": float("nan")}, {"0", "100"}),
    ],
)
def test_invalid_limits_are_refused_at_their_field(site: Site, kind: str, terms: Any, named: set[str]) -> None:
    with pytest.raises(Invalid) as refusal:
        set_rule(kind=kind, policy=site.policy, is_on=True, terms=terms, version=NEW, at=AT, actor=SYSTEM)
    assert [problem.where for problem in refusal.value.fields] == [f"terms.{name}" for name in terms]
    assert named <= set(re.findall(r"\w+", refusal.value.message)), "the bounds, or what is known"
    assert not Rule.objects.filter(policy=site.policy).exists()


def test_notices_reach_the_affected_users(computed: Site) -> None:
    late()
    give_core_hours(computed, ends_on=(AT + 20 * DAY).date())
    evaluate(at=AT)
    shown = {
        user.username: {line.notice.kind for line in selectors.list_open_notices(page(user), AT)}
        for user in (computed.admin, computed.pia, computed.alice, computed.ben, computed.nobody)
    }
    assert shown["admin"] >= {"late_source", "ending_allocations"}
    assert shown["pia"] == shown["alice"] == {"ending_allocations"}  # who manages the group, and who belongs to it
    assert shown["ben"] == shown["nobody"] == set()
    hidden = of_kind("ending_allocations")
    with pytest.raises(NotFound):
        selectors.mark_read(ids=[hidden.pk], at=AT, actor=page(computed.ben))


def test_read_and_snoozed_states_are_private(site: Site) -> None:
    late()
    other = User.objects.create_superuser("other")
    evaluate(at=AT)
    notice = of_kind("late_source")
    selectors.snooze(id=notice.pk, until=AT + DAY, at=AT, actor=page(site.admin))
    assert selectors.list_open_notices(page(site.admin), AT) == []
    assert [line.notice for line in selectors.list_notices(state="snoozed", at=AT, actor=page(site.admin))] == [notice]
    assert selectors.count_unread(at=AT, actor=page(site.admin)) == 0
    assert selectors.count_unread(at=AT, actor=page(other)) == 1
    assert selectors.count_unread(at=AT + 25 * HOUR, actor=page(site.admin)) == 1
    assert Mark.objects.count() == 1


@pytest.mark.parametrize("until", [AT, AT - DAY, AT + 400 * DAY])
def test_a_notice_is_snoozed_to_a_future_time(site: Site, until: Any) -> None:
    late()
    evaluate(at=AT)
    with pytest.raises(Invalid):
        selectors.snooze(id=of_kind("late_source").pk, until=until, at=AT, actor=page(site.admin))


def test_mark_all_as_read_keeps_newer_notices_unread(site: Site) -> None:
    late()
    evaluate(at=AT)
    seen = of_kind("late_source").pk
    give_core_hours(site, ends_on=(AT + 20 * DAY).date())
    evaluate(at=AT)
    assert selectors.mark_all_read(up_to=seen, at=AT, actor=page(site.admin)) == 1
    assert selectors.count_unread(at=AT, actor=page(site.admin)) == 1


def test_a_policy_without_readers_sends_no_notices(site: Site) -> None:
    Policy.objects.filter(pk=site.policy.pk).update(visibility="path")
    assert selectors.list_open_notices(page(site.nobody), AT) == []
    with refused(Invalid, field="state"):
        selectors.list_notices(state="all", at=AT, actor=page(site.admin))
