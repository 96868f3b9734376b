"""Another site's hourly sums: ingested in any order and any number of times, and audited like everything else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
import pytest
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.accounts.account_ids import account_ids
from apps.accounts.actor import COMMAND
from apps.accounts.entry_accounts import ENTRY_NAMESPACE, entry_account
from apps.accounts.models import Account, AuditEvent
from apps.core.errors import Conflict, Invalid
from apps.usage.arrays import load_open_records, load_usage
from apps.usage.bucket_deltas import HOUR_US
from apps.usage.changed_hours import earliest_change
from apps.usage.models import Bucket, Overlap, Record, SealedHour, SiteDay, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.quality.bucket_audit import audit_buckets
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.peer_sums import (
    MOST_ORIGIN,
    HourSums,
    RunningJobs,
    delete_peer_source,
    make_peer_source,
    record_contact,
    replace_running,
    replace_sums,
)
from apps.usage.selectors import watermarks
from apps.usage.services import NewSource, make_source
from tests.examples import examples
from tests.instants import AT

FIRST = int(datetime(2026, 11, 20, tzinfo=UTC).timestamp()) // 3600  # the hour in which tests begin
UIDS = [UUID(int=n + 1) for n in range(4)]

pytestmark = pytest.mark.django_db

Hours = dict[int, dict[int, float]]  # hour → number of the entry → core-seconds


@pytest.fixture
def peer() -> Source:
    return make_peer_source(slug="peer", name="The peer", origin="south.example", site="south", at=AT, actor=COMMAND)


def tell(source: Source, hours: Hours, *, at: datetime = AT) -> None:
    ids = account_ids([entry_account(uid) for uid in UIDS], at=at)
    rows = [(hour, ids[entry_account(UIDS[n])], cpu_s) for hour, used in hours.items() for n, cpu_s in used.items()]
    amounts = np.zeros((len(rows), 6))
    amounts[:, 0] = [cpu_s for _hour, _account, cpu_s in rows]
    amounts[:, 5] = 1.0
    sums = HourSums(
        np.array([FIRST + hour for hour, *_ in rows], np.int64), np.array([row[1] for row in rows], np.int64), amounts
    )
    replace_sums(source, hours=np.array([FIRST + hour for hour in hours], np.int64), rows=sums, at=at)


def stored_hours(source: Source) -> Hours:
    names = {str(uid): n for n, uid in enumerate(UIDS)}
    found: Hours = {}
    for bucket in Bucket.objects.filter(source=source).select_related("account"):
        hour = int(bucket.hour_at.timestamp()) // 3600 - FIRST
        assert (bucket.account.namespace, bucket.site, bucket.jobs) == (ENTRY_NAMESPACE, source.site, 1.0)
        found.setdefault(hour, {})[names[bucket.account.user_name]] = bucket.cpu_s
    return found


def watermark(source: Source) -> int:
    return watermarks()[source.slug]


def test_reported_hours_are_replaced_and_others_stay(peer: Source) -> None:
    tell(peer, {0: {0: 10.0, 1: 20.0}, 1: {0: 5.0}})
    tell(peer, {1: {1: 7.5}, 2: {}, 3: {3: 1.0}})
    assert stored_hours(peer) == {0: {0: 10.0, 1: 20.0}, 1: {1: 7.5}, 3: {3: 1.0}}
    tell(peer, {0: {}})
    assert stored_hours(peer) == {1: {1: 7.5}, 3: {3: 1.0}}


def places_of_buckets() -> list[tuple[str]]:
    """Where the rows are stored: elsewhere once they are written again."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT ctid::text FROM usage_bucket ORDER BY hour_at, account_id")
        rows: list[tuple[str]] = cursor.fetchall()
        return rows


def test_repeated_sums_change_nothing(peer: Source) -> None:
    found: Hours = {0: {0: 10.0, 1: 20.0}, 1: {2: 0.0009765625}}
    tell(peer, found)
    before = (watermark(peer), places_of_buckets())
    tell(peer, found, at=AT + timedelta(minutes=5))
    assert (watermark(peer), places_of_buckets()) == before
    peer.refresh_from_db()
    assert peer.last_received_at == AT + timedelta(minutes=5)
    assert peer.last_record_end_at == datetime(2026, 11, 20, 2, tzinfo=UTC)


