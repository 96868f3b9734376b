from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from celery import current_app
from django.db import connection

from apps.accounts.actor import Actor
from apps.accounts.models import Account, AuditEvent
from apps.core.errors import Invalid, NotAllowed, NotFound, Unavailable
from apps.policies.recompute_runs import queue_recompute
from apps.policies.services import change_shares
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot, UnmappedAccounts
from apps.priorities.recompute import pipeline as assembly
from apps.priorities.recompute import staleness as recompute
from apps.priorities.recompute.fingerprint import read_fingerprint, tick_of
from apps.priorities.serving import store
from apps.priorities.snapshot_retention import prune_snapshots
from apps.priorities.tasks import recompute_stale
from apps.runs.leases import LeaseLost
from apps.runs.models import Run
from apps.runs.services import claim_run, work_lease, work_run_now
from tests.grants import make_grant
from tests.priority_site import AS_OF, PROJECTS, Site

pytestmark = pytest.mark.django_db
NOW = AS_OF + timedelta(seconds=2)


def test_a_recompute_makes_one_snapshot_that_is_served(site: Site) -> None:
    snapshot = site.recompute()
    assert (snapshot.as_of, snapshot.revision_number, snapshot.n_ranked) == (AS_OF, 2, 4)
    served_now = store.newest("grid")
    assert served_now.snapshot_id == snapshot.pk
    ranks = {one["account"]: one["rank"] for one in served_now.lookup(["alice", "bob", "carol", "dan"])}
    assert ranks == {"bob": 1, "alice": 2, "dan": 3, "carol": 4}


@pytest.mark.paper("4.70")
def test_unchanged_inputs_are_not_computed_again_and_changed_ones_are(site: Site) -> None:
    policy = site.policy
    assert recompute.is_stale(policy, as_of=AS_OF)
    first = site.recompute()
    assert not recompute.is_stale(policy, as_of=AS_OF)
    assert recompute.recompute_stale(at=NOW) == []
    with patch.object(assembly, "load_inputs", side_effect=AssertionError("computed again")):
        assert site.recompute() == first
    site.job("dan", "biology", 3)
    assert recompute.is_stale(policy, as_of=AS_OF)
    second = site.recompute()
    assert second.pk != first.pk
    site.map(site.rule(), site.rule("/physics", suffix=""))
    assert site.recompute().mapping_version == second.mapping_version + 1
    assert recompute.is_stale(policy, as_of=AS_OF + timedelta(seconds=60))


