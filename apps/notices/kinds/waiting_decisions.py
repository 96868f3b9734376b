"""Changes to review and requests that have waited for days."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy, ngettext

from apps.accounts.selectors import display_name
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence, Term
from apps.policies.models import ChangeSet
from apps.policies.requests.inbox import OPEN

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader

_LONG = 3  # times the rule's limit


def find(place: PolicyPlace) -> Iterable[Finding]:
    """Undecided change sets by the time since their last change; changes approved for a later date don't wait."""
    for one in ChangeSet.objects.filter(policy=place.policy, state__in=OPEN).order_by("pk"):
        if one.state == ChangeSet.State.APPROVED and one.effective_at is not None and not one.held_for:
            continue
        uid = one.asks_entry_uid or place.tree.uuid(0)
        terms = place.terms_at(place.tree.index_of_uid(uid) or 0)
        waited = place.at - one.updated_at
        if terms is None or waited < timedelta(days=terms["days"]):
            continue
        facts = {
            "change_set": one.pk,
            "who": one.author_name,
            "days": waited.days,
            "is_request": one.origin == ChangeSet.Origin.REQUEST,
        }
        level = "bad" if waited >= _LONG * timedelta(days=terms["days"]) else "warn"
        yield Finding(str(one.pk), level, facts, uid)  # type: ignore[arg-type]  # one of the two


def is_for(reader: Reader, notice: Notice) -> bool:
    """Users who can decide it now."""
    sight = reader.of(notice.policy)
    one = ChangeSet.objects.filter(pk=notice.facts["change_set"]).first() if sight else None
    if sight is None or one is None or not sight.decider.may_decide_at_all:
        return False
    if notice.facts["is_request"]:
        return one.asks_entry_uid is not None and sight.decider.decides_shares_of(one.asks_entry_uid)
    return sight.decider.may_approve(one) or (one.author_id != reader.user_id and sight.decider.may_publish(one))


def describe(facts: Mapping[str, Any]) -> Sentence:
    days = int(facts["days"])
    given = {"who": display_name(facts["who"]), "n": days}
    text = ngettext(
        "A request or change by %(who)s has been pending for %(n)s day.",
        "A request or change by %(who)s has been pending for %(n)s days.",
        days,
    )
    kind = "request" if facts["is_request"] else "review"
    return Sentence(f"waiting_decisions.{kind}", facts, text % given)


KIND = Kind(
    name="waiting_decisions",
    title=gettext_lazy("Pending reviews and requests"),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="change_set",
    terms=(Term("days", gettext_lazy("Pending for"), gettext_lazy("days"), 3, 1, 366),),
)
