"""API tokens that end soon or ended recently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.models import Token
from apps.accounts.selectors import display_name
from apps.accounts.services import OWN_SCOPES
from apps.notices.kinds.base import Finding, Kind, Level, Sentence, SitePlace, Term, day_text, days_until

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader

_CLOSE = 3
_AFTERWARDS = timedelta(days=7)


def find(place: SitePlace) -> Iterable[Finding]:
    """Tokens that end within the limit or ended in the last week, except tokens made for no longer than the limit."""
    ahead = timedelta(days=place.terms["days"])
    tokens = Token.objects.filter(revoked_at=None, user__is_active=True, expires_at__gte=place.at - _AFTERWARDS)
    for token in tokens.filter(expires_at__lte=place.at + ahead).select_related("user").order_by("expires_at", "pk"):
        if token.expires_at - token.created_at <= ahead:
            continue
        ends_on = timezone.localdate(token.expires_at)
        facts = {
            "token": token.pk,
            "name": token.name,
            "who": token.user.username,
            "owner": token.user_id,
            "of_services": bool(set(token.scopes) - OWN_SCOPES),
            "ends_on": ends_on.isoformat(),
            "is_over": token.expires_at <= place.at,
        }
        level: Level = "warn" if days_until(ends_on, place.today) <= _CLOSE else "info"
        yield Finding(str(token.pk), level, facts, person_id=token.user_id)


def is_for(reader: Reader, notice: Notice) -> bool:
    """The owner; administrators, for scopes that only they can give."""
    is_own = reader.user_id is not None and notice.facts.get("owner") == reader.user_id and reader.actor.token is None
    return is_own or (reader.is_admin and bool(notice.facts.get("of_services")))


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {"name": facts["name"], "who": display_name(facts["who"]), "day": day_text(facts["ends_on"])}
    if facts["is_over"]:
        return Sentence("ending_tokens.over", facts, _("API token %(name)s of %(who)s expired on %(day)s.") % given)
    return Sentence("ending_tokens.ends", facts, _("API token %(name)s of %(who)s expires on %(day)s.") % given)


KIND = Kind(
    name="ending_tokens",
    title=gettext_lazy("Expiring API tokens"),
    watches="site",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="tokens",
    terms=(Term("days", gettext_lazy("Notify ahead"), gettext_lazy("days"), 14, 1, 366),),
)
