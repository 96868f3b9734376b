"""Notices are opened once, change with their cause, close with it, and reach whom they concern."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.models import Token, User
from apps.core.errors import Invalid, NotAllowed, NotFound
from apps.notices import evaluation, selectors
from apps.notices.evaluation import evaluate
from apps.notices.kinds import kind_of, kinds
from apps.notices.models import Mark, Notice, Rule
from apps.notices.rules import NEW, Place, set_rule
from apps.policies.models import Grant, Policy
from apps.usage.models import Source
from tests.api.small_site import Site
from tests.grants import make_grant
from tests.instants import AT
from tests.refusals import refused

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
    Grant.objects.update(expires_at=AT + DAY)
    assert Grant.objects.count() == 2
    monkeypatch.setattr(evaluation, "MOST_OPEN", 1)
    assert evaluate(at=AT, only={"ending_roles"}) == 1
    monkeypatch.setattr(evaluation, "MOST_OPEN", 2)
    assert evaluate(at=AT, only={"ending_roles"}) == 1


def test_notices_about_one_person_hide_none_about_another(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other's token ends last, and its number is far beyond the limit."""
    monkeypatch.setattr(evaluation, "MOST_OF_PERSON", 3)
    monkeypatch.setattr(evaluation, "MOST_OPEN", 3)
    about: dict[str, Any] = {"scopes": ["self:read"], "created_at": AT - 90 * DAY, "digest": b"", "last_four": "abcd"}
    for n in range(8):
        Token.objects.create(user=site.pia, name=f"t{n}", public_id=f"t{n}", expires_at=AT + n * HOUR, **about)
    Token.objects.create(user=site.ben, name="last", public_id="last", expires_at=AT + DAY, **about)
    assert evaluate(at=AT, only={"ending_tokens"}) == 4
    named = Notice.objects.filter(kind="ending_tokens").values_list("facts__who", flat=True)
    assert sorted(named) == ["ben", "pia", "pia", "pia"]


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
        if kind.name == "ending_roles":
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
    assert set(Rule.objects.values_list("kind", flat=True)) == set(kinds())


def test_a_disabled_rule_opens_nothing_and_closes_its_notices(site: Site) -> None:
    source = late()
    evaluate(at=AT)
    set_rule(kind="late_source", place=Place(source=source), is_on=False, terms={}, version=NEW, at=AT, actor=SYSTEM)
    evaluate(at=AT + HOUR)
    assert of_kind("late_source").closed_at == AT + HOUR


def test_the_rule_of_a_source_precedes_that_of_the_site(site: Site) -> None:
    source = late(4)
    terms = {"grace_h": 5}
    set_rule(kind="late_source", place=Place(source=source), is_on=True, terms=terms, version=NEW, at=AT, actor=SYSTEM)
    assert evaluate(at=AT) == 0
    late(8)
    assert evaluate(at=AT) == 1


def test_a_rule_at_an_entry_applies_below_it(site: Site) -> None:
    """Managers of physics can't silence those above who watch physics itself."""
    for path in ("/physics", "/physics/bob"):
        grant(site, path, site.nobody, AT + 20 * DAY)
    place = Place(policy=site.policy, entry_uid=site.uid("/physics"))
    set_rule(kind="ending_roles", place=place, is_on=False, terms={}, version=NEW, at=AT, actor=page(site.pia))
    evaluate(at=AT)
    assert [each.facts["path"] for each in Notice.objects.filter(kind="ending_roles")] == ["/physics"]


def grant(site: Site, path: str, user: User, expires_at: Any, role: str = "viewer") -> Grant:
    return make_grant(
        user, site.uid(path), role, policy=site.policy, verbs=["view_aggregate"], expires_at=expires_at, reason="test"
    )


def test_setting_rules_needs_rights_at_the_entry(site: Site) -> None:
    physics = Place(policy=site.policy, entry_uid=site.uid("/physics"))
    ask: dict[str, Any] = {"kind": "ending_roles", "is_on": False, "terms": {}, "version": NEW, "at": AT}
    with pytest.raises(NotFound):
        set_rule(place=physics, actor=page(site.nobody), **ask)
    with pytest.raises((NotAllowed, NotFound)):
        set_rule(place=physics, actor=page(site.ben), **ask)
    for place in (Place(), Place(policy=site.policy)):
        with pytest.raises(NotAllowed):
            set_rule(place=place, actor=page(site.pia), **ask)
    set_rule(place=physics, actor=page(site.pia), **ask)


@pytest.mark.parametrize(
    ("kind", "terms", "named"),
    [
        ("drift", {"days": 1}, {"2", "180"}),
        ("drift", {"days": 7.5}, {"2", "180"}),
        ("drift", {"days": True}, {"2", "180"}),
        ("drift", {"weeks": 1}, {"days"}),
        ("unmapped_usage", {"percent": float("nan")}, {"0", "100"}),
    ],
)
def test_invalid_limits_are_refused_at_their_field(site: Site, kind: str, terms: Any, named: set[str]) -> None:
    with pytest.raises(Invalid) as refusal:
        set_rule(kind=kind, place=Place(policy=site.policy), is_on=True, terms=terms, version=NEW, at=AT, actor=SYSTEM)
    assert [problem.where for problem in refusal.value.fields] == [f"terms.{name}" for name in terms]
    assert named <= set(re.findall(r"\w+", refusal.value.message)), "the bounds, or what is known"
    assert not Rule.objects.filter(policy=site.policy).exists()


def test_notices_reach_the_affected_users(site: Site) -> None:
    late()
    held = grant(site, "/physics/bob", site.nobody, AT + 20 * DAY)
    evaluate(at=AT)
    shown = {
        user.username: {line.notice.kind for line in selectors.list_open_notices(page(user), AT)}
        for user in (site.admin, site.pia, site.ben, site.alice, site.nobody)
    }
    assert shown["admin"] >= {"late_source", "ending_roles"}
    assert shown["pia"] == shown["nobody"] == {"ending_roles"}  # who may change it, and who holds it
    assert shown["ben"] == shown["alice"] == set()
    hidden = of_kind("ending_roles")
    with pytest.raises(NotFound):
        selectors.mark_read(ids=[hidden.pk], at=AT, actor=page(site.ben))
    assert held.pk == hidden.facts["grant"]


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
    grant(site, "/physics", site.nobody, AT + 20 * DAY)
    evaluate(at=AT)
    assert selectors.mark_all_read(up_to=seen, at=AT, actor=page(site.admin)) == 1
    assert selectors.count_unread(at=AT, actor=page(site.admin)) == 1


def test_a_policy_without_readers_sends_no_notices(site: Site) -> None:
    Policy.objects.filter(pk=site.policy.pk).update(visibility="path")
    assert selectors.list_open_notices(page(site.nobody), AT) == []
    with refused(Invalid, field="state"):
        selectors.list_notices(state="all", at=AT, actor=page(site.admin))
