"""What pages of usage sources share: their lines, and the days that they cover."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings

from apps.accounts.actor import Actor
from apps.core import clock
from apps.dashboard.figures.coverage import NARROW_DAYS, WIDE_DAYS
from apps.dashboard.sources.presenters import (
    SourceLine,
    Unmapped,
    coverage_label,
    day_table,
    figures,
    gaps,
    matching,
    source_line,
)
from apps.priorities import selectors as priorities
from apps.usage import selectors
from apps.usage.models import Source
from apps.usage.quality import coverage


def lines_of(actor: Actor) -> list[SourceLine]:
    """Every source that the actor may know of."""
    unmapped = _unmapped(actor)
    return [_source_line(found, unmapped) for found in selectors.list_sources(actor=actor)]


def line_of(found: Source, actor: Actor) -> SourceLine:
    return _source_line(found, _unmapped(actor))


def _source_line(found: Source, unmapped: dict[str, Unmapped]) -> SourceLine:
    n_rejected = int(getattr(found, "n_rejected", 0))
    return source_line(found, clock.now(), n_rejected=n_rejected, unmapped=unmapped.get(found.slug))


def _unmapped(actor: Actor) -> dict[str, Unmapped]:
    counted = priorities.count_unmapped_by_source(actor=actor)
    return {slug: Unmapped(n_accounts, core_s) for slug, (n_accounts, core_s) in counted.items()}


def coverage_of(lines: list[SourceLine], actor: Actor) -> dict[str, Any]:
    zone = ZoneInfo(settings.TIME_ZONE)
    found = coverage.list_days(
        sources=[line.source for line in lines], n_days=WIDE_DAYS, at=clock.now(), zone=zone, actor=actor
    )
    rows = matching(lines, found)
    wide, narrow = figures(rows)
    return {
        "rows": rows,
        "wide": wide,
        "narrow": narrow,
        "wide_label": coverage_label(rows, WIDE_DAYS),
        "narrow_label": coverage_label(rows, NARROW_DAYS),
        "gaps": gaps(rows),
        "n_days": WIDE_DAYS,
        "day_table": day_table(rows),
    }
