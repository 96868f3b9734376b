"""A peer without contact for longer than its limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.federation.models import Remote
from apps.federation.staleness import is_stale, last_contact_at
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence, facts_of, is_for, key_of, watched, what

_HOUR = timedelta(hours=1)


def find(place: PolicyPlace) -> Iterable[Finding]:
    """By each peer's age limit; the chosen action is reported too."""
    for remote, _terms in watched(place):
        if not is_stale(remote, place.at):
            continue
        hours = int((place.at - last_contact_at(remote)) / _HOUR)
        level = "warn" if remote.stale_action == Remote.StaleAction.KEEP else "bad"
        facts = {**facts_of(remote), "hours": hours, "action": remote.stale_action}
        yield Finding(key_of(remote), level, facts, remote.entry_uid)  # type: ignore[arg-type]  # one of the two


def describe(facts: Mapping[str, Any]) -> Sentence:
    hours = int(facts["hours"])
    given = {"what": what(facts), "n": hours}
    text = (
        ngettext(
            "%(what)s has been unreachable for %(n)s hour.", "%(what)s has been unreachable for %(n)s hours.", hours
        )
        % given
    )
    actions = {
        "keep": _("Its last data stays active."),
        "freeze": _("It is frozen until you unfreeze it."),
        "local": _("Until contact returns, only local usage counts there."),
    }
    return Sentence(f"stale_peer.{facts['action']}", facts, f"{text} {actions[facts['action']]}")


KIND = Kind(
    name="stale_peer",
    title=gettext_lazy("Unreachable peers"),
    about=gettext_lazy("A mount, or usage of another site, was not confirmed within its maximum age."),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="remote",
)
