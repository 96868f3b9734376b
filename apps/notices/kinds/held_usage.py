"""A peer that reports more usage than its capacity or than was agreed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.federation.models import HeldHour, Subscription
from apps.federation.usage_feeds.quarantine import doubted_from
from apps.notices.kinds.base import Finding, Kind, PolicyPlace, Sentence, facts_of, is_for, key_of, watched, what
from apps.priorities.sentences.numbers import count


def find(place: PolicyPlace) -> Iterable[Finding]:
    """Held hours and held running jobs; a grown capacity alone is no finding until something is held."""
    for remote, _terms in watched(place):
        if not isinstance(remote, Subscription):
            continue
        n_hours = HeldHour.objects.filter(subscription=remote).count()
        reported = remote.reported_capacity_cores or 0.0
        is_larger = reported > remote.capacity_cores
        if n_hours or remote.running_held or is_larger:
            level = "bad" if n_hours or remote.running_held else "info"
            since = doubted_from(remote)
            facts = {
                **facts_of(remote),
                "doubted_from": since and since.isoformat(),
                "hours": n_hours,
                "running": remote.running_held,
                "agreed_cores": remote.capacity_cores,
                "reported_cores": reported if is_larger else None,
            }
            yield Finding(key_of(remote), level, facts, remote.entry_uid)  # type: ignore[arg-type]  # one of the two


def describe(facts: Mapping[str, Any]) -> Sentence:
    given = {"what": what(facts), "n": int(facts["hours"]), "agreed": count(facts["agreed_cores"])}
    texts = []
    if facts.get("doubted_from"):
        since = datetime.fromisoformat(facts["doubted_from"]).astimezone(UTC)
        given["since"] = f"{since:%Y-%m-%d %H:%M} UTC"
        text = _("%(what)s reports far more usage than its %(agreed)s cores allow: nothing from %(since)s on counts.")
        return Sentence("held_usage", facts, text % given)
    if facts["hours"]:
        texts.append(
            ngettext(
                "%(what)s reports more usage than its %(agreed)s cores allow in %(n)s hour, which doesn’t count.",
                "%(what)s reports more usage than its %(agreed)s cores allow in %(n)s hours, which don’t count.",
                int(facts["hours"]),
            )
            % given
        )
    if facts["running"]:
        texts.append(_("%(what)s reports running jobs on more than its %(agreed)s cores: they don’t count.") % given)
    if facts["reported_cores"]:
        given["reported"] = count(facts["reported_cores"])
        texts.append(_("%(what)s now declares %(reported)s cores; %(agreed)s are approved.") % given)
    return Sentence("held_usage", facts, " ".join(texts))


KIND = Kind(
    name="held_usage",
    title=gettext_lazy("Usage above a peer’s capacity"),
    about=gettext_lazy("A site reports more usage than its capacity, or declares more capacity than approved."),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="remote",
)
