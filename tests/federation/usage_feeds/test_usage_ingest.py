"""Usage of other sites is ingested as a whole or not at all, and never beyond their capacity."""

from __future__ import annotations

import base64
import json
import re
from datetime import timedelta
from uuid import UUID

import pytest

from apps.accounts.actor import COMMAND
from apps.accounts.models import AuditEvent
from apps.core.outbound import Answer
from apps.core.signing import SigningKey, sign_successor
from apps.federation import fetch_requests
from apps.federation import fetch_schedule as fetching
from apps.federation.control import agree_capacity
from apps.federation.fetch_schedule import request_due_fetches, request_fetch
from apps.federation.models import Fetch, HeldHour, Mount, Subscription
from apps.federation.usage_feeds import quarantine, usage_ingest
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute.pipeline import compute, load_inputs
from apps.runs.models import Run
from apps.runs.services import claim_run, work_lease
from apps.usage.models import Source
from apps.usage.quality.bucket_audit import audit_buckets
from tests.federation.fetches import cores_running, counted, everything, look_at
from tests.federation.other_side import ANNA, KEY, P1, P2, U2, OtherFeed
from tests.instants import AT
from tests.killed_process import work_all, work_until_killed

HOUR = timedelta(hours=1)
H9, H10, H11 = (AT - n * HOUR for n in (3, 2, 1))
LATER = AT + timedelta(minutes=5)
TENTH = 36_000  # core-seconds: of what the site's 100 cores can do in an hour


def numbers_in(fetched: Fetch) -> list[str]:
    """The message of a fetch."""
    return re.findall(r"\d+", fetched.message)


def test_hours_and_running_jobs_are_ingested_by_entry_and_pass_the_bucket_audit(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 3_600, ANNA: 900, U2: 60}, H10: {}}, [(P2, H11, 8)])
    found = look_at(subscription, monkeypatch, AT)
    assert (found.outcome, found.version, numbers_in(found)) == ("applied", 1, ["2", "1"]), "hours, running jobs"
    here = subscription.entry_uid
    assert counted(subscription) == {(P1, H11): 3_600, (ANNA, H11): 900, (here, H11): 60}
    assert cores_running(subscription) == 8
    source = Source.objects.get(pk=subscription.source_id)
    assert (source.origin, source.site, source.namespace) == ("site-b.example", "site-b", "@entries")
    assert audit_buckets(source).n_different == 0
    assert (subscription.number, subscription.root_uid, subscription.reported_capacity_cores) == (1, U2, 100)


def test_an_unchanged_feed_costs_one_conditional_request_and_changes_nothing(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 3_600}})
    look_at(subscription, monkeypatch, AT)
    before, watermark = everything(subscription), Source.objects.get(pk=subscription.source_id).watermark
    found = look_at(subscription, monkeypatch, LATER)
    assert (found.outcome, found.n_bytes) == ("same", 0)
    assert Source.objects.get(pk=subscription.source_id).last_received_at == LATER, "what runs there has run until now"
    assert feed.asked[-1][":path"] == "/feeds/vo-a?since=1"
    assert "if-none-match" in feed.asked[-1]
    feed.knows_etags = False
    assert look_at(subscription, monkeypatch, LATER).outcome == "same"
    assert everything(subscription) == before
    assert Source.objects.get(pk=subscription.source_id).watermark == watermark


def test_a_later_document_replaces_whole_hours(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 3_600, ANNA: 900}, H10: {P1: 60}}, [(P1, H11, 4)])
    look_at(subscription, monkeypatch, AT)
    feed.tell({H11: {P1: 1_800}}, [])
    assert look_at(subscription, monkeypatch, LATER).outcome == "applied"
    assert counted(subscription) == {(P1, H11): 1_800, (P1, H10): 60}
    assert cores_running(subscription) == 0


REFUSED = [
    "unknown_key",
    "bad_signature",
    "other_feed",
    "not_ours",
    "other_root",
    "other_site",
    "older_version",
    "replayed_anew",
    "issued_ahead",
    "expired",
    "other_question",
    "bad_document",
    "foreign_uid",
    "ours_as_root",
    "nan",
    "negative",
    "hour_ahead",
    "half_hour",
    "runs_ahead",
    "bad_status",
    "begun_anew",
    "answer_too_large",
    "stuck",
]


