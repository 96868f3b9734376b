"""Usage sources as rows: timeliness, the last contact and its lag."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core import clock
from apps.priorities import selectors as priorities
from apps.priorities.sentences import numbers
from apps.usage import selectors
from apps.usage.models import Source
from apps.usage.timeliness import (
    LATE_INTERVALS,
    Timeliness,
    interval_s,
    is_behind,
    last_contact_at,
    lateness,
    timeliness,
)
from apps.web.shell import presentation
from apps.web.svg.age_meter import AgeMeter, draw_age_meter

_TICK = 48.0  # position of the tick of lateness


@dataclass(frozen=True, slots=True)
class Unmapped:
    """Unmapped accounts of a source. core_s: their usage, None if the actor may not know it."""

    n_accounts: int
    core_s: float | None


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One row of the table of sources.

    contact: time of the last contact, whose age is the lag and decides the state. newest: end of the newest record.
    """

    source: Source
    state: Timeliness
    badge: str
    dot: str
    state_text: str
    note: str
    contact: str
    newest: str
    lag: str
    meter: AgeMeter | None
    n_rejected: int
    unmapped: Unmapped | None

    @property
    def is_behind(self) -> bool:
        return is_behind(self.state)


def source_line(source: Source, now: datetime, *, n_rejected: int, unmapped: Unmapped | None) -> SourceLine:
    state = timeliness(source, now)
    badge, dot, words = {
        Timeliness.ON_TIME: ("ok", "ok", _("on time")),
        Timeliness.LATE: ("warn", "warn", _("late")),
        Timeliness.NEVER_COLLECTED: ("bad", "bad", _("never collected")),
        Timeliness.NO_CONTACT: ("", "off", _("no contact yet")),
        Timeliness.BY_HAND: ("", "off", _("peer") if source.kind == Source.Kind.PEER else _("manual")),
        Timeliness.PAUSED: ("", "off", _("paused")),
    }[state]
    return SourceLine(
        source=source,
        state=state,
        badge=badge,
        dot=dot,
        state_text=words,
        note=_note(source),
        contact=_ago(last_contact_at(source), now),
        newest=_ago(source.last_record_end_at, now),
        lag=_lag(source, now),
        meter=_meter(source, now),
        n_rejected=n_rejected,
        unmapped=unmapped,
    )


def _note(source: Source) -> str:
    if source.is_sample:
        kind = _("sample data")
    elif source.origin:
        kind = _("from %(name)s") % {"name": source.origin}
    else:
        kind = source.cluster or source.site or source.namespace
    every_s = interval_s(source)
    if every_s is None:
        return kind
    return _("%(kind)s, every %(time)s") % {"kind": kind, "time": presentation.duration(every_s)}


def _ago(at: datetime | None, now: datetime) -> str:
    if at is None:
        return _("never")
    seconds = presentation.seconds_between(at, now)
    if seconds < 3600:
        return _("%(age)s ago") % {"age": presentation.age(seconds)}
    return presentation.clock_time(at, now)


def _lag(source: Source, now: datetime) -> str:
    every_s, contact_at = interval_s(source), last_contact_at(source)
    if contact_at is None:
        return numbers.UNKNOWN
    if every_s is None:
        return _ago(contact_at, now)
    lag = age_with_minutes(presentation.seconds_between(contact_at, now))
    return _("%(age)s ago (every %(time)s)") % {"age": lag, "time": presentation.duration(every_s)}


def age_with_minutes(seconds: float) -> str:
    """An age, with minutes between one and ten hours, such as 1 h 13 min."""
    hours, minutes = int(seconds) // 3600, int(seconds) % 3600 // 60
    if not 1 <= hours < 10 or not minutes:
        return presentation.age(seconds)
    return f"{presentation.age(hours * 3600)} {presentation.age(minutes * 60)}"


def _meter(source: Source, now: datetime) -> AgeMeter | None:
    part = lateness(source, now)
    if part is None or last_contact_at(source) is None:
        return None
    allowed = part / LATE_INTERVALS
    return draw_age_meter(allowed, tick=_TICK)


def lines_of(actor: Actor) -> list[SourceLine]:
    """Rows of all sources that the actor may see."""
    unmapped = _unmapped(actor)
    return [_source_line(source, unmapped) for source in selectors.list_counted_sources(actor=actor)]


def line_of(source: Source, actor: Actor) -> SourceLine:
    return _source_line(source, _unmapped(actor))


def _source_line(source: Source, unmapped: dict[str, Unmapped]) -> SourceLine:
    n_rejected = int(getattr(source, "n_rejected", 0))
    return source_line(source, clock.now(), n_rejected=n_rejected, unmapped=unmapped.get(source.slug))


def _unmapped(actor: Actor) -> dict[str, Unmapped]:
    counted = priorities.count_unmapped_by_source(actor=actor)
    return {slug: Unmapped(n_accounts, core_s) for slug, (n_accounts, core_s) in counted.items()}
