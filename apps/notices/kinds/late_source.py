"""A usage source without contact for longer than expected, whatever the age of its newest record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.notices.kinds.base import Finding, Kind, Sentence, SourcePlace, Term
from apps.usage.timeliness import Timeliness, is_long_late, last_contact_at, timeliness

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader

_HOUR = timedelta(hours=1)


def find(place: SourcePlace) -> Iterable[Finding]:
    """As on pages and in readiness, plus the grace period; sources never collected have their own kind."""
    source, grace = place.source, place.terms["grace_h"] * _HOUR
    if timeliness(source, place.at, grace=grace) is not Timeliness.LATE:
        return
    contact_at = last_contact_at(source)
    since_at = contact_at or source.created_at
    facts = {
        "source": source.name,
        "slug": source.slug,
        "last_at": since_at.isoformat(),
        "hours": int((place.at - since_at) / _HOUR),
        "is_never": contact_at is None,
    }
    yield Finding(source.slug, "bad" if is_long_late(source, place.at, grace=grace) else "warn", facts)


def is_for(reader: Reader, _notice: Notice) -> bool:
    """Managers of sources; every user may see the sources themselves."""
    return reader.is_admin


def describe(facts: Mapping[str, Any]) -> Sentence:
    hours = int(facts["hours"])
    days = hours // 24
    age = (
        ngettext("%(n)s hour", "%(n)s hours", hours) % {"n": hours}
        if hours < 48
        else ngettext("%(n)s day", "%(n)s days", days) % {"n": days}
    )
    text = _("%(source)s is late: no contact for %(age)s.") % {"source": facts["source"], "age": age}
    return Sentence("late_source.never" if facts["is_never"] else "late_source.late", facts, text)


KIND = Kind(
    name="late_source",
    title=gettext_lazy("Late usage sources"),
    about=gettext_lazy("The last contact of a source is older than twice its interval, plus the grace time."),
    watches="source",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="source",
    terms=(Term("grace_h", gettext_lazy("Grace time"), gettext_lazy("hours"), 1, 0, 8784),),
)
