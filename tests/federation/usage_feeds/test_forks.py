"""A site that is restored from a backup, or cloned, reaches the same numbers with other content: its readers notice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND
from apps.accounts.models import AuditEvent
from apps.federation import control, restored
from apps.federation.models import FeedMark, HeldHour, Subscription, UsageFeed
from apps.federation.usage_feeds import feed_build
from apps.federation.usage_feeds.feeds import drop_feed, make_feed
from apps.usage.models import Source
from apps.usage.quality.bucket_audit import audit_buckets
from tests.examples import examples
from tests.federation.fetches import counted, everything
from tests.federation.usage_feeds.feed_site import HOUR, Teller
from tests.federation.usage_feeds.restored_site import Backup, Follower, Job, RestoredSite, restored_site
from tests.instants import AT

pytestmark = pytest.mark.django_db
MERGES_TRANSACTIONS = True  # each random example is rolled back, which `tests.lock_order` leaves out


@pytest.fixture
def site(restored_feed: Teller, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestoredSite]:
    with restored_site(restored_feed, settings, monkeypatch) as made:
        yield made


@pytest.fixture
def small_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_build, "MOST_FEED_ROWS", 1)


def do(deed: Any, follower: Follower, **given: Any) -> None:
    terms = {"kind": "subscription", "remote_id": follower.row.pk, "reason": "So.", "at": AT, "actor": COMMAND}
    deed(**{**terms, **given})
    follower.row.refresh_from_db()


def agree(follower: Follower, cores: float) -> None:
    terms: dict[str, Any] = {"reason": "More.", "at": AT, "actor": COMMAND}
    control.agree_capacity(subscription=follower.row.pk, cores=cores, **terms)
    follower.row.refresh_from_db()


def forked(site: RestoredSite) -> Backup:
    """Both have read number 2, which the site reaches again in another way."""
    site.has("a", Job("anna", 4.0, 5))
    for follower in site.followers:
        assert site.follow(follower).outcome == "applied"
    backup = site.back_up()
    site.has("b", Job("bert", 2.0, 3))
    site.has("c", Job("carl", 1.0, 20))
    for follower in site.followers:
        assert site.follow(follower).outcome == "applied"
        assert site.is_exact(follower)
    site.restore(backup)
    return backup


def test_a_lost_number_waits_and_a_reused_number_is_a_fork(
    site: RestoredSite,
) -> None:
    forked(site)
    first, second = site.followers
    before = everything(first.row)
    found = site.fetched(first)
    assert (found.outcome, found.code, first.row.state) == ("refused", "older_version", "active")
    assert "2" in re.findall(r"\d+", found.message), "its own number"
    site.has("b", Job("bert", 3.0, 3))
    for number in (2, 3):
        assert site.fetched(second).code == "forked"
        found = site.fetched(first)
        assert (found.outcome, found.code, first.row.state) == ("refused", "forked", "blocked"), number
        assert everything(first.row) == before, "the last good one stays"
        for follower in site.followers:
            do(control.resume, follower)
        site.has("b", Job("bert", 5.0, 3))
    assert AuditEvent.objects.filter(verb="federation.blocked").count() == 4


def test_a_resync_has_only_data_of_the_new_history(site: RestoredSite) -> None:
    forked(site)
    (first, _second) = site.followers
    HeldHour.objects.create(
        subscription=first.row, hour_at=AT - 9 * HOUR, number=2, cpu_s=1e6, most_cpu_s=1.0, found_at=AT
    )
    site.has("b", Job("bert", 3.0, 2))
    assert site.fetched(first).code == "forked"
    do(control.reset_history, first)
    assert (first.row.number, first.row.seen_number, first.row.seen_mark) == (0, 0, "")
    assert site.follow(first).outcome == "applied"
    assert site.is_exact(first)
    assert not [hour_at for _uid, hour_at in counted(first.row) if hour_at < AT - 9 * HOUR], "what carl used"
    assert not HeldHour.objects.exists()
    assert audit_buckets(Source.objects.get(pk=first.row.source_id)).n_different == 0
    assert site.fetched(first).outcome == "same"


@pytest.mark.usefixtures("small_documents")
def test_a_reader_midway_detects_a_restored_site(site: RestoredSite) -> None:
    """Though the number that it took is in both lines: hours that had moved past it were left out for later."""
    follower = site.followers[0]
    for ago_h in (9, 7, 5):
        site.has(f"a{ago_h}", Job("anna", 4.0, ago_h))
    assert site.follow(site.followers[1]).outcome == "applied"
    backup = site.back_up()
    site.has("a9", Job("anna", 1.0, 9))
    site.fetched(follower)
    assert follower.row.is_left_behind
    assert follower.row.number < backup.feed["number"] < follower.row.seen_number
    site.restore(backup)
    assert site.fetched(follower).code == "older_version"
    site.has("a7", Job("anna", 1.0, 7))
    site.has("a5", Job("anna", 1.0, 5))
    site.fetched(site.followers[1])
    assert site.line.keys() >= {follower.row.seen_number}
    assert site.fetched(follower).code == "forked"


@pytest.mark.usefixtures("small_documents")
def test_old_usage_counts_until_a_resync_is_complete(site: RestoredSite) -> None:
    follower = site.followers[0]
    for ago_h in (9, 7, 5):
        site.has(f"a{ago_h}", Job("anna", 4.0, ago_h))
    site.follow(follower)
    had = counted(follower.row)
    backup = site.back_up()
    site.has("c", Job("carl", 1.0, 30))
    site.follow(follower)
    site.restore(backup)
    site.has("a5", Job("anna", 2.0, 5))
    assert site.fetched(follower).code in ("older_version", "forked")
    do(control.reset_history, follower)
    n_looks = 0
    while not follower.has_all:
        assert counted(follower.row).items() >= {key: had[key] for key in had if key[1] < AT - 6 * HOUR}.items()
        site.fetched(follower)
        n_looks += 1
    assert n_looks > 3
    assert site.is_exact(follower)
    assert follower.row.untold == []


def test_a_number_without_a_stored_nonce_leads_to_a_reading_from_0(
    site: RestoredSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_build, "KEPT", 3)
    first, second = site.followers
    site.has("a", Job("anna", 1.0, 5))
    site.has("b", Job("bert", 1.0, 9))
    site.follow(first)
    site.has("b", Job())
    for cpus in range(2, 6):
        site.has("a", Job("anna", float(cpus), 5))
        site.follow(second)
        assert site.is_exact(second)
    assert list(FeedMark.objects.order_by("number").values_list("number", flat=True)) == [3, 4, 5]
    found = site.fetched(first)
    assert (found.code, first.row.state, first.row.number) == ("history_gone", "active", 1)
    assert site.follow(first).outcome == "applied"
    assert site.is_exact(first), "what was withdrawn meanwhile is gone"
    assert first.row.error_code == ""


@pytest.mark.usefixtures("small_documents")
def test_a_site_that_skipped_numbers_is_read_from_0_in_parts(
    site: RestoredSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `manage.py restore` leaves it: its rows have old numbers, and the feed one that nobody has seen."""
    first = site.followers[0]
    for hours in range(1, 6):
        site.has(f"old-{hours}", Job("anna", float(hours), hours))
    backup = site.back_up()
    site.has("new", Job("bert", 7.0, 2))
    site.follow(first)
    known = first.row.number
    site.restore(backup)
    monkeypatch.setattr(restored, "GAP", 1_000)
    restored.skip_published_numbers()
    assert site.fetched(first).code == "history_gone"
    assert first.row.number == known
    assert site.follow(first).outcome == "applied"
    assert site.is_exact(first)
    assert first.row.number > known


