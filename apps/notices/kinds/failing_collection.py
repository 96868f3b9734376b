"""Repeatedly failing collections of a usage source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.notices.kinds.base import Finding, Kind, Sentence, SourcePlace, Term
from apps.usage.sources.collection import n_failures

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader


def find(place: SourcePlace) -> Iterable[Finding]:
    """Consecutive failures up to the newest collection; paused sources aren't collected."""
    source = place.source
    if not source.is_collected or source.is_paused:
        return
    n_failed = n_failures(source)
    if n_failed >= place.terms["failures"]:
        facts = {"source": source.name, "slug": source.slug, "n": n_failed, "error": source.collect_error[:300]}
        yield Finding(source.slug, "bad", facts)


def is_for(reader: Reader, _notice: Notice) -> bool:
    """Managers of sources, because errors may contain host names."""
    return reader.is_admin


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {"source": facts["source"], "n": facts["n"]}
    text = _("The last %(n)s collections of %(source)s failed.") % given
    if facts["error"]:
        text += " " + _("The last one: %(error)s") % {"error": facts["error"]}
    return Sentence("failing_collection", facts, text)


KIND = Kind(
    name="failing_collection",
    title=gettext_lazy("Failing collections"),
    watches="source",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="source",
    terms=(Term("failures", gettext_lazy("Threshold"), gettext_lazy("failures"), 3, 1, 20),),
)
