"""The verdict of a policy in words: how many are within their band, who is furthest, what waits, who is idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.dashboard.figures.bullet import State
from apps.dashboard.shell import presentation
from apps.dashboard.shell.lines import Line
from apps.priorities.selectors import Overview


@dataclass(frozen=True, slots=True)
class Furthest:
    """The entry furthest on one side, and what its jobs wait for."""

    line: Line
    asks: str


def compared(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if line.balance and line.balance.state is not State.NO_DATA]


def within_band(lines: Sequence[Line]) -> tuple[int, int]:
    """How many of those that can be compared are, and how many those are."""
    found = compared(lines)
    return sum(line.balance is not None and line.balance.state in {State.ON, State.IDLE} for line in found), len(found)


def verdict(lines: Sequence[Line], *, sees_all: bool) -> str:
    """26 of 28 VOs are within their band."""
    found = compared(lines)
    if not found:
        return _("No usage yet: nothing to compare")
    good, n = within_band(lines)
    words = {"good": presentation.count(good), "all": presentation.count(n), "kind": kinds(found)}
    if n == 1:
        words["name"] = found[0].entry.name
        return (_("%(name)s is on target") if good else _("%(name)s is off target")) % words
    if good == n:
        everybody = _("All %(all)s %(kind)s are on target")
        return (everybody if sees_all else _("All %(all)s %(kind)s you see are on target")) % words
    if not good:
        nobody = _("None of %(all)s %(kind)s is on target")
        return (nobody if sees_all else _("None of the %(all)s %(kind)s you see is on target")) % words
    if not sees_all:
        return (
            ngettext(
                "%(good)s of the %(all)s %(kind)s you see is on target",
                "%(good)s of the %(all)s %(kind)s you see are on target",
                good,
            )
            % words
        )
    return (
        ngettext(
            "%(good)s of %(all)s %(kind)s is on target",
            "%(good)s of %(all)s %(kind)s are on target",
            good,
        )
        % words
    )


def kinds(lines: Sequence[Line]) -> str:
    """What all of them are called together."""
    found = {line.entry.kind for line in lines}
    known = {"vo": _("VOs"), "group": _("groups"), "project": _("projects"), "user": _("users")}
    return known.get(next(iter(found)), _("top-level entries")) if len(found) == 1 else _("top-level entries")


def furthest(lines: Sequence[Line], overview: Overview) -> dict[str, Furthest | None]:
    """The entry furthest over, and the one furthest under."""
    found: dict[str, Furthest | None] = {}
    for state in (State.OVER, State.UNDER):
        these = [line for line in compared(lines) if line.balance and line.balance.state is state]
        line = max(these, key=distance, default=None)
        asked = 0.0 if line is None else overview.asked_core_s.get(line.entry.uid, 0.0)
        asks = _("with %(hours)s core-h waiting") % {"hours": presentation.core_hours(asked)} if asked else ""
        found[state.value] = None if line is None else Furthest(line, asks)
    return found


def idle_words(lines: Sequence[Line]) -> str:
    """Who wants nothing hands the share on: the others get it."""
    n = sum(line.balance is not None and line.balance.state is State.IDLE for line in lines)
    if not n:
        return ""
    text = ngettext("%(n)s is idle; its share goes to others.", "%(n)s are idle; their shares go to others.", n)
    return text % {"n": presentation.count(n)}


def distance(line: Line) -> float:
    return abs((line.entry.actual or 0.0) - (line.entry.target or 0.0))


def deviation_now(lines: Sequence[Line]) -> str:
    """Share-weighted, of the entries that are compared, in points; "" where there are none."""
    found = compared(lines)
    weight = sum(line.entry.target or 0.0 for line in found)
    if not weight:
        return ""
    return presentation.points(sum((line.entry.target or 0.0) * distance(line) for line in found) / weight)
