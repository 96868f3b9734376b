"""What is said of a level: how many children are off target, which the furthest, which longest, which is next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.actor import Actor
from apps.core.plugins import plugins
from apps.priorities.projections import Projection
from apps.priorities.selectors import Overview
from apps.priorities.selectors.rows import PolicyView
from apps.series.convergence.recent_days import RecentDays
from apps.web.day_on_target import day_on_target
from apps.web.on_target_count import OnTargetCount
from apps.web.shell import lines, presentation
from apps.web.shell.lines import Line
from apps.web.svg.bars import State


@dataclass(frozen=True, slots=True)
class Furthest:
    """The entry furthest from its target on one side. waiting_hours: what its waiting jobs request; "" for nothing."""

    line: Line
    waiting_hours: str


@dataclass(frozen=True, slots=True)
class Named:
    """An entry and what is said of it, such as sea-ice, around 8 Dec."""

    line: Line
    text: str


@dataclass(frozen=True, slots=True)
class LevelFigure:
    """A figure of a plug-in about a level. note: what it is of; url: of the page with its parts, "" for none."""

    key: str
    label: str
    value: str
    note: str = ""
    url: str = ""


def figures_of(view: PolicyView, i: int, *, at: datetime, actor: Actor) -> list[LevelFigure]:
    """What plug-ins add about a group; the whole policy has pages of its own for what they count."""
    return [figure for plugin in plugins() for figure in plugin.level_figures(view=view, i=i, at=at, actor=actor)]


def compared(drawn: Sequence[Line]) -> list[Line]:
    return [line for line in drawn if line.balance and line.balance.state is not State.NO_DATA]


def off_target(drawn: Sequence[Line]) -> list[Line]:
    return [line for line in compared(drawn) if line.balance and line.balance.is_off_target]


def on_target(drawn: Sequence[Line]) -> OnTargetCount:
    """How many of the compared entries are on target, and how many have no demand."""
    return OnTargetCount.of([line.balance.state.value for line in drawn if line.balance])


def verdict(drawn: Sequence[Line], overview: Overview) -> str:
    """Sentence such as 26 of 28 top-level entries are on target, or 3 of 4 groups in climate are off target."""
    rows = compared(drawn)
    if not rows:
        if overview.n_children:
            return _("No usage yet: nothing to compare")
        return _("%(name)s has no entries yet") % {"name": overview.entry.name}
    found = on_target(drawn)
    good, n = found.n_on, found.n_all
    if n == 1:
        return _verdict_of_one(rows[0], overview)
    if overview.entry.parent_uid is not None:
        return _verdict_of_group(found, rows, overview)
    words = {"good": presentation.count(good), "all": presentation.count(n)}
    if overview.n_hidden:
        text = ngettext(
            "%(good)s of the %(all)s top-level entries you see is on target",
            "%(good)s of the %(all)s top-level entries you see are on target",
            good,
        )
    else:
        text = ngettext(
            "%(good)s of %(all)s top-level entries is on target",
            "%(good)s of %(all)s top-level entries are on target",
            good,
        )
    return text % words


def _verdict_of_one(line: Line, overview: Overview) -> str:
    """The only compared entry of a level, with the group's name below the root."""
    state = State.NO_DATA if line.balance is None else line.balance.state
    words = {"only": line.entry.name, "name": overview.entry.name}
    if overview.entry.parent_uid is None:
        texts = {State.ON: _("%(only)s is on target"), State.IDLE: _("%(only)s has no demand")}
        return texts.get(state, _("%(only)s is off target")) % words
    texts = {State.ON: _("%(only)s in %(name)s is on target"), State.IDLE: _("%(only)s in %(name)s has no demand")}
    return texts.get(state, _("%(only)s in %(name)s is off target")) % words


def _verdict_of_group(found: OnTargetCount, rows: Sequence[Line], overview: Overview) -> str:
    n_off = found.n_off
    users = sum(line.entry.kind == "user" for line in rows)
    words = {
        "n": presentation.count(n_off),
        "all": presentation.count(len(rows)),
        "what": _("users") if users == len(rows) else _("entries") if users else _("groups"),
        "name": overview.entry.name,
    }
    if n_off == len(rows):
        text = _("All %(all)s %(what)s in %(name)s are off target")
    elif not n_off:
        text = (
            _("No %(what)s in %(name)s have demand")
            if not found.n_on
            else _("All %(what)s in %(name)s with demand are on target")
            if found.n_idle
            else _("All %(all)s %(what)s in %(name)s are on target")
        )
    else:
        text = ngettext(
            "%(n)s of %(all)s %(what)s in %(name)s is off target",
            "%(n)s of %(all)s %(what)s in %(name)s are off target",
            n_off,
        )
    return text % words


