"""An agent of a scheduler that sends nothing, because a limit of its settings is exceeded or reading fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.notices.kinds.agent_silent import is_for
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence
from apps.schedulers.models import Scheduler
from apps.schedulers.selectors import views_of
from apps.schedulers.waiting import FROZEN


def find(place: PolicyPlace) -> Iterable[Finding]:
    if place.terms_at(0) is None:
        return
    found = Scheduler.objects.filter(policy=place.policy).select_related("policy")
    for view in views_of(found, place.at):
        if view.last is not None and view.state == "frozen":
            name, last = view.scheduler.name, view.last
            yield Finding(name, "warn", {"scheduler": name, "code": last.frozen_code, "detail": last.frozen_detail})


def describe(facts: Mapping[str, Any]) -> Sentence:
    why = str(FROZEN.get(facts["code"], facts["code"]))
    text = _("The agent of %(name)s froze.") % {"name": facts["scheduler"]}
    return Sentence(f"agent_frozen.{facts['code']}", facts, f"{text} {why} {facts['detail']}".strip())


KIND = Kind(
    name="agent_frozen",
    title=gettext_lazy("Frozen agents"),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="scheduler",
)
