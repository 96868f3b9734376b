"""The overview's verdict: how many entries are on target, and which are furthest from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.priorities.selectors import Overview
from apps.web.shell import presentation
from apps.web.shell.lines import Line
from apps.web.svg.bars import State


@dataclass(frozen=True, slots=True)
class Furthest:
    """The entry furthest from its target on one side. waiting_hours: what its waiting jobs request; "" for nothing."""

    line: Line
    waiting_hours: str


def compared(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if line.balance and line.balance.state is not State.NO_DATA]


def within_band(lines: Sequence[Line]) -> tuple[int, int]:
    """(number of compared entries within tolerance, number of compared entries)."""
    rows = compared(lines)
    return sum(line.balance is not None and line.balance.state in {State.ON, State.IDLE} for line in rows), len(rows)


def verdict(lines: Sequence[Line], *, sees_all: bool) -> str:
    """Sentence such as 26 of 28 VOs are within their band."""
    rows = compared(lines)
    if not rows:
        return _("No usage yet: nothing to compare")
    good, n = within_band(lines)
    words = {"good": presentation.count(good), "all": presentation.count(n)}
    if n == 1:
        words["name"] = rows[0].entry.name
        return (_("%(name)s is on target") if good else _("%(name)s is off target")) % words
    if not sees_all:
        return (
            ngettext(
                "%(good)s of the %(all)s top-level entries you see is on target",
                "%(good)s of the %(all)s top-level entries you see are on target",
                good,
            )
            % words
        )
    return (
        ngettext(
            "%(good)s of %(all)s top-level entries is on target",
            "%(good)s of %(all)s top-level entries are on target",
            good,
        )
        % words
    )


def furthest(lines: Sequence[Line], overview: Overview) -> dict[str, Furthest | None]:
    """The entries furthest over and furthest under their target, by "over" and "under"."""
    furthest_by_state: dict[str, Furthest | None] = {}
    for state in (State.OVER, State.UNDER):
        these = [line for line in compared(lines) if line.balance and line.balance.state is state]
        line = max(these, key=distance, default=None)
        requested = 0.0 if line is None else overview.asked_core_s.get(line.entry.uid, 0.0)
        hours = presentation.core_hours(requested) if requested else ""
        furthest_by_state[state.value] = None if line is None else Furthest(line, hours)
    return furthest_by_state


def idle_text(lines: Sequence[Line]) -> str:
    """Sentence about idle entries, whose share goes to the others."""
    n = sum(line.balance is not None and line.balance.state is State.IDLE for line in lines)
    if not n:
        return ""
    text = ngettext("%(n)s is idle; its share goes to others.", "%(n)s are idle; their shares go to others.", n)
    return text % {"n": presentation.count(n)}


def distance(line: Line) -> float:
    return abs((line.entry.actual or 0.0) - (line.entry.target or 0.0))


def deviation_now(lines: Sequence[Line]) -> str:
    """Share-weighted mean deviation of the compared entries, in points; "" without any."""
    rows = compared(lines)
    weight = sum(line.entry.target or 0.0 for line in rows)
    if not weight:
        return ""
    return presentation.points(sum((line.entry.target or 0.0) * distance(line) for line in rows) / weight)
