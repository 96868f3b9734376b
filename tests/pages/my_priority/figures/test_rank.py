"""Rank and factor of an account over time: what the kept snapshots say, of the account wherever it was."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.http import QueryDict
from django.test import Client

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import Invalid, NotFound
from apps.pages.my_priority.figures.rank import rank_figure, read_rank
from apps.pages.my_priority.numbers import rank_history
from apps.pages.my_priority.numbers.rank_history import get_my_rank_history
from apps.pages.my_priority.numbers.records import RankHistory, RankOnDay
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.web.figures import Figure, axes
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.web.figures.schema import check_schema
from tests.worlds import forget_process

PAGE = "/me/priority/"
PICTURE = PAGE + "figures/rank"


@pytest.fixture
def grid(open_grid: Grid, monkeypatch: pytest.MonkeyPatch) -> Grid:
    """Three days: bob of atlas runs on the second, alice on the third."""
    for n, (user, cores) in enumerate([("bob", 900), ("alice", 2000)], start=1):
        at = AT + timedelta(days=n)
        monkeypatch.setenv(clock.VARIABLE, at.isoformat())
        run(open_grid, user, cores, at)
    return open_grid


def run(grid: Grid, user: str, cores: int, at: datetime) -> None:
    row = RecordRow(
        job=f"{user}-{at:%d}",
        user=user,
        group="atlas",
        start_at=at - timedelta(hours=20),
        end_at=at - timedelta(hours=2),
        cpus=cores,
    )
    ingest_batch(source=Source.objects.get(slug="cluster-a"), rows=[row], at=at)
    grid.recompute()
    store.poll()


def history(grid: Grid, path: str = "/atlas/alice", n_days: int = 30) -> RankHistory:
    actor = Actor(user=grid.alice, via="session")
    return get_my_rank_history(policy_slug=SLUG, entry_uid=grid.uid(path), n_days=n_days, actor=actor, at=clock.now())


def test_each_day_uses_its_last_snapshot(grid: Grid) -> None:
    found = history(grid)
    rows = Snapshot.objects.filter(is_live=True).order_by("pk")
    wanted = []
    for row in rows:
        snapshot = store.load_stored(SLUG, row.pk)
        (answer,) = [one for one in snapshot.lookup(["alice"]) if one["entry"] == "/atlas/alice"]
        wanted.append((row.as_of, answer["rank"], answer["of"], answer["factor"], row.revision_number))
    assert [(then.as_of, then.rank, then.of, then.factor, then.revision) for then in found.days] == wanted
    assert len({then.rank for then in found.days}) > 1
    assert found.days[-1].as_of == store.newest(SLUG).as_of


def test_two_snapshots_of_a_day_are_one_point(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    before = history(grid)
    later = clock.now() + timedelta(minutes=90)
    monkeypatch.setenv(clock.VARIABLE, later.isoformat())
    run(grid, "alice", 5, later)
    after = history(grid)
    assert after.days[:-1] == before.days[:-1]
    assert len(after.days) == len(before.days)
    assert after.days[-1].as_of > before.days[-1].as_of


def test_only_the_own_entry_is_shown(grid: Grid) -> None:
    for path in ("/atlas/bob", "/atlas", "/biomed/carol"):
        with pytest.raises(NotFound):
            history(grid, path)


def test_only_small_parts_of_large_snapshots_are_read(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = history(grid)
    monkeypatch.setattr(
        rank_history, "MOST_SNAPSHOT_BYTES", 1 + sum(len(row.data) for row in Snapshot.objects.all()) // 2
    )
    found = history(grid)
    assert found.step == 2
    assert len(found.days) < len(whole.days)
    assert found.days == tuple(
        then for then in whole.days if then.on.toordinal() % 2 == 0 or then.as_of == store.newest(SLUG).as_of
    )


def test_a_damaged_snapshot_is_a_gap(grid: Grid) -> None:
    first = Snapshot.objects.order_by("pk").first()
    assert first
    Snapshot.objects.filter(pk=first.pk).update(digest="0" * 64)
    forget_process()
    assert [then.as_of for then in history(grid).days] == [
        row.as_of for row in Snapshot.objects.filter(pk__gt=first.pk).order_by("pk")
    ]


def made(*ranks: int | None, of: int = 69, query: str = "") -> Figure:
    days = tuple(
        RankOnDay(
            date(2026, 11, n),
            datetime.fromisoformat(f"2026-11-{n:02}T11:30:20+00:00"),
            7,
            rank,
            of,
            None if rank is None else 1 - (rank - 1) / of,
        )
        for n, rank in enumerate(ranks, start=1)
    )
    found = RankHistory("grid", "Grid", "alice", UUID(int=1), "alice", AT, 7, days, ())
    asked = QueryDict(query)
    return rank_figure(found, read_rank(asked), asked)


@pytest.mark.parametrize("query", ["", "rank_by=factor&rank_days=365"])
@pytest.mark.parametrize("ranks", [(41, 38, None, 67), (3,), (1, 1)])
def test_the_figure_is_valid_for_plotly(query: str, ranks: tuple[int | None, ...]) -> None:
    figure = made(*ranks, query=query)
    check_schema(figure)


@pytest.mark.parametrize(("n_days", "form"), [(1, "%H:%M"), (30, "%-d %b")])
def test_date_labels_are_unique(n_days: int, form: str) -> None:
    found = made(*range(1, n_days + 1))
    assert found.layout["xaxis"]["tickformat"] == form
    first = found.layout["xaxis"]["range"][0]
    assert n_days > 1 or first < found.traces[0]["x"][0], "a single point stands clear of the axis"


def test_few_days_have_at_most_one_tick_each() -> None:
    first = date(2026, 1, 1)
    assert [axes.day_axis(first, first + timedelta(days=n))["nticks"] for n in (0, 1, 5, 30)] == [1, 2, 6, 7]


def test_points_and_table_agree_and_a_day_without_rank_is_a_gap() -> None:
    figure = made(41, None, 67)
    assert list(figure.traces[0]["y"]) == [41, None, 67]
    assert [row[1] for row in figure.table.raw] == [67, None, 41]
    assert "67" in figure.sentence
    assert "41" in figure.sentence
    assert figure.layout["yaxis"]["range"][0] > 69, "rank 1 is on top"
    assert figure.traces[0]["x"][0] == "2026-11-01 11:31", "the page of that minute has the snapshot"


def test_without_a_rank_the_figure_has_a_message() -> None:
    assert made(None, None).empty
    assert made().empty


@pytest.mark.parametrize(("query", "where"), [("rank_days=8", "rank_days"), ("rank_by=luck", "rank_by")])
def test_invalid_figure_parameters_are_refused_by_name(query: str, where: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_rank(QueryDict(query))
    assert [problem.where for problem in caught.value.fields] == [where]


def test_page_json_and_csv_have_the_same_numbers(grid: Grid, client: Client) -> None:
    client.force_login(grid.alice)
    named: dict[str, Any] = {"policy": SLUG, "entry": str(grid.uid("/atlas/alice")), "rank_by": "factor"}
    frame = client.get("/me/priority/_figure/rank", named).context["frame"]
    figure = frame.figure
    answer = client.get(PICTURE, named)
    assert answer["Cache-Control"] == "private, no-store"
    assert answer.json()["data"][0]["y"] == figure.traces[0]["y"]
    download: Any = client.get(frame.csv_url)
    lines = b"".join(download.streaming_content).decode().splitlines()
    assert [float(line.split(",")[3]) for line in lines[1:]] == [row[3] for row in figure.table.raw]
    assert client.get(PICTURE, named | {"entry": str(grid.uid("/atlas/bob"))}).status_code == 404
    assert client.get(PICTURE.replace("rank", "luck"), named).status_code == 404