def test_a_deleted_and_recreated_feed_is_a_new_history(site: RestoredSite) -> None:
    site.has("a", Job("anna", 1.0, 5))
    site.has("b", Job("bert", 1.0, 9))
    first = site.followers[0]
    site.follow(first)
    drop_feed(name="vo-a", at=AT, actor=COMMAND)
    site.has("b", Job())
    terms: dict[str, Any] = {"policy_slug": "grid", "entry": "/VO-A", "name": "vo-a", "at": AT, "actor": COMMAND}
    site.teller.feed = make_feed(capacity_cores=100, is_open=True, **terms)
    assert UsageFeed.objects.get().number == 2, "it continues, and is built at once"
    found = site.fetched(first)
    assert (found.code, first.row.state) == ("forked", "blocked")
    do(control.reset_history, first)
    assert site.follow(first).outcome == "applied"
    assert site.is_exact(first), "what was withdrawn meanwhile is gone"


def test_a_number_read_before_nonces_existed_gets_the_current_nonce(site: RestoredSite) -> None:
    site.has("a", Job("anna", 1.0, 5))
    first = site.followers[0]
    site.follow(first)
    Subscription.objects.update(seen_number=0, seen_mark="", etag='"as-before-0"')
    assert site.fetched(first).outcome == "same"
    assert (first.row.seen_number, first.row.seen_mark) == (1, FeedMark.objects.get().mark.hex)


