"""What sites delivered is remembered, and yet always what the buckets say: compared with sums made by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from django.db import connection, transaction

from apps.accounts.actor import COMMAND
from apps.policies.tree.stored import load_tree
from apps.priorities import delivered_usage as delivered_by_site
from apps.priorities.delivered_usage import BySite, load_by_site, load_delivered
from apps.usage import account_sums
from apps.usage.account_sums import AccountSums, Measure, Piece, Span, first_full_hour
from apps.usage.models import Source
from apps.usage.records.overlaps import decide_overlap
from apps.usage.services import NewSource, make_source
from apps.usage.sources.services import change_source, tag_of
from tests.priority_site import AS_OF, PROJECTS, Site

pytestmark = pytest.mark.django_db(transaction=True)  # what isn't committed is never remembered
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WINDOW = 75 * DAY
AGO = (2, 26, 31, 24 * 9, 24 * 21 + 5, 24 * 40, 24 * 70, 24 * 74 + 20, 24 * 200)


@pytest.fixture
def world(make_site: Callable[..., Site]) -> Site:
    """Over more than two months, here and at one other site."""
    made = make_site()
    made.publish(PROJECTS)
    made.map()
    east = make_source(
        NewSource(slug="east", name="east", namespace="c1", origin="east.example"), at=AS_OF, actor=COMMAND
    )
    for n, ago_h in enumerate(AGO):
        made.job("alice", "physics", 1 + n, ago_h=ago_h)
        made.job("carol", "biology", 2 + n, ago_h=ago_h + 1, source=east)
    made.job("nobody", "knows", 5)
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Span]:
    """A process that remembers nothing yet; what of hours it reads from then on."""
    monkeypatch.setattr(account_sums, "cached_sums", AccountSums())
    monkeypatch.setattr(delivered_by_site, "_cache", delivered_by_site._Cache())
    really = account_sums._read
    found: list[Span] = []

    def noted(batch: Sequence[Span], measure: Measure, **how: bool) -> Iterator[tuple[Span, Piece]]:
        found.extend(batch)
        return really(batch, measure, **how)

    monkeypatch.setattr(account_sums, "_read", noted)
    return found


def ask(world: Site, to_at: datetime = AS_OF, window: timedelta | None = WINDOW, **more: Any) -> BySite:
    world.policy.refresh_from_db()
    since = None if window is None else to_at - window
    return load_by_site(policy=world.policy, tree=load_tree(world.policy), from_at=since, to_at=to_at, **more)


def by_user(found: BySite, stretch: int | None = None) -> dict[tuple[str, str], float]:
    own = found.own.sum(axis=0) if stretch is None else found.own[stretch]
    places = zip(*(one.tolist() for one in np.nonzero(own)), strict=True)
    return {(found.tree.name[i], found.origins[at]): float(own[at, i]) for at, i in places}


def by_hand(since: datetime | None = AS_OF - WINDOW, until: datetime = AS_OF) -> dict[tuple[str, str], float]:
    """Core-seconds by (user, origin), straight from the buckets."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT account.user_name, source.origin, bucket.hour_at, bucket.cpu_s FROM usage_bucket AS bucket "
            "JOIN accounts_account AS account ON account.id = account_id "
            "JOIN usage_source AS source ON source.id = source_id "
            "WHERE NOT EXISTS (SELECT FROM usage_overlap AS held WHERE held_id = source_id AND held.site = bucket.site "
            "AND state <> 'counted' AND bucket.hour_at >= from_at AND bucket.hour_at < to_at)"
        )
        for user, origin, hour_at, cpu_s in cursor.fetchall():
            if (since is None or hour_at >= since) and hour_at < until and user != "nobody":
                sums[user, origin] += cpu_s
    return {key: cpu_s for key, cpu_s in sums.items() if cpu_s}


def test_a_repeated_request_reads_and_computes_nothing(world: Site, read: list[Span]) -> None:
    first = ask(world)
    assert by_user(first) == by_hand()
    assert set(first.first_at) == {"", "east.example"}
    assert first.first_at[""] == AS_OF - 74 * DAY - 21 * HOUR
    assert read
    read.clear()
    assert ask(world) is first
    assert read == []
    assert (first.below == ask(world).below).all()


def test_only_recent_days_are_read_again(world: Site, read: list[Span]) -> None:
    ask(world)
    whole = len(read)
    read.clear()
    world.job("bob", "physics", 7, ago_h=27)
    assert by_user(ask(world)) == by_hand()
    changed = first_full_hour(AS_OF - 28 * HOUR)
    assert read
    assert all(end > changed for _begin, end in read)
    assert len(read) == 2 < whole, "that day, and the hours of today"


def test_only_changed_periods_are_summed_again(world: Site, read: list[Span], monkeypatch: pytest.MonkeyPatch) -> None:
    tree, edges = load_tree(world.policy), [AS_OF - weeks * 7 * DAY for weeks in range(5, -1, -1)]
    summed: list[Any] = []
    really = delivered_by_site._Inputs.amounts

    def amounts(self: delivered_by_site._Inputs, *asked: Any) -> Any:
        summed.append(asked)
        return really(self, *asked)

    def below() -> Any:
        return load_delivered(policy=world.policy, tree=tree, entries=range(len(tree)), edges=edges).below

    monkeypatch.setattr(delivered_by_site._Inputs, "amounts", amounts)
    monkeypatch.setattr(delivered_by_site, "_period_cache", delivered_by_site._PeriodCache())
    world.job("bob", "physics", 1, ago_h=27)  # its account is known from now on
    first = below()
    assert (below() == first).all()
    assert len(summed) == 5
    world.job("bob", "physics", 7, ago_h=27)
    changed = below()
    assert len(summed) == 6
    assert changed.sum() > first.sum()
    monkeypatch.setattr(delivered_by_site, "_period_cache", delivered_by_site._PeriodCache())
    assert (below() == changed).all()


