"""Data issues of completeness and plausibility in received usage, most severe first, and their CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.periods import DEFAULT_DAYS, PERIODS_DAYS
from apps.pages.sources.imports.reports import reason
from apps.pages.sources.quality.presenters import findings_of, n_worth, verdict
from apps.priorities.selectors.kinds_in_use import kinds_by_default_of_policies
from apps.usage.quality import findings as quality
from apps.web.figures.figure import period_label
from apps.web.shell.requests import actor_of, csv_response
from apps.web.texts.source_lines import SourceLine

_LISTED = 50


def quality_context(request: HttpRequest, lines: Sequence[SourceLine]) -> dict[str, Any]:
    """Data issues of the sources of these lines in `?days=`, and the counts they rest on."""
    actor, now, span = actor_of(request), clock.now(), _span(request)
    since_at = now - span
    by_default = kinds_by_default_of_policies()
    issues = quality.list_data_issues(
        sources=[line.source for line in lines],
        span=span,
        at=now,
        zone=ZoneInfo(settings.TIME_ZONE),
        actor=actor,
        kinds={kind for kinds in by_default.values() for kind in kinds},
    )
    findings = findings_of(lines, issues)
    return {
        "verdict": verdict(findings, len(lines)),
        "findings": findings,
        "n_worth": n_worth(findings),
        "received": [(line, issues[line.source.slug]) for line in lines],
        "days": span.days,
        "periods": [(days, period_label(days)) for days in PERIODS_DAYS],
        "reasons": [(row, reason(row.code)) for row in quality.list_reasons(since_at=since_at, actor=actor)],
        "changed": quality.list_changed(since_at=since_at, limit=_LISTED, actor=actor),
        "n_changed": sum(source_issues.changed[0] for source_issues in issues.values()),
        "too_late": quality.list_too_late(since_at=since_at, limit=_LISTED, actor=actor),
        "idle_jobs": quality.list_without_processors(since_at=since_at, limit=_LISTED, actor=actor),
    }


@require_safe
def changed_csv(request: HttpRequest) -> HttpResponseBase:
    """All jobs that changed after they had ended, as CSV."""
    actor = actor_of(request)
    header = ["source", "job", "account", "end", "changed", "before_core_s", "after_core_s"]
    rows = _changed_rows(clock.now() - _span(request), actor)
    return csv_response("changed-after-ending.csv", header, rows)


def _span(request: HttpRequest) -> timedelta:
    asked = request.GET.get("days", "")
    return timedelta(days=int(asked) if asked in {str(days) for days in PERIODS_DAYS} else DEFAULT_DAYS)


def _changed_rows(since_at: datetime, actor: Actor) -> Iterator[tuple[Any, ...]]:
    after = 0
    while findings := quality.list_changed(
        since_at=since_at, after=after, limit=quality.MOST_LISTED_FINDINGS, actor=actor
    ):
        for finding in findings:
            ended, changed = finding.end_at.isoformat(), finding.changed_at.isoformat()
            yield (
                finding.source,
                finding.job,
                finding.account,
                ended,
                changed,
                finding.before_core_s,
                finding.after_core_s,
            )
        after = findings[-1].place
