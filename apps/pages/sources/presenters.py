"""Coverage of usage sources by day, as figures, rows and sentences, and the headline of their page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.actor import Actor
from apps.core import clock
from apps.usage.quality import coverage
from apps.usage.quality.coverage import Coverage, Day
from apps.usage.timeliness import (
    Timeliness,
    last_contact_at,
)
from apps.web.shell import presentation
from apps.web.svg.strips import (
    BESIDE,
    NARROW,
    NARROW_DAYS,
    TICK_EVERY,
    WIDE,
    WIDE_DAYS,
    CoverageFigure,
    coverage_figure,
)
from apps.web.texts.source_lines import SourceLine, age_with_minutes

_INCOMPLETE_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Headline:
    """Headline of the page: `n` of `of` sources are in the state that `key` names."""

    key: str
    n: int
    of: int
    text: str


def headline(lines: Sequence[SourceLine]) -> Headline:
    """Headline on whether the sources are on time."""
    n, behind = len(lines), sum(line.is_behind for line in lines)
    if not lines:
        return Headline("none", 0, 0, _("No usage sources yet"))
    if behind:
        text = ngettext("%(behind)s of %(n)s sources is late", "%(behind)s of %(n)s sources are late", behind)
        return Headline("late", behind, n, text % {"behind": behind, "n": n})
    timed = sum(line.state is Timeliness.ON_TIME for line in lines)
    if timed == n:
        text = ngettext("The source is on time", "All %(n)s sources are on time", n) % {"n": n}
        return Headline("on_time", n, n, text)
    if timed:
        text = ngettext(
            "%(n)s source is on time, others irregular", "%(n)s sources are on time, others irregular", timed
        )
        return Headline("on_time_in_part", timed, n, text % {"n": timed})
    text = ngettext("%(n)s irregular source", "%(n)s irregular sources", n) % {"n": n}
    return Headline("by_hand", n, n, text)


def what_is_late(lines: Sequence[SourceLine], now: datetime) -> list[str]:
    """Sentences on the three sources that are late and have the oldest contacts."""
    behind = sorted((line for line in lines if line.is_behind), key=lambda line: _contact_s(line, now), reverse=True)
    sentences = []
    for line in behind[:3]:
        age = age_with_minutes(_contact_s(line, now))
        sentences.append(_("%(source)s: last contact %(age)s ago.") % {"source": line.source.name, "age": age})
    return sentences


@dataclass(frozen=True, slots=True)
class DayRow:
    """Coverage of one source as text: numbers of full, partial and missing days, and the incomplete days."""

    name: str
    full: int
    part: int
    hole: int
    incomplete: str


def day_table(rows: Sequence[tuple[str, Sequence[Day]]]) -> list[DayRow]:
    """Rows of the table beside the coverage figure."""
    table = []
    for name, days in rows:
        tally = Counter(day.state for day in days)
        incomplete = [_incomplete_day(day) for day in days if day.state in {Coverage.PART, Coverage.HOLE}]
        shown = ", ".join(incomplete[-_INCOMPLETE_SHOWN:])
        if len(incomplete) > _INCOMPLETE_SHOWN:
            n_more = len(incomplete) - _INCOMPLETE_SHOWN
            shown = _("%(names)s and %(n)s more") % {"names": shown, "n": n_more}
        table.append(DayRow(name, tally[Coverage.FULL], tally[Coverage.PART], tally[Coverage.HOLE], shown))
    return table


def figures(
    rows: Sequence[tuple[str, Sequence[Day]]], n_days: int = WIDE_DAYS, n_narrow: int = NARROW_DAYS
) -> tuple[CoverageFigure, CoverageFigure]:
    """Coverage figures for wide pages and, with fewer days, narrow ones; that of a single source is smaller."""
    wide = WIDE if len(rows) > 1 else BESIDE
    return _figure(rows, wide, n_days), _figure(rows, NARROW, n_narrow)


def gaps(rows: Sequence[tuple[str, Sequence[Day]]]) -> list[str]:
    """Days without expected usage by source, such as “nsc feed: 2 Nov, 3 Nov”."""
    lines = []
    for name, days in rows:
        missing = [formats.date_format(day.on, "j M") for day in days if day.state is Coverage.HOLE]
        if missing:
            shown = ", ".join(missing[:5])
            if len(missing) > 5:
                shown = _("%(names)s and %(n)s more") % {"names": shown, "n": len(missing) - 5}
            lines.append(f"{name}: {shown}")
    return lines


def coverage_label(rows: Sequence[tuple[str, Sequence[Day]]], n_days: int) -> str:
    """Text alternative of the coverage figure."""
    recent = [(name, days[-n_days:]) for name, days in rows]
    missing = gaps(recent)
    if not missing:
        text = ngettext("Coverage, %(n)s day. No missing days.", "Coverage, %(n)s days. No missing days.", n_days)
        return text % {"n": n_days}
    text = ngettext(
        "Coverage, %(n)s day. Missing days: %(days)s.", "Coverage, %(n)s days. Missing days: %(days)s.", n_days
    )
    return text % {"n": n_days, "days": "; ".join(missing)}


def _incomplete_day(day: Day) -> str:
    on = formats.date_format(day.on, "j M")
    if day.state is Coverage.HOLE:
        return _("%(day)s (none)") % {"day": on}
    return _("%(day)s (%(n)s h missing)") % {"day": on, "n": day.n_missing}


def _figure(rows: Sequence[tuple[str, Sequence[Day]]], width: int, n_days: int) -> CoverageFigure:
    shown = rows[0][1][-n_days:] if rows else []
    ticks = {index: formats.date_format(day.on, "j M") for index, day in enumerate(shown)}
    every = {index: text for index, text in ticks.items() if index % TICK_EVERY == 0 and index <= n_days - 3}
    return coverage_figure(rows, width=width, n_days=n_days, labels=every)


def _contact_s(line: SourceLine, now: datetime) -> float:
    """Seconds since the last contact; since the source was created if there was none."""
    return presentation.seconds_between(last_contact_at(line.source) or line.source.created_at, now)


def coverage_of(lines: list[SourceLine], actor: Actor, n_days: int = WIDE_DAYS) -> dict[str, Any]:
    """Context of the coverage figures and their table."""
    zone = ZoneInfo(settings.TIME_ZONE)
    days_by_source = coverage.list_days(
        sources=[line.source for line in lines], n_days=n_days, at=clock.now(), zone=zone, actor=actor
    )
    rows = [(line.source.name, days_by_source[line.source.pk]) for line in lines]
    n_narrow = min(n_days, NARROW_DAYS)
    wide, narrow = figures(rows, n_days, n_narrow)
    return {
        "rows": rows,
        "wide": wide,
        "narrow": narrow,
        "wide_label": coverage_label(rows, n_days),
        "narrow_label": coverage_label(rows, n_narrow),
        "gaps": gaps(rows),
        "n_days": n_days,
        "n_narrow": n_narrow,
        "day_table": day_table(rows),
    }
