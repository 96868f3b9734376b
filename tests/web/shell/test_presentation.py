"""Numbers and balance in words."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.template import Context, Template
from django.test import override_settings

from apps.pages.federation import presenters as federation
from apps.pages.sources.imports import reports
from apps.priorities.sentences import numbers
from apps.web.listings import charge_listing
from apps.web.shell import presentation
from apps.web.svg.bars import State
from apps.web.templatetags.marks import hour_unit

ROOT = Path(__file__).resolve().parents[3]
NOW = datetime(2026, 12, 1, 12, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.336, "33.6\u00a0%"),
        (1.0, "100.0\u00a0%"),
        (0.0, "0.0\u00a0%"),
        (0.0004, "<0.1\u00a0%"),
        (1e-12, "<0.1\u00a0%"),
        (0.0006, "0.1\u00a0%"),
        (None, "\u2013"),
        (float("nan"), "\u2013"),
    ],
)
def test_a_share_has_one_decimal_and_a_small_one_is_not_zero(fraction: float | None, text: str) -> None:
    assert numbers.percent(fraction) == text


def test_changes_have_a_sign_and_balances_do_not() -> None:
    assert presentation.change(0.30, 0.374) == "+7.4"
    assert presentation.change(0.30, 0.267) == "\u22123.3"
    assert presentation.change(0.3, 0.3) == "±0"
    assert numbers.signed(-0.3152) == "\u22120.315"
    assert numbers.signed(0.0) == "0.000"


def test_balance_is_over_under_or_on_target_within_tolerance() -> None:
    over, under, on = (presentation.balance(*pair) for pair in ((0.382, 0.30), (0.309, 0.35), (0.33, 0.30)))
    assert (over.state, over.amount) == (State.OVER, "8.2")
    assert (under.state, under.amount) == (State.UNDER, "4.1")
    assert (on.state, on.amount) == (State.ON, "")
    assert [each.text for each in (over, under, on)] == [f"8.2 {over.word}", f"4.1 {under.word}", on.word]
    assert presentation.balance(0.005, 0.0).state is State.ON


def test_zero_usage_is_no_demand_and_unknown_usage_is_no_data() -> None:
    idle, unknown, under = (
        presentation.balance(0.0, 0.1, has_usage=False),
        presentation.balance(None, 0.1),
        presentation.balance(0.0, 0.1),
    )
    assert (idle.state, idle.amount) == (State.IDLE, "")
    assert (unknown.state, unknown.amount) == (State.NO_DATA, "")
    assert (under.state, under.amount) == (State.UNDER, "10.0")


def test_every_balance_has_its_own_label() -> None:
    pairs = [(0.4, 0.3), (0.2, 0.3), (0.3, 0.3), (None, 0.3)]
    words = {presentation.balance(*pair).word for pair in pairs} | {
        presentation.balance(0.0, 0.3, has_usage=False).word
    }
    assert len(words) == 5
    assert "" not in words


def test_amounts_are_hours_and_tiny_ones_are_not_zero() -> None:
    assert presentation.hours(214_806 * 3600) == "214,806"
    assert presentation.hours(3600 * 3.25) == "3.2"
    assert presentation.hours(1) == "<0.1"
    assert presentation.hours(0) == "0"


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (datetime(2026, 12, 1, 9, 30, tzinfo=UTC), "09:30"),
        (datetime(2026, 11, 26, 9, 30, tzinfo=UTC), "26 Nov, 09:30"),
        (datetime(2005, 11, 26, 9, 30, tzinfo=UTC), "26 Nov 2005, 09:30"),
    ],
)
def test_times_have_their_zone_and_the_day_only_if_it_is_not_today(at: datetime, text: str) -> None:
    assert presentation.clock_time(at, NOW) == f"{text}{numbers.NBSP}UTC"


def test_zones_change_with_summer_time_and_rows_leave_them_to_the_page() -> None:
    with override_settings(TIME_ZONE="Europe/Stockholm"):
        texts = [presentation.clock_time(datetime(2026, month, 1, 9, 30, tzinfo=UTC), NOW) for month in (7, 12)]
        row = presentation.time_in_list(datetime(2026, 7, 1, 9, 30, tzinfo=UTC), NOW)
        shown = Template("{% load marks %}{% when at 'row' %}").render(Context({"at": NOW}))
    assert [text.split("\N{NO-BREAK SPACE}")[1] for text in texts] == ["CEST", "CET"]
    assert row == "1 Jul, 11:30"
    assert re.findall(r'title="[^"]+ (\w+)"', shown) == ["CET"], "the tooltip of a row names the zone"


def test_ages_and_windows_have_a_suitable_unit() -> None:
    assert presentation.age(40) == "40\u00a0s"
    assert presentation.age(9 * 3600) == "9\u00a0h"
    assert presentation.age(-5) == "0\u00a0s"
    assert presentation.duration(604_800) == "7\u00a0d"
    assert presentation.duration(36 * 3600) == "36\u00a0h"


def test_shares_are_shown_as_typed() -> None:
    assert presentation.shares(20.0) == "20"
    assert presentation.shares(0.5) == "0.5"
    assert re.fullmatch(r"\D+", presentation.shares(None)), "a word: no number was typed"
    assert presentation.shares(88.23529411764706) == "88.23529412"


@pytest.mark.parametrize(("value", "text"), [(30.0, "30"), (13.425742574257425, "13.4257"), (1234567.25, "1234567.25")])
def test_a_column_of_shares_keeps_six_digits(value: float | None, text: str) -> None:
    assert presentation.shares_short(value) == text
    assert presentation.shares_short(None) == presentation.shares(None)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (numbers.count(123.9), "124"),
        (numbers.number(12.96, 1), "13.0"),
        (numbers.number(1_239.996, 2), "1,240.00"),
        (presentation.duration(90.7), "91\u00a0s"),
        (charge_listing.hours(123.9 * 3600), "124"),
        (charge_listing.hours(1.999 * 3600), "2.00"),
        (reports.size(12_960_000), "13\u00a0MB"),
        (reports.size(1_299_000), "1.3\u00a0MB"),
        (federation.took(0.0599), "60\u00a0ms"),
    ],
)
def test_numbers_are_rounded_not_truncated(text: str, part: str) -> None:
    assert part in text


def test_one_module_formats_numbers_for_sentences_pages_and_mails() -> None:
    """Django's `number_format` cuts decimals off, and its filters bring a rule of their own."""
    own = re.compile(r"number_format|floatformat|intcomma|\blocalize\b|humanize")
    files = [
        *(ROOT / "apps").rglob("*.py"),
        *(ROOT / "templates").rglob("*.html"),
        *(ROOT / "templates").rglob("*.txt"),
    ]
    found = {str(path.relative_to(ROOT)) for path in files if own.search(path.read_text("utf-8"))}
    assert found == {"apps/priorities/sentences/numbers.py"}


@pytest.mark.parametrize(
    ("weights", "unit"),
    [
        ({"cpu_s": 1.0}, "core-h"),
        ({"billing": 1.0, "cpu_s": 0.0}, "billing-hours"),
        ({"node_s": 1.0}, "node-hours"),
        ({"cpu_s": 2.0}, "weighted hours"),
        ({"cpu_s": 1.0, "gpu_s": 16.0}, "weighted hours"),
    ],
)
def test_an_hour_of_usage_has_the_unit_of_the_metric(weights: dict[str, float], unit: str) -> None:
    assert hour_unit({"weights": weights}) == unit
