"""An agent of a scheduler that has reported no pass for three of its intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence
from apps.schedulers.models import Scheduler
from apps.schedulers.permissions import manages
from apps.schedulers.selectors import views_of

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader


def find(place: PolicyPlace) -> Iterable[Finding]:
    if place.terms_at(0) is None:
        return
    found = Scheduler.objects.filter(policy=place.policy).select_related("policy")
    for view in views_of(found, place.at):
        if view.is_silent:
            name = view.scheduler.name
            facts = {
                "scheduler": name,
                "minutes": None if view.age_s is None else int(view.age_s // 60),
            }
            yield Finding(name, "bad", facts)


def is_for(reader: Reader, notice: Notice) -> bool:
    return notice.policy is not None and manages(notice.policy, reader.actor, reader.at)


def describe(facts: Mapping[str, Any]) -> Sentence:
    minutes = facts["minutes"]
    given = {"name": facts["scheduler"], "n": minutes}
    if minutes is None:
        text = _("The agent of %(name)s has reported no pass yet.") % given
        return Sentence("agent_silent.never", facts, text)
    text = (
        ngettext(
            "The agent of %(name)s has been silent for %(n)s minute.",
            "The agent of %(name)s has been silent for %(n)s minutes.",
            minutes,
        )
        % given
    )
    return Sentence("agent_silent", facts, text)


KIND = Kind(
    name="agent_silent",
    title=gettext_lazy("Silent agents"),
    about=gettext_lazy("An agent has not reported for three intervals."),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="scheduler",
)
