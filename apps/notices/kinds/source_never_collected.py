"""A usage source that is set up for collection and was never reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.notices.kinds.base import Finding, Kind, Sentence, SourcePlace
from apps.usage.timeliness import Timeliness, timeliness

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader


def find(place: SourcePlace) -> Iterable[Finding]:
    """After the first failure, or without any attempt for twice its interval."""
    source = place.source
    if timeliness(source, place.at) is Timeliness.NEVER_COLLECTED:
        facts = {"source": source.name, "slug": source.slug, "error": source.collect_error[:300]}
        yield Finding(source.slug, "bad", facts)


def is_for(reader: Reader, _notice: Notice) -> bool:
    """Managers of sources, because errors may contain host names."""
    return reader.is_admin


def describe(facts: Mapping[str, Any]) -> Sentence:
    text = _("%(source)s was never collected.") % {"source": facts["source"]}
    if facts["error"]:
        text += " " + _("The last one: %(error)s") % {"error": facts["error"]}
    return Sentence("source_never_collected", facts, text)


KIND = Kind(
    name="source_never_collected",
    title=gettext_lazy("Sources never collected"),
    watches="source",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="source",
)