def test_late_usage_of_any_month_is_included(world: Site, read: list[Span]) -> None:
    for ago_h in (24 * 72, 24 * 33, 24 * 300):
        ask(world)
        world.job("bob", "physics", 7, ago_h=ago_h, source=Source.objects.get(slug="east"))
        assert by_user(ask(world)) == by_hand()
        assert by_user(ask(world, window=None)) == by_hand(None)


def test_a_moving_window_equals_a_fresh_computation(world: Site, read: list[Span]) -> None:
    for hours in (*range(0, 60, 7), 24 * 12, 24 * 12 + 5, 24 * 41):
        at = AS_OF + hours * HOUR + timedelta(minutes=3)
        found = ask(world, at)
        assert by_user(found) == by_hand(at - WINDOW, at), hours
    read.clear()
    ask(world, at + HOUR)
    days = {begin // 24 for begin, _end in read}
    assert len(days) <= 2, "an hour later the ends have moved and nothing between them"


def test_periods_have_the_usage_delivered_in_each(world: Site, read: list[Span]) -> None:
    cuts = [AS_OF - 25 * DAY + timedelta(minutes=1), AS_OF - DAY, AS_OF + DAY, AS_OF - 500 * DAY]
    ask(world)
    found = ask(world, cuts=cuts)
    edges = [AS_OF - WINDOW, cuts[0], cuts[1], AS_OF]
    assert [by_user(found, n) for n in range(3)] == [by_hand(*edge) for edge in pairwise(edges)]


def test_held_hours_and_decisions_are_included(world: Site, read: list[Span]) -> None:
    east = Source.objects.get(slug="east")
    world.job("alice", "physics", 3, ago_h=50, site="north")
    assert by_user(ask(world)) == by_hand()
    world.job("alice", "physics", 4, ago_h=50, site="north", source=east)
    before = ask(world)
    assert by_user(before) == by_hand(), "held"
    decide_overlap(
        site="north", kept_slug=world.source.slug, held_slug="east", counts=True, reason="x", at=AS_OF, actor=COMMAND
    )
    assert by_user(ask(world)) == by_hand()
    assert by_user(ask(world))["alice", "east.example"] == by_user(before).get(("alice", "east.example"), 0) + 4 * 3600


def test_current_rules_tree_and_source_origins_are_used(world: Site, read: list[Span]) -> None:
    assert by_user(ask(world)) == by_hand()
    read.clear()
    world.map(world.rule("/biology", user_pattern="alice", suffix="/dan"), world.rule())
    assert ("dan", "") in by_user(ask(world))
    assert ("alice", "") not in by_user(ask(world))
    world.map()
    world.publish([{**PROJECTS[0], "name": "chemistry"}, PROJECTS[1]])
    assert {name for name, _origin in by_user(ask(world))} == {"carol"}, "where the group has another name"
    assert read == [], "usage by account is the same"
    world.publish(PROJECTS)
    source = Source.objects.get(slug=world.source.slug)
    change_source(
        slug=source.slug, tag=tag_of(source), new_settings={"origin": "west.example"}, at=AS_OF, actor=COMMAND
    )
    assert by_user(ask(world)) == by_hand()
    assert ("alice", "west.example") in by_user(ask(world))


def test_a_recreated_source_of_the_same_name_is_a_new_one(world: Site, read: list[Span]) -> None:
    ask(world)
    old = Source.objects.get(slug="east")
    with connection.cursor() as cursor:
        for table in ("usage_bucket", "usage_record"):
            cursor.execute(f"DELETE FROM {table} WHERE source_id = %s", [old.pk])  # noqa: S608 - constants only
    old_mark = old.watermark
    old.delete()
    assert by_user(ask(world)) == by_hand()
    east = make_source(
        NewSource(slug="east", name="east", namespace="c1", origin="east.example"), at=AS_OF, actor=COMMAND
    )
    Source.objects.filter(pk=east.pk).update(watermark=old_mark)
    world.job("carol", "biology", 9, ago_h=24 * 40, source=east)
    assert by_user(ask(world)) == by_hand()


def test_undone_usage_is_never_cached(world: Site, read: list[Span]) -> None:
    before = by_user(ask(world))
    with transaction.atomic():
        world.job("alice", "physics", 100, ago_h=3)
        assert by_user(ask(world)) == by_hand() != before, "who changes something sees it"
        transaction.set_rollback(True)
    assert by_user(ask(world)) == by_hand() == before


@pytest.mark.parametrize("most", [0, 2_000])
def test_the_cache_is_bounded_and_the_rest_is_read_again(
    world: Site, read: list[Span], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(account_sums, "_MOST_ACCOUNT_SUM_BYTES", most)
    monkeypatch.setattr(delivered_by_site, "_MOST_DELIVERED_BYTES", most)
    monkeypatch.setattr(delivered_by_site, "_cache", delivered_by_site._Cache())
    for days in (75, 40, 75, 10):
        found = ask(world, window=days * DAY)
        assert by_user(found) == by_hand(AS_OF - days * DAY)
        assert account_sums.cached_sums.n_bytes <= most
        assert sum(by_site.n_bytes for by_site in delivered_by_site._cache._known.values()) <= most
    n_before = len(read)
    ask(world)
    assert len(read) > n_before, "what didn't fit is read again"
