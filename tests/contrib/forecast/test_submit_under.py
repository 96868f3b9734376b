"""Where to submit, which own jobs wait, and the rank of the last weeks, beside the answer on My priority."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.cache import cache
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.contrib.forecast.after_job import ranks_after_job
from apps.contrib.schedulers.my_jobs import list_my_waiting_jobs
from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotFound
from apps.engine.errors import BadParameter
from apps.pages.my_priority.numbers.records import PublishedRevision, RankHistory, RankOnDay
from apps.pages.my_priority.trend import draw_trend
from apps.policies.models import Policy
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.priorities.recompute.totals import compute_from_totals
from apps.priorities.serving import store
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read, with_cards
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
PAGE, CARD = "/me/priority/", "/me/priority/_submit"


@pytest.fixture
def alice(grid: Grid) -> Client:
    cache.clear()
    return sign_in(Client(), grid.alice)


def second_account(grid: Grid, user: str = "bob") -> None:
    Account.objects.filter(user_name=user).update(person=grid.alice)


def recomputed(grid: Grid, path: str, core_h: float) -> int:
    """The rank if the job's usage were stored: the engine on totals that were added up here, level by level."""
    snapshot = store.newest(SLUG)
    usage = snapshot.values.usage.copy()
    entry = snapshot.tree.index_of_path(path)
    assert entry is not None
    at = entry
    while at >= 0:
        usage[at] += core_h * 3600
        at = int(snapshot.tree.parent[at])
    tree = snapshot.tree.engine_tree()
    return int(compute_from_totals(tree, usage, usage, algorithm=snapshot.settings.algorithm).rank[entry])


@pytest.mark.parametrize("core_h", [0.0, 1000.0, 20_000.0])
def test_the_rank_after_a_job_agrees_with_a_recompute(grid: Grid, core_h: float) -> None:
    cache.clear()
    Policy.objects.update(visibility="tree")
    uid = grid.uid("/atlas/alice")
    asked: dict[str, Any] = {"policy_slug": SLUG, "actor": Actor(user=grid.admin, via="web"), "at": clock.now()}
    Account.objects.filter(user_name="alice").update(person=grid.admin)
    (place,) = ranks_after_job(entry_uids=[uid], core_h=core_h, **asked).values()
    assert place.rank == (recomputed(grid, "/atlas/alice", core_h),) * 2


@pytest.mark.parametrize(
    ("weights", "unit"),
    [
        ({"gpu_s": 1.0}, "GPU-hours"),
        ({"cpu_s": 2.0}, "weighted hours"),
        ({"cpu_s": 1.0, "gpu_s": 8.0}, "weighted hours"),
    ],
)
def test_the_job_size_is_in_hours_of_the_metric(
    grid: Grid, alice: Client, weights: dict[str, float], unit: str
) -> None:
    counted = {"op": "set_policy", "settings": {"metric": {"weights": weights}}}
    actor = Actor(user=grid.admin, via="page")
    draft = make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=[counted], reason="x"), at=clock.now(), actor=actor
    )
    publish_change_set(id=draft.pk, version=1, at=clock.now(), actor=actor)
    grid.recompute()
    page = with_cards(alice, read(alice.get(PAGE)))
    assert page.item("submit-unit").text() == unit
    Policy.objects.update(visibility="tree")
    card = alice.get(CARD, {"job_core_h": "20000"}, headers={"HX-Request": "true"}).context["submit"]
    assert card.rows[0].after.rank[0] == recomputed(grid, "/atlas/alice", 20_000.0)


def test_accounts_of_one_cluster_are_listed_best_first_with_their_rank_after_the_job(grid: Grid, alice: Client) -> None:
    second_account(grid)
    answer = alice.get(CARD, headers={"HX-Request": "true"})
    rows = answer.context["submit"].rows
    assert [row.priority.entry_path for row in rows] == sorted(
        (row.priority.entry_path for row in rows),
        key=lambda path: [r.priority.rank for r in rows if r.priority.entry_path == path],
    )
    assert [row.is_first for row in rows] == [True] + [False] * (len(rows) - 1)
    assert all(row.after is not None for row in rows)
    page = read(answer)
    assert len(page.texts("#submit tbody tr")) == len(rows)
    assert page.text("#submit-option") == f"--account={rows[0].priority.group}"


