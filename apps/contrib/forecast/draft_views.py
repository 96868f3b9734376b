"""Prediction for one group of a draft while its shares are dragged, as JSON for the script of the page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.contrib.forecast.draft_forecast import GroupForecast, MemberOutlook, get_group_forecast
from apps.contrib.forecast.entry_forecast import DatedRecovery
from apps.core.errors import Invalid
from apps.engine.explain import Recovery
from apps.pages.changes.drafts import pages
from apps.pages.changes.drafts.forms import read_operation
from apps.pages.changes.drafts.group_views import page_url, parent_of
from apps.pages.changes.drafts.pages import EditorState
from apps.priorities.selectors.draft import DraftRow
from apps.priorities.selectors.draft_group import get_draft_group
from apps.web.day_on_target import when_text
from apps.web.edit_refusals import message_of
from apps.web.shell import presentation
from apps.web.shell.requests import fragment

_DIGITS = 6  # of fractions, enough for a picture of at most a thousand pixels


def outlook_json(group_forecast: GroupForecast, *, with_lines: bool) -> dict[str, Any]:
    """Forecast as JSON: fractions from 0 to 1, days from now, and the dates on target as text for the table."""
    return {
        "as_of": None if group_forecast.as_of is None else group_forecast.as_of.isoformat(),
        "rows": [_member(group_forecast, each, with_lines=with_lines) for each in group_forecast.members],
    }


def _member(group_forecast: GroupForecast, each: MemberOutlook, *, with_lines: bool) -> dict[str, Any]:
    row, forecast = each.row, each.forecast
    member: dict[str, Any] = {
        "uid": str(row.node.uid),
        "target": row.target,
        "outcome": None if each.on_target is None else each.on_target.outcome,
        "in_s": None if each.on_target is None else each.on_target.in_s,
        "on_target": _when(group_forecast, row, each.on_target),
        "on_target_before": _when(group_forecast, row, each.on_target_before),
    }
    if with_lines and forecast is not None and group_forecast.as_of is not None:
        member["ahead"] = [round(point.likely, _DIGITS) for point in forecast.curve(group_forecast.as_of)]
        member["so_far"] = [
            [round((at - group_forecast.as_of) / timedelta(days=1), 3), round(part, _DIGITS)]
            for at, part in forecast.so_far
        ]
    return member


def _when(group_forecast: GroupForecast, row: DraftRow, recovery: Recovery | None) -> str:
    if row.actual is None or row.node.shares is None:
        return presentation.UNKNOWN
    if not row.has_usage:
        return _("no demand")
    if recovery is None or group_forecast.as_of is None:
        return presentation.UNKNOWN
    dated = DatedRecovery.of(recovery, group_forecast.as_of)
    return when_text(dated.outcome, dated.at)


@require_safe
@fragment(page_url)
def outlook(request: HttpRequest, change_set: int) -> HttpResponse:
    """Forecast of when each child is on target at present demand; an operation in the query is added to the draft."""
    editor = EditorState.of(request.GET)
    try:
        more = [read_operation(request.GET)] if "op" in request.GET else []
        view = pages.open_view(request, change_set, more=more)
    except Invalid as error:
        return JsonResponse({"problem": message_of(error), "code": error.code}, status=422)
    group_forecast = get_group_forecast(view, get_draft_group(view, parent_of(view, editor)))
    return JsonResponse(outlook_json(group_forecast, with_lines="lines" in request.GET))