_SUMS = st.dictionaries(st.integers(0, 3), st.integers(1, 2**40).map(lambda n: n / 1024), max_size=4)


@examples(25, suppress=[HealthCheck.function_scoped_fixture])
@given(
    final=st.dictionaries(st.integers(0, 30), _SUMS, min_size=1, max_size=8),
    earlier=st.lists(st.dictionaries(st.integers(0, 30), _SUMS, max_size=4), max_size=3),
    data=st.data(),
)
def test_hours_reported_in_any_parts_and_order_equal_one_report(
    peer: Source, final: Hours, earlier: list[Hours], data: st.DataObject
) -> None:
    slug = f"peer-{Source.objects.count()}"
    other = make_peer_source(slug=slug, name=slug, origin=f"{slug}.example", site=slug, at=AT, actor=COMMAND)
    for stale in earlier:
        tell(other, {hour: used for hour, used in stale.items() if hour in final})
    pieces = data.draw(st.lists(st.lists(st.sampled_from(sorted(final)), unique=True), max_size=4))
    rest = data.draw(st.permutations(sorted(final)))
    half = data.draw(st.integers(0, len(rest)))
    for piece in [*pieces, rest[:half], rest[half:]]:
        tell(other, {hour: final[hour] for hour in piece})
    assert stored_hours(other) == {hour: used for hour, used in final.items() if used}
    sealed = SealedHour.objects.filter(source=other).values_list("hour_at", "cpu_s", "jobs")
    assert {(int(at.timestamp()) // 3600 - FIRST, cpu_s, jobs) for at, cpu_s, jobs in sealed} == {
        (hour, sum(used.values()), float(len(used))) for hour, used in final.items() if used
    }
    assert audit_buckets(other).n_different == 0


@pytest.mark.parametrize("bad", ["negative", "not reported", "twice", "NaN"])
def test_sums_without_a_verified_document_are_rejected(peer: Source, bad: str) -> None:
    ids = account_ids([entry_account(uid) for uid in UIDS], at=AT)
    account = ids[entry_account(UIDS[0])]
    hour, amount = {"negative": (0, -1.0), "not reported": (1, 1.0), "twice": (0, 1.0), "NaN": (0, np.nan)}[bad]
    n = 2 if bad == "twice" else 1
    sums = HourSums(np.full(n, FIRST + hour), np.full(n, account), np.full((n, 6), amount))
    with pytest.raises(ValueError, match=r"[Ss]ums|twice"):
        replace_sums(peer, hours=np.array([FIRST]), rows=sums, at=AT)
    assert not Bucket.objects.exists()


def test_the_audit_finds_a_changed_bucket_and_a_new_report_repairs_it(peer: Source) -> None:
    result: Hours = {0: {0: 10.0, 1: 20.0}, 1: {2: 30.0}}
    tell(peer, result)
    assert audit_buckets(peer).n_different == 0
    Bucket.objects.filter(source=peer, cpu_s=20.0).update(cpu_s=21.0)
    found = audit_buckets(peer)
    assert [(one.amount, one.stored, one.expected) for one in found.first] == [("cpu_s", 31.0, 30.0)]
    tell(peer, result)
    assert audit_buckets(peer).n_different == 0
    assert stored_hours(peer) == result


def test_the_audit_finds_a_bucket_in_an_unreported_hour(peer: Source) -> None:
    tell(peer, {0: {0: 10.0}})
    bucket = Bucket.objects.get()
    Bucket.objects.create(
        source=peer,
        account=bucket.account,
        site=bucket.site,
        job_class=bucket.job_class,
        hour_at=bucket.hour_at + timedelta(hours=1),
        cpu_s=1.0,
    )
    assert audit_buckets(peer).n_different == 1


def test_changed_hours_are_noted_from_the_first_that_changed(peer: Source) -> None:
    tell(peer, {-24: {0: 10.0}, 1: {0: 20.0}, 2: {0: 5.0}})
    read = watermarks()
    tell(peer, {-24: {0: 10.0}, 1: {0: 20.0}, 2: {0: 6.0}})
    changed_at = earliest_change(read)
    assert changed_at == datetime(2026, 11, 20, tzinfo=UTC) + timedelta(hours=2)


def run_jobs(source: Source, *jobs: tuple[int, float, float], at: datetime = AT) -> None:
    """(number of the entry, cores, requested seconds or NaN), all of them since an hour before."""
    ids = account_ids([entry_account(uid) for uid in UIDS], at=at)
    nothing = np.zeros(len(jobs))
    start_us = np.full(len(jobs), FIRST * HOUR_US, np.int64)
    accounts = np.array([ids[entry_account(UIDS[n])] for n, *_ in jobs], np.int64)
    cpus, asked = (np.array([job[place] for job in jobs], np.float64) for place in (1, 2))
    replace_running(source, RunningJobs(accounts, start_us, cpus, nothing, nothing, nothing, nothing, asked), at=at)


def running(source: Source) -> list[tuple[str, float, float | None]]:
    rows = Record.objects.filter(source=source).order_by("account__user_name", "cpus", "requested_s")
    return [(row.account.user_name, row.cpus, row.requested_s) for row in rows.select_related("account")]


def test_running_jobs_are_replaced_as_a_whole_and_identical_ones_change_nothing(peer: Source) -> None:
    first, second = str(UIDS[0]), str(UIDS[1])
    run_jobs(peer, (0, 4.0, 3600.0), (0, 4.0, 3600.0), (1, 2.0, np.nan))
    assert running(peer) == [(first, 4.0, 3600.0), (first, 4.0, 3600.0), (second, 2.0, None)]
    before = (watermark(peer), set(Record.objects.values_list("pk", flat=True)))
    run_jobs(peer, (1, 2.0, np.nan), (0, 4.0, 3600.0), (0, 4.0, 3600.0), at=AT + timedelta(minutes=5))
    assert (watermark(peer), set(Record.objects.values_list("pk", flat=True))) == before
    run_jobs(peer, (0, 4.0, 3600.0), (1, 3.0, np.nan))
    assert running(peer) == [(first, 4.0, 3600.0), (second, 3.0, None)]
    assert watermark(peer) == before[0] + 1
    assert len(set(Record.objects.values_list("pk", flat=True)) & before[1]) == 1  # what continues stays as it is
    run_jobs(peer)
    assert running(peer) == []
    assert watermark(peer) == before[0] + 2
    assert audit_buckets(peer).n_different == 0


_JOBS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1.0, 2.0]), st.sampled_from([60.0, np.nan])), max_size=6)


