"""Shares and boosts that end soon, and shares still in use after their end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence, Term, day_text, days_until
from apps.policies.operations.dated_shares import is_boost

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader

_CLOSE = 7  # days before the end from which the level is a warning


def find(place: PolicyPlace) -> Iterable[Finding]:
    """Entries whose last day is within the limit; afterwards they keep their shares until a manager acts."""
    tree = place.tree
    for i, dates in tree.dates.items():
        terms = place.terms_at(i)
        if terms is None or dates.ends_on is None:
            continue
        left = days_until(dates.ends_on, place.today)
        if left > terms["days"]:
            continue
        facts = {
            "name": tree.name[i],
            "path": tree.path(i),
            "ends_on": dates.ends_on.isoformat(),
            "is_over": left < 0,
            "is_boost": is_boost(dates),
            "at_end": dates.at_end,
        }
        yield Finding(f"{place.policy.pk}:{tree.uuid(i)}", "warn" if left <= _CLOSE else "info", facts, tree.uuid(i))


def is_for(reader: Reader, notice: Notice) -> bool:
    """Managers of the entry's group or of what is below it; shares and dates are visible wherever the entry is."""
    sight = reader.of(notice.policy)
    return sight is not None and sight.edits_shares_around(notice.entry_uid)


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {"name": facts["name"], "path": facts["path"], "day": day_text(facts["ends_on"])}
    if facts["is_over"]:
        text = _("The shares of %(path)s expired on %(day)s and were kept: a decision is missing.")
        return Sentence("ending_shares.kept", facts, text % given)
    text = _("The shares of %(path)s end on %(day)s.") % given
    return Sentence("ending_shares.boost" if facts["is_boost"] else "ending_shares.ends", facts, text)


KIND = Kind(
    name="ending_shares",
    title=gettext_lazy("Expiring shares"),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="entry",
    terms=(Term("days", gettext_lazy("Notify ahead"), gettext_lazy("days"), 30, 1, 366),),
)
