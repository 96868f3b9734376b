"""Remarks and verdicts of a month's statement: what is missing, what is hidden and what was corrected."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from uuid import uuid4

import pytest

from apps.contrib.notices.statement_views import note, table_rows, verdict
from apps.contrib.notices.statements.selectors import Figures, StatementLine
from apps.series.months import Month
from tests.pages.page import names_in

HOUR_S = 3600.0
FIGURES = Figures(
    entitled=100 * HOUR_S,
    used=73 * HOUR_S,
    lent=0.0,
    missed=0.0,
    unclear=0.0,
    borrowed=0.0,
    n_days=28,
    n_before_first=0,
    n_unclear=0,
    target_first=0.2,
    target_last=0.2,
)
LINE = StatementLine(
    uid=uuid4(),
    path="/atlas",
    name="atlas",
    month=Month(date(2026, 10, 1)),
    figures=FIGURES,
    suppressed=False,
    rounded=False,
    adjusted=0.0,
    is_closed=True,
    corrections={},
    missing_days=0,
)
HIDDEN = replace(LINE, figures=None, suppressed=True, adjusted=None)


def test_a_whole_month_needs_no_remark() -> None:
    assert note(LINE) == ""


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        (replace(LINE, missing_days=3), ["3"]),
        (replace(LINE, figures=replace(FIGURES, n_before_first=7)), ["7"]),
        (replace(LINE, missing_days=3, figures=replace(FIGURES, n_before_first=7)), ["3", "7"]),
        (replace(LINE, corrections={"used": HOUR_S}), []),
        (replace(LINE, rounded=True), []),
        (replace(LINE, missing_days=1, corrections={"used": HOUR_S}, rounded=True), ["1"]),
    ],
)
def test_each_reason_for_doubt_is_one_remark(line: StatementLine, numbers: list[str]) -> None:
    n = bool(line.corrections) + line.rounded + len(numbers)
    assert len(note(line).split(", ")) == n
    assert names_in(note(line), *numbers)


def test_a_month_without_figures_tells_whether_days_are_missing() -> None:
    waiting, never = replace(LINE, figures=None, missing_days=31), replace(LINE, figures=None)
    assert len({note(waiting), note(never), note(HIDDEN), ""}) == 4


def test_a_month_without_daily_data_is_no_finding_of_no_entitlement() -> None:
    never = replace(LINE, figures=None)
    waiting = [replace(never, missing_days=31), replace(never, has_days=False)]
    assert [line.is_pending for line in (*waiting, never, HIDDEN, LINE)] == [True, True, False, False, False]
    assert len({verdict(line) for line in waiting} | {note(line) for line in waiting}) == 2
    assert verdict(never) not in {verdict(line) for line in waiting}
    assert {verdict(line, is_root=True) for line in waiting} == {verdict(never)}


def test_the_verdict_states_the_used_part_of_the_entitlement() -> None:
    assert names_in(verdict(LINE), "atlas", "73", "October 2026")


@pytest.mark.parametrize(
    "line", [HIDDEN, replace(LINE, figures=None), replace(LINE, figures=replace(FIGURES, entitled=0.0))]
)
def test_a_verdict_without_entitlement_or_with_hidden_figures_has_no_part(line: StatementLine) -> None:
    assert names_in(verdict(line), "atlas")
    assert "%" not in verdict(line)
    assert verdict(line).count("2026") == 1


def test_a_table_has_no_numbers_of_a_hidden_month() -> None:
    shown, hidden = list(table_rows([LINE, HIDDEN], "billing-hours"))
    assert (shown[:3], shown[-3:]) == (("2026-10", "/atlas", "billing-hours"), ("yes", "no", "no"))
    assert 73.0 in shown
    assert [value for value in hidden[3:-3] if value is not None] == [0], "the count of missing days"
    assert hidden[-3:] == ("yes", "yes", "no")