@pytest.mark.parametrize("wrong", REFUSED)
def test_an_invalid_feed_document_is_rejected_and_current_usage_stays(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    feed.tell({H10: {P1: 60}}, [(P1, H10, 2)])
    look_at(subscription, monkeypatch, AT)
    feed.at = AT + timedelta(minutes=1)
    good = feed.tell({H11: {P1: 3_600}}, [(P1, H11, 4)])
    look_at(subscription, monkeypatch, LATER)
    feed.at, at, code, bad = LATER, LATER, wrong, {H11: {P1: 7_200.0}}
    if wrong == "unknown_key":
        feed.key = SigningKey(bytes(32))
        feed.tell(bad)
    elif wrong == "bad_signature":
        feed.serves = feed.tell(bad).replace(b"7200", b"7201")
    elif wrong == "other_feed":
        feed.tell(bad, feed="vo-b")
    elif wrong == "not_ours":
        feed.tell(bad, issuer="site-c.example")
        code = "other_feed"
    elif wrong == "other_root":
        feed.tell(bad, root=P1)
    elif wrong == "other_site":
        feed.tell(bad, site="site-a")
    elif wrong == "older_version":
        feed.tell(bad, number=1)
    elif wrong == "replayed_anew":  # what was ingested before, when all is read from the beginning again
        agree_capacity(subscription=subscription.pk, cores=200, reason="More.", at=AT, actor=COMMAND)
        Subscription.objects.update(issued_at=LATER + HOUR)
        feed.serves, code = good, "older_version"
    elif wrong == "issued_ahead":
        feed.tell(bad, issued_at=LATER + HOUR)
    elif wrong == "expired":
        feed.tell(bad)
        at = LATER + timedelta(days=2)
    elif wrong == "other_question":
        feed.tell(bad, number=9, since=5)
    elif wrong == "bad_document":
        feed.serves = b"<html>"
    elif wrong == "foreign_uid":
        feed.tell({H11: {P1: 7_200, other_entry(): 60}})
    elif wrong == "ours_as_root":
        Subscription.objects.update(root_uid=None)
        feed.tell(bad, root=other_entry())
        code = "other_root"
    elif wrong == "nan":
        feed.serves = feed.tell(bad).replace(b"7200", b"NaN")
        code = "bad_signature"
    elif wrong == "negative":
        feed.tell({H11: {P1: -1}})
        code = "bad_document"
    elif wrong == "hour_ahead":
        feed.tell({AT + HOUR: {P1: 1}}, issued_at=LATER, number=7)
        code = "bad_document"
    elif wrong == "half_hour":
        feed.tell(bad)
        feed.serves = signed(feed, b'"2026-11-20T11:00:00Z"', b'"2026-11-20T11:30:00Z"')
        code = "bad_document"
    elif wrong == "runs_ahead":
        feed.tell(bad, [(P1, LATER + HOUR, 1)])
        code = "hour_ahead"
    elif wrong == "begun_anew":  # as a feed of ours answers to a number that it never reached
        feed.status, feed.knows_etags, code = 409, False, "older_version"
    elif wrong == "bad_status":
        feed.status, feed.knows_etags = 500, False
    elif wrong == "answer_too_large":
        Subscription.objects.update(most_bytes=500)
        feed.tell(bad)
    elif wrong == "stuck":
        feed.tell(bad, number=2, since=0, more=True)
        code = "other_question"
    before = everything(subscription)
    found = look_at(subscription, monkeypatch, at)
    assert (found.outcome, found.code) == ("unreachable" if code == "bad_status" else "refused", code)
    assert everything(subscription) == before
    assert subscription.error
    assert (subscription.state == "blocked") is (wrong == "unknown_key")
    assert not HeldHour.objects.exists()


def other_entry() -> UUID:
    tree = load_tree(Policy.objects.get())
    return tree.uuid(tree.index_of_path("/VO-B") or 0)


def signed(feed: OtherFeed, before: bytes, after: bytes) -> bytes:
    """The document changed by hand, and signed by its own key all the same."""
    body = feed.serves.partition(b"\n")[0].replace(before, after)
    assert after in body
    seal = feed.serves.splitlines()[1]
    parts = json.loads(seal)
    parts["signature"] = base64.b64encode(feed.key.sign(body)).decode()
    return body + b"\n" + json.dumps(parts, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def test_a_first_document_of_a_site_already_reported_by_another_source_is_rejected(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 60}}, site="site-a")
    assert look_at(subscription, monkeypatch, AT).code == "other_site"
    Source.objects.create(slug="own", name="Own", namespace="own", site="abisko", created_at=AT)
    feed.tell({H11: {P1: 60}}, site="abisko", number=1)
    assert look_at(subscription, monkeypatch, AT).code == "other_site"
    assert counted(subscription) == {}
    assert not Source.objects.filter(pk=subscription.source_id, site__in=("site-a", "abisko")).exists()


