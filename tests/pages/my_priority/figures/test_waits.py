"""Queue time and balance: one's own jobs by day, beside what the daily series says of the level."""

from __future__ import annotations

from datetime import timedelta
from statistics import median
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import Invalid, NotFound
from apps.pages.my_priority.figures.waits import read_waits, waits_figure
from apps.pages.my_priority.numbers.position import get_my_waits
from apps.pages.my_priority.numbers.records import MyWaits, PooledWaits, WaitDay
from apps.policies.models import Policy
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from apps.series.runs import enqueue_series_build
from apps.series.stored_series import load_series
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.web.figures import Figure
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.web.figures.schema import check_schema

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
# Days before today → (hours that alice's jobs waited, cores of carol of another VO on the day before).
PAST: dict[int, tuple[list[float], int]] = {6: ([1.0, 3.0], 10), 4: ([0.0], 4000), 3: ([8.0, 2.0, 5.0], 0)}


def row(name: str, user: str, group: str, start_at: Any, waited_h: float, cpus: int) -> RecordRow:
    return RecordRow(
        job=name,
        user=user,
        group=group,
        submit_at=start_at - waited_h * HOUR,
        start_at=start_at,
        end_at=start_at + HOUR,
        cpus=cpus,
    )


def send(grid: Grid, rows: list[RecordRow]) -> None:
    ingest_batch(source=Source.objects.get(slug="cluster-a"), rows=rows, at=grid.at)
    grid.recompute()
    store.poll()


@pytest.fixture
def grid(open_grid: Grid) -> Grid:
    rows = []
    for back, (waits, cores) in PAST.items():
        start_at = AT - back * DAY
        rows += [row(f"a-{back}-{n}", "alice", "atlas", start_at, hours, 50) for n, hours in enumerate(waits)]
        rows.append(row(f"b-{back}", "bob", "atlas", start_at, 40.0, 5))  # another user's wait
        if cores:
            rows.append(row(f"c-{back}", "carol", "biomed", start_at - DAY, 0.0, cores))
    send(open_grid, rows)
    return open_grid


def build_series() -> None:
    done = work_run_now(enqueue_series_build(Policy.objects.get(slug=SLUG), at=AT).pk)
    assert done.state == "succeeded", done.error


def waits(grid: Grid, path: str = "/atlas/alice", n_days: int = 30) -> MyWaits:
    actor = Actor(user=grid.alice, via="session")
    return get_my_waits(policy_slug=SLUG, entry_uid=grid.uid(path), n_days=n_days, actor=actor, at=clock.now())


def test_days_have_own_waiting_times_and_the_balance_of_the_day_before(grid: Grid) -> None:
    build_series()
    found = waits(grid)
    on = {(AT - back * DAY).date(): [hours * 3600 for hours in each] for back, (each, _cores) in PAST.items()}
    kept = {day.on: day for day in found.days}
    for day, waited in on.items():
        assert (kept[day].n_jobs, kept[day].median_s, kept[day].longest_s) == (len(waited), median(waited), max(waited))
    level = found.level_name
    series = load_series(
        Policy.objects.get(slug=SLUG), [grid.uid(f"/{level}")], from_on=(AT - 40 * DAY).date(), to_on=AT.date()
    )
    wanted = {
        day + DAY: series.decayed[0][at] / series.peers_decayed[0][at] - series.target[0][at]
        for at, day in enumerate(series.days.on)
        if series.peers_decayed[0][at] > 0
    }
    assert {day.on: day.deviation for day in found.days} == {day.on: wanted.get(day.on) for day in found.days}
    sides = [found.over, found.under]
    n_known = sum(day.n_jobs for day in found.days if day.deviation)
    assert sum(side.n_jobs for side in sides if side is not None) == n_known > 0


def test_without_a_series_waiting_times_are_shown_without_balance(grid: Grid) -> None:
    found = waits(grid)
    assert all(day.deviation is None for day in found.days)
    figure = drawn(found)
    assert figure.empty
    assert len(figure.table.raw) == len(found.days)


def test_a_source_without_submit_times_has_no_waiting_times(open_grid: Grid) -> None:
    store.poll()
    found = waits(open_grid)
    assert (found.days, found.knows_waits, found.n_left_out) == ((), False, 1)
    assert drawn(found).empty


def test_waiting_times_of_others_are_not_shown(grid: Grid) -> None:
    for path in ("/atlas/bob", "/atlas", "/biomed/carol"):
        with pytest.raises(NotFound):
            waits(grid, path)
    assert all(day.longest_s < 40 * 3600 for day in waits(grid).days)


def drawn(found: MyWaits, query: str = "") -> Figure:
    asked = QueryDict(query)
    return waits_figure(found, read_waits(asked), asked)


def made(*days: WaitDay, over: PooledWaits | None = None, under: PooledWaits | None = None) -> MyWaits:
    return MyWaits("grid", "Grid", "alice", "atlas", "Grid", 7, days, over, under, True, 0)


def test_points_table_and_sentence_agree() -> None:
    days = [
        WaitDay((AT - 3 * DAY).date(), 4, 7200.0, 9000.0, 0.126),
        WaitDay((AT - 2 * DAY).date(), 1, 30.0, 30.0, -0.05),
        WaitDay((AT - DAY).date(), 2, 600.0, 900.0, None),
    ]
    figure = drawn(made(*days, over=PooledWaits(1, 4, 7200.0), under=PooledWaits(1, 1, 30.0)))
    check_schema(figure)
    dots = figure.traces[1]
    assert (dots["x"], dots["y"]) == ([12.6, -5.0], [2.0, 0.0083])
    assert dots["marker"]["color"] == ["$over-mark", "$under-mark"]
    assert [each[1] for each in figure.table.raw] == [2, 1, 4]
    assert figure.table.raw[0][4] is None
    assert "2.0\N{NO-BREAK SPACE}h".replace("\N{NO-BREAK SPACE}", " ") in figure.sentence
    assert "30 s" in figure.sentence
    at_once = drawn(made(*days, over=PooledWaits(1, 4, 7200.0), under=PooledWaits(1, 1, 0.0))).sentence
    assert "0 s" not in at_once


def test_an_unknown_period_is_refused_by_name() -> None:
    with pytest.raises(Invalid) as caught:
        read_waits(QueryDict("wait_days=1e9"))
    assert [problem.where for problem in caught.value.fields] == ["wait_days"]


def test_page_and_json_have_the_same_numbers(grid: Grid, client: Client) -> None:
    build_series()
    client.force_login(grid.alice)
    named = {"policy": SLUG, "entry": str(grid.uid("/atlas/alice")), "wait_days": "30"}
    page = client.get("/me/priority/_figure/waits", named).context["frame"].figure
    answer = client.get("/me/priority/figures/waits", named).json()
    assert answer["data"][1]["y"] == page.traces[1]["y"]
    assert answer["table"]["rows"] == page.table.rows
