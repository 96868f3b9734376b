"""How old the priorities of a policy are, and why they are no newer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.conf import settings
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core import clock
from apps.priorities.serving import store
from apps.priorities.serving.store import SourceAge
from apps.usage.timeliness import is_behind, last_contact_at, timeliness

Health = Literal["ok", "warn", "bad"]
_LATE_TICKS = 3  # age in ticks at which priorities are late
_BAD_TICKS = 30


@dataclass(frozen=True)
class InputAge:
    """Age of one input; None if unknown."""

    label: str
    state: Health
    at: datetime | None
    age_s: float | None


@dataclass(frozen=True)
class Freshness:
    """Age and problems of priorities and inputs, shown on every page; of several policies the oldest snapshot."""

    as_of: datetime | None
    revision: int | None
    computed_at: datetime | None
    snapshot_age_s: float | None
    state: Health
    problems: list[str]
    keys: list[str]  # keys of `problems`, in the same order
    inputs: list[InputAge]


def freshness(*, policy_slug: str | None = None, actor: Actor | None = None) -> Freshness:
    """Freshness of one policy or all. Never raises and never queries the database. Visible to every actor."""
    state, now = store.state(), clock.now()
    snapshots = [
        snapshot
        for slug, snapshot in state.snapshots.items()
        if (policy_slug is None or slug == policy_slug) and (actor is None or actor.reaches_policy(slug))
    ]
    oldest = min(snapshots, key=lambda each: each.as_of, default=None)
    age_s = oldest.age_s(now) if oldest else None
    inputs = [InputAge(_("Priorities"), _health_of_snapshot(age_s), oldest.as_of if oldest else None, age_s)]
    inputs += [_source_age(source, now) for source in state.sources]
    problems = [] if state.has_database else [("no_database", _("The database is unavailable"))]
    if oldest is None:
        problems.append(("nothing_computed", _("Nothing computed yet")))
    elif inputs[0].state != "ok":
        problems.append(("priorities_late", _("Priorities are late")))
    late = [age for age in inputs[1:] if age.state != "ok"]
    problems += [("source_late", _("%(source)s is late") % {"source": age.label}) for age in late]
    return Freshness(
        as_of=oldest.as_of if oldest else None,
        revision=oldest.revision if oldest else None,
        computed_at=oldest.computed_at if oldest else None,
        snapshot_age_s=age_s,
        state=_worst([*(age.state for age in inputs), "ok" if state.has_database else "warn"]),
        problems=[text for _key, text in problems],
        keys=[key for key, _text in problems],
        inputs=inputs,
    )


def _health_of_snapshot(age_s: float | None) -> Health:
    if age_s is None or age_s > _BAD_TICKS * settings.FAIRSHARE_TICK_S:
        return "bad"
    return "warn" if age_s > _LATE_TICKS * settings.FAIRSHARE_TICK_S else "ok"


def _source_age(source: SourceAge, now: datetime) -> InputAge:
    """The age of a source: the time since its last contact."""
    health: Health = "warn" if is_behind(timeliness(source, now)) else "ok"
    contact_at = last_contact_at(source)
    age_s = None if contact_at is None else max((now - contact_at) / timedelta(seconds=1), 0.0)
    return InputAge(source.name, health, contact_at, age_s)


def _worst(states: Sequence[Health]) -> Health:
    return "bad" if "bad" in states else "warn" if "warn" in states else "ok"
