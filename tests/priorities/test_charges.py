"""Whose charges a reader may see, and that they add up to what pages show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.models import User
from apps.core.errors import NotFound
from apps.policies.tree.stored import load_tree
from apps.priorities.charges import get_charge, list_charges, list_newest_charges
from apps.priorities.serving import store
from apps.priorities.usage_factors import site_factors
from apps.usage.models import Overlap, Record, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.grants import make_grant
from tests.priority_site import AS_OF, PROJECTS, Site

SETTINGS = {
    "window": {"length_s": 864_000, "aging": "exponential", "half_life_s": 86_400},
    "metric": {
        "weights": {"cpu_s": 1, "gpu_s": 8},
        "class_factors": [{"queue": "short", "factor": 0.5}],
        "site_factors": [{"site": "fast", "factor": 1.25}],
    },
    "approach": {"local": "predictive", "global": "predictive"},
}


@pytest.fixture
def busy(make_site: Callable[..., Site]) -> Site:
    made = make_site(site="fast")
    made.publish(PROJECTS, SETTINGS)
    made.map()
    made.job("alice", "physics", 40, ago_h=30)
    made.job("alice", "physics", 3, ago_h=0.25, queue="short", gpus=2)
    made.job("alice", "physics", 7, ago_h=5, site="slow")
    made.job("bob", "physics", 15)
    made.job("carol", "biology", 45)
    made.running("alice", "physics", cpus=4, since_h=2.5, requested_h=10)
    made.recompute()
    return made


def _manager(site: Site, path: str, role: str = "manager") -> Actor:
    tree = load_tree(site.policy)
    entry = tree.index_of_path(path)
    assert entry is not None
    user = User.objects.create_user(f"lead-{role}", "lead@example.org", "a long pass phrase")
    make_grant(user, tree.uuid(entry), role, policy=site.policy, at=AS_OF, reason="test")
    return Actor(user=user, via="page")


def _usage(site: Site, path: str) -> float:
    snapshot = store.newest(site.slug)
    at = snapshot.tree.index_of_path(path)
    assert at is not None
    return float(snapshot.values.usage[at])


def test_charges_of_my_jobs_add_up_to_my_usage(busy: Site, as_alice: Actor) -> None:
    page = list_charges(policy_slug=busy.slug, actor=as_alice)
    assert len(page.jobs) == 4
    assert {job.path for job in page.jobs} == {"/physics/alice"}
    assert page.as_of == store.newest(busy.slug).as_of
    assert sum(job.usage_local or 0.0 for job in page.jobs) == pytest.approx(_usage(busy, "/physics/alice"), rel=1e-12)


def test_the_newest_jobs_are_sorted_by_start_time(busy: Site, as_alice: Actor) -> None:
    busy.job("alice", "physics", 6, ago_h=200)  # recorded last, begun first
    page = list_newest_charges(policy_slug=busy.slug, limit=10, actor=as_alice)
    starts = [job.record.start_at for job in page.jobs]
    assert len(starts) == 5
    assert starts == sorted(starts, key=lambda at: at or AS_OF, reverse=True)
    paged, before = [], None
    for _page in range(3):
        found = list_charges(policy_slug=busy.slug, before=before, limit=2, actor=as_alice)
        paged += [job.record.start_at for job in found.jobs]
        before = found.next_before
    assert (paged, before) == (starts, None), "pages of my jobs are in the same order"
    assert [
        job.record.start_at for job in list_newest_charges(policy_slug=busy.slug, limit=2, actor=as_alice).jobs
    ] == (starts[:2])
    same = Record.objects.filter(pk__in=[job.record.pk for job in page.jobs])
    same.exclude(state="running").update(start_at=AS_OF - timedelta(hours=300))
    newest = list_newest_charges(policy_slug=busy.slug, limit=10, actor=as_alice).jobs
    ends = [job.record.end_at for job in newest]
    assert ends[0] is None, "it began last, and still runs"
    assert ends[1:] == sorted(ends[1:], key=lambda at: at or AS_OF, reverse=True), "of equal starts the last end first"


def test_own_jobs_are_private(busy: Site, as_alice: Actor) -> None:
    mine = {job.record.pk for job in list_charges(policy_slug=busy.slug, actor=as_alice).jobs}
    other = Record.objects.exclude(pk__in=mine).filter(account__user_name="bob").get()
    with pytest.raises(NotFound):
        get_charge(policy_slug=busy.slug, record_id=other.pk, actor=as_alice)
    assert list_charges(policy_slug=busy.slug, account="bob", actor=as_alice).jobs == []
    assert list_charges(policy_slug=busy.slug, job=other.job, actor=as_alice).jobs == []


def test_charges_need_the_right_to_read_names_at_the_entry(busy: Site) -> None:
    pia = _manager(busy, "/physics")
    assert len(list_charges(policy_slug=busy.slug, account="alice", actor=pia).jobs) == 4
    assert list_charges(policy_slug=busy.slug, account="carol", actor=pia).jobs == []
    viewer = _manager(busy, "/physics", role="viewer")
    assert list_charges(policy_slug=busy.slug, account="alice", actor=viewer).jobs == []


def test_administrators_read_jobs_of_a_source_and_find_any_by_number(busy: Site, as_eva: Actor) -> None:
    page = list_charges(policy_slug=busy.slug, source=busy.source.slug, limit=4, actor=as_eva)
    assert [job.record.pk for job in page.jobs] == sorted((job.record.pk for job in page.jobs), reverse=True)
    rest = list_charges(policy_slug=busy.slug, source=busy.source.slug, before=page.next_before, actor=as_eva)
    assert len(page.jobs) + len(rest.jobs) == Record.objects.count()
    with pytest.raises(NotFound):
        list_charges(policy_slug=busy.slug, source="nowhere", actor=as_eva)
    row = RecordRow(
        job="77",
        array_task="3",
        user="bob",
        group="physics",
        state="finished",
        submit_at=AS_OF,
        cluster="other",
        start_at=AS_OF - timedelta(hours=2),
        end_at=AS_OF - timedelta(hours=1),
        cpus=1,
    )
    ingest_batch(source=busy.source, rows=[row], at=AS_OF)
    for text in ("77_3", "77[3]", "77"):
        assert [job.record.job for job in list_charges(policy_slug=busy.slug, job=text, actor=as_eva).jobs] == ["77"]


def test_a_self_scoped_token_reads_own_charges_and_a_limited_one_none(busy: Site, as_alice: Actor) -> None:
    tree = load_tree(busy.policy)
    token = TokenBounds("t", frozenset({"self:read"}))
    assert len(list_charges(policy_slug=busy.slug, actor=replace(as_alice, token=token)).jobs) == 4
    bound = replace(token, subtree_uid=tree.uuid(1))
    assert list_charges(policy_slug=busy.slug, actor=replace(as_alice, token=bound)).jobs == []


def test_an_unmapped_account_is_charged(busy: Site, as_eva: Actor) -> None:
    busy.job("zoe", "strangers", 2)
    found = list_charges(policy_slug=busy.slug, account="zoe", actor=as_eva).jobs
    assert [(job.path, job.charge.run_s) for job in found] == [(None, 3600)]


def test_held_hours_are_listed_and_count_nothing(busy: Site, as_eva: Actor) -> None:
    record = Record.objects.get(account__user_name="carol")
    assert record.start_at is not None
    assert record.end_at is not None
    Overlap.objects.create(
        site="fast",
        kept=busy.source,
        held=busy.source,
        from_at=record.start_at - timedelta(hours=1),
        to_at=record.end_at + timedelta(hours=1),
        found_at=AS_OF,
    )
    job, _page = get_charge(policy_slug=busy.slug, record_id=record.pk, actor=as_eva)
    assert {hour.why for hour in job.charge.hours} == {"held"}
    assert job.charge.active == 0 < job.charge.charged


def test_hours_of_a_source_count_once_the_one_before_it_is_archived(busy: Site, as_eva: Actor) -> None:
    record = Record.objects.get(account__user_name="carol")
    assert record.start_at is not None
    assert record.end_at is not None
    archived = Source.all_objects.create(slug="former", name="F", namespace="f", created_at=AS_OF, archived_at=AS_OF)
    Overlap.objects.create(
        site="fast",
        kept=archived,
        held=busy.source,
        from_at=record.start_at - timedelta(hours=1),
        to_at=record.end_at + timedelta(hours=1),
        found_at=AS_OF,
    )
    job, _page = get_charge(policy_slug=busy.slug, record_id=record.pk, actor=as_eva)
    assert "held" not in {hour.why for hour in job.charge.hours}
    assert job.charge.active > 0.9 * job.charge.charged


def test_jobs_of_another_site_count_in_the_global_scope_only(busy: Site, as_eva: Actor) -> None:
    busy.source.origin = "elsewhere"
    busy.source.save()
    job = list_charges(policy_slug=busy.slug, account="bob", actor=as_eva).jobs[0]
    assert job.usage_local is None
    assert job.usage_global > 0


def test_usage_loaded_without_a_site_is_not_counted_as_another_site() -> None:
    with pytest.raises(ValueError, match="fast"):
        site_factors(None, (), [{"site": "fast", "factor": 2}])


def test_an_unknown_policy_is_not_found(busy: Site, as_alice: Actor) -> None:
    with pytest.raises(NotFound):
        list_charges(policy_slug="nowhere", actor=as_alice)
