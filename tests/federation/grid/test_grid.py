"""The grid view: its numbers are those of the buckets, computed here by hand, and no person's usage is revealed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core.errors import NotFound
from apps.federation.grid.totals import Grid, list_grid_entries, load_grid
from apps.federation.models import HeldHour, Subscription
from apps.policies.models import Policy
from apps.policies.services import change_settings
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Fallback, Snapshot
from apps.priorities.serving import store
from apps.usage.models import Source
from apps.usage.services import NewSource, make_source
from tests.federation.grid.grid_site import SETTINGS, TREE
from tests.grants import make_grant
from tests.priority_site import AS_OF, Site, as_alice, as_eva, make_site

__all__ = ["as_alice", "as_eva", "make_site"]
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AS_OF + timedelta(seconds=2)).isoformat())


@pytest.fixture
def world(grid_site: Site, settings: Any) -> Site:
    """A VO that is published, with usage of this site and of two others, one of them subscribed to."""
    settings.FAIRSHARE_SITE = "north"
    settings.FAIRSHARE_ISSUER = "vo.example"
    return grid_site


def by_hand(since: datetime, until: datetime) -> dict[tuple[str, str], float]:
    """Core-seconds by (user, origin), straight from the buckets."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT account.user_name, source.origin, bucket.hour_at, bucket.cpu_s FROM usage_bucket bucket "
            "JOIN accounts_account account ON account.id = account_id JOIN usage_source source ON source.id = source_id"
        )
        for user, origin, hour_at, cpu_s in cursor.fetchall():
            if since <= hour_at < until:
                sums[user, origin] += cpu_s
    return sums


def grid_of(actor: Actor, path: str = "/vo", levels: int = 1) -> Grid:
    return load_grid(policy_slug="grid", entry=path, actor=actor, at=AS_OF, levels=levels)


@pytest.mark.paper("4.60")
def test_delivered_usage_of_each_site_equals_its_buckets(world: Site, as_eva: Actor) -> None:
    found = grid_of(as_eva, levels=2)
    assert [site.origin for site in found.sites] == ["", "east.example", "west.example"]
    assert found.since == AS_OF - timedelta(days=10)
    hand = by_hand(found.since, AS_OF)
    users = {"ada": "/vo/p1/ada", "cleo": "/vo/p2/cleo"}
    rows = {row.entry.path: row for row in found.rows}
    for user, path in users.items():
        assert rows[path].core_s == tuple(hand[user, site.origin] for site in found.sites)
    assert rows["/vo/p1"].core_s == rows["/vo/p1/ada"].core_s
    whole = tuple(sum(hand[user, site.origin] for user in users) for site in found.sites)
    assert found.own.core_s == whole
    assert tuple(site.core_s for site in found.sites) == whole
    assert [value / 3600 for value in whole] == [2 * (10 + 3), 11 + 6, 12 + 9], "zoe and the old hours aren't in it"
    assert found.own.part_of(1) == pytest.approx(17 / 64)
    assert sum(found.own.part_of(n) or 0 for n in range(3)) == pytest.approx(1)


def test_delivered_usage_begins_with_the_last_reset(world: Site, as_eva: Actor) -> None:
    weekly = {"window": {"reset": "weekly", "reset_zone": "UTC"}}
    change_settings(policy_slug="grid", settings=weekly, reason="By the week.", at=AS_OF, actor=COMMAND)
    world.policy.refresh_from_db()
    world.recompute(AS_OF)
    store.poll()
    whole = grid_of(as_eva)
    assert whole.since == datetime(2026, 11, 15, tzinfo=AS_OF.tzinfo), "a Sunday"
    assert sum(whole.own.core_s or ()) == sum(
        core_s for (user, _), core_s in by_hand(whole.since, AS_OF).items() if user in ("ada", "cleo")
    )


@pytest.mark.paper("4.64")
def test_targets_and_actual_shares_come_from_the_snapshot(world: Site, as_eva: Actor) -> None:
    found, snapshot = grid_of(as_eva), store.newest("grid")
    assert found.as_of == snapshot.as_of
    assert found.scope == "global"
    for row in found.children:
        i = snapshot.tree.index_of_uid(row.entry.uid)
        assert row.entry.actual == float(snapshot.values.actual[i])
        assert row.entry.target == 0.5
    assert found.children[0].entry.actual == pytest.approx((2 * 10 + 11 + 12) / 64)
    assert [row.entry.state for row in found.children] == ["over", "under"]


