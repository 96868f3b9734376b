"""The cards that look ahead, by request: with and without scripts, refused kindly, drawn and as CSV."""

from __future__ import annotations

import csv
import html
import re
from typing import Any

import pytest
from django.core.cache import cache
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.forecast.figures import ForecastOptions, forecast_figure
from apps.contrib.forecast.selectors import get_my_forecast
from apps.core import clock
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read, with_cards
from tests.sign_in import sign_in
from tests.web.figures.schema import check_schema

HTMX = {"HX-Request": "true"}
FIGURE = "/me/priority/figures/forecast"


@pytest.fixture
def grid(open_grid: Grid) -> Grid:
    cache.clear()
    return open_grid


@pytest.fixture
def alice(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.alice)
    return client


def _named(grid: Grid, path: str = "/atlas/alice", **more: str) -> dict[str, str]:
    return {"policy": SLUG, "entry": str(grid.uid(path)), **more}


def test_cards_are_fragments_and_pages_when_opened(alice: Client, grid: Grid) -> None:
    for name, n_forms in (("my-forecast", 0), ("my-forecast-levels", 1)):
        alone = alice.get(reverse(f"pages:{name}"), _named(grid), headers=HTMX)
        assert alone.status_code == 200
        assert alone["Cache-Control"] == "private, no-store"
        assert "<html" not in alone.content.decode()
        opened = alice.get(reverse(f"pages:{name}"), _named(grid))
        assert opened["Cache-Control"] == "private, no-store"
        assert len(read(opened).all("main form")) == n_forms


def test_another_level_is_drawn_on_request(alice: Client, grid: Grid) -> None:
    for path in ("/atlas", "/atlas/alice"):
        figure = _figure(alice, grid, forecast_level=str(grid.uid(path)))
        assert figure["title"].endswith(path.rpartition("/")[2])
    for level in (str(grid.uid("/biomed")), "x"):
        refused = alice.get(FIGURE, _named(grid, forecast_level=level), headers={"Accept": "application/json"})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid")


def test_another_pace_is_kept_in_the_address(alice: Client, grid: Grid) -> None:
    at = {"HX-Current-URL": "http://testserver/me/priority/?rank_days=90&share=5"}
    form = {**HTMX, **at, "HX-Target": "forecast"}
    answer = alice.get(reverse("pages:my-forecast"), _named(grid, share="20", numbers="1"), headers=form)
    pushed = QueryDict(answer["HX-Push-Url"].partition("?")[2])
    assert (pushed["rank_days"], pushed["share"]) == ("90", "20")
    assert "numbers" not in pushed
    assert answer.context["frame"].query == pushed.urlencode()
    with_page = alice.get(reverse("pages:my-forecast"), _named(grid), headers={**HTMX, **at})
    assert "HX-Push-Url" not in with_page, "coming with its page is no step of the reader"


def test_a_malformed_address_of_the_page_adds_nothing(alice: Client, grid: Grid) -> None:
    broken = {**HTMX, "HX-Target": "forecast", "HX-Current-URL": "http://[testserver?share=5"}
    answer = alice.get(reverse("pages:my-forecast"), _named(grid, share="20"), headers=broken)
    assert (answer.status_code, QueryDict(answer["HX-Push-Url"].partition("?")[2])["share"]) == (200, "20")


def _figure(client: Client, grid: Grid, **more: str) -> Any:
    return client.get(FIGURE, _named(grid, **more)).json()


def test_an_invalid_pace_is_reported_at_its_field(alice: Client, grid: Grid) -> None:
    for share in ("101", "-1", "nan", "x"):
        answer = alice.get(reverse("pages:my-forecast"), _named(grid, share=share), headers=HTMX)
        field = read(answer, 422).one("#forecast-share")
        assert (field.attributes["aria-invalid"], field.attributes["value"]) == ("true", share)
        assert re.findall(r"\d+", read(answer, 422).text("#forecast-share-hint.err")) == ["0", "100"]
    good = alice.get(reverse("pages:my-forecast"), _named(grid, share="12,5 %"), headers=HTMX)
    assert not read(good).has('[aria-invalid="true"]')


