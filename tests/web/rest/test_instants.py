"""Local times at the change of clocks, and instants of REST."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.utils import timezone

from apps.core.local_time import NoSuchTime, instant_of, is_repeated
from tests.priority_site import AS_OF
from tests.rest_site import Caller
from tests.rights_world import World
from tests.small_site import Site
from tests.test_idor_matrix import READS

ZONES = ("Europe/Stockholm", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata", "UTC")
STOCKHOLM = ZoneInfo("Europe/Stockholm")
SKIPPED, REPEATED = datetime(2027, 3, 28, 2, 30), datetime(2027, 10, 31, 2, 30)  # noqa: DTZ001 - local on purpose


@pytest.fixture
def in_stockholm(settings: Any) -> Iterator[None]:
    settings.TIME_ZONE = "Europe/Stockholm"
    with timezone.override(STOCKHOLM):
        yield


@pytest.mark.parametrize(
    "key", [*ZONES[1:3], *(pytest.param(key, marks=pytest.mark.deep) for key in (ZONES[0], *ZONES[3:]))]
)
@pytest.mark.fault("F11")
def test_each_local_quarter_hour_of_two_years_is_an_instant_or_skipped(key: str) -> None:
    """Compared with the way from instants to local times, which has no exceptions."""
    zone, first = ZoneInfo(key), datetime(2016, 1, 1, tzinfo=UTC)
    step = timedelta(minutes=30)
    shown: dict[datetime, list[datetime]] = {}
    for n in range(2 * 366 * 48):
        at = first + n * step
        shown.setdefault(at.astimezone(zone).replace(tzinfo=None, fold=0), []).append(at)
    local, last = min(shown), max(shown)
    n_skipped = 0
    while local <= last:
        passes = shown.get(local, [])
        if passes:
            assert (instant_of(local, zone), is_repeated(local, zone)) == (passes[0], len(passes) > 1)
            assert instant_of(local, zone, not_before=passes[-1]) == passes[-1]
        else:
            n_skipped += 1
            with pytest.raises(NoSuchTime) as raised:
                instant_of(local, zone)
            before, after = (
                at.astimezone(zone).replace(tzinfo=None) for at in (raised.value.before, raised.value.after)
            )
            assert before < local < after
        local += step
    assert bool(n_skipped) == (key not in ("Asia/Kolkata", "UTC"))


DRAFT = {"base_revision": 2, "reason": "r", "operations": [{"op": "set_shares", "entry": "/physics", "shares": 5}]}


def drafted(site: Site, effective_at: str) -> Any:
    return Caller(user=site.admin).post("policies/grid/changesets", {**DRAFT, "effective_at": effective_at})


@pytest.mark.usefixtures("in_stockholm")
def test_a_skipped_local_time_is_refused_with_the_instants_around_it(computed: Site) -> None:
    answer = drafted(computed, SKIPPED.isoformat())
    assert answer.status_code == 400
    problem = answer.json()
    (field,) = problem["fields"]
    assert field["where"] == "effective_at"
    assert {"2027-03-28T00:30:00Z", "2027-03-28T01:30:00Z"} <= set(re.findall(r"[\d-]+T[\d:]+Z", field["message"]))


@pytest.mark.usefixtures("in_stockholm")
@pytest.mark.parametrize(
    ("given", "instant"),
    [
        (REPEATED.isoformat(), "2027-10-31T00:30:00Z"),  # the first pass
        ("2027-10-31T02:30:00+01:00", "2027-10-31T01:30:00Z"),
        ("2027-07-01T12:00:00", "2027-07-01T10:00:00Z"),
        ("2027-03-28T02:30:00+01:00", "2027-03-28T01:30:00Z"),
    ],
)
def test_the_response_has_the_instant_of_a_local_time(computed: Site, given: str, instant: str) -> None:
    answer = drafted(computed, given)
    assert answer.status_code == 201, answer.content
    assert answer.json()["effective_at"] == instant


@pytest.mark.parametrize("given", ["2020-01-01T00:00:00Z", AS_OF.isoformat()])
def test_a_draft_refuses_past_instants(computed: Site, given: str) -> None:
    refused = drafted(computed, given)
    assert (refused.status_code, refused.json()["fields"][0]["where"]) == (422, "effective_at")
    ahead = drafted(computed, "2027-07-01T10:00:00Z").json()
    path = f"policies/grid/changesets/{ahead['id']}"
    caller = Caller(user=computed.admin)
    tag = caller.get(path)["ETag"]
    changed = caller.patch(path, {"effective_at": given}, If_Match=tag)
    assert (changed.status_code, changed.json()["fields"][0]["where"]) == (422, "effective_at")
    assert caller.get(path).json()["effective_at"] == "2027-07-01T10:00:00Z"


OFFSET = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[+-]\d\d:?\d\d)")


@pytest.mark.timeout(600)
def test_instants_of_every_route_are_in_utc(world: World, in_stockholm: None) -> None:
    wrong, n_instants = {}, 0
    for row in READS:
        if not row.path.startswith("/api/v1/") or row.route.endswith("/schema"):
            continue
        answer = world.ask(row, "admin")
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        text = body.decode(errors="replace")
        n_instants += len(re.findall(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", text))
        if found := OFFSET.findall(text):
            wrong[row.path] = found[:3]
    assert n_instants > 200
    assert wrong == {}


def test_dates_of_shares_are_checked_at_each_tick() -> None:
    named = {row["task"]: row["schedule"] for row in settings.CELERY_BEAT_SCHEDULE.values()}
    assert named["apps.policies.tasks.apply_dates_of_shares"] == settings.FAIRSHARE_TICK_S
