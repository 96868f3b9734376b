"""Hours of a site that two sources cover: found, held, and decided with a reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.core.errors import Invalid, NotAllowed, NotFound
from apps.usage.arrays import load_usage
from apps.usage.changed_hours import earliest_change
from apps.usage.held_hours import list_held_hours
from apps.usage.models import Bucket, Overlap, SiteDay, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.overlaps import decide_overlap, remove_presence
from apps.usage.selectors import watermarks
from apps.usage.services import NewSource, make_source
from tests.instants import AT

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def hour(n: float) -> datetime:
    return MIDNIGHT + timedelta(hours=n)


def made(slug: str, **given: Any) -> Source:
    return make_source(NewSource(slug=slug, name=slug.title(), **given), at=AT, actor=COMMAND)


@pytest.fixture
def upload() -> Source:
    return made("upload", site="north")


@pytest.fixture
def peer() -> Source:
    return made("peer", origin="other-site")


def bring(source: Source, first: float, last: float, job: str = "1", **given: Any) -> None:
    values = {"user": "alice", "site": "north", "cpus": 1.0, "start_at": hour(first), "end_at": hour(last), **given}
    ingest_batch(source=source, rows=[RecordRow(job=job, **values)], at=AT)


def spans() -> list[tuple[str, str, float, float, str]]:
    rows = Overlap.objects.order_by("from_at").values_list("kept__slug", "held__slug", "from_at", "to_at", "state")
    hours = timedelta(hours=1)
    return [(kept, held, (a - MIDNIGHT) / hours, (b - MIDNIGHT) / hours, state) for kept, held, a, b, state in rows]


def counted(*sources: Source) -> float:
    found = load_usage(sources=[source.pk for source in sources], from_at=None, to_at=AT)
    return float(found.cpu_s.sum()) / 3600


def test_hours_of_one_site_from_two_origins_are_held_for_the_later_one(upload: Source, peer: Source) -> None:
    bring(upload, 1, 4)
    bring(peer, 2.5, 6)
    assert spans() == [("upload", "peer", 2, 4, "held")]
    assert counted(upload) == 3
    assert counted(peer) == 2
    assert counted(upload, peer) == 5


def test_other_sites_other_hours_and_unnamed_sites_do_not_overlap(upload: Source, peer: Source) -> None:
    bring(upload, 1, 4)
    bring(peer, 1, 4, site="south")
    bring(peer, 4.5, 6, job="2")
    bring(made("nameless"), 1, 4, site="", job="3")
    bring(peer, 1, 4, site="", job="4")
    assert spans() == []


def test_local_sources_of_one_site_do_not_overlap(upload: Source) -> None:
    bring(upload, 1, 4)
    bring(made("second", site="north"), 1, 4)
    assert spans() == []


def test_the_same_job_from_two_sources_of_one_namespace_is_an_overlap(upload: Source) -> None:
    again = made("again", namespace="upload")
    bring(upload, 1, 4)
    bring(again, 1, 4, job="2")
    assert spans() == []
    bring(again, 1, 4)
    assert spans() == [("upload", "again", 1, 4, "held")]


def test_the_same_job_id_on_another_cluster_is_another_job(upload: Source) -> None:
    bring(upload, 1, 4, cluster="a")
    bring(made("again", namespace="upload"), 1, 4, cluster="b")
    assert spans() == []


def test_later_overlaps_of_two_sources_hold_the_same_one(upload: Source, peer: Source) -> None:
    bring(upload, 1, 3.5)
    bring(peer, 1, 5.5, job="2")
    bring(upload, 4, 5.5, job="3")
    assert spans() == [("upload", "peer", 1, 6, "held")]


def test_a_decision_applies_to_adjacent_hours_and_later_ones_need_a_new_one(upload: Source, peer: Source) -> None:
    bring(upload, 1, 2.5)
    bring(peer, 1, 2.5)
    decide(counts=True)
    bring(upload, 9, 9.5, job="2")
    bring(peer, 9, 9.5, job="2")
    bring(upload, 99, 99.5, job="3")
    bring(peer, 99, 99.5, job="3")
    assert [state for *_, state in spans()] == ["counted", "counted", "held"]
    assert counted(peer) == 2


def decide(*, counts: bool, actor: Actor = COMMAND, reason: str = "same jobs") -> int:
    return decide_overlap(
        site="north", kept_slug="upload", held_slug="peer", counts=counts, reason=reason, at=AT, actor=actor
    )


def test_a_decision_counts_both_or_one_and_can_be_changed(upload: Source, peer: Source) -> None:
    bring(upload, 1, 3)
    bring(peer, 1, 3)
    watermark = Source.objects.get(slug="peer").watermark
    assert decide(counts=False) == 1
    assert counted(upload, peer) == 2
    assert decide(counts=True, reason="different clusters") == 1
    assert counted(upload, peer) == 4
    assert Source.objects.get(slug="peer").watermark == watermark + 2
    event = AuditEvent.objects.filter(verb="usage.overlap_decided").latest("id")
    assert (event.subject, event.details["counts"], event.details["reason"]) == ("peer", True, "different clusters")
    shown = list_held_hours(actor=COMMAND)
    assert [(one.site, one.kept, one.held, one.state, one.n_hours) for one in shown] == [
        ("north", "upload", "peer", "counted", 2)
    ]
    assert (shown[0].cpu_s, shown[0].kept_cpu_s) == (7200, 7200)


def test_only_administrators_decide_with_a_reason(upload: Source, peer: Source) -> None:
    bring(upload, 1, 3)
    bring(peer, 1, 3)
    with pytest.raises(Invalid, match="Enter a reason"):
        decide(counts=True, reason=" ")
    person = Actor(user=User.objects.create(username="p"), via="page")
    with pytest.raises(NotAllowed):
        decide(counts=True, actor=person)
    assert len(list_held_hours(actor=person)) == 1
    with pytest.raises(NotFound):
        decide_overlap(
            site="south", kept_slug="upload", held_slug="peer", counts=True, reason="x", at=AT, actor=COMMAND
        )


def test_every_hour_of_every_day_is_known_by_site(upload: Source) -> None:
    bring(upload, 22.5, 25.5)
    found = SiteDay.objects.order_by("day").values_list("site", "day", "hours")
    assert list(found) == [("north", MIDNIGHT.date(), 0b11 << 22), ("north", hour(24).date(), 0b11)]


def test_hours_released_by_a_removal_are_changes_of_their_source(upload: Source, peer: Source) -> None:
    bring(upload, 22.5, 25.5)
    bring(peer, 22.5, 25.5)
    known = watermarks()
    Bucket.objects.filter(source=upload).delete()
    remove_presence(upload.pk, from_at=hour(22), to_at=hour(25))
    assert not Overlap.objects.exists()
    assert earliest_change(known) == hour(22)


def test_a_removal_leaves_hours_that_still_have_usage_known(upload: Source) -> None:
    """Of whole days, their first hours included; the day after the last is left as it is."""
    bring(upload, 0, 30)
    bring(upload, 48, 50, job="2")
    Bucket.objects.filter(source=upload, hour_at=hour(5)).delete()
    remove_presence(upload.pk, from_at=hour(5), to_at=hour(6))
    whole = (1 << 24) - 1
    hours = dict(SiteDay.objects.values_list("day", "hours"))
    assert hours == {
        MIDNIGHT.date(): whole & ~(1 << 5),
        hour(24).date(): (1 << 6) - 1,
        hour(48).date(): 0b11,
    }
