"""Coordinates of the calendar of allocations along days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from apps.contrib.allocations.periods import Period

WIDTH, LABELS, ROW, TOP = 1090, 190, 27, 22
MONTHS = 15
_LETTER, _PAD = 6.5, 6.0
SOON = timedelta(days=60)


@dataclass(frozen=True, slots=True)
class Bar:
    """One allocation: its bar, the elapsed part of it, and a mark at its end if it ends soon without a successor."""

    x: float
    y: int
    width: float
    done_width: float | None
    is_next: bool
    soon_x: float | None
    soon_top: int
    soon_bottom: int
    text: str
    text_x: float


@dataclass(frozen=True, slots=True)
class PlanRow:
    label: str
    text_y: int
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Month:
    x: float
    text_x: float
    label: str
    is_year: bool


@dataclass(frozen=True, slots=True)
class Plan:
    width: int
    height: int
    bottom: int
    months: Sequence[Month]
    rows: Sequence[PlanRow]
    now_x: float


@dataclass(frozen=True, slots=True)
class Span:
    """One allocation to draw. is_covered: another one follows it."""

    period: Period
    text: str
    is_covered: bool


def months_around(today: date) -> Period:
    """Whole months from six before to eight after the current one."""
    first = _month(today, -6)
    return Period(first, _month(first, MONTHS) - timedelta(days=1))


def draw_plan(
    lines: Sequence[tuple[str, Sequence[Span]]], today: date, month_names: Sequence[tuple[date, str]]
) -> Plan:
    """Coordinates of the calendar. lines: (label, spans) of each row. month_names: (first day, label) of each month."""
    shown = months_around(today)
    bottom = TOP + ROW * len(lines) + 6
    pixels = (WIDTH - LABELS - 1) / shown.n_days

    def x(day: date) -> float:
        return round(LABELS + 1 + (day - shown.starts_on).days * pixels, 1)

    rows = []
    for number, (label, spans) in enumerate(lines):
        y = TOP + 9 + ROW * number
        ordered = sorted(spans, key=lambda span: span.period.starts_on)
        starts = [x(span.period.starts_on) for span in ordered[1:]] + [float(WIDTH)]
        pairs = zip(ordered, starts, strict=True)
        bars = [bar for span, free in pairs if (bar := _bar(span, shown, today, y, x, free)) is not None]
        rows.append(PlanRow(_cut(label, 24), y + 12, bars))
    months = [Month(x(day), round(x(day) + 5, 1), name, day.month == 1) for day, name in month_names]
    return Plan(WIDTH, bottom + 4, bottom, months, rows, x(today))


def _bar(span: Span, shown: Period, today: date, y: int, x: Callable[[date], float], free: float) -> Bar | None:
    """Coordinates of one bar; None outside the shown months. free: x of the next bar to the right."""
    part = span.period.overlap(shown)
    if part is None:
        return None
    left, right = x(part.starts_on), x(part.ends_on + timedelta(days=1))
    width = max(right - left - 1, 2.0)
    done = min(max(x(today) - left, 0.0), width)
    ends_soon = today - SOON / 2 <= span.period.ends_on <= today + SOON and not span.is_covered
    text_x = _text_x(span.text, left, left + width, x(today), free)
    marks_end = ends_soon and part.ends_on == span.period.ends_on
    return Bar(
        x=left,
        y=y,
        width=round(width, 1),
        done_width=round(done, 1) if done else None,
        is_next=part.starts_on > today,
        soon_x=round(right - 1, 1) if marks_end else None,
        soon_top=y - 3,
        soon_bottom=y + 19,
        text="" if text_x is None else span.text,
        text_x=round(text_x or left, 1),
    )


def _text_x(text: str, left: float, right: float, now: float, free: float) -> float | None:
    """X of the text: right of the bar, else within it; None if it would cross the bar's end or today's line."""
    width = len(text) * _LETTER + 2 * _PAD
    rooms = [(right, free), (left, right)]
    parts = [part for a, b in rooms for part in ([(now, b), (a, now)] if a < now < b else [(a, b)])]
    return next((a + _PAD for a, b in parts if b - a >= width), None)


def _month(day: date, n: int) -> date:
    """First day of the month n months later."""
    months = day.year * 12 + day.month - 1 + n
    return date(months // 12, months % 12 + 1, 1)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def first_days(today: date) -> list[date]:
    first = months_around(today).starts_on
    return [_month(first, n) for n in range(MONTHS)]