@examples(15, suppress=[HealthCheck.function_scoped_fixture])
@given(result=st.lists(_JOBS, min_size=1, max_size=4))
def test_the_last_reported_running_jobs_are_current(peer: Source, result: list[list[tuple[int, float, float]]]) -> None:
    for jobs in result:
        run_jobs(peer, *jobs)
    opened = load_open_records(sources=[peer.pk])
    names = dict(Account.objects.values_list("pk", "user_name"))
    found = zip(opened.account_id.tolist(), opened.cpus.tolist(), opened.requested_s.tolist(), strict=True)
    assert sorted((names[one], cpus, str(asked)) for one, cpus, asked in found) == sorted(
        (str(UIDS[n]), cpus, str(asked)) for n, cpus, asked in result[-1]
    )


def test_jobs_of_a_peer_run_until_its_last_contact(peer: Source) -> None:
    run_jobs(peer, (0, 1.0, 60.0))
    assert load_open_records(sources=[peer.pk]).known_until_epoch == pytest.approx([AT.timestamp()])
    record_contact(peer.pk, at=AT + timedelta(hours=2))
    assert load_open_records(sources=[peer.pk]).known_until_epoch == pytest.approx([AT.timestamp() + 7_200])


def bring(source: Source, first: int, last: int) -> None:
    at = [datetime.fromtimestamp((FIRST + hour) * 3600, UTC) for hour in (first, last)]
    row = RecordRow(job="1", user="alice", site="south", cpus=1.0, start_at=at[0], end_at=at[1])
    ingest_batch(source=source, rows=[row], at=AT)


def spans() -> list[tuple[str, str, int, int]]:
    rows = Overlap.objects.filter(state="held").values_list("kept__slug", "held__slug", "from_at", "to_at")
    return [(kept, held, since(a), since(b)) for kept, held, a, b in rows]


def since(at: datetime) -> int:
    return int(at.timestamp()) // 3600 - FIRST


