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
from apps.engine.target_state import Side
from apps.priorities.level_facts import LevelFacts
from apps.priorities.projections import Projection
from apps.priorities.selectors import Overview
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.sentences import numbers
from apps.series.convergence.recent_days import RecentDays
from apps.web.shell import lines, presentation
from apps.web.shell.lines import Line
from apps.web.svg.bars import State
from apps.web.texts.day_on_target import day_on_target


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


def verdict(facts: LevelFacts, overview: Overview) -> str:
    """Sentence such as 26 of 28 top-level groups are on target, or 3 of 4 groups in climate are off target."""
    good, n = facts.count.n_on, facts.count.n_all
    if not n:
        if overview.n_children:
            return _("No usage yet: nothing to compare")
        return _("%(name)s has no entries yet") % {"name": overview.entry.name}
    if n == 1:
        return _verdict_of_one(facts, overview)
    if overview.entry.parent_uid is not None:
        return _verdict_of_group(facts, overview)
    words = {"good": numbers.count(good), "all": numbers.count(n), "what": kinds_of(facts)}
    if overview.n_hidden:
        text = ngettext(
            "%(good)s of the %(all)s top-level %(what)s you see is on target",
            "%(good)s of the %(all)s top-level %(what)s you see are on target",
            good,
        )
    else:
        text = ngettext(
            "%(good)s of %(all)s top-level %(what)s is on target",
            "%(good)s of %(all)s top-level %(what)s are on target",
            good,
        )
    return text % words


def kinds_of(facts: LevelFacts) -> str:
    """What the compared entries of a level are called: groups, users, or both."""
    n_users = facts.n_users
    return _("users") if n_users == facts.count.n_all else _("groups and users") if n_users else _("groups")


def _verdict_of_one(facts: LevelFacts, overview: Overview) -> str:
    """The only compared entry of a level, with the group's name below the root."""
    (only,) = facts.compared
    state = facts.states[facts.entries.index(only)]
    words = {"only": facts.view.tree.name[only], "name": overview.entry.name}
    if overview.entry.parent_uid is None:
        texts = {"on": _("%(only)s is on target"), "idle": _("%(only)s has no demand")}
        return texts.get(state, _("%(only)s is off target")) % words
    texts = {"on": _("%(only)s in %(name)s is on target"), "idle": _("%(only)s in %(name)s has no demand")}
    return texts.get(state, _("%(only)s in %(name)s is off target")) % words


def _verdict_of_group(facts: LevelFacts, overview: Overview) -> str:
    count = facts.count
    words = {
        "n": numbers.count(count.n_off),
        "all": numbers.count(count.n_all),
        "what": kinds_of(facts),
        "name": overview.entry.name,
    }
    if count.n_off == count.n_all:
        text = _("All %(all)s %(what)s in %(name)s are off target")
    elif not count.n_off:
        text = (
            _("No %(what)s in %(name)s have demand")
            if not count.n_on
            else _("All %(what)s in %(name)s with demand are on target")
            if count.n_idle
            else _("All %(all)s %(what)s in %(name)s are on target")
        )
    else:
        text = ngettext(
            "%(n)s of %(all)s %(what)s in %(name)s is off target",
            "%(n)s of %(all)s %(what)s in %(name)s are off target",
            count.n_off,
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
    """The entries of the whole level furthest over and furthest under their target, by "over" and "under"."""
    facts, line_of = overview.facts, {line.entry.uid: line for line in drawn}
    sides: tuple[Side, Side] = ("over", "under")
    by_side: dict[str, Furthest | None] = {}
    for side in sides:
        line = next((line_of[facts.view.tree.uuid(i)] for i in facts.off_target(side)[:1]), None)
        requested = 0.0 if line is None else overview.asked_core_s.get(line.entry.uid, 0.0)
        hours = presentation.hours(requested) if requested else ""
        by_side[side] = None if line is None else Furthest(line, hours)
    return by_side


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
    return Named(line, text % {"n": numbers.count(n)})


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


def deviation_now(facts: LevelFacts) -> str:
    """Share-weighted mean deviation of the compared entries, in points; "" without any."""
    mean = facts.mean_deviation
    return "" if mean is None else numbers.points(mean)