def test_usage_of_unknown_entries_waits_for_them(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = UUID(int=0xFEED)
    feed.tell({H11: {unknown: 60}})
    found = look_at(subscription, monkeypatch, AT)
    assert found.outcome == "applied"
    assert f"1 entry unknown here, whose usage counts nowhere: {unknown}" in found.message
    assert counted(subscription) == {(unknown, H11): 60}
    assert usage_ingest.unknown_entries(subscription) == [unknown]


def test_unknown_entries_are_those_of_all_documents_of_a_reading(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = UUID(int=0xFEED), UUID(int=0xFEEE)
    feed.tell({H11: {first: 60, P1: 60}})
    look_at(subscription, monkeypatch, AT)
    feed.tell({H10: {second: 60}})
    look_at(subscription, monkeypatch, AT + timedelta(minutes=10))
    assert usage_ingest.unknown_entries(subscription) == [first, second]
    operation = {"op": "add", "parent": "/VO-B", "name": "late", "kind": "project", "shares": 1}
    publish_operations(
        policy_slug="grid", operations=[{**operation, "uid": str(first)}], reason="New.", at=AT, actor=COMMAND
    )
    subscription.refresh_from_db()
    assert usage_ingest.unknown_entries(subscription) == [second], "the entry appeared"
    monkeypatch.setattr(usage_ingest, "MOST_UNKNOWN", 2)
    feed.tell({H11: {UUID(int=n): 1 for n in (0xFEE0, 0xFEE1, 0xFEE2)}}, since=0)
    look_at(subscription, monkeypatch, AT + timedelta(minutes=20))
    assert usage_ingest.unknown_entries(subscription) == [UUID(int=0xFEE0), UUID(int=0xFEE1)], "of this reading alone"


def test_a_peer_whose_clock_was_ahead_is_not_taken_for_a_replay(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 60}}, issued_at=AT + timedelta(minutes=4))
    assert look_at(subscription, monkeypatch, AT).outcome == "applied"
    feed.knows_etags = False
    feed.tell({H11: {P1: 60}}, number=1, issued_at=AT + timedelta(seconds=30))
    assert look_at(subscription, monkeypatch, AT + timedelta(minutes=1)).outcome == "same", "the same number, corrected"
    feed.tell({H11: {P1: 120}}, issued_at=AT + timedelta(minutes=1))
    found = look_at(subscription, monkeypatch, AT + timedelta(minutes=2))
    assert (found.outcome, found.code) == ("applied", ""), found.message
    assert counted(subscription) == {(P1, H11): 120}


def test_usage_reported_before_an_entry_was_claimed_elsewhere_never_counts(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its uid may be known over there before we have it, from another site's document."""
    later = UUID(int=0xFEED)
    feed.tell({H11: {later: 9_000, P1: 60}, H10: {P1: 30}}, [(later, H11, 50), (P1, H11, 1)])
    look_at(subscription, monkeypatch, AT)
    request_due_fetches(at=AT)
    assert counted(subscription) == {(later, H11): 9_000, (P1, H11): 60, (P1, H10): 30}
    operation = {"op": "add", "parent": "/VO-B", "name": "late", "kind": "project", "shares": 1, "uid": str(later)}
    publish_operations(policy_slug="grid", operations=[operation], reason="New.", at=AT, actor=COMMAND)
    assert load_tree(Policy.objects.get()).index_of_uid(later) is not None
    request_due_fetches(at=AT)
    assert counted(subscription) == {(P1, H11): 60, (P1, H10): 30}
    assert cores_running(subscription) == 0
    assert audit_buckets(Source.objects.get(pk=subscription.source_id)).n_different == 0
    request_due_fetches(at=AT)
    assert AuditEvent.objects.filter(verb="federation.out_of_scope_dropped").count() == 1
    feed.tell({H11: {later: 9_000}})
    assert look_at(subscription, monkeypatch, LATER).code == "foreign_uid"


def test_a_key_handover_of_a_feed_is_followed(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 60}})
    look_at(subscription, monkeypatch, AT)
    new = SigningKey(bytes(range(1, 33)))
    feed.key, feed.chain = new, [sign_successor(KEY, new.public)]
    feed.tell({H11: {P1: 120}})
    assert look_at(subscription, monkeypatch, LATER).outcome == "applied"
    assert subscription.fingerprint == new.public.fingerprint
    assert AuditEvent.objects.filter(verb="federation.key_followed").count() == 1


