"""Shares that were changed in a scheduler, although a policy sets them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext_lazy, ngettext

from apps.notices.kinds.agent_silent import is_for
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence
from apps.schedulers.models import Scheduler
from apps.schedulers.selectors import difference_of


def find(place: PolicyPlace) -> Iterable[Finding]:
    if place.terms_at(0) is None:
        return
    carrying = Scheduler.objects.filter(policy=place.policy, carries=Scheduler.Carries.SHARES)
    for scheduler in carrying.exclude(mode=Scheduler.Mode.OFF).select_related("policy"):
        difference = difference_of(scheduler)
        by_hand = difference.by_hand if difference is not None else []
        if by_hand:
            first = by_hand[0]
            facts = {"scheduler": scheduler.name, "n": len(by_hand), "first": " ".join(filter(None, first.key))}
            yield Finding(scheduler.name, "warn", facts)


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {"name": facts["scheduler"], "n": facts["n"], "first": facts["first"]}
    text = ngettext(
        "The shares of %(first)s were changed in %(name)s.",
        "%(n)s shares were changed in %(name)s, first those of %(first)s.",
        facts["n"],
    )
    return Sentence("scheduler_shares", facts, text % given)


KIND = Kind(
    name="scheduler_shares",
    title=gettext_lazy("Shares changed in a scheduler"),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="scheduler-shares",
)
