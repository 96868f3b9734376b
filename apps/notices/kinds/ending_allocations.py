"""Allocations that end without a successor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence, Term, day_text, days_until
from apps.policies.allocations.services import allocations_of
from apps.policies.allocations.summary import ending_soon
from apps.priorities.sentences.numbers import count

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader

_CLOSE = 7
_FURTHEST = 366


def find(place: PolicyPlace) -> Iterable[Finding]:
    """Allocations without a successor, until a month after their end."""
    tree = place.tree
    everything = np.ones(len(tree), dtype=np.bool_)
    for event in ending_soon(tree, everything, allocations_of(place.policy), place.today, _FURTHEST):
        i = tree.index_of_uid(event.uid)
        terms = None if i is None else place.terms_at(i)
        if event.allocation is None or terms is None or event.is_covered:
            continue
        left = days_until(event.on, place.today)
        if left <= terms["days"]:
            facts = {
                "allocation": str(event.allocation.uid),
                "path": event.path,
                "ends_on": event.on.isoformat(),
                "core_h": event.allocation.core_h,
                "is_over": left < 0,
            }
            yield Finding(f"{event.allocation.uid}", "warn" if left <= _CLOSE else "info", facts, event.uid)


def is_for(reader: Reader, notice: Notice) -> bool:
    """Users concerned with the entry: allocations are visible wherever it is."""
    sight = reader.of(notice.policy)
    return sight is not None and sight.concerns(notice.entry_uid)


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {"path": facts["path"], "day": day_text(facts["ends_on"]), "hours": count(facts["core_h"])}
    text = _("%(path)s: %(hours)s core-hours are allocated until %(day)s; no renewal is planned.") % given
    return Sentence("ending_allocations.over" if facts["is_over"] else "ending_allocations.ends", facts, text)


KIND = Kind(
    name="ending_allocations",
    title=gettext_lazy("Expiring allocations"),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="allocations",
    terms=(Term("days", gettext_lazy("Notify ahead"), gettext_lazy("days"), 30, 1, _FURTHEST),),
)
