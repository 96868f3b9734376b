"""Snapshots that were made while the clock was ahead or behind are nobody's past."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from apps.accounts.actor import Actor
from apps.accounts.clock_watch import note_clock
from apps.accounts.models import Account, User
from apps.pages.my_priority.numbers.rank_history import get_my_rank_history
from apps.policies.recompute_runs import queue_recompute
from apps.priorities.models import Snapshot
from apps.priorities.selectors.rows import open_view
from apps.priorities.serving import store
from apps.priorities.snapshot_retention import prune_snapshots
from apps.runs.services import claim_run, work_lease
from tests.priority_site import AS_OF, WINDOW, Site, children, new_site

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def site(db: None) -> Site:
    made = new_site("grid")
    made.publish(children(physics={"": 1, "alice": 1, "bob": 1}), WINDOW, at=AS_OF - 10 * DAY)
    made.map()
    made.job("alice", "physics", 1)
    return made


def recompute(site: Site, at: datetime) -> Snapshot:
    run = queue_recompute(site.policy, at=at)
    lease = claim_run(at=at, run_id=run.pk, clock=lambda: at)
    assert lease is not None
    work_lease(lease)
    run.refresh_from_db()
    return Snapshot.objects.get(pk=run.result["snapshot"])


@pytest.mark.fault("F10")
def test_a_snapshot_made_while_the_clock_was_ahead_is_neither_the_last_of_its_revision_nor_a_day(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    recompute(site, AS_OF + MINUTE)
    ahead = recompute(site, AS_OF + 400 * DAY)
    right = recompute(site, AS_OF + 20 * MINUTE)
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AS_OF + 21 * MINUTE).isoformat())
    admin = User.objects.create_superuser("eva", "eva@site.example", "a long pass phrase")
    view = open_view(policy_slug=site.slug, actor=Actor(user=admin, via="page"), at=site.policy.head_number)
    assert view.as_of == right.as_of
    alice = User.objects.create_user("alice")
    Account.objects.filter(user_name="alice").update(person=alice)
    tree = store.newest(site.slug).tree
    entry = tree.index_of_path("/physics/alice")
    assert entry is not None
    history = get_my_rank_history(
        policy_slug=site.slug,
        entry_uid=tree.uuid(entry),
        n_days=365,
        actor=Actor(user=alice, via="page"),
        at=AS_OF + 21 * MINUTE,
    )
    assert [day.on for day in history.days] == [AS_OF.date()]
    prune_snapshots(at=AS_OF + 21 * MINUTE)
    assert ahead.pk not in Snapshot.objects.values_list("pk", flat=True)


@pytest.mark.parametrize(
    ("hours", "kept"),
    [
        ([0, 1, 2, 9_602, 3], [0, 1, 2, 3]),
        ([0, 9_600, 0], [0, 0]),
        ([0, 1, 2, -9_600, 3], [0, 1, 2, 3]),
        ([0, 1, 2, -9_600], [0, 1, 2, -9_600]),  # the newest is served; the clock is behind now, or was ahead before
        ([0, 1, 2, -9_600, -9_599], [0, 1, 2, -9_599]),
        ([0, 50, 51, 1, 2, 3], [0, 1, 2, 3]),
        ([0, 0, 1, 0, 1], [0, 0, 1, 0, 1]),  # two workers whose clocks differ a little
        ([0, 30, 20, 10], [0, 10]),
    ],
)
def test_of_snapshots_out_of_order_the_longer_history_stays(site: Site, hours: list[int], kept: list[int]) -> None:
    copy = recompute(site, AS_OF)
    Snapshot.objects.filter(pk=copy.pk).update(is_live=False, is_kept=True)
    for place, hour in enumerate(hours):
        copy.pk, copy.fingerprint, copy.as_of, copy.is_live = None, f"{place}", AS_OF + hour * HOUR, True
        copy.save()
    prune_snapshots(at=AS_OF)
    live = Snapshot.objects.filter(is_live=True).order_by("pk").values_list("as_of", flat=True)
    assert [(as_of - AS_OF) // HOUR for as_of in live] == kept


def test_a_jump_that_is_not_confirmed_prunes_nothing(site: Site) -> None:
    note_clock(AS_OF, database_at=AS_OF)
    for minute in range(1, 9):
        recompute(site, AS_OF + minute * MINUTE)
        site.job("bob", "physics", 1)
    assert prune_snapshots(at=AS_OF + 400 * DAY) == 0
