from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor, TokenBounds
from apps.accounts.models import AuditEvent, User
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, TooLarge
from apps.usage import services
from apps.usage.models import Record, Source
from apps.usage.services import NewSource, PushedRecords, make_source, push_records
from tests.instants import AT

GOOD = {"job": "1", "user": "alice", "start": "2026-11-01T01:00:00Z", "end": "2026-11-01T02:00:00Z", "cpus": 8}
BAD = {**GOOD, "job": "2", "cpus": -1}

pytestmark = pytest.mark.django_db

Stored = Callable[[], dict[str, list[tuple[Any, ...]]]]


def push(records: list[Any] | bytes, **given: Any) -> dict[str, Any]:
    body = records if isinstance(records, bytes) else json.dumps(records).encode()
    options: dict[str, Any] = {"source_slug": "cluster", "content_type": "application/json", **given}
    at, actor = options.pop("at", AT), options.pop("actor", COMMAND)
    answer = push_records(PushedRecords(body_stream=io.BytesIO(body), **options), at=at, actor=actor)
    assert all(isinstance(number, int) for number in answer.pop("account_ids"))  # for the faces to name
    return answer


def through_token(*scopes: str, source_slug: str = "") -> Actor:
    user, _ = User.objects.get_or_create(username="collector")
    return Actor(user=user, via="api", token=TokenBounds("fsh_x", frozenset(scopes), source_slug=source_slug))


@pytest.mark.usefixtures("source")
def test_the_response_counts_accepted_and_lists_rejected_records() -> None:
    assert push([GOOD, BAD, GOOD]) == {
        "new": 1,
        "duplicate": 1,
        "corrected": 0,
        "late": 0,
        "rejected": [{"line": 2, "code": "negative_number", "message": "cpus is -1, below zero."}],
    }
    event = AuditEvent.objects.get(verb="usage.pushed")
    assert event.details["rejected"] == 1


@pytest.mark.usefixtures("source")
def test_atomic_refuses_all_when_one_is_bad() -> None:
    with pytest.raises(Invalid) as caught:
        push([GOOD, BAD], atomic=True)
    assert [problem.where for problem in caught.value.fields] == ["line 2"]
    assert not Record.objects.exists()
    assert push([GOOD], atomic=True)["new"] == 1


@pytest.mark.usefixtures("source")
def test_a_retry_with_the_same_key_gets_the_first_response() -> None:
    first = push([GOOD, BAD], idempotency_key="k")
    assert push([GOOD, BAD], idempotency_key="k") == first
    assert first["new"] == 1
    with pytest.raises(Conflict, match="another body"):
        push([GOOD], idempotency_key="k")
    assert push([GOOD, BAD], idempotency_key="other")["duplicate"] == 1


@pytest.mark.usefixtures("source")
def test_gzip_is_accepted_and_the_key_covers_the_content() -> None:
    body = json.dumps([GOOD]).encode()
    assert push(gzip.compress(body, mtime=1), gzip=True, idempotency_key="k")["new"] == 1
    assert push(gzip.compress(body, mtime=2, compresslevel=1), gzip=True, idempotency_key="k")["new"] == 1


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("change", [lambda b: b[:-9], lambda b: b[:20] + b"\xff" * 9 + b[29:], lambda b: b + b"more"])
def test_broken_gzip_is_refused_and_nothing_is_stored(change: Callable[[bytes], bytes], stored: Stored) -> None:
    with pytest.raises(Invalid) as caught:
        push(change(gzip.compress(json.dumps([GOOD]).encode())), gzip=True)
    assert caught.value.code == "corrupt_gzip"
    assert stored()["records"] == []


@pytest.mark.usefixtures("source")
def test_a_body_that_expands_beyond_measure_is_rejected() -> None:
    for n_bytes in (17 * 1024**2, 33 * 1024**2):
        with pytest.raises(TooLarge):
            push(gzip.compress(b" " * n_bytes), gzip=True)


@pytest.mark.usefixtures("source")
def test_a_body_over_the_limit_is_refused_while_it_is_read() -> None:
    class Endless(io.RawIOBase):
        n_read = 0

        def read(self, n: int = -1) -> bytes:
            self.n_read += n
            return b" " * n

    endless = Endless()
    with pytest.raises(TooLarge):
        services.read_body(endless, gzip=False)  # type: ignore[arg-type]
    assert endless.n_read <= services.MOST_BODY_BYTES + 1024**2


@pytest.mark.usefixtures("source")
def test_jobs_of_implausible_total_length_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MOST_JOB_HOURS", 10)
    with pytest.raises(TooLarge):
        push([{**GOOD, "start": "2026-10-01T00:00:00Z"}])


@pytest.mark.usefixtures("source")
def test_local_times_need_the_zone_of_the_source() -> None:
    local = {**GOOD, "start": "2026-07-01T12:00:00", "end": "2026-07-01T13:00:00"}
    assert push([local])["rejected"][0]["code"] == "naive_time"
    Source.objects.update(time_zone="Europe/Stockholm")
    assert push([local])["new"] == 1
    assert Record.objects.get().start_at == datetime(2026, 7, 1, 10, tzinfo=UTC)


@pytest.mark.usefixtures("source")
def test_pushing_needs_the_right_scope() -> None:
    make_source(NewSource(slug="other", name="Other"), at=AT, actor=COMMAND)
    person = Actor(user=User.objects.create(username="p"), via="page")
    admin = Actor(user=User.objects.create(username="a", is_superuser=True), via="page")
    assert push([GOOD], actor=through_token("usage:write", source_slug="cluster"))["new"] == 1
    assert push([GOOD], actor=through_token("usage:write"))["duplicate"] == 1
    assert push([GOOD], actor=admin)["duplicate"] == 1
    with pytest.raises(NotAllowed):
        push([GOOD], actor=person)
    with pytest.raises(NotAllowed):
        push([GOOD], actor=through_token("priorities:read"))
    with pytest.raises(NotFound):
        push([GOOD], actor=through_token("usage:write", source_slug="other"))
    with pytest.raises(NotFound):
        push([{**GOOD, "cpus": -1}], source_slug="new")
    assert push([GOOD], source_slug="new")["new"] == 1  # the first good record makes it


@pytest.mark.parametrize(
    ("change", "where"),
    [({"slug": "a b"}, "slug"), ({"slug": ""}, "slug"), ({"name": " "}, "name"), ({"time_zone": "Mars"}, "time_zone")],
)
def test_a_source_needs_a_slug_a_name_and_a_zone_that_exists(change: dict[str, str], where: str) -> None:
    with pytest.raises(Invalid) as caught:
        make_source(NewSource(**{"slug": "s", "name": "S", **change}), at=AT, actor=COMMAND)  # type: ignore[arg-type]
    assert caught.value.fields[0].where == where


@pytest.mark.usefixtures("source")
def test_users_with_write_access_create_sources_with_unique_names() -> None:
    person = Actor(user=User.objects.create(username="p"), via="page")
    for stranger in (person, through_token("priorities:read"), through_token("usage:write", source_slug="cluster")):
        with pytest.raises(NotAllowed):
            make_source(NewSource(slug="s", name="S"), at=AT, actor=stranger)
    assert make_source(NewSource(slug="s", name="S"), at=AT, actor=through_token("usage:write")).slug == "s"
    with pytest.raises(Conflict):
        make_source(NewSource(slug="cluster", name="Again"), at=AT + timedelta(1), actor=COMMAND)
