"""Roles that end soon or ended recently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence, Term, day_text, days_until
from apps.policies.access.holders import name_of
from apps.policies.models import Grant

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader

_CLOSE = 7
_AFTERWARDS = timedelta(days=14)


def find(place: PolicyPlace) -> Iterable[Finding]:
    """Roles that end within the limit or ended in the last two weeks; grants at archived entries have no effect and are
    skipped.
    """
    grants = Grant.objects.filter(policy=place.policy, expires_at__gte=place.at - _AFTERWARDS)
    for grant in grants.select_related("user").order_by("expires_at", "pk"):
        i = place.tree.index_of_uid(grant.entry_uid)
        terms = None if i is None else place.terms_at(i)
        if i is None or terms is None or grant.expires_at is None:
            continue
        left = days_until(timezone.localdate(grant.expires_at), place.today)
        if left > terms["days"]:
            continue
        is_over = grant.expires_at <= place.at
        facts = {
            "grant": grant.pk,
            "who": name_of(grant),
            "role": grant.role,
            "path": place.tree.path(i),
            "ends_on": timezone.localdate(grant.expires_at).isoformat(),
            "is_over": is_over,
        }
        yield Finding(f"{place.policy.pk}:{grant.pk}", "warn" if left <= _CLOSE else "info", facts, grant.entry_uid)


def is_for(reader: Reader, notice: Notice) -> bool:
    """The holder, and users who may change the grant."""
    sight = reader.of(notice.policy)
    line = sight.grant(int(notice.facts["grant"])) if sight else None
    return line is not None and (line.is_own or line.may_change)


def describe(facts: Mapping[str, Any]) -> Sentence:
    role = str(dict(Grant.Role.choices).get(facts["role"], facts["role"]))
    given = {"who": facts["who"], "role": role, "path": facts["path"], "day": day_text(facts["ends_on"])}
    if facts["is_over"]:
        text = _("%(who)s’s %(role)s role at %(path)s expired on %(day)s.")
        return Sentence("ending_roles.over", facts, text % given)
    text = _("%(who)s’s %(role)s role at %(path)s expires on %(day)s.")
    return Sentence("ending_roles.ends", facts, text % given)


KIND = Kind(
    name="ending_roles",
    title=gettext_lazy("Expiring roles"),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="access",
    terms=(Term("days", gettext_lazy("Notify ahead"), gettext_lazy("days"), 30, 1, 366),),
)