@pytest.mark.parametrize(("share", "words"), [("0.5", "0.5"), ("99", "99.0")])
def test_a_scenario_is_labelled_and_can_be_reset(alice: Client, grid: Grid, share: str, words: str) -> None:
    usual, supposed = _figure(alice, grid)["sentence"], _figure(alice, grid, share=share)["sentence"]
    assert words in supposed
    page = read(alice.get(reverse("pages:my-forecast"), _named(grid, share=share), headers=HTMX))
    assert len(page.items("scenario")) == 1
    back = page.one("#forecast-reset").attributes["href"] or ""
    whole = with_cards(alice, read(alice.get(back.partition("#")[0])))
    assert not whole.has('[data-testid="scenario"]')
    assert usual in html.unescape(whole.html)


def test_the_csv_of_the_curve_has_past_present_and_future(alice: Client, grid: Grid) -> None:
    answer: Any = alice.get(f"{FIGURE}.csv", _named(grid))
    rows = list(csv.DictReader(b"".join(answer.streaming_content).decode().splitlines()))
    assert list(rows[0]) == ["at", "so_far", "likely", "quartile_low", "quartile_high", "least", "most", "target"]
    ahead = [row for row in rows if row["most"]]
    assert len(ahead) >= 7
    assert all(float(row["least"]) <= float(row["likely"]) <= float(row["most"]) for row in ahead)
    drawn = _figure(alice, grid)["data"]
    likely = next(trace for trace in drawn if trace.get("line", {}).get("dash") == "5px,3px")
    assert [one for one in likely["y"] if one is not None][1:] == pytest.approx(
        [float(row["likely"]) * 100 for row in ahead], abs=0.001
    )


def test_entries_of_others_and_unknown_ones_have_no_cards(alice: Client, grid: Grid) -> None:
    other = alice.get(reverse("pages:my-forecast"), _named(grid, "/biomed/carol"), headers=HTMX)
    assert (other.status_code, other.content.strip()) == (200, b"")
    assert alice.get(FIGURE, _named(grid, "/biomed/carol")).status_code == 404
    for entry in ("x", ""):
        refused: Any = alice.get(reverse("pages:my-forecast"), {"policy": SLUG, "entry": entry}, headers=HTMX)
        assert (refused.status_code, refused.context["refusal"].code) == (404, "not_found"), entry
    unknown = {"policy": SLUG, "entry": "00000000-0000-0000-0000-000000000000"}
    answer = alice.get(reverse("pages:my-forecast"), unknown, headers=HTMX)
    assert (answer.status_code, answer.content.strip()) == (200, b"")


def test_siblings_are_never_named(alice: Client, grid: Grid) -> None:
    for name in ("my-forecast", "my-forecast-levels"):
        text = alice.get(reverse(f"pages:{name}"), _named(grid, core_h="10"), headers=HTMX).content.decode()
        assert "bob" not in text
        assert "carol" not in text


def test_a_user_without_an_account_sees_no_cards(grid: Grid, client: Client) -> None:
    sign_in(client, User.objects.create_user("guest"))
    assert 'id="forecast"' not in client.get(reverse("pages:my-priority")).content.decode()


def test_the_figure_is_valid_for_plotly_and_its_bands_contain_the_curve(alice: Client, grid: Grid) -> None:
    actor = Actor(user=grid.alice, via="session")
    found = get_my_forecast(policy_slug=SLUG, entry_uid=grid.uid("/atlas/alice"), at=clock.now(), actor=actor)
    assert found is not None
    figure = forecast_figure(found, ForecastOptions())
    check_schema(figure)
    filled = [at for at, trace in enumerate(figure.traces) if trace.get("fill") == "tonexty"]
    tolerance, whole, half = [(figure.traces[at]["y"], figure.traces[at - 1]["y"]) for at in filled]
    shown = found.shown
    assert shown is not None
    assert tolerance[0][0] <= (shown.target or 0.0) * 100 <= tolerance[1][0]
    for outer, inner, upper, top in zip(whole[0], half[0], half[1], whole[1], strict=True):
        assert outer <= inner <= upper <= top
    read = [trace for trace in figure.traces if trace.get("meta", {}).get("read")]
    assert len({tuple(trace["x"]) for trace in read}) == 1, "keys go from one curve to the other"
    assert all(len(trace["customdata"]) == len(trace["x"]) for trace in read)
