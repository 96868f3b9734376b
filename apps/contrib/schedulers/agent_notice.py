"""The notice of an agent that sends nothing, for the managers of its policy. Loaded by the plug-in of notices alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext_lazy

from apps.contrib.notices.kind import Finding, Kind, PolicyPlace, Sentence
from apps.contrib.schedulers.agent_texts import frozen_text, silent_text
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.selectors import views_of
from apps.policies.access.managers import manages


def silent_agents(place: PolicyPlace) -> Iterable[Finding]:
    """Agents that reported no pass for three of their intervals, and those that send nothing because they froze."""
    schedulers = Scheduler.objects.filter(policy=place.policy).select_related("policy")
    for view in views_of(schedulers, place.at):
        name, last = view.scheduler.name, view.last
        if view.is_silent:
            minutes = None if view.age_s is None else int(view.age_s // 60)
            yield Finding(name, "bad", {"scheduler": name, "minutes": minutes})
        elif last is not None and view.state == "frozen":
            facts = {"scheduler": name, "code": last.frozen_code, "detail": last.frozen_detail}
            yield Finding(name, "warn", facts)


def agent_silent(facts: Mapping[str, Any]) -> Sentence:
    name = facts["scheduler"]
    if "code" in facts:
        text = frozen_text(name, facts["code"], facts["detail"])
        return Sentence(f"agent_silent.frozen.{facts['code']}", facts, text)
    minutes = facts["minutes"]
    return Sentence("agent_silent.never" if minutes is None else "agent_silent", facts, silent_text(name, minutes))


KIND = Kind(
    name="agent_silent",
    title=gettext_lazy("Agents that send nothing"),
    about=gettext_lazy("The agent of a scheduler has not reported for three intervals, or it froze."),
    watches="policy",
    find=silent_agents,
    is_for=lambda reader, notice: notice.policy is not None and manages(notice.policy, reader.actor, reader.at),
    describe=agent_silent,
    leads_to="scheduler",
)
