"""Notices as one person reads them: read, snoozed and counted, each by what that person may see."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import SYSTEM, Actor, TokenBounds
from apps.accounts.models import User
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.models import Mark, Notice
from apps.contrib.notices.selectors import (
    LONGEST_SNOOZE,
    count_unread,
    get_notice,
    list_notices,
    list_open_notices,
    mark_all_read,
    mark_read,
    mark_unread,
    snooze,
)
from apps.contrib.notices.visibility import PolicyVisibility, Reader
from apps.core.errors import Invalid, NotAllowed, NotFound
from apps.policies.models import Policy
from apps.usage.models import Source
from tests.examples import new_uid
from tests.grants import make_grant
from tests.instants import AT
from tests.refusals import refused
from tests.small_site import Site

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def admin(notified: Site) -> Actor:
    return Actor(user=notified.admin, via="page")


def late() -> Notice:
    return Notice.objects.get(kind="late_source")


def kinds_in(state: str, actor: Actor, *, at_h: int = 0) -> set[str]:
    return {line.kind.name for line in list_notices(state=state, at=AT + at_h * HOUR, actor=actor)}


def test_a_snoozed_notice_comes_back_at_its_hour_and_stays_unread(admin: Actor) -> None:
    snooze(id=late().pk, until=AT + HOUR, at=AT, actor=admin)
    assert kinds_in("snoozed", admin) == {"late_source"}
    assert kinds_in("open", admin) == kinds_in("unread", admin) == {"ending_allocations"}
    assert (kinds_in("snoozed", admin, at_h=1), count_unread(at=AT + HOUR, actor=admin)) == (set(), 2)
    assert count_unread(at=AT, actor=admin) == 1
    snooze(id=late().pk, until=None, at=AT, actor=admin)
    assert kinds_in("open", admin) == {"late_source", "ending_allocations"}


@pytest.mark.parametrize("ahead", [timedelta(0), -HOUR, LONGEST_SNOOZE + HOUR])
def test_a_notice_is_snoozed_to_an_instant_of_the_next_year(admin: Actor, ahead: timedelta) -> None:
    with refused(Invalid, field="until"):
        snooze(id=late().pk, until=AT + ahead, at=AT, actor=admin)
    assert not Mark.objects.exists()


def test_marking_all_read_leaves_what_came_after_the_page(admin: Actor) -> None:
    first, second = Notice.objects.order_by("pk")
    assert mark_all_read(up_to=first.pk, at=AT, actor=admin) == 1
    assert kinds_in("unread", admin) == {second.kind}
    assert mark_read(ids=[first.pk, second.pk], at=AT, actor=admin) == 2
    assert kinds_in("unread", admin) == set()
    mark_unread(id=first.pk, at=AT, actor=admin)
    assert kinds_in("unread", admin) == {first.kind}


def test_a_closed_notice_is_listed_as_closed_and_is_no_news(admin: Actor) -> None:
    Source.objects.update(last_received_at=AT)
    evaluate(at=AT, only={"late_source"})
    assert (kinds_in("closed", admin), kinds_in("unread", admin)) == ({"late_source"}, {"ending_allocations"})
    with refused(Invalid, field="state"):
        list_notices(state="all", at=AT, actor=admin)


def test_the_worst_and_newest_notices_come_first(admin: Actor) -> None:
    first = late()
    for number, (level, ago_h) in enumerate([("info", 0), ("bad", 9), ("warn", 0), ("bad", 1)]):
        at = AT - ago_h * HOUR
        more = {"facts": first.facts, "source": first.source, "opened_at": at, "news_at": at, "changed_at": at}
        Notice.objects.create(kind=first.kind, key=f"k{number}", level=level, **more)
    listed = [line.notice for line in list_open_notices(admin, AT)]
    assert [notice.key for notice in listed][:2] == ["k3", "k1"]
    levels = [notice.level for notice in listed]
    assert levels == sorted(levels, key=["bad", "warn", "info"].index)
    assert list_open_notices(admin, AT, limit=3)[-1].notice == listed[2]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"kind": "late_source"}, ["late_source"]),
        ({"policy": "grid"}, ["ending_allocations"]),
        ({"policy": "other"}, []),
        ({"policy": "grid\0"}, []),
    ],
)
def test_notices_are_asked_for_by_kind_and_policy(admin: Actor, asked: dict[str, Any], found: list[str]) -> None:
    assert [line.kind.name for line in list_notices(at=AT, actor=admin, **asked)][-1:] == found


def test_notices_before_one_are_the_older_ones(admin: Actor) -> None:
    newest, oldest = (line.notice for line in list_notices(at=AT, actor=admin))
    assert [line.notice for line in list_notices(before=newest.pk, at=AT, actor=admin)] == [oldest]


def test_the_system_sees_notices_and_reads_none(notified: Site) -> None:
    assert count_unread(at=AT, actor=SYSTEM) == 0
    assert {line.is_unread for line in list_notices(at=AT, actor=SYSTEM)} == {True}
    with refused(NotAllowed):
        mark_read(ids=[late().pk], at=AT, actor=SYSTEM)


def test_a_notice_that_is_hidden_is_answered_like_an_unknown_one(notified: Site) -> None:
    ben = Actor(user=notified.ben, via="page")
    for number in (late().pk, 0, 2**63, 10**6):
        with refused(NotFound):
            get_notice(id=number, at=AT, actor=ben)
        with refused(NotFound):
            mark_read(ids=[number], at=AT, actor=ben)
    assert list_notices(at=AT, actor=ben) == []


def test_a_user_who_is_deactivated_sees_nothing(notified: Site, admin: Actor) -> None:
    User.objects.filter(pk=notified.admin.pk).update(is_active=False)
    gone = Actor(user=User.objects.get(pk=notified.admin.pk), via="page")
    assert (list_notices(at=AT, actor=gone), count_unread(at=AT, actor=gone)) == ([], 0)


def sight(site: Site, user: User) -> PolicyVisibility:
    found = Reader(Actor(user=user, via="page"), AT).of(site.policy)
    assert found is not None
    return found


def test_an_entry_that_is_gone_concerns_nobody(notified: Site) -> None:
    """Notices outlive their entries."""
    for user in (notified.admin, notified.pia):
        found = sight(notified, user)
        for uid in (new_uid(), None):
            assert not found.concerns(uid)
            assert not found.sees_exact_numbers(uid)
            assert not found.has_place_below(uid)
            assert not found.maps_accounts_at(uid)


def test_a_role_at_an_archived_entry_opens_nothing(notified: Site) -> None:
    make_grant(notified.nobody, new_uid(), "manager", policy=notified.policy, reason="archived since")
    assert Reader(Actor(user=notified.nobody, via="page"), AT).of(notified.policy) is None
    make_grant(notified.pia, new_uid(), "manager", policy=notified.policy, reason="archived since")
    found = sight(notified, notified.pia)
    paths = ("/physics", "/physics/bob", "/biology")
    assert [found.concerns(notified.uid(path)) for path in paths] == [True, True, False]


def test_a_manager_maps_accounts_at_the_own_entry_and_has_a_place_below_what_is_above(notified: Site) -> None:
    found = sight(notified, notified.pia)
    paths = ("/", "/physics", "/physics/bob", "/biology")
    maps = {path: found.maps_accounts_at(notified.uid(path)) for path in paths}
    assert maps == {"/": False, "/physics": True, "/physics/bob": True, "/biology": False}
    places = {path: found.has_place_below(notified.uid(path)) for path in paths}
    assert places == {"/": True, "/physics": False, "/physics/bob": False, "/biology": False}


def test_a_reader_of_sums_sees_no_exact_numbers(notified: Site) -> None:
    make_grant(notified.nobody, notified.uid("/"), "viewer", policy=notified.policy, reason="sums")
    found, uid = sight(notified, notified.nobody), notified.uid("/biology")
    assert (found.concerns(uid), found.sees_exact_numbers(uid)) == (True, False)


def test_a_bound_token_reads_nothing_of_the_whole_site_or_of_another_policy(notified: Site) -> None:
    bounds = TokenBounds("fsh_x", frozenset({"policies:read"}), policy_slug="grid")
    reader = Reader(Actor(user=notified.admin, via="api", token=bounds), AT)
    assert not reader.is_admin
    assert reader.of(Policy.objects.get(slug="grid")) is not None
    assert reader.of(notified.other) is None
    assert reader.of(None) is None