def test_an_invalid_job_size_is_refused_at_its_field(grid: Grid, alice: Client) -> None:
    small, large = (
        alice.get(CARD, {"job_core_h": size}, headers={"HX-Request": "true"}).context["submit"].rows[0].after.rank
        for size in ("1", "900000")
    )
    assert small < large
    refused = alice.get(CARD, {"job_core_h": "many"}, headers={"HX-Request": "true"})
    assert refused.status_code == 422
    page = read(refused, 422)
    assert page.one("#submit-core-h").attributes["aria-invalid"] == "true"
    assert page.text("#submit-problem")
    assert page.texts("#submit tbody tr")


@pytest.mark.parametrize("core_h", [-1.0, float("nan"), 1e10])
def test_a_size_out_of_bounds_is_refused(grid: Grid, core_h: float) -> None:
    asked: dict[str, Any] = {"policy_slug": SLUG, "actor": Actor(user=grid.alice, via="web"), "at": clock.now()}
    with pytest.raises(Invalid) as refused:
        ranks_after_job(entry_uids=[grid.uid("/atlas/alice")], core_h=core_h, **asked)
    assert [field.where for field in refused.value.fields] == ["core_h"]
    with pytest.raises(NotFound):
        ranks_after_job(entry_uids=[grid.uid("/biomed/carol")], core_h=1.0, **asked)


def waiting(grid: Grid, *jobs: tuple[str, str, str, int]) -> None:
    """(job, user, group, minutes ago)."""
    rows = [
        RecordRow(job=job, user=user, group=group, state="pending", submit_at=grid.at - timedelta(minutes=ago), cpus=4)
        for job, user, group, ago in jobs
    ]
    ingest_batch(source=Source.objects.get(slug="cluster-a"), rows=rows, at=grid.at)


def test_a_waiting_job_is_behind_better_ranks_and_earlier_own_jobs(grid: Grid) -> None:
    waiting(
        grid,
        ("m2", "alice", "atlas", 5),
        ("m1", "alice", "atlas", 50),
        ("d1", "dave", "cms", 1),
        ("d2", "dave", "cms", 2),
        ("c1", "carol", "biomed", 500),
        ("x1", "stranger", "nowhere", 900),
    )
    snapshot = store.newest(SLUG)
    rank = {
        user: int(snapshot.values.rank[snapshot.tree.index_of_path(path)])
        for user, path in (("alice", "/atlas/alice"), ("dave", "/cms/dave"), ("carol", "/biomed/carol"))
    }
    ahead = sum(n for user, n in (("dave", 2), ("carol", 1)) if rank[user] < rank["alice"])
    found = list_my_waiting_jobs(policy_slug=SLUG, actor=Actor(user=grid.alice, via="web"), at=clock.now())
    assert [(job.job, job.position, job.of) for job in found.jobs] == [("m1", ahead + 1, 6), ("m2", ahead + 2, 6)]
    assert (found.n_mine, found.n_all, found.silent) == (2, 6, [])


def test_sources_without_a_job_listing_are_named(grid: Grid, alice: Client) -> None:
    found = list_my_waiting_jobs(policy_slug=SLUG, actor=Actor(user=grid.alice, via="web"), at=clock.now())
    assert (found.n_mine, list(found.jobs), found.silent) == (0, [], ["Cluster A"])
    assert "Cluster A" in with_cards(alice, read(alice.get(PAGE))).text("#waiting-jobs")


def history(*ranks: int | None, of: int = 20) -> RankHistory:
    """One day each; the last one is now."""
    ages = range(len(ranks) - 1, -1, -1)
    days = tuple(
        RankOnDay(date(2026, 11, 20) - timedelta(days=ago), AT - timedelta(days=ago), 1, rank, of, None)
        for ago, rank in zip(ages, ranks, strict=True)
    )
    return RankHistory(SLUG, "Grid", "alice", uuid4(), "alice", AT, 2, days, (PublishedRevision(2, AT - timedelta(3)),))


