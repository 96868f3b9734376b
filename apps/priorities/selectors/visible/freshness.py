"""How old everything is: answered from memory, so that it can be said while the database is away."""

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
from apps.priorities.serving.lookup_index import ServedSnapshot
from apps.priorities.serving.store import SourceAge, State
from apps.usage.quality.gaps import LATE_INTERVALS

Health = Literal["ok", "warn", "bad"]
_LATE_TICKS = 3  # priorities older than this many ticks are worth a word
_BAD_TICKS = 30


@dataclass(frozen=True)
class InputAge:
    """One input and how old it is; None where nothing is known."""

    label: str
    state: Health
    at: datetime | None
    age_s: float | None


@dataclass(frozen=True)
class Freshness:
    """The chip of every page. Of several policies the oldest snapshot counts."""

    as_of: datetime | None
    revision: int | None
    computed_at: datetime | None
    snapshot_age_s: float | None
    state: Health
    problems: list[str]
    keys: list[str]  # of the problems, in the same order
    inputs: list[InputAge]


def freshness(*, policy_slug: str | None = None, actor: Actor | None = None) -> Freshness:
    """Never raises and never queries the database. Every signed-in `actor` may see ages."""
    state, now = store.state(), clock.now()
    snapshots = _wanted(state, policy_slug, actor)
    oldest = min(snapshots, key=lambda one: one.as_of, default=None)
    age_s = oldest.age_s(now) if oldest else None
    inputs = [InputAge(_("Priorities"), _health_of_snapshot(age_s), oldest.as_of if oldest else None, age_s)]
    inputs += [_source_age(source, now) for source in state.sources]
    found = [] if state.has_database else [("no_database", _("the database is unavailable"))]
    if oldest is None:
        found.append(("nothing_computed", _("nothing computed yet")))
    elif inputs[0].state != "ok":
        found.append(("priorities_late", _("priorities are late")))
    late = [one for one in inputs[1:] if one.state != "ok"]
    found += [("source_late", _("%(source)s is late") % {"source": one.label}) for one in late]
    return Freshness(
        as_of=oldest.as_of if oldest else None,
        revision=oldest.revision if oldest else None,
        computed_at=oldest.computed_at if oldest else None,
        snapshot_age_s=age_s,
        state=_worst([*(one.state for one in inputs), "ok" if state.has_database else "warn"]),
        problems=[text for _key, text in found],
        keys=[key for key, _text in found],
        inputs=inputs,
    )


def _wanted(state: State, policy_slug: str | None, actor: Actor | None) -> Sequence[ServedSnapshot]:
    bound = actor.token.policy_slug if actor and actor.token else ""
    return [
        snapshot
        for slug, snapshot in state.snapshots.items()
        if (policy_slug is None or slug == policy_slug) and bound in ("", slug)
    ]


def _health_of_snapshot(age_s: float | None) -> Health:
    if age_s is None or age_s > _BAD_TICKS * settings.FAIRSHARE_TICK_S:
        return "bad"
    return "warn" if age_s > _LATE_TICKS * settings.FAIRSHARE_TICK_S else "ok"


def _source_age(source: SourceAge, now: datetime) -> InputAge:
    """A source is late after twice its stated sending interval."""
    if source.last_record_end_at is None:
        return InputAge(source.name, "warn" if source.expected_every_s else "ok", None, None)
    age_s = max((now - source.last_record_end_at) / timedelta(seconds=1), 0.0)
    is_late = source.expected_every_s is not None and age_s > LATE_INTERVALS * source.expected_every_s
    return InputAge(source.name, "warn" if is_late else "ok", source.last_record_end_at, age_s)


def _worst(states: Sequence[Health]) -> Health:
    return "bad" if "bad" in states else "warn" if "warn" in states else "ok"