@pytest.mark.paper("4.7")
def test_each_site_has_capacity_age_versions_and_held_hours(world: Site, as_eva: Actor) -> None:
    north, east, west = grid_of(as_eva).sites
    assert (north.is_here, north.name, north.capacity_cores, north.state) == (True, "north", 4.0, "here")
    assert (north.enforced, north.published, north.is_behind) == (41, 41, False)
    first = AS_OF - timedelta(hours=31)
    assert north.possible_core_s == 4.0 * (AS_OF - first).total_seconds(), "from its first hour in the window"
    assert (east.name, east.state, east.capacity_cores, east.reported_capacity_cores) == ("East", "held", 2.0, 20.0)
    assert (east.enforced, east.published, east.is_behind) == (40, 41, True)
    assert east.published_at == AS_OF - timedelta(minutes=3)
    assert east.last_contact_at == AS_OF - timedelta(minutes=4)
    assert (east.held_hours, east.held_core_s) == (1, 90_000.0), "an hour before the window is no longer sent"
    assert east.part_of_capacity == pytest.approx(17 / (2 * 4))
    assert (west.name, west.state, west.capacity_cores, west.part_of_capacity) == ("West", "untold", None, None)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "held"),
        ({"state": "paused"}, "paused"),
        ({"state": "frozen"}, "frozen"),
        ({"state": "blocked", "good_at": AS_OF - 2 * HOUR}, "blocked"),
        ({"expires_at": AS_OF}, "expired"),
        ({"state": "frozen", "good_at": AS_OF - 2 * HOUR}, "stale"),
        ({"reported_capacity_cores": None}, "held"),
        ({"reported_capacity_cores": None, "feed": "nothing held"}, "fresh"),
        ({"reported_capacity_cores": None, "feed": "nothing held", "n_failed": 1}, "late"),
        ({"reported_capacity_cores": None, "feed": "nothing held", "good_at": None}, "new"),
    ],
)
def test_the_state_of_a_site_names_its_problem(world: Site, as_eva: Actor, fields: dict[str, Any], state: str) -> None:
    Subscription.objects.update(**fields)
    HeldHour.objects.filter(subscription__feed="nothing held").delete()
    found = grid_of(as_eva)
    assert found.sites[1].state == state
    assert [found.sites[n].state for n in (0, 2)] == ["here", "untold"]


def test_data_beyond_the_maximum_age_is_stale_in_every_state(world: Site, as_eva: Actor) -> None:
    Subscription.objects.update(state="paused", good_at=AS_OF - HOUR)
    assert [site.is_old(AS_OF) for site in grid_of(as_eva).sites] == [False, True, False]
    Subscription.objects.update(good_at=AS_OF - HOUR + timedelta(seconds=1))
    assert not grid_of(as_eva).sites[1].is_old(AS_OF)
    Subscription.objects.update(state="active", good_at=None, made_at=AS_OF - 2 * HOUR)
    assert grid_of(as_eva).sites[1].is_old(AS_OF), "it was never heard, for longer than is allowed"


def test_a_local_only_fallback_is_reported(world: Site, as_eva: Actor) -> None:
    vo = grid_of(as_eva).uid
    Fallback.objects.create(policy=world.policy, entry_uid=vo, reason="not heard", since=AS_OF - HOUR)
    found = grid_of(as_eva, "/vo/p1")
    assert (found.scope, found.fallback_since) == ("local", AS_OF - HOUR)


def test_a_project_has_its_own_grid_view(world: Site, as_eva: Actor) -> None:
    found = grid_of(as_eva, "/vo/p2")
    assert [value / 3600 for value in found.own.core_s or ()] == [6, 6, 9]
    assert found.sites[1].path == "/vo", "what is subscribed to is the VO"
    assert found.sites[1].enforced == 40


