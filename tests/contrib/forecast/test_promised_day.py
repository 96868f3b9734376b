"""The day that a forecast promises, by brute force: jobs really go on at the same pace, recomputed every noon.

Where jobs run on every day, the first noon on target is the one after the promised instant. Where they run on every
second day, usage comes by two days at once, and so may the target.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.accounts.models import User
from apps.policies.recompute_runs import queue_recompute
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from apps.usage.parsers.base import RecordRow
from tests.priority_site import AS_OF, Site, children, finished
from tests.rest_site import Caller

DAY, DAY_S = timedelta(days=1), 86_400
WINDOWS: dict[str, dict[str, Any]] = {
    "halving": {"length_s": None, "aging": "exponential", "half_life_s": 40 * DAY_S},
    "kept": {"length_s": 70 * DAY_S, "aging": "none"},
    "linear": {"length_s": 80 * DAY_S, "aging": "linear"},
    "halving-and-ending": {"length_s": 60 * DAY_S, "aging": "exponential", "half_life_s": 40 * DAY_S},
    "steps": {"length_s": 70 * DAY_S, "aging": "step", "granularity_s": 9 * DAY_S, "factor": 0.7},
}
TARGET, TOLERANCE = 0.5, {"relative": 0.1, "points": 0.5}
SLACK = 0.05  # a tenth of the target
PAST_DAYS, USUAL_DAYS, TRIED_DAYS = 80, 28, 90
BOB, BEFORE = 6.0, 30.0  # core-hours a job, of four a day


def jobs_of_day(ago: int, alice: float, *, every: int) -> list[RecordRow]:
    """At six-hour intervals in the day that ended at noon so many days ago; below 0: ahead. All on each nth day."""
    hours = [] if ago % every else [24 * ago + hour for hour in (1, 7, 13, 19)]
    return [
        finished(user, "physics", used * every, ago_h=hour)
        for hour in hours
        for user, used in (("alice", alice), ("bob", BOB))
    ]


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.django_db
@pytest.mark.parametrize(("pace", "every"), [(2.0, 1), (5.0, 1), (2.0, 2)])
@pytest.mark.parametrize("window", WINDOWS)
def test_the_first_noon_on_target_is_the_one_that_the_forecast_promised(
    make_site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch, window: str, pace: float, every: int
) -> None:
    site = make_site()
    settings = {"window": WINDOWS[window], "tolerance": TOLERANCE}
    site.publish(children(physics={"": 1, "alice": 1, "bob": 1}), settings, at=AS_OF - 90 * DAY)
    site.map()
    site.jobs(
        [row for ago in range(PAST_DAYS) for row in jobs_of_day(ago, pace if ago < USUAL_DAYS else BEFORE, every=every)]
    )
    admin = Caller(user=User.objects.create_superuser("eva"))

    def actual_at(at: datetime) -> float:
        monkeypatch.setenv("FAIRSHARE_CLOCK", (at + timedelta(seconds=61)).isoformat())
        done = work_run_now(queue_recompute(site.policy, at=at + timedelta(seconds=61)).pk)
        assert done.state == "succeeded", done.error
        store.poll()
        snapshot = store.newest(site.slug)
        assert snapshot.as_of - at < timedelta(minutes=2)
        return float(snapshot.values.actual[snapshot.tree.index_of_path("/physics/alice")])

    assert actual_at(AS_OF) > TARGET + SLACK
    (found,) = admin.get(f"policies/{site.slug}/forecast", {"account": "alice"}).json()["results"]
    promised = found["levels"][-1]["to_target"]["middle"]
    first = None
    for ahead in range(1, TRIED_DAYS + 1):
        if rows := jobs_of_day(-ahead, pace, every=every):
            site.jobs(rows)
        if abs(actual_at(AS_OF + ahead * DAY) - TARGET) <= SLACK * (1 + 1e-6):
            first = AS_OF + ahead * DAY
            break
    print(f"{window}, {pace:g} core-hours a job every {every} d: promised {promised['at']}, on target {first}")
    assert promised["outcome"] == "recovers"
    at = datetime.fromisoformat(promised["at"])
    assert first is not None
    if every == 1:
        assert at <= first < at + DAY
    else:
        assert abs(at - first) < every * DAY
