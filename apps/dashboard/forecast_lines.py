"""A forecast and a supposition as pages draw them: sentences, the curve with its table, and before beside after."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from apps.dashboard import presentation
from apps.dashboard.figures import forecast as figure
from apps.engine.explain import Recovery, RecoveryRange
from apps.priorities.forecast import CurvePoint, Forecast, ForecastLevel, days_to_draw
from apps.priorities.sentences import text_of
from apps.priorities.what_if import Place, Tried

_DAY_S = 86_400
HEADER = ("at", "so_far", "likely", "quartile_low", "quartile_high", "least", "most", "target")


@dataclass(frozen=True, slots=True)
class LevelLine:
    """One level in a sentence; the drawn one is marked."""

    name: str
    text: str
    is_shown: bool
    decides: bool
    query: str
    uid: str


@dataclass(frozen=True, slots=True)
class PointLine:
    """A row of the table behind the curve."""

    at: datetime
    so_far: str
    likely: str
    quartiles: str
    extremes: str


@dataclass(frozen=True)
class ForecastCard:
    """All of the card. share: what is typed into its field; problem: why that can't be."""

    policy: str
    entry: str
    name: str
    parent: str
    decides: bool
    text: str
    state: str
    curve: figure.Curve | None
    label: str
    met_words: str
    target_words: str
    rows: Sequence[PointLine]
    levels: Sequence[LevelLine]
    pace: str
    query: str
    share: str
    problem: str = ""
    is_chosen: bool = False  # the level that is drawn was asked for


def card_of(
    found: Forecast, *, level: str = "", share: str = "", problem: str = ""
) -> ForecastCard | None:  # fmt: skip
    """level: the uid of the one to draw, instead of the one that decides. None where there is nothing to tell."""
    shown = next((each for each in found.levels if str(each.uid) == level), found.shown)
    if shown is None and found.levels:
        shown = found.levels[-1]
    if shown is None:
        return None
    deciding = None if found.deciding is None else found.levels[found.deciding]
    named = {"policy": found.policy.slug, "entry": str(found.entry_uid)}
    named |= {"share": share} if share else {}
    lines = [
        LevelLine(
            each.name, text_of(list(each.said)), each is shown, each is deciding,
            urlencode({**named, "level": str(each.uid)}), str(each.uid),
        )
        for each in found.levels
    ]  # fmt: skip
    curve = _curve(found, shown)
    return ForecastCard(
        policy=found.policy.slug, entry=str(found.entry_uid), name=shown.name, parent=shown.parent_name,
        decides=shown is deciding, text=text_of(list(shown.said)), state=_state(shown), curve=curve,
        label=text_of(list(shown.said)), met_words=_met_words(found, shown),
        target_words=_("target %(target)s") % {"target": presentation.percent(shown.target)},
        rows=_rows(found, shown), levels=lines, pace=_pace(shown),
        query=urlencode({**named, "level": str(shown.uid)}), share=share, problem=problem,
        is_chosen=str(shown.uid) == level,
    )  # fmt: skip


def table_of(found: Forecast, level: str) -> list[Sequence[Any]]:
    """The same as rows of a CSV: numbers unrounded, parts 0..1; None where a column has none."""
    shown = next((each for each in found.levels if str(each.uid) == level), found.shown)
    if shown is None:
        return []
    rows: list[Sequence[Any]] = [
        (at.isoformat(), part, None, None, None, None, None, shown.target) for at, part in shown.so_far
    ]
    rows.append((found.as_of.isoformat(), shown.actual, shown.actual, None, None, None, None, shown.target))
    for point in _daily(found, shown):
        rows.append(
            (point.at.isoformat(), None, point.middle, point.lower, point.upper, point.low, point.high, shown.target)
        )
    return rows


def _points(found: Forecast, shown: ForecastLevel) -> Sequence[CurvePoint]:
    return shown.curve(found.as_of, days_to_draw(shown))


def _daily(found: Forecast, shown: ForecastLevel) -> Sequence[CurvePoint]:
    """One point a day, for tables."""
    days = math.ceil(days_to_draw(shown))
    return shown.curve(found.as_of, days, days + 1)[1:]


def _curve(found: Forecast, shown: ForecastLevel) -> figure.Curve | None:
    if shown.outlook is None or shown.target is None or shown.actual is None:
        return None
    days = days_to_draw(shown)

    def ago(at: datetime) -> float:
        return (at - found.as_of) / timedelta(days=1)

    back = -min(max(days, 7.0), 28.0)
    ahead = [
        figure.Ahead(ago(one.at), one.middle, one.low, one.lower, one.upper, one.high) for one in _points(found, shown)
    ]
    return figure.draw(
        so_far=[(ago(at), part) for at, part in shown.so_far if ago(at) >= back], ahead=ahead, now=shown.actual,
        target=shown.target, slack=shown.outlook.standing.slack, meeting=_meeting(shown),
        day_labels=lambda day: _short_day(found.as_of + timedelta(days=day)),
    )  # fmt: skip


def _marked(shown: ForecastLevel) -> tuple[float, RecoveryRange] | None:
    """What of the curve is marked: the end of the tolerance where it is met, else the target."""
    outlook = shown.outlook
    if outlook is None or outlook.standing.edge is None:
        return None
    is_over = outlook.standing.actual > outlook.standing.target
    if is_over and outlook.to_tolerance is not None and outlook.to_tolerance.middle.in_s:
        return outlook.standing.edge, outlook.to_tolerance
    return (outlook.standing.target, outlook.to_target) if outlook.to_target.middle.in_s else None