@pytest.mark.parametrize("deed", ["trust_key", "agree_capacity"])
def test_a_resync_recovers_from_a_fork(site: RestoredSite, deed: str) -> None:
    forked(site)
    first = site.followers[0]
    if deed == "agree_capacity":
        agree(first, 200)
    else:
        right = first.row.fingerprint
        Subscription.objects.update(fingerprint="0" * 64)
        do(control.trust_key, first, fingerprint=right)
    site.has("b", Job("bert", 3.0, 2))
    assert site.follow(first).outcome == "applied"
    assert site.is_exact(first)


def test_a_cloned_site_is_detected(site: RestoredSite) -> None:
    """A clone answers at the same address now and then: its readers notice as soon as it has published a change."""
    site.has("a", Job("anna", 1.0, 5))
    first, second = site.followers
    site.follow(first)
    clone = site.back_up()
    site.has("b", Job("bert", 1.0, 3))
    site.follow(first)
    ours = site.back_up()
    site.restore(clone)
    assert site.fetched(second).outcome == "applied"
    site.has("c", Job("carl", 1.0, 3))
    assert site.follow(second).outcome == "applied"
    assert site.is_exact(second)
    assert site.fetched(first).code == "forked"
    do(control.resume, first)
    site.restore(ours)
    assert site.fetched(first).outcome == "same"
    assert site.is_exact(first)
    assert site.fetched(second).code == "forked"


_CHANGES = st.tuples(
    st.just("change"),
    st.sampled_from("abc"),
    st.builds(
        Job, st.sampled_from(["anna", "carl"]), st.sampled_from([0.0, 1.0, 2.5]), st.sampled_from([2, 3, 6, None])
    ),
)
_LOOKS = st.tuples(st.just("look"), st.integers(0, 1))
_DEEDS = st.tuples(st.sampled_from(["freeze", "unfreeze", "agree"]), st.integers(0, 1))
_RESTORES = st.tuples(st.sampled_from(["back_up", "restore"]))
_STEPS = st.lists(_CHANGES | _LOOKS | _LOOKS | _RESTORES | _DEEDS, min_size=4, max_size=20)


@pytest.mark.usefixtures("small_documents")
@pytest.mark.timeout(600)
@examples(25, suppress=[HealthCheck.function_scoped_fixture], fixed=5)
@given(steps=_STEPS)
def test_a_reader_matches_the_feed_or_detects_a_fork(site: RestoredSite, steps: list[Any]) -> None:
    """And it never says so of the line that it follows."""
    try:
        with transaction.atomic():
            _live_through(site, steps)
            for follower in site.followers:
                _catch_up(site, follower)
            raise _MountAbove
    except _MountAbove:
        site.jobs, site.line = {}, {}
        for follower in site.followers:
            follower.knows = None
            follower.row = Subscription.objects.select_related("policy", "source").get(pk=follower.row.pk)


class _MountAbove(Exception):
    """Nothing of this example is kept."""


def _live_through(site: RestoredSite, steps: list[Any]) -> None:
    backup = site.back_up()
    for what, *terms in steps:
        if what == "change":
            name, job = terms
            site.has(f"{name}-runs" if job.ended_h is None else name, job if job.cpus else Job())
        elif what == "back_up":
            backup = site.back_up()
        elif what == "restore":
            site.restore(backup)
        else:
            follower = site.followers[terms[0]]
            if what == "agree":
                agree(follower, follower.row.capacity_cores + 1)
            elif what == "look":
                _check(site, follower)
            elif follower.row.state != "blocked":
                do(getattr(control, what), follower)


def _check(site: RestoredSite, follower: Follower) -> None:
    if follower.row.state == "blocked":
        return
    is_of_this_line = site.is_of_this_line(follower)
    found = site.fetched(follower)
    if is_of_this_line:
        assert found.outcome in ("applied", "same", "frozen"), found.message
        if follower.has_all and found.outcome != "frozen":
            assert site.is_exact(follower)
    else:
        assert (found.outcome, found.code in ("forked", "older_version")) == ("refused", True), found.message


def _catch_up(site: RestoredSite, follower: Follower) -> None:
    """A manager checks what is blocked, and starts again."""
    if follower.row.state == "frozen":
        do(control.unfreeze, follower)
    if follower.row.state == "blocked" or not site.is_of_this_line(follower):
        do(control.reset_history, follower)
    assert site.follow(follower).outcome in ("applied", "same")
    assert site.is_exact(follower)
    assert audit_buckets(Source.objects.get(pk=follower.row.source_id)).n_different == 0
