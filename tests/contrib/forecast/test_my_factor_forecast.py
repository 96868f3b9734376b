"""The factor on the days to come, drawn: on the page, by REST, and not where levels decide."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import COMMAND, Actor
from apps.contrib.forecast.figures import factor_figure
from apps.contrib.forecast.selectors import get_my_forecast
from apps.core import clock
from apps.policies.services import change_settings
from apps.priorities.serving import store
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read
from tests.web.figures.schema import check_schema


@pytest.fixture
def ratio_grid(open_grid: Grid) -> Grid:
    settings = {"algorithm": {"name": "slurm-depth-oblivious"}}
    change_settings(policy_slug=SLUG, settings=settings, reason="x", at=clock.now(), actor=COMMAND)
    open_grid.recompute()
    store.poll()
    return open_grid


def _named(grid: Grid) -> dict[str, str]:
    return {"policy": SLUG, "entry": str(grid.uid("/atlas/alice"))}


def test_the_page_draws_the_forecast(ratio_grid: Grid, client: Client) -> None:
    actor = Actor(user=ratio_grid.alice, via="session")
    found = get_my_forecast(policy_slug=SLUG, entry_uid=ratio_grid.uid("/atlas/alice"), actor=actor, at=clock.now())
    assert found is not None
    ahead, figure = found.factor_ahead, factor_figure(found)
    assert ahead is not None
    assert figure is not None
    check_schema(figure)
    client.force_login(ratio_grid.alice)
    named = _named(ratio_grid)
    shown = client.get("/me/priority/figures/factor", named)
    answer = shown.json()
    assert answer["data"][0]["y"] == pytest.approx([point.factor for point in ahead.points], abs=1e-6)
    assert answer["sentence"] == " ".join(str(one) for one in ahead.messages)
    download: Any = client.get("/me/priority/figures/factor.csv", named)
    rows = list(csv.DictReader(b"".join(download.streaming_content).decode().splitlines()))
    assert [float(row["factor"]) for row in rows] == [point.factor for point in ahead.points]
    assert "bob" not in shown.content.decode()
    assert read(client.get(reverse("pages:my-priority"))).has("#fig-factor")


def test_without_a_factor_by_distance_there_is_no_figure(open_grid: Grid, client: Client) -> None:
    store.poll()
    client.force_login(open_grid.alice)
    assert client.get("/me/priority/figures/factor", _named(open_grid)).status_code == 404
    assert not read(client.get(reverse("pages:my-priority"))).has("#fig-factor")
