"""The day on which an entry will be on target, as text: the same words wherever it is shown."""

from __future__ import annotations

from datetime import datetime

from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from apps.engine.explain import Outcome
from apps.priorities.projections import Projection
from apps.priorities.records import EntryRow
from apps.priorities.sentences import numbers


def day_on_target(row: EntryRow, projection: Projection | None) -> str:
    """Return the day, such as 12 Dec, or in short why there is none."""
    if row.state == "idle":
        return _("no demand")
    if row.state == "on":
        return _("now")
    if row.suppressed or projection is None:
        return numbers.UNKNOWN
    return when_text(projection.outcome, projection.on_target_at)


def when_text(outcome: Outcome, at: datetime | None) -> str:
    """Return the text of an outcome. at: the instant of `recovers`."""
    if outcome == "on_target":
        return _("now")
    if at is not None:
        return formats.date_format(timezone.localtime(at), pgettext("a day in a chart", "j M"))
    return _("no date") if outcome == "never_if_nobody_runs" else _("> 90 days")
