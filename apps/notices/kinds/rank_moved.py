"""Notice to a user whose rank a publication changed, sent by the publisher; see `notices.rank_notices`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.analytics.publish_followup import sentence_of
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence
from apps.notices.models import Notice
from apps.priorities.sentences.numbers import count

if TYPE_CHECKING:
    from apps.notices.visibility import Reader

NAME = "rank_moved"
KEPT = timedelta(days=14)


def find(place: PolicyPlace) -> Iterable[Finding]:
    """Sent notices stay open for two weeks."""
    if place.terms_at(0) is None:
        return
    sent = Notice.objects.filter(kind=NAME, policy=place.policy, closed_at=None, opened_at__gt=place.at - KEPT)
    for notice in sent:
        yield Finding(notice.key, "info", notice.facts, notice.entry_uid)


def is_for(reader: Reader, notice: Notice) -> bool:
    """The user alone, while the entry is still theirs."""
    if reader.user_id is None or reader.user_id != notice.facts["user"]:
        return False
    sight = reader.of(notice.policy)
    return sight is not None and sight.sees_exact_numbers(notice.entry_uid)


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {name: count(facts[name]) for name in ("before", "after", "all")}
    given |= {"policy": facts["policy"], "n": facts["revision"], "stated": facts["stated_reason"]}
    text = _("Revision %(n)s of %(policy)s changed your rank from %(before)s to %(after)s of %(all)s.") % given
    targets = tuple(facts["targets"]) if facts["targets"] else None
    why = sentence_of(facts["reason"], facts["step"], targets, facts["before"] - facts["after"])
    stated = _("Reason given: “%(stated)s”") % given if facts["stated_reason"] else ""
    return Sentence("rank_moved", facts, " ".join(part for part in (text, why, stated) if part))


KIND = Kind(
    name=NAME,
    title=gettext_lazy("Your rank changed"),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="entry",
)