def test_an_hour_slightly_over_capacity_is_held_until_approved(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.use({H9: {P1: 6 * TENTH}, H10: {P1: 6 * TENTH}})
    look_at(subscription, monkeypatch, AT)
    feed.use({H9: {P1: 7 * TENTH}, H10: {P1: 14 * TENTH}, H11: {P1: 5 * TENTH}}, [(P1, H11, 50)])
    found = look_at(subscription, monkeypatch, LATER)
    assert (found.outcome, numbers_in(found)) == ("held", ["3", "1", "1"]), "hours, running jobs, held hours"
    assert counted(subscription) == {(P1, H9): 7 * TENTH, (P1, H11): 5 * TENTH}, "as it was sent before"
    assert cores_running(subscription) == 50
    assert list(HeldHour.objects.values_list("hour_at", flat=True)) == [H10]
    assert AuditEvent.objects.filter(verb="federation.usage_held").count() == 1
    feed.use({H10: {P1: 14 * TENTH + 9_000}})
    look_at(subscription, monkeypatch, LATER)
    assert AuditEvent.objects.filter(verb="federation.usage_held").count() == 1
    agree_capacity(subscription=subscription.pk, cores=150, reason="They bought more.", at=LATER, actor=COMMAND)
    assert look_at(subscription, monkeypatch, LATER).outcome == "applied"
    assert feed.asked[-1][":path"].endswith("since=0")
    assert counted(subscription) == {(P1, H9): 7 * TENTH, (P1, H10): 14 * TENTH + 9_000, (P1, H11): 5 * TENTH}
    assert not HeldHour.objects.exists()


def test_usage_after_an_hour_far_over_capacity_is_ignored_until_corrected(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.use({H9: {P1: 6 * TENTH}, H10: {P1: 6 * TENTH}, H11: {P1: 2 * TENTH}}, [(P1, H11, 20)])
    look_at(subscription, monkeypatch, AT)
    feed.use({H10: {P1: 60 * TENTH}}, [(P1, H11, 20)])
    found = look_at(subscription, monkeypatch, LATER)
    assert (found.outcome, found.code) == ("held", "")
    assert "2026-11-20 10:00 UTC" in found.message
    assert (subscription.running_held, cores_running(subscription)) == (True, 0)
    assert quarantine.doubted_from(subscription) == H10
    assert look_at(subscription, monkeypatch, LATER).outcome == "held"
    assert feed.asked[-1][":path"].endswith("since=0"), "later hours, sent before, are judged again"
    assert counted(subscription) == {(P1, H9): 6 * TENTH}
    assert list(HeldHour.objects.order_by("hour_at").values_list("hour_at", flat=True)) == [H10, H11]
    feed.use({H9: {P1: 8 * TENTH}, AT: {P1: 60}}, [(P1, H11, 20)])
    look_at(subscription, monkeypatch, LATER + HOUR)
    assert counted(subscription) == {(P1, H9): 8 * TENTH}, "hours before it go on counting, later ones don't"
    feed.use({H10: {P1: 6 * TENTH}}, [(P1, H11, 20)])
    look_at(subscription, monkeypatch, LATER + HOUR)
    assert quarantine.doubted_from(subscription) is None
    look_at(subscription, monkeypatch, LATER + HOUR)
    right = {(P1, H9): 8 * TENTH, (P1, H10): 6 * TENTH, (P1, H11): 2 * TENTH, (P1, AT): 60}
    assert counted(subscription) == right
    assert (subscription.running_held, cores_running(subscription)) == (False, 20)
    assert not HeldHour.objects.exists()


def test_counted_usage_is_independent_of_the_time_of_fetches(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tenfold cores of jobs that are reported as they end: at first each hour is within what the site has."""
    for tenths in (3, 9, 12, 30):
        feed.use({H10: {P1: tenths * TENTH}, H11: {P1: tenths * TENTH // 10}})
        look_at(subscription, monkeypatch, LATER)
    look_at(subscription, monkeypatch, LATER)
    assert counted(subscription) == {}


def test_the_current_hour_is_limited_to_its_elapsed_part(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = AT + timedelta(minutes=10)
    feed.tell({AT: {P1: 100 * 600 * 6.0}}, issued_at=now)
    assert look_at(subscription, monkeypatch, now).outcome == "held"
    assert quarantine.doubted_from(subscription) is None, "clocks of jobs that are ahead are no other measure"
    feed.tell({AT: {P1: 100 * 600}}, issued_at=now)
    assert look_at(subscription, monkeypatch, now).outcome == "applied"
    assert not HeldHour.objects.exists()


def test_running_jobs_above_capacity_do_not_count(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 60}}, [(P1, H11, 90), (P2, H11, 20)])
    assert look_at(subscription, monkeypatch, AT).outcome == "held"
    assert (cores_running(subscription), subscription.running_held) == (0, True)
    feed.tell({}, [(P1, H11, 90)])
    look_at(subscription, monkeypatch, LATER)
    assert (cores_running(subscription), subscription.running_held) == (90, False)


def test_a_larger_declared_capacity_is_recorded_until_approved(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 200 * 3_600}}, capacity_cores=1_000.0)
    assert look_at(subscription, monkeypatch, AT).outcome == "held"
    assert (subscription.capacity_cores, subscription.reported_capacity_cores) == (100, 1_000)


def test_fetches_of_peers_created_together_spread_out() -> None:
    waits = [fetch_requests.wait_s(Subscription(pk=n, every_s=300), is_good=True) for n in range(1, 101)]
    assert all(285 <= wait <= 300 for wait in waits)
    assert len(set(waits)) > 60
    assert fetch_requests.wait_s(Subscription(pk=7, every_s=300), is_good=True) == waits[6]
    assert fetch_requests.wait_s(Mount(pk=7, every_s=300), is_good=True) != waits[6]


def test_after_an_outage_of_an_hour_the_gap_is_filled(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.use({H9: {P1: 60}})
    look_at(subscription, monkeypatch, AT - HOUR)
    feed.status, feed.knows_etags = 503, False
    for minutes in (5, 15, 35):
        assert look_at(subscription, monkeypatch, AT - HOUR + timedelta(minutes=minutes)).outcome == "unreachable"
    feed.use({H10: {P1: 120}})
    feed.use({H11: {P2: 180}})
    feed.status = 200
    assert look_at(subscription, monkeypatch, AT).outcome == "applied"
    assert counted(subscription) == {(P1, H9): 60, (P1, H10): 120, (P2, H11): 180}
    assert (subscription.n_failed, subscription.number) == (0, 3)


def test_a_feed_that_is_behind_is_fetched_again_at_once(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H10: {P1: 60}}, more=True)
    look_at(subscription, monkeypatch, AT)
    assert (subscription.is_left_behind, subscription.due_at) == (True, AT)
    feed.tell({H11: {P1: 60}}, since=1)
    look_at(subscription, monkeypatch, AT)
    assert (subscription.is_left_behind, subscription.due_at is not None and subscription.due_at > AT) == (False, True)
    assert counted(subscription) == {(P1, H10): 60, (P1, H11): 60}


def test_an_unfrozen_feed_ingests_all_usage_reported_meanwhile(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.use({H9: {P1: 60}})
    look_at(subscription, monkeypatch, AT)
    Subscription.objects.update(state="frozen")
    for hour in (H10, H11):
        feed.use({hour: {P1: 120}})
        assert look_at(subscription, monkeypatch, LATER).outcome == "frozen"
    assert counted(subscription) == {(P1, H9): 60}
    Subscription.objects.update(state="active")
    assert look_at(subscription, monkeypatch, LATER).outcome == "applied"
    assert counted(subscription) == {(P1, H9): 60, (P1, H10): 120, (P1, H11): 120}


PLACES = ["taking.after_sums", "taking.after_running", "fetch.before_commit"]


@pytest.mark.parametrize("place", PLACES)
def test_a_worker_that_dies_during_ingest_leaves_old_usage_and_a_retry_ingests(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    feed.tell({H10: {P1: 60}}, [(P1, H10, 1)])
    look_at(subscription, monkeypatch, AT)
    before = everything(subscription)
    feed.tell({H10: {P1: 120}, H11: {P2: 60}}, [(P2, H11, 2)])
    run = request_fetch(subscription, at=LATER)
    monkeypatch.setenv("FAIRSHARE_CLOCK", LATER.isoformat())
    monkeypatch.setenv("FAULT", f"federation.{place}:raise")
    lease = claim_run(at=LATER, run_id=run.pk)
    assert lease is not None
    work_lease(lease)
    assert everything(subscription) == before
    monkeypatch.delenv("FAULT")
    Run.objects.filter(pk=run.pk).update(due_at=AT - HOUR)
    again = claim_run(at=LATER, run_id=run.pk)
    assert again is not None
    work_lease(again)
    subscription.refresh_from_db()
    assert counted(subscription) == {(P1, H10): 120, (P2, H11): 60}
    assert (cores_running(subscription), subscription.number) == (2, 2)


@pytest.mark.faults
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("place", PLACES)
def test_a_worker_killed_during_ingest_leaves_nothing_half_done(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    feed.tell({H10: {P1: 60}}, [(P1, H10, 1)])
    look_at(subscription, monkeypatch, AT)
    before = everything(subscription)
    feed.tell({H10: {P1: 120}, H11: {P2: 60}}, [(P2, H11, 2)])
    run = request_fetch(subscription, at=AT)
    work_until_killed(work_all, fault=f"federation.{place}:kill")
    assert everything(subscription) == before
    Run.objects.filter(pk=run.pk).update(lease_until=AT - timedelta(days=9_000))
    again = claim_run(at=AT, run_id=run.pk)
    assert again is not None
    work_lease(again)
    subscription.refresh_from_db()
    assert counted(subscription) == {(P1, H10): 120, (P2, H11): 60}
    assert (cores_running(subscription), subscription.number) == (2, 2)


def test_two_fetches_of_one_subscription_never_run_at_once(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 60}})
    first = request_fetch(subscription, at=AT)
    lease = claim_run(at=AT, run_id=first.pk)
    assert lease is not None
    second = request_fetch(subscription, at=AT)
    assert second.pk != first.pk
    assert claim_run(at=AT, run_id=second.pk) is None
    work_lease(lease)
    other = claim_run(at=AT, run_id=second.pk)
    assert other is not None
    work_lease(other)
    assert counted(subscription) == {(P1, H11): 60}
    assert subscription.fetches.count() == 2


def test_an_answer_to_a_request_under_the_old_key_is_dropped(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 60}})
    run = request_fetch(subscription, at=AT)
    lease = claim_run(at=AT, run_id=run.pk)
    assert lease is not None
    looked = fetching._checked_answer

    def paused_meanwhile(*given: object) -> object:
        Subscription.objects.update(state="paused")
        return looked(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(fetching, "_checked_answer", paused_meanwhile)
    work_lease(lease)
    assert counted(subscription) == {}
    assert not subscription.fetches.exists()


def test_no_usage_is_ingested_for_a_removed_entry(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {P1: 60}})
    look_at(subscription, monkeypatch, AT)
    publish_operations(
        policy_slug="grid", operations=[{"op": "archive", "entry": "/vo-a-here"}], reason="Over.", at=AT, actor=COMMAND
    )
    feed.tell({H11: {P1: 120}})
    assert look_at(subscription, monkeypatch, AT + 2 * HOUR).code == "entry_gone"
    assert counted(subscription) == {(P1, H11): 60}


def test_a_peer_clock_an_hour_ahead_is_reported(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({AT: {P1: 60}}, issued_at=AT + HOUR)
    found = look_at(subscription, monkeypatch, AT)
    assert (found.code, "3600 s" in found.message) == ("issued_ahead", True)
    feed.tell({AT: {P1: 60}}, issued_at=AT + timedelta(minutes=4), number=1)
    assert look_at(subscription, monkeypatch, AT).outcome == "applied"


def test_mounts_and_feeds_are_fetched_when_due(subscription: Subscription, mounted: Mount) -> None:
    assert request_due_fetches(at=AT + HOUR) == 2
    assert sorted(Run.objects.filter(kind="federation_fetch", state="queued").values_list("subject", flat=True)) == [
        f"mount:{mounted.pk}",
        f"usage:{subscription.pk}",
    ]


def test_ingested_usage_counts_at_its_entry_with_local_usage(
    subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.tell({H11: {ANNA: 3_600}}, [])
    look_at(subscription, monkeypatch, AT)
    policy = Policy.objects.get()
    inputs = load_inputs(policy, as_of=AT)
    computed = compute(inputs)
    entry = inputs.tree.index_of_uid(ANNA)
    assert computed.entry_of_account.tolist() == [entry]
    assert computed.usage_of_account.tolist() == [3_600]


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 200_000, b'"since_forgotten"', b'{"code": ["a"]}'])
def test_a_refusal_that_is_no_problem_document_has_no_code_of_ours(body: bytes) -> None:
    """A peer answers what it likes: nested too deep, no JSON, or another shape."""
    assert usage_ingest._code_of(Answer(409, {}, "https://site-b.example/feed", body)) != "since_forgotten"