@pytest.mark.paper("4.70")
def test_the_schedule_recomputes_a_policy_once_its_snapshot_is_a_tick_old(
    site: Site, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled = settings.CELERY_BEAT_SCHEDULE.get("recompute-stale", {})
    assert scheduled == {"task": recompute_stale.name, "schedule": float(settings.FAIRSHARE_TICK_S)}
    site.recompute()
    monkeypatch.setenv("FAIRSHARE_CLOCK", NOW.isoformat())
    assert current_app.tasks[scheduled["task"]]() == 0
    later = NOW + timedelta(seconds=scheduled["schedule"])
    monkeypatch.setenv("FAIRSHARE_CLOCK", later.isoformat())
    assert current_app.tasks[scheduled["task"]]() == 1
    run = Run.objects.get(kind="recompute", state=Run.State.QUEUED)
    assert (run.subject, work_run_now(run.pk).state) == ("policy:grid", Run.State.SUCCEEDED)
    assert store.newest("grid").as_of == tick_of(later)


def test_the_same_inputs_give_the_same_bytes(site: Site) -> None:
    first = site.recompute()
    kept = bytes(first.data), first.digest
    Snapshot.objects.all().delete()
    with connection.cursor() as cursor:  # the rows move on the disk, the numbers don't
        cursor.execute("UPDATE usage_bucket SET jobs = jobs")
    again = site.recompute()
    assert (bytes(again.data), again.digest) == kept


def test_a_failure_keeps_the_last_good_snapshot(site: Site) -> None:
    good = site.recompute()
    site.job("dan", "biology", 3)
    run = queue_recompute(site.policy, at=NOW)
    with patch.object(assembly, "compute", side_effect=MemoryError("none left")):
        lease = claim_run(at=NOW, run_id=run.pk)
        assert lease is not None
        work_lease(lease)
    run.refresh_from_db()
    assert (run.state, run.error) == (Run.State.QUEUED, "MemoryError: none left")
    assert store.newest("grid").snapshot_id == good.pk
    assert Snapshot.objects.count() == 1


@pytest.mark.fault("F4")
def test_a_snapshot_and_the_end_of_its_run_are_stored_together_or_not_at_all(site: Site) -> None:
    run = queue_recompute(site.policy, at=NOW)
    lease = claim_run(at=NOW, run_id=run.pk)
    assert lease is not None
    with (
        patch.object(type(lease), "finish", side_effect=RuntimeError("killed here")),
        pytest.raises(RuntimeError, match="killed here"),
    ):
        recompute.run_recompute(Run.objects.get(pk=run.pk), lease)
    assert not Snapshot.objects.exists()


def test_a_worker_without_its_lease_stores_nothing(site: Site) -> None:
    run = queue_recompute(site.policy, at=NOW)
    late = claim_run(at=NOW, run_id=run.pk)
    assert late is not None
    Run.objects.filter(pk=run.pk).update(lease_until=AS_OF - timedelta(days=1))
    newer = claim_run(at=NOW, run_id=run.pk)
    assert newer is not None
    with pytest.raises(LeaseLost):
        recompute.run_recompute(Run.objects.get(pk=run.pk), late)
    assert not Snapshot.objects.exists()
    work_lease(newer)
    assert Snapshot.objects.count() == 1


@pytest.mark.fault("F17")
def test_recompute_requests_join_the_waiting_run_and_one_runs_at_a_time(site: Site, as_eva: Actor) -> None:
    first = recompute.request_recompute(policy_slug="grid", at=NOW, actor=as_eva)
    assert recompute.request_recompute(policy_slug="grid", at=NOW, actor=as_eva) == first
    assert recompute.recompute_stale(at=NOW) == [first.pk]
    lease = claim_run(at=NOW)
    assert lease is not None
    assert lease.run_id == first.pk
    second = recompute.request_recompute(policy_slug="grid", at=NOW, actor=as_eva)
    assert second.pk != first.pk
    assert claim_run(at=NOW) is None
    work_lease(lease)
    assert work_run_now(second.pk).result == work_run_now(first.pk).result


@pytest.mark.django_db(transaction=True)
def test_publishing_triggers_a_recompute(make_site: Callable[..., Site], as_eva: Actor) -> None:
    made = make_site()
    made.publish(PROJECTS)
    made.map()
    made.recompute()
    Run.objects.all().delete()
    tree = load_tree(made.policy)
    entry = tree.index_of_path("/physics")
    assert entry is not None
    change_shares(
        policy_slug="grid",
        entry_uid=tree.uuid(entry),
        shares=90,
        reason="more",
        base_revision=2,
        at=AS_OF,
        actor=as_eva,
    )
    run = Run.objects.get()
    assert (run.kind, run.subject, run.state) == ("recompute", "policy:grid", "queued")
    work_run_now(run.pk)
    assert store.newest("grid").revision == 3


@pytest.fixture
def old_site(make_site: Callable[..., Site]) -> Site:
    """Published and mapped the day before."""
    made = make_site(at=AS_OF - timedelta(days=1))
    made.publish(PROJECTS, at=AS_OF - timedelta(days=1))
    made.map(at=AS_OF - timedelta(days=1))
    return made


def test_a_snapshot_of_the_past_is_stored_and_never_served_as_the_newest(old_site: Site) -> None:
    site = old_site
    live = site.recompute()
    past = site.recompute(as_of=AS_OF - timedelta(hours=1))
    assert not past.is_live
    assert past.as_of == AS_OF - timedelta(hours=1)
    assert store.newest("grid").snapshot_id == live.pk
    assert store.load_stored("grid", past.pk).as_of == past.as_of
    with pytest.raises(NotFound):
        store.load_stored("other", past.pk)


def test_requests_for_different_instants_are_separate_runs(old_site: Site, as_eva: Actor) -> None:
    runs = [
        recompute.request_recompute(policy_slug="grid", as_of=AS_OF - timedelta(hours=ago), at=NOW, actor=as_eva)
        for ago in (1, 2)
    ]
    made = [work_run_now(run.pk).result["as_of"] for run in runs]
    assert made == [(AS_OF - timedelta(hours=ago)).isoformat() for ago in (1, 2)]


def test_future_instants_are_refused(site: Site, as_eva: Actor) -> None:
    with pytest.raises(Invalid):
        recompute.request_recompute(policy_slug="grid", as_of=NOW + timedelta(days=1), at=NOW, actor=as_eva)


def test_requesting_a_recompute_needs_the_right_to_change_shares(site: Site, as_alice: Actor) -> None:
    with pytest.raises(NotAllowed):
        recompute.request_recompute(policy_slug="grid", at=NOW, actor=as_alice)
    assert as_alice.user is not None
    grant = make_grant(as_alice.user, load_tree(site.policy).uuid(1), policy=site.policy, at=AS_OF, expires_at=AS_OF)
    with pytest.raises(NotAllowed):
        recompute.request_recompute(policy_slug="grid", at=NOW, actor=as_alice)
    grant.expires_at = None
    grant.save()
    run = recompute.request_recompute(policy_slug="grid", at=NOW, actor=as_alice)
    assert run.owner == as_alice.user
    assert AuditEvent.objects.filter(verb="recompute.requested", actor_name="alice").count() == 1


def test_before_the_first_snapshot_there_is_none_and_an_unknown_policy_is_not_found(site: Site) -> None:
    with pytest.raises(Unavailable) as none_yet:
        store.newest("grid")
    assert none_yet.value.code == "no_snapshot"
    with pytest.raises(NotFound):
        store.newest("nothing")


def test_ticks_are_whole_and_part_of_the_fingerprint(site: Site) -> None:
    assert tick_of(AS_OF + timedelta(seconds=59.9)) == AS_OF
    digests = {read_fingerprint(site.policy, as_of=AS_OF + timedelta(seconds=seconds)).digest for seconds in (0, 0, 60)}
    assert len(digests) == 2


def test_unmapped_accounts_are_listed_with_their_usage(site: Site) -> None:
    site.job("erin", "chemistry", 7)
    site.recompute()
    erin = Account.objects.get(user_name="erin").pk
    assert list(UnmappedAccounts.objects.values_list("account_ids", "usage")) == [([erin], 7 * 3600)]
    assert store.newest("grid").meta["n_unmapped"] == 1
    site.job("erin", "chemistry", 2, ago_h=3)
    second = site.recompute()
    rows = UnmappedAccounts.objects.values_list("snapshot_id", "account_ids", "usage")
    assert list(rows) == [(second.pk, [erin], 9 * 3600)], "only the newest snapshot's list is kept"


def test_old_snapshots_are_thinned_and_newest_and_referenced_ones_kept(site: Site) -> None:
    template = site.recompute()
    ages_h = [1, 1.5, 30, 30.2, 30.4, 24 * 40, 24 * 40 + 1, 24 * 40 + 2, 24 * 400, 24 * 500]
    kept_one = 0
    for number, hours in enumerate(reversed(ages_h)):
        at = AS_OF - timedelta(hours=hours)
        copy = Snapshot.objects.get(pk=template.pk)
        copy.pk, copy.fingerprint, copy.as_of, copy.computed_at = None, f"{number}", at, at
        copy.is_kept = hours == 24 * 500
        copy.save()
        kept_one = copy.pk if copy.is_kept else kept_one
    Snapshot.objects.filter(pk=template.pk).delete()
    prune_snapshots(at=AS_OF)
    left = [(AS_OF - one.computed_at) / timedelta(hours=1) for one in Snapshot.objects.order_by("-pk")]
    assert left == pytest.approx([1, 1.5, 30, 30.2, 24 * 40, 24 * 500])
    assert Snapshot.objects.filter(pk=kept_one).exists()
    prune_snapshots(at=AS_OF + timedelta(days=5000))
    assert Snapshot.objects.count() == 2, "the newest live one and the referenced one"


def test_scopes_and_approaches_come_from_the_policy(make_site: Callable[..., Site]) -> None:
    from apps.accounts.actor import COMMAND
    from apps.usage.services import NewSource, make_source

    made = make_site()
    made.publish(
        [{**group, "scope": scope} for group, scope in zip(PROJECTS, ("local", "global"), strict=True)],
        {"window": {"length_s": None, "aging": "none"}, "approach": {"local": "predictive", "global": "historical"}},
    )
    made.map()
    peer = make_source(NewSource(slug="peer", name="peer", namespace="c1", origin="elsewhere"), at=AS_OF, actor=COMMAND)
    made.job("alice", "physics", 10)
    made.job("bob", "physics", 1000, source=peer)
    made.running("bob", "physics", cpus=2, since_h=1, requested_h=10)
    made.job("carol", "biology", 10)
    made.job("dan", "biology", 30, source=peer)
    made.running("dan", "biology", cpus=1000, since_h=1)
    made.recompute()
    got = store.newest("grid")

    def actual(path: str) -> float:
        at = got.tree.index_of_path(path)
        assert at is not None
        return float(got.values.actual[at])

    assert actual("/physics/bob") == pytest.approx(20 / 30)
    assert actual("/biology/dan") == pytest.approx(30 / 40)
