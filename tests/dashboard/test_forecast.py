"""The cards that look ahead, by request: with and without scripts, refused kindly, drawn and as CSV."""

from __future__ import annotations

import csv
import re
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.dashboard.figures.forecast import Ahead, Meeting, draw
from tests.dashboard.grid import SLUG, Grid
from tests.dashboard.page import read

HTMX = {"HX-Request": "true"}


@pytest.fixture
def grid(open_grid: Grid) -> Grid:
    cache.clear()
    return open_grid


@pytest.fixture
def alice(grid: Grid, client: Client) -> Client:
    client.force_login(grid.alice)
    return client


def _named(grid: Grid, path: str = "/atlas/alice", **more: str) -> dict[str, str]:
    return {"policy": SLUG, "entry": str(grid.uid(path)), **more}


def test_the_page_holds_both_cards_without_scripts(alice: Client, grid: Grid) -> None:
    page = read(alice.get(reverse("dashboard:my-priority")))
    assert page.has("#forecast")
    assert page.has("#what-if")
    assert not page.has('[data-testid="what-if-outcome"]')
    tried = read(alice.get(reverse("dashboard:my-priority"), _named(grid, core_h="5000", days="3")))
    assert "rank_then" in tried.values("data-key", "#what-if")
    assert tried.one("#what-if-core-h").attributes["value"] == "5000"


def test_fragments_answer_alone_and_lead_to_the_page_when_opened(alice: Client, grid: Grid) -> None:
    for name in ("my-forecast", "my-what-if"):
        alone = alice.get(reverse(f"dashboard:{name}"), _named(grid), headers=HTMX)
        assert alone.status_code == 200
        assert alone["Cache-Control"] == "private, no-store"
        assert "<html" not in alone.content.decode()
        opened = alice.get(reverse(f"dashboard:{name}"), _named(grid))
        assert (opened.status_code, opened["Location"]) == (303, reverse("dashboard:my-priority"))


def test_another_level_is_drawn_when_it_is_asked_for(alice: Client, grid: Grid) -> None:
    both = {
        level: read(alice.get(reverse("dashboard:my-forecast"), _named(grid, level=str(grid.uid(level))), headers=HTMX))
        for level in ("/atlas", "/atlas/alice")
    }
    drawn = {level: page.text('[data-testid="forecast-level"]') for level, page in both.items()}
    assert "atlas" in drawn["/atlas"]
    assert "alice" in drawn["/atlas/alice"]


@pytest.mark.parametrize(
    ("asked", "limits"),
    [({"core_h": "-1"}, ["0", "1,000,000,000"]), ({"core_h": "1e300"}, ["0", "1,000,000,000"]),
     ({"core_h": "NaN"}, ["0", "1,000,000,000"]), ({"days": "10000"}, ["1", "365"]),
     ({"load": "lots"}, ["0", "1000"]), ({"target": "-4"}, ["0", "100"])],
)  # fmt: skip
def test_absurd_suppositions_are_answered_beside_their_field(
    alice: Client, grid: Grid, asked: dict[str, str], limits: list[str]
) -> None:
    answer = alice.get(reverse("dashboard:my-what-if"), _named(grid, **asked), headers=HTMX)
    (field,) = read(answer, 422).all('[aria-invalid="true"]')
    assert {field.attributes["name"]: field.attributes["value"]} == asked
    assert re.findall(r"\d[\d,]*", read(answer, 422).text(f"#{field.attributes['aria-describedby']}")) == limits
    assert alice.get(reverse("dashboard:my-priority"), _named(grid, **asked)).status_code == 200


def test_a_pace_that_is_no_percent_is_answered_beside_its_field(alice: Client, grid: Grid) -> None:
    for share in ("101", "-1", "nan", "x"):
        answer = alice.get(reverse("dashboard:my-forecast"), _named(grid, share=share), headers=HTMX)
        field = read(answer, 422).one("#forecast-share")
        assert (field.attributes["aria-invalid"], field.attributes["value"]) == ("true", share)
        assert re.findall(r"\d+", read(answer, 422).text("#forecast-share-hint.err")) == ["0", "100"]
    good = alice.get(reverse("dashboard:my-forecast"), _named(grid, share="12,5 %"), headers=HTMX)
    assert not read(good).has('[aria-invalid="true"]')


def test_the_curve_as_csv_has_what_was_now_and_what_comes(alice: Client, grid: Grid) -> None:
    answer: Any = alice.get(reverse("dashboard:my-forecast-table"), _named(grid))
    rows = list(csv.DictReader(b"".join(answer.streaming_content).decode().splitlines()))
    assert list(rows[0]) == [
        "at", "so_far", "likely", "quartile_low", "quartile_high", "least", "most", "target"
    ]  # fmt: skip
    ahead = [row for row in rows if row["most"]]
    assert len(ahead) >= 7
    assert all(float(row["least"]) <= float(row["likely"]) <= float(row["most"]) for row in ahead)


def test_entries_of_others_and_what_is_no_entry_have_no_cards(alice: Client, grid: Grid) -> None:
    other = alice.get(reverse("dashboard:my-forecast"), _named(grid, "/biomed/carol"), headers=HTMX)
    assert (other.status_code, other.content.strip()) == (200, b"")
    assert alice.get(reverse("dashboard:my-forecast-table"), _named(grid, "/biomed/carol")).status_code == 404
    for entry in ("x", ""):
        refused: Any = alice.get(reverse("dashboard:my-what-if"), {"policy": SLUG, "entry": entry}, headers=HTMX)
        assert (refused.status_code, refused.context["refusal"].code) == (404, "not_found"), entry
    unknown = {"policy": SLUG, "entry": "00000000-0000-0000-0000-000000000000"}
    answer = alice.get(reverse("dashboard:my-what-if"), unknown, headers=HTMX)
    assert (answer.status_code, answer.content.strip()) == (200, b"")


def test_siblings_are_never_named(alice: Client, grid: Grid) -> None:
    for name in ("my-forecast", "my-what-if"):
        text = alice.get(reverse(f"dashboard:{name}"), _named(grid, core_h="10"), headers=HTMX).content.decode()
        assert "bob" not in text
        assert "carol" not in text


def test_somebody_without_an_account_has_a_page_without_cards(grid: Grid, client: Client) -> None:
    client.force_login(User.objects.create_user("guest"))
    assert 'id="forecast"' not in client.get(reverse("dashboard:my-priority")).content.decode()


def test_the_drawing_keeps_within_its_frame_and_marks_where_it_meets() -> None:
    ahead = [Ahead(day, 0.55 - day / 50, 0.5 - day / 50, 0.54 - day / 50, 0.56 - day / 50, 0.6) for day in range(15)]
    curve = draw(
        so_far=[(-3.0, 0.4), (-1.0, 0.5)], ahead=ahead, now=0.55, target=0.4, slack=0.04,
        meeting=Meeting(0.44, 5.5, 4.0, None), day_labels=str,
    )  # fmt: skip
    points = [pair.split(",") for text in (curve.so_far, curve.likely, curve.fan) for pair in text.split()]
    assert all(34 <= float(x) <= 664 and 26 <= float(y) <= 206 for x, y in points)
    assert curve.met is not None
    assert curve.met.range_path.startswith("M")
    assert curve.now_x == pytest.approx(34 + 3 / 17 * 630, abs=0.1)
    flat = draw(
        so_far=[], ahead=[Ahead(7.0, 1.0, 1.0, 1.0, 1.0, 1.0)], now=1.0, target=1.0, slack=0.1, meeting=None,
        day_labels=str,
    )  # fmt: skip
    assert flat.met is None
    assert flat.so_far == ""