def test_peer_hours_overlapping_an_upload_are_held_until_it_is_removed(
    peer: Source,
) -> None:
    upload = make_source(NewSource(slug="upload", name="Upload", site="south"), at=AT, actor=COMMAND)
    bring(upload, 1, 3)
    tell(peer, {0: {0: 10.0}, 1: {0: 20.0}, 2: {0: 30.0}, 3: {0: 40.0}})
    assert spans() == [("upload", "peer", 1, 3)]
    assert load_usage(sources=[peer.pk], from_at=None, to_at=AT).cpu_s.sum() == 50.0
    tell(peer, {1: {}, 2: {}})
    assert spans() == []


def test_an_upload_overlapping_peer_hours_is_held_until_the_peer_is_removed(peer: Source) -> None:
    upload = make_source(NewSource(slug="upload", name="Upload", site="south"), at=AT, actor=COMMAND)
    tell(peer, {1: {0: 20.0}, 2: {0: 30.0}})
    run_jobs(peer, (0, 1.0, 60.0))
    bring(upload, 1, 4)
    assert spans() == [("peer", "upload", 1, 3)]
    read = watermarks()
    delete_peer_source(peer, at=AT, actor=COMMAND)
    assert load_usage(sources=[upload.pk], from_at=None, to_at=AT).cpu_s.sum() == 3 * 3600.0
    assert watermarks() == {"upload": read["upload"] + 1}
    assert earliest_change(read) == datetime(1970, 1, 1, tzinfo=UTC)


def test_a_removed_peer_leaves_only_its_audit_row_and_can_return(peer: Source) -> None:
    tell(peer, {0: {0: 10.0}})
    run_jobs(peer, (0, 1.0, 60.0))
    before = watermark(peer)
    delete_peer_source(peer, at=AT, actor=COMMAND)
    assert not any(model.objects.exists() for model in (Bucket, Record, SealedHour, SiteDay, Source))
    assert AuditEvent.objects.order_by("-id").values_list("verb", "subject").first() == ("source.forgotten", "peer")
    again = make_peer_source(
        slug="peer", name="Again", origin="south.example", site="south", at=AT + timedelta(hours=1), actor=COMMAND
    )
    assert watermark(again) > before  # what was made of the first one isn't mistaken for a result of this
    tell(again, {0: {1: 1.0}})
    assert stored_hours(again) == {0: {1: 1.0}}


def test_the_source_of_a_peer_needs_an_origin_and_a_unique_name(peer: Source) -> None:
    assert (peer.kind, peer.namespace, peer.origin) == ("peer", ENTRY_NAMESPACE, "south.example")
    with pytest.raises(Conflict):
        make_peer_source(slug="peer", name="x", origin="x.example", site="x", at=AT, actor=COMMAND)
    with pytest.raises(Invalid):
        make_peer_source(slug="x", name="x", origin="", site="x", at=AT, actor=COMMAND)


def test_peer_sources_accept_only_sums_and_others_only_records(peer: Source) -> None:
    row = RecordRow(job="1", user="alice", cpus=1.0, start_at=AT - timedelta(hours=1), end_at=AT)
    with pytest.raises(Conflict, match="peer's feed"):
        ingest_batch(source=peer, rows=[row], at=AT)
    with pytest.raises(ValueError, match="not a peer's"):
        tell(make_source(NewSource(slug="own", name="Own"), at=AT, actor=COMMAND), {0: {0: 1.0}})


def test_names_of_a_peer_are_printable_and_bounded() -> None:
    def refused(**change: str) -> list[str]:
        names = {"slug": "p", "name": "P", "origin": "p.example", "site": "p", **change}
        with pytest.raises(Invalid) as refusal:
            make_peer_source(**names, at=AT, actor=COMMAND)
        return [each.where for each in refusal.value.fields]

    for name, most in (("name", 128), ("origin", MOST_ORIGIN), ("site", 128)):
        for bad in ("", "  ", "x" * (most + 1), "a\nb"):
            assert refused(**{name: bad}) == [name]
    assert refused(slug="a b", site="") == ["slug", "site"]
    longest = make_peer_source(
        slug="s" * 64, name="n" * 128, origin="o" * MOST_ORIGIN, site="t" * 128, at=AT, actor=COMMAND
    )
    assert (longest.name, longest.site) == ("n" * 128, "t" * 128)
