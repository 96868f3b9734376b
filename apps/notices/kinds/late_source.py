"""A usage source that says how often it sends, and hasn't."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.notices.kinds.base import Finding, Kind, Sentence, SourcePlace, Term
from apps.usage.quality.coverage import LATE_INTERVALS

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader

_HOUR = timedelta(hours=1)


def find(place: SourcePlace) -> Iterable[Finding]:
    """Late after twice its interval and the grace; a paused source, and one without an interval, never is."""
    source = place.source
    if not source.expected_every_s or source.is_paused:
        return
    last_at = source.last_record_end_at or source.created_at
    patience = timedelta(seconds=LATE_INTERVALS * source.expected_every_s) + place.terms["grace_h"] * _HOUR
    age = place.at - last_at
    if age <= patience:
        return
    level = "bad" if age > 4 * patience else "warn"
    facts = {
        "source": source.name,
        "slug": source.slug,
        "last_at": last_at.isoformat(),
        "hours": int(age / _HOUR),
        "is_never": source.last_record_end_at is None,
    }
    yield Finding(source.slug, level, facts)  # type: ignore[arg-type]  # one of the two


def is_for(reader: Reader, _notice: Notice) -> bool:
    """Everyone may see sources; their keepers get the notice."""
    return reader.is_admin


def describe(facts: Mapping[str, Any]) -> Sentence:
    hours = int(facts["hours"])
    days = hours // 24
    age = (
        ngettext("%(n)s hour", "%(n)s hours", hours) % {"n": hours}
        if hours < 48
        else ngettext("%(n)s day", "%(n)s days", days) % {"n": days}
    )
    if facts["is_never"]:
        text = _("%(source)s has sent no usage yet, for %(age)s.") % {"source": facts["source"], "age": age}
        return Sentence("late_source.never", facts, text)
    text = _("%(source)s is late: its newest usage is %(age)s old.") % {"source": facts["source"], "age": age}
    return Sentence("late_source.late", facts, text)


KIND = Kind(
    name="late_source",
    title=gettext_lazy("Late usage sources"),
    about=gettext_lazy("A source has been silent for over twice its interval, plus the grace time."),
    watches="source",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="source",
    terms=(Term("grace_h", gettext_lazy("Grace time"), gettext_lazy("hours"), 1, 0, 8784),),
)