def test_without_a_snapshot_targets_are_shown_without_amounts(make_site: Callable[..., Site], as_eva: Actor) -> None:
    make_site().publish(TREE, SETTINGS)
    found = grid_of(as_eva)
    assert (found.as_of, found.own.core_s, found.sites[0].core_s) == (None, None, None)
    assert [row.entry.target for row in found.children] == [0.5, 0.5]


def test_invisible_entries_are_not_listed(world: Site, as_alice: Actor, as_eva: Actor) -> None:
    Policy.objects.update(visibility="path")
    for path in ("/vo", "/nothing", "/\0"):
        with pytest.raises(NotFound):
            grid_of(as_alice, path)
    assert list_grid_entries(actor=as_alice, at=AS_OF) == []
    assert [(one.path, one.why, one.what) for one in list_grid_entries(actor=as_eva, at=AS_OF)] == [
        ("/vo", "published", "vo")
    ]


def viewer_of(path: str, site: Site) -> Actor:
    user = User.objects.create_user("vera")
    tree = load_tree(site.policy)
    Policy.objects.update(visibility="path")
    make_grant(
        user,
        tree.uuid(tree.index_of_path(path) or 0),
        "viewer",
        policy=site.policy,
        at=AS_OF - timedelta(days=9),
        reason="x",
    )
    return Actor(user=user, via="page")


def test_readers_of_sums_see_no_site_with_fewer_than_five_active_people(world: Site) -> None:
    settled(world)
    found = grid_of(viewer_of("/vo", world), levels=2)
    assert {row.entry.path for row in found.rows} == {"/vo", "/vo/p1", "/vo/p2"}, "people aren't even named"
    assert all(row.core_s is None for row in found.rows)
    assert all(site.core_s is None and site.part_of_capacity is None for site in found.sites)


def settled(world: Site) -> None:
    """The snapshot is the last of a day that is over: its sums may be shown."""
    Snapshot.objects.update(computed_at=AS_OF - timedelta(days=1))
    store.forget()


def crowd(world: Site, sources: list[Source]) -> None:
    """Six more people in each group, each of whom runs at every site: no remainder is one user's own."""
    groups = {"p1": "u", "p2": "v", "rest": "w"}
    more = {group: [{"name": f"{letter}{n}"} for n in range(6)] for group, letter in groups.items()}
    vo, rest = TREE
    below = [{**one, "children": [*one["children"], *more[one["name"]]]} for one in vo["children"]]
    world.publish([{**vo, "children": below}, {**rest, "children": [*rest["children"], *more["rest"]]}], SETTINGS)
    world.map(
        world.rule("/", user_pattern="zoe", suffix="/rest/{user}"),
        world.rule("/", user_pattern="w?", suffix="/rest/{user}"),
        world.rule("/vo", group_pattern="p*"),
    )
    for source in sources:
        for group, letter in groups.items():
            for n in range(6):
                world.job(f"{letter}{n}", group, 30 + n, ago_h=2, source=source)


def test_a_group_needs_five_active_people_at_every_site(world: Site) -> None:
    east, west = Source.objects.get(slug="east"), Source.objects.get(slug="west")
    crowd(world, [world.source, east, west])
    world.recompute()
    settled(world)
    vera = viewer_of("/vo", world)
    found = grid_of(vera)
    hand = by_hand(AS_OF - timedelta(days=10), AS_OF)
    people = ("ada", *(f"u{n}" for n in range(6)))
    wanted = tuple(sum(hand[user, site.origin] for user in people) for site in found.sites)
    assert {row.entry.path: row.core_s for row in found.rows}["/vo/p1"] == wanted
    third = make_source(
        NewSource(slug="far", name="far", namespace="c1", origin="far.example"), at=AS_OF, actor=COMMAND
    )
    world.job("u1", "p1", 5, ago_h=2, source=third)
    assert {row.entry.path: row.core_s for row in grid_of(vera).rows}["/vo/p1"] is None, "one person's alone at `far`"


def test_the_number_of_rows_is_limited(world: Site, as_eva: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.federation.grid.totals.MOST_GRID_ROWS", 2)
    found = grid_of(as_eva, levels=3)
    assert ([row.entry.path for row in found.rows], found.n_more) == (["/vo", "/vo/p1"], 4)