@pytest.mark.parametrize(
    ("ranks", "result"),
    [
        ((9, 9, 9, 9, 9, 9, 9, 5), [("trend.better", {"n": 4, "other_rank": 9})]),
        ((4, 9, 9, 9, 9, 9, 9, 5), [("trend.worse", {"n": 1, "other_rank": 4})]),
        ((5, 9, 9, 9, 9, 9, 9, 5), [("trend.same", {"n": 0, "other_rank": 5})]),
        ((9, 5), []),
    ],
    ids=str,
)
def test_the_trend_compares_with_last_week(ranks: tuple[int, ...], result: Any) -> None:
    drawn = draw_trend(history(*ranks))
    assert drawn is not None
    found = [(one.key, dict(one.values)) for one in drawn.sentences]
    assert found == result


def test_a_better_rank_is_drawn_higher_and_days_without_one_are_gaps() -> None:
    drawn = draw_trend(history(9, None, 3, 12))
    assert drawn is not None
    first, second = drawn.points
    ys = [float(point.split(",")[1]) for point in (first, *second.split())]
    assert ys[1] < ys[0] < ys[2]
    assert drawn.end == (drawn.right, ys[2])
    assert [mark.number for mark in drawn.marks] == [2]


def test_a_single_day_has_no_trend() -> None:
    assert draw_trend(history(3)) is None
    assert draw_trend(history(3, None)) is None
    assert draw_trend(replace(history(3, 4), days=history(3, 4).days[:1])) is None


def test_rest_and_page_agree(grid: Grid, alice: Client) -> None:
    second_account(grid)
    waiting(grid, ("m1", "alice", "atlas", 50))
    rows = alice.get(CARD, headers={"HX-Request": "true"}).context["submit"].rows
    answer = alice.get("/api/v1/me/submit", {"policy": SLUG}).json()
    assert answer["core_h"] == 1000
    assert [(one["path"], one["rank"], (one["rank_after"], one["rank_after_to"])) for one in answer["results"]] == [
        (row.priority.entry_path, row.priority.rank, row.after.rank) for row in rows
    ]
    (job,) = alice.get("/api/v1/me/waiting-jobs", {"policy": SLUG}).json()["jobs"]
    assert (job["job"], job["cpus"], job["of"], job["position"]) == ("m1", 4, 1, 1)
    assert alice.get("/api/v1/me/submit", {"policy": SLUG, "core_h": "-1"}).status_code == 422


def test_too_many_sizes_a_minute_are_refused_and_the_usual_one_is_not(
    grid: Grid, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.contrib.forecast.rate_limit.MOST_COMPUTATIONS_A_MINUTE", 1)
    asked = {"policy": SLUG, "core_h": "10"}
    assert alice.get("/api/v1/me/submit", asked).status_code == 200
    refused = alice.get("/api/v1/me/submit", asked)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_often")
    assert int(refused["Retry-After"]) > 0
    assert alice.get("/api/v1/me/submit", {"policy": SLUG}).status_code == 200
    card = alice.get(CARD, {"job_core_h": "20"}, headers={"HX-Request": "true"})
    assert (card.status_code, len(card.context["submit"].problem) > 0) == (422, True)


def test_a_missing_algorithm_is_reported(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise BadParameter(f"{name} is not installed", place="algorithm")

    monkeypatch.setattr("apps.priorities.recompute.totals.get_algorithm", missing)
    asked: dict[str, Any] = {"policy_slug": SLUG, "actor": Actor(user=grid.alice, via="web"), "at": clock.now()}
    with pytest.raises(Conflict) as refused:
        ranks_after_job(entry_uids=[grid.uid("/atlas/alice")], core_h=7.0, **asked)
    assert refused.value.code == "no_algorithm"