def _meeting(shown: ForecastLevel) -> figure.Meeting | None:
    marked = _marked(shown)
    if marked is None or marked[1].middle.in_s is None:
        return None
    part, found = marked
    soonest, latest = (None if one.in_s is None else one.in_s / _DAY_S for one in (found.soonest, found.latest))
    return figure.Meeting(part, (found.middle.in_s or 0.0) / _DAY_S, soonest, latest)


def _met_words(found: Forecast, shown: ForecastLevel) -> str:
    """back within tolerance 5 Dec, range 4 to 6 Dec"""
    marked = _marked(shown)
    if marked is None:
        return ""
    is_target = shown.target == marked[0]
    words = _("at its target %(on)s") if is_target else _("back within tolerance %(on)s")
    text = words % {"on": _day(found, marked[1].middle)}
    if marked[1].soonest.in_s is None or marked[1].latest.in_s is None:
        return text
    first, last = _day(found, marked[1].soonest), _day(found, marked[1].latest)
    return text if first == last else text + _(", range %(first)s to %(last)s") % {"first": first, "last": last}


def _day(found: Forecast, one: Recovery) -> str:
    return _short_day(found.as_of + timedelta(seconds=one.in_s or 0.0))


def _short_day(at: datetime) -> str:
    return formats.date_format(timezone.localtime(at), pgettext("a day in a chart", "j M"))


def _rows(found: Forecast, shown: ForecastLevel) -> list[PointLine]:
    rows = [PointLine(at, presentation.percent(part), "", "", "") for at, part in shown.so_far]
    for point in _daily(found, shown):
        rows.append(
            PointLine(
                point.at, "", presentation.percent(point.middle), _range(point.lower, point.upper),
                _range(point.low, point.high),
            )
        )  # fmt: skip
    return rows


def _range(low: float, high: float) -> str:
    one, other = presentation.percent(low), presentation.percent(high)
    return one if one == other else _("%(low)s to %(high)s") % {"low": one, "high": other}


def _pace(shown: ForecastLevel) -> str:
    """Where the pace comes from, in one line."""
    if shown.outlook is None or not shown.n_days:
        return ""
    facts = {
        "days": ngettext("the last day", "the last %(n)s days", shown.n_days) % {"n": shown.n_days},
        "name": shown.name, "parent": shown.parent_name,
        "share": presentation.percent(shown.outlook.share_seen),
    }  # fmt: skip
    if shown.outlook.share_seen is None:
        return _("In %(days)s nobody in %(parent)s ran anything.") % facts
    return _("In %(days)s %(name)s took %(share)s of what %(parent)s ran.") % facts


def _state(shown: ForecastLevel) -> str:
    if shown.outlook is None or shown.outlook.standing.edge is None:
        return "on"
    return "over" if shown.outlook.standing.actual > shown.outlook.standing.target else "under"


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """What is so now, and what would be; alike where nothing changes."""

    key: str
    label: str
    before: str
    after: str

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class WhatIfCard:
    """The form as it was filled in, what is wrong with it, and what came out."""

    policy: str
    entry: str
    group: str
    levels: Sequence[tuple[str, str]]
    typed: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    lines: Sequence[ChangeLine] = ()
    note: str = ""
    is_tried: bool = False


def outcome_of(tried: Tried) -> tuple[list[ChangeLine], str]:
    """Before beside after, and where the pace comes from."""
    lines = [
        ChangeLine("rank_now", _("Rank now"), _rank(tried.now, tried.of), _rank(tried.now_if, tried.of)),
        ChangeLine("rank_then", _("Rank in 7 days"), _rank(tried.then, tried.of), _rank(tried.then_if, tried.of)),
    ]
    if tried.then.factor is not None or tried.then_if.factor is not None:
        lines.append(
            ChangeLine(
                "factor_then",
                _("Factor in 7 days"),
                presentation.factor(tried.then.factor),
                presentation.factor(tried.then_if.factor),
            )
        )
    shown = tried.forecast.shown
    if shown is not None and tried.back is not None and tried.back_if is not None:
        label = _("%(name)s at its target") % {"name": shown.name}
        lines.append(ChangeLine("back_at_target", label, _when(tried, tried.back), _when(tried, tried.back_if)))
    basis = {
        "last_days": _("Everybody else goes on as in the last two weeks."),
        "present_usage": _("Everybody else goes on at the pace that their present usage stands for."),
    }
    note = basis[tried.basis]
    return lines, note if tried.now.is_exact else note + " " + _("Ranks are told in steps of five.")


def _rank(place: Place, of: int) -> str:
    if place.rank is None:
        return presentation.UNKNOWN
    first, last = place.rank[0], min(place.rank[1], max(of, place.rank[0]))
    if first == last:
        return presentation.count(first)
    return _("%(first)s to %(last)s") % {"first": presentation.count(first), "last": presentation.count(last)}


def _when(tried: Tried, found: Recovery) -> str:
    at = tried.instant(found)
    if found.outcome == "on_target":
        return _("now")
    if at is not None:
        return _short_day(at)
    words = {
        "never_if_nobody_runs": _("never, if nobody runs"), "not_at_this_pace": _("not at this pace"),
        "not_within_horizon": _("not within a year"),
    }  # fmt: skip
    return words[found.outcome]