def whole_text(overview: Overview) -> str:
    """Sentence about the group itself among its siblings; empty for the root, and where its numbers are unknown."""
    entry = overview.entry
    if not overview.whole_name or entry.actual is None or entry.target is None:
        return ""
    own = lines.draw_lines(
        [entry],
        lines.LineContext(policy_slug=overview.policy_slug, tolerance=lines.tolerance_of(overview.settings)),
    )[0]
    if own.balance is None or own.balance.state is State.NO_DATA:
        return ""
    words = {
        "name": entry.name,
        "whole": overview.whole_name,
        "actual": own.actual,
        "target": own.target,
        "n": own.balance.amount,
    }
    texts = {
        State.ON: _("%(name)s as a whole is on target: it used %(actual)s of %(whole)s, target %(target)s."),
        State.OVER: _(
            "%(name)s as a whole is %(n)s points over target: it used %(actual)s of %(whole)s, target %(target)s."
        ),
        State.UNDER: _(
            "%(name)s as a whole is %(n)s points under target: it used %(actual)s of %(whole)s, target %(target)s."
        ),
        State.IDLE: _("%(name)s as a whole has no demand; its target is %(target)s of %(whole)s."),
    }
    return texts[own.balance.state] % words


def furthest(drawn: Sequence[Line], overview: Overview) -> dict[str, Furthest | None]:
    """The entries furthest over and furthest under their target, by "over" and "under"."""
    furthest_by_state: dict[str, Furthest | None] = {}
    for state in (State.OVER, State.UNDER):
        these = [line for line in compared(drawn) if line.balance and line.balance.state is state]
        line = max(these, key=distance, default=None)
        requested = 0.0 if line is None else overview.asked_core_s.get(line.entry.uid, 0.0)
        hours = presentation.core_hours(requested) if requested else ""
        furthest_by_state[state.value] = None if line is None else Furthest(line, hours)
    return furthest_by_state


def off_longest(drawn: Sequence[Line], days: RecentDays) -> Named | None:
    """The entry that has been off target for most days on one side; the furthest of several."""
    counted = []
    for line in off_target(drawn):
        entry_days = days.by_uid.get(line.entry.uid)
        is_over = line.balance is not None and line.balance.state is State.OVER
        off = None if entry_days is None else entry_days.off_since("over" if is_over else "under")
        if off is not None:
            counted.append((off, line))
    if not counted:
        return None
    off, line = max(counted, key=lambda each: (each[0].n_days, distance(each[1])))
    n = off.n_days
    if off.is_whole:
        text = ngettext("at least %(n)s day", "at least %(n)s days", n)
    else:
        text = ngettext("%(n)s day", "%(n)s days", n)
    return Named(line, text % {"n": presentation.count(n)})


def on_target_next(drawn: Sequence[Line], projections: Mapping[UUID, Projection]) -> Named | None:
    """The entry off target that will be on it first; None if none will within the horizon."""
    due = []
    for line in off_target(drawn):
        projection = projections.get(line.entry.uid)
        if projection is not None and projection.on_target_at is not None:
            due.append((projection.on_target_at, line, projection))
    if not due:
        return None
    _at, line, projection = min(due, key=lambda each: each[0])
    return Named(line, _("around %(day)s") % {"day": day_on_target(line.entry, projection)})


def distance(line: Line) -> float:
    return abs((line.entry.actual or 0.0) - (line.entry.target or 0.0))


def deviation_now(drawn: Sequence[Line]) -> str:
    """Share-weighted mean deviation of the compared entries, in points; "" without any."""
    rows = compared(drawn)
    weight = sum(line.entry.target or 0.0 for line in rows)
    if not weight:
        return ""
    return presentation.points(sum((line.entry.target or 0.0) * distance(line) for line in rows) / weight)
