"""A figure that can't be drawn says why in its place on the page, in every family of figures."""

from __future__ import annotations

from datetime import date

import pytest
from django.test import Client

from apps.core.periods import FORMER_DAYS, PERIODS_DAYS
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read
from tests.series_by_hand import HandMade, put_in_place

PAGE = f"/policy/{SLUG}/"
CONVERGENCE = "convergence/figures/"
ABSURD = [
    (CONVERGENCE + "over-time", "range=1e9"),
    (CONVERGENCE + "over-time", "unit=tea"),
    (CONVERGENCE + "over-time", "entry=nowhere/at/all"),
    (CONVERGENCE + "over-time", "entry=3f2b8a86-0d3e-4d0a-9a54-5f6f1c1b7e90"),
    (CONVERGENCE + "over-time", "zoom=2026-11-20"),
    (CONVERGENCE + "over-time", "view=windowed&window=1e300"),
    (CONVERGENCE + "panels", "from=0001-01-01&to=9999-12-31"),
    (CONVERGENCE + "panels", "from=2026-11-10&to=2026-11-01"),
    (CONVERGENCE + "fair-line", "days=-1"),
    (CONVERGENCE + "heat", "of=everything"),
    ("icicle/figures/tree", "kind=cake"),
]
OTHER = [
    ("/usage/figures/coverage", "coverage_days=1000000"),
    (f"{PAGE}decay/figures/decay", "age=1e9"),
    (f"{PAGE}decay/figures/decay", "function=tea"),
]


@pytest.fixture
def eva(open_grid: Grid, db: None, monkeypatch: pytest.MonkeyPatch, client: Client) -> Client:
    put_in_place(HandMade(date(2026, 11, 19), {"/atlas/alice": [5.0] * 40, "/biomed/carol": [5.0] * 40}), monkeypatch)
    client.force_login(open_grid.admin)
    return client


@pytest.mark.parametrize(("address", "query"), [*((PAGE + path, query) for path, query in ABSURD), *OTHER])
def test_invalid_queries_are_refused_with_a_reason(eva: Client, address: str, query: str) -> None:
    answer = eva.get(f"{address}?{query}", headers={"Accept": "application/json"})
    assert answer.status_code == 422, answer.content[:300]
    assert len(answer.json()["detail"]) > 15


def test_ten_thousand_parameters_are_refused(eva: Client) -> None:
    query = "&".join(f"entry={one}" for one in range(10_000))
    answer = eva.get(f"{PAGE}{CONVERGENCE}over-time?{query}", headers={"Accept": "application/json"})
    assert (answer.status_code, "1,000" in answer.json()["detail"]) == (400, True)


@pytest.mark.parametrize(
    ("path", "query", "figure"),
    [
        ("convergence/", "entry=00000000-0000-0000-0000-000000000001", "over-time"),
        ("decay/", "age=1e9", "decay"),
        ("icicle/", "kind=cake", "tree"),
    ],
)
def test_a_page_shows_the_error_in_place_of_the_figure(eva: Client, path: str, query: str, figure: str) -> None:
    answer = eva.get(f"{PAGE}{path}?{query}")
    page = read(answer, answer.status_code)
    assert answer.status_code in {200, 422}
    assert len(page.text(f"#fig-{figure} .fig-state")) > 15
    assert not page.has(f"#fig-{figure} .fig-wait")


def test_an_instant_before_the_first_snapshot_has_a_message(eva: Client) -> None:
    for query in ("from=2001-01-01&to=2001-02-01",):
        for figure in ("over-time", "panels", "heat"):
            answer = eva.get(f"{PAGE}{CONVERGENCE}{figure}?{query}")
            assert answer.status_code in {200, 422}, (figure, answer.content[:200])
            body = answer.json()["empty"] if answer.status_code == 200 else answer.json()["detail"]
            assert len(body) > 15, figure
    answer = eva.get(f"{PAGE}icicle/figures/tree?at=2001-01-01T00:00:00Z", headers={"Accept": "application/json"})
    assert answer.status_code in {404, 422}
    assert len(answer.json()["detail"]) > 15


@pytest.mark.parametrize("query", ["rank?rank_days=1e9", "rank?rank_by=luck", "waits?wait_days=0"])
def test_a_figure_of_my_priority_is_refused_the_same_way(open_grid: Grid, db: None, client: Client, query: str) -> None:
    client.force_login(open_grid.alice)
    named = f"{query}&policy={SLUG}&entry={open_grid.uid('/atlas/alice')}"
    answer = client.get(f"/me/priority/figures/{named}", headers={"Accept": "application/json"})
    assert answer.status_code == 422, answer.content[:300]
    assert len(answer.json()["detail"]) > 15
    nobody = client.get(f"/me/priority/figures/rank?policy={SLUG}&entry={open_grid.uid('/biomed/carol')}")
    assert nobody.status_code == 404, "others' accounts are not there"


@pytest.mark.parametrize(("former", "period"), FORMER_DAYS.items())
def test_a_saved_link_with_a_former_period_shows_the_next_longer_one(eva: Client, former: int, period: int) -> None:
    answer = eva.get(f"/usage/figures/coverage?coverage_days={former}", headers={"Accept": "application/json"})
    assert answer.status_code == 200, answer.content[:300]
    (control,) = answer.json()["controls"]
    assert [choice["key"] for choice in control["choices"] if choice["is_chosen"]] == [f"days-{period}"]
    assert former < period in PERIODS_DAYS
