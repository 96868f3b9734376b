"""What another site tells by hour: taken in whatever order and however often, and proved like everything else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND
from apps.accounts.entry_names import ENTRY_NAMESPACE, entry_account
from apps.accounts.intern import account_ids
from apps.usage.models import Bucket, SealedHour, Source
from apps.usage.proof import prove
from apps.usage.selectors import watermarks
from apps.usage.sums import HourSums, make_peer_source, replace_sums

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
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
    replace_sums(source, told=np.array([FIRST + hour for hour in hours], np.int64), rows=sums, at=at)


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


def test_the_hours_that_are_told_become_what_is_told_and_others_stay(peer: Source) -> None:
    tell(peer, {0: {0: 10.0, 1: 20.0}, 1: {0: 5.0}})
    tell(peer, {1: {1: 7.5}, 2: {}, 3: {3: 1.0}})
    assert stored_hours(peer) == {0: {0: 10.0, 1: 20.0}, 1: {1: 7.5}, 3: {3: 1.0}}
    tell(peer, {0: {}})
    assert stored_hours(peer) == {1: {1: 7.5}, 3: {3: 1.0}}


def test_the_same_sums_told_again_change_nothing(peer: Source) -> None:
    told: Hours = {0: {0: 10.0, 1: 20.0}, 1: {2: 0.0009765625}}
    tell(peer, told)
    before = (watermark(peer), list(Bucket.objects.order_by("pk").values_list("pk", flat=True)))
    tell(peer, told, at=AT + timedelta(minutes=5))
    assert (watermark(peer), list(Bucket.objects.order_by("pk").values_list("pk", flat=True))) == before
    peer.refresh_from_db()
    assert peer.last_received_at == AT + timedelta(minutes=5)
    assert peer.last_record_end_at == datetime(2026, 11, 20, 2, tzinfo=UTC)


_SUMS = st.dictionaries(st.integers(0, 3), st.integers(1, 2**40).map(lambda n: n / 1024), max_size=4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    final=st.dictionaries(st.integers(0, 30), _SUMS, min_size=1, max_size=8),
    earlier=st.lists(st.dictionaries(st.integers(0, 30), _SUMS, max_size=4), max_size=3),
    data=st.data(),
)
def test_hours_told_in_any_pieces_order_and_number_come_to_what_telling_them_once_does(
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
    assert prove(other).n_different == 0
