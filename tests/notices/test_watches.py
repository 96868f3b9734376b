"""Watches: a user's own, for entries whose numbers they see, each until a date."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.accounts.actor import SYSTEM, Actor
from apps.core.errors import Invalid, NotAllowed, NotFound
from apps.notices.evaluation import evaluate
from apps.notices.kinds import kind_of
from apps.notices.models import Notice, Watch
from apps.notices.rules import NEW, Place, set_rule
from apps.notices.watches import DAYS, LONGEST_DAYS, MOST, list_watches, stop_watching, watch_entry
from apps.policies.models import Grant
from tests.api.small_site import Site
from tests.examples import new_uid
from tests.grants import make_grant
from tests.instants import AT
from tests.refusals import refused

DAY = timedelta(days=1)


@pytest.fixture
def pia(computed: Site) -> Actor:
    return Actor(user=computed.pia, via="page")


def watch(site: Site, actor: Actor, path: str = "/physics/bob", *, days: int = DAYS) -> Watch:
    return watch_entry(policy_slug="grid", uid=site.uid(path), days=days, at=AT, actor=actor)


def test_a_second_watch_of_an_entry_gives_it_a_new_end(computed: Site, pia: Actor) -> None:
    first, second = watch(computed, pia), watch(computed, pia, days=3)
    assert (first.pk, second.ends_at) == (second.pk, AT + 3 * DAY)
    (line,) = list_watches(at=AT, actor=pia)
    assert (line.row.path, line.watch.actual_before) == ("/physics/bob", line.row.actual)
    assert list_watches(at=AT + 3 * DAY, actor=pia) == []


@pytest.mark.parametrize("days", [0, LONGEST_DAYS + 1])
def test_a_watch_has_an_end_within_half_a_year(computed: Site, pia: Actor, days: int) -> None:
    with refused(Invalid, field="days"):
        watch(computed, pia, days=days)


def test_the_number_of_watches_is_limited_without_those_that_ended_long_ago(computed: Site, pia: Actor) -> None:
    assert pia.user is not None
    rows = [
        Watch(user=pia.user, policy=computed.policy, entry_uid=new_uid(), begins_at=AT, ends_at=AT + DAY)
        for _ in range(MOST)
    ]
    Watch.objects.bulk_create(rows)
    with refused(Invalid, "too_many"):
        watch(computed, pia)
    Watch.objects.filter(pk=Watch.objects.earliest("pk").pk).update(begins_at=AT - 40 * DAY, ends_at=AT - 31 * DAY)
    watch(computed, pia)
    assert Watch.objects.count() == MOST
    watch(computed, pia, days=2)
    assert Watch.objects.count() == MOST, "one's own again is no further one"


def test_an_entry_is_watched_by_those_who_see_its_numbers(computed: Site) -> None:
    """A reader of sums sees that there is biology, and not what its only user does."""
    vera = Actor(user=computed.nobody, via="page")
    with refused(NotFound):
        watch(computed, vera, "/biology")
    make_grant(vera.user, computed.uid("/"), "viewer", policy=computed.policy, reason="sums")
    with refused(NotAllowed):
        watch(computed, vera, "/biology")
    assert not Watch.objects.exists()


def test_only_people_watch_and_each_stops_their_own(computed: Site, pia: Actor) -> None:
    made = watch(computed, pia)
    ben = Actor(user=computed.ben, via="page")
    with refused(NotAllowed):
        watch(computed, SYSTEM)
    assert list_watches(at=AT, actor=SYSTEM) == list_watches(at=AT, actor=ben) == []
    for number in (made.pk, 0, 2**63):
        with refused(NotFound):
            stop_watching(id=number, actor=ben)
    stop_watching(id=made.pk, actor=pia)
    assert not Watch.objects.exists()


def test_a_watch_of_an_entry_that_is_hidden_now_is_neither_listed_nor_reported(computed: Site, pia: Actor) -> None:
    """Bob used a seventh of what physics did, and has a third of it."""
    watch(computed, pia)
    evaluate(at=AT, only={"watched"})
    assert Notice.objects.get(kind="watched").facts["state"] == "under"
    Grant.objects.filter(user=computed.pia).delete()
    assert list_watches(at=AT, actor=pia) == []
    evaluate(at=AT + DAY, only={"watched"})
    assert Notice.objects.get(kind="watched").closed_at == AT + DAY


def test_an_entry_on_target_is_no_news_until_its_watch_ends(computed: Site) -> None:
    watch(computed, Actor(user=computed.admin, via="page"), "/", days=1)
    evaluate(at=AT, only={"watched"})
    assert not Notice.objects.filter(kind="watched").exists()
    evaluate(at=AT + DAY, only={"watched"})
    facts = Notice.objects.get(kind="watched").facts
    assert (facts["state"], facts["actual"], facts["target"], facts["before"]) == ("on", 1, 1, 1)


def test_a_watch_that_began_before_the_first_numbers_has_none_to_compare_with(computed: Site, pia: Actor) -> None:
    watch(computed, pia)
    evaluate(at=AT, only={"watched"})
    facts = Notice.objects.get(kind="watched").facts
    whole, short = (kind_of("watched").describe({**facts, "before": before}).text for before in (0.123, None))
    assert whole.startswith(short)
    assert "12.3" in whole.removeprefix(short)


def test_the_end_of_a_watch_is_summed_up_for_three_days(computed: Site, pia: Actor) -> None:
    watch(computed, pia, days=1)
    open_keys = []
    for n in (0, 1, 3, 4):
        evaluate(at=AT + n * DAY, only={"watched"})
        open_keys.append([one.key.partition(":")[2] for one in Notice.objects.filter(kind="watched", closed_at=None)])
    assert open_keys == [["under"], ["end"], ["end"], []]


def test_a_rule_that_is_off_for_the_policy_silences_its_watches(computed: Site, pia: Actor) -> None:
    watch(computed, pia)
    below = Place(policy=computed.policy, entry_uid=computed.uid("/physics"))
    for place, is_on in ((Place(policy=computed.policy), False), (below, True)):
        set_rule(kind="watched", place=place, is_on=is_on, terms={}, version=NEW, at=AT, actor=SYSTEM)
    evaluate(at=AT, only={"watched"})
    assert not Notice.objects.filter(kind="watched").exists()
