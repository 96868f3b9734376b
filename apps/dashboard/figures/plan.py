"""Geometry of the calendar strip: promises as bars on months. Numbers in, coordinates out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from apps.policies.allocations.periods import Period

WIDTH, LABELS, ROW, TOP = 1090, 190, 27, 22
MONTHS = 15
SOON = timedelta(days=60)


@dataclass(frozen=True, slots=True)
class Bar:
    """One promise: the whole bar, the passed part of it, and an amber end where it ends soon without a successor."""

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
    """What a bar stands for: days, words, and whether something follows."""

    period: Period
    text: str
    is_covered: bool


def months_around(today: date) -> Period:
    """Six months back, eight ahead, whole months."""
    first = _month(today, -6)
    return Period(first, _month(first, MONTHS) - timedelta(days=1))


def draw_plan(
    lines: Sequence[tuple[str, Sequence[Span]]], today: date, month_names: Sequence[tuple[date, str]]
) -> Plan:
    """lines: a label and its spans each. month_names: the first days of the shown months with how they are written."""
    shown = months_around(today)
    bottom = TOP + ROW * len(lines) + 6
    pixels = (WIDTH - LABELS - 1) / shown.n_days

    def x(day: date) -> float:
        return round(LABELS + 1 + (day - shown.starts_on).days * pixels, 1)

    rows = []
    for number, (label, spans) in enumerate(lines):
        y = TOP + 9 + ROW * number
        bars = [bar for span in spans if (bar := _bar(span, shown, today, y, x)) is not None]
        rows.append(PlanRow(_cut(label, 24), y + 12, bars))
    months = [Month(x(day), round(x(day) + 5, 1), name, day.month == 1) for day, name in month_names]
    return Plan(WIDTH, bottom + 4, bottom, months, rows, x(today))


def _bar(span: Span, shown: Period, today: date, y: int, x: Callable[[date], float]) -> Bar | None:
    part = span.period.overlap(shown)
    if part is None:
        return None
    left, right = x(part.starts_on), x(part.ends_on + timedelta(days=1))
    width = max(right - left - 1, 2.0)
    done = min(max(x(today) - left, 0.0), width)
    ends_soon = today - SOON / 2 <= span.period.ends_on <= today + SOON and not span.is_covered
    fits = int(width // 6.5)
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
        text=span.text if len(span.text) <= fits else "",
        text_x=round(left + 6, 1),
    )


def _month(day: date, n: int) -> date:
    """The first of the month, n months on."""
    months = day.year * 12 + day.month - 1 + n
    return date(months // 12, months % 12 + 1, 1)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def first_days(today: date) -> list[date]:
    first = months_around(today).starts_on
    return [_month(first, n) for n in range(MONTHS)]
