"""The course of one entry as it is drawn: its share, target and tolerance by day, the days ahead, and revisions.

The picture of the server, that of plotly.js, the read-outs, the table and the CSV are made from these numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from math import isfinite
from uuid import UUID

import numpy as np
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.pages.convergence.page_query import PageQuery, Unit
from apps.priorities.projections import CurvePoint, Projection
from apps.priorities.sentences.numbers import NBSP, change_shares, percent
from apps.series.convergence.query import DAILY_UP_TO, Member
from apps.series.convergence.records import Convergence, sample_weekly
from apps.series.daily_series import F8, Mask
from apps.web.figures import axes
from apps.web.figures.scales import day_text
from apps.web.figures.used_and_target import expected_text, used_words_of

PERCENT = f"{NBSP}%"
LEAST_ON_AXIS: Mapping[Unit, float] = {"share": 0.0, "points": -np.inf}
_DIGITS = 2  # of percent and points in pictures
_DAY_S = 86_400
_GAP = 1 / 160  # of the axis, at the right of the last point


@dataclass(frozen=True, eq=False)
class GroupNumbers:
    """Numbers of a group of entries. convergence: up to the newest snapshot. before: actual shares, 0..1, in the
    period before, by entry and day. projections: by entry; empty where nothing is projected.
    """

    query: PageQuery
    convergence: Convergence
    before: Mapping[UUID, Mapping[date, float]] = field(default_factory=dict)
    projections: Mapping[UUID, Projection] = field(default_factory=dict)

    @cached_property
    def drawn(self) -> Convergence:
        """The points that are drawn: days, or weeks of a long period."""
        convergence = self.convergence
        return sample_weekly(convergence) if convergence.period.n_days > DAILY_UP_TO else convergence

    @cached_property
    def lines(self) -> Lines:
        drawn, unit = self.drawn, self.query.unit
        target, slack = drawn.target * 100, drawn.slack * 100
        zero = target if unit == "points" else np.zeros_like(target)
        return Lines(
            zero,
            values=drawn.actual * 100 - zero,
            target=target - zero,
            low=np.maximum(target - slack - zero, LEAST_ON_AXIS[unit]),
            high=target + slack - zero,
        )

    def earlier(self, row: int) -> F8:
        """What is drawn of the period before at each point of the axis; empty without one."""
        drawn, before = self.drawn, self.before.get(self.drawn.members[row].uid, {})
        if not before:
            return np.zeros(0)
        n_days = timedelta(days=self.query.period.n_days)
        shares = np.array([before.get(on - n_days, np.nan) for on in drawn.on])
        if drawn.latest_at is not None:
            shares[-1] = np.nan  # a day that is not over has no equal one before
        earlier: F8 = shares * 100 - self.lines.zero[row]
        return earlier

    def curve(self, row: int, axis: Axis) -> Sequence[CurvePoint]:
        """From now on, one point more than the axis has days ahead; empty without a projection."""
        projection = self.projections.get(self.drawn.members[row].uid)
        return projection.curve(len(axis.ahead)) if projection is not None and axis.ahead else ()

    def goal(self, row: int) -> float:
        """What is 0 in the picture of days ahead, in percent."""
        zero = self.lines.zero[row]
        return float(zero[-1]) if len(zero) else 0.0

    def furthest(self, row: int, axis: Axis) -> float:
        """The value drawn within the axis that is furthest from 0, without its sign."""
        lines, shown = self.lines, axis.shown_points
        # A target holds from its point on, also one before the first day that is shown.
        held = slice(max(shown.start - 1, 0), shown.stop)
        ahead = np.array([point.likely for point in self.curve(row, axis)]) * 100 - self.goal(row)
        is_shown = axis.now is not None and axis.shows(axis.now)
        parts = (
            lines.values[row, shown],
            lines.low[row, held],
            lines.high[row, held],
            self.earlier(row)[shown],
            ahead[: 1 if is_shown else 0],
            ahead[1:][axis.shown_ahead],
        )
        return round(float(np.nanmax(np.abs(np.concatenate(parts)), initial=0.0)), _DIGITS)


@dataclass(frozen=True, eq=False, slots=True)
class Lines:
    """What is drawn of each entry at each point: percent, or points from the target; NaN where unknown or not shown.

    zero: what is 0 in the picture, in percent. low, high: ends of the tolerance.
    """

    zero: F8
    values: F8
    target: F8
    low: F8
    high: F8


@dataclass(frozen=True)
class Axis:
    """Days of all pictures of a page: ordinals of dates with their fraction. points: of all past points; ahead: of the
    days after them. now: of the newest snapshot, None if the axis ends before it. whole: the ends without zoom.
    """

    first: float
    last: float
    points: Sequence[float]
    ahead: Sequence[float]
    now: float | None
    whole: tuple[float, float]
    is_zoomed: bool
    is_by_hour: bool = False

    def part(self, at: float) -> float:
        """The place of an ordinal, 0..1 within the picture."""
        return (at - self.first) / (self.last - self.first)

    def shows(self, at: float) -> bool:
        return self.first - 1e-9 <= at <= self.last + 1e-9

    @cached_property
    def shown_points(self) -> slice:
        """Those of `points` that are within the axis, which are beside each other."""
        shown = [at for at, place in enumerate(self.points) if self.shows(place)]
        return slice(shown[0], shown[-1] + 1) if shown else slice(0, 0)

    @cached_property
    def shown_ahead(self) -> slice:
        """Those of `ahead` that are within the axis."""
        shown = [at for at, place in enumerate(self.ahead) if self.shows(place)]
        return slice(shown[0], shown[-1] + 1) if shown else slice(0, 0)

    @property
    def stops(self) -> list[float]:
        """Points at which the cursor stops."""
        return [*self.points[self.shown_points], *self.ahead[self.shown_ahead]]

    @property
    def resting(self) -> int:
        """Index of the stop whose numbers are shown without a cursor: the last one that isn't ahead."""
        return max(len(self.points[self.shown_points]) - 1, 0)


def ordinal_of(at: date) -> float:
    """A day, or an instant without its zone, as days."""
    if isinstance(at, datetime):
        return at.toordinal() + (at.hour * 3600 + at.minute * 60 + at.second) / _DAY_S
    return float(at.toordinal())


def moment_of(ordinal: float) -> str:
    """Format an ordinal for plotly.js."""
    whole = int(ordinal)
    seconds = round((ordinal - whole) * _DAY_S)
    if not seconds:
        return date.fromordinal(whole).isoformat()
    return axes.moment(datetime.fromordinal(whole) + timedelta(seconds=seconds))


def axis_of(numbers: GroupNumbers) -> Axis | None:
    """The axis for the page's address; None without days."""
    drawn, query = numbers.drawn, numbers.query
    if not drawn.on:
        return None
    points = [ordinal_of(timezone.make_naive(on) if isinstance(on, datetime) else on) for on in drawn.on]
    now = None
    if drawn.latest_at is not None and not drawn.is_by_hour:
        now = points[-1] = ordinal_of(timezone.make_naive(drawn.latest_at))
    n_ahead = _n_days_ahead(numbers, now)
    ahead = [] if now is None else [now + day for day in range(1, n_ahead + 1)]
    last = (
        ahead[-1] if ahead else points[-1] + max((points[-1] - points[0]) * _GAP, 1 / 24 if drawn.is_by_hour else 0.3)
    )
    first = points[0]
    if query.until is not None:
        first, last = float(query.period.from_on.toordinal()), max(query.until.toordinal() + 0.999, points[0] + 1)
    whole = (first, last)
    if query.zoom is not None:
        zoom = [float(day.toordinal()) for day in query.zoom]
        if min(zoom[1] + 0.999, last) - max(zoom[0], first) >= 1:
            first, last = max(zoom[0], first), min(zoom[1] + 0.999, last)
    known_now = now if now is not None and now <= whole[1] else None
    return Axis(first, last, points, ahead, known_now, whole, (first, last) != whole, drawn.is_by_hour)


def _n_days_ahead(numbers: GroupNumbers, now: float | None) -> int:
    """Days ahead that are drawn; none where no entry is projected."""
    query = numbers.query
    if now is None or not numbers.projections:
        return 0
    if query.until is not None:
        return max(int(query.until.toordinal() + 0.999 - now), 0)
    return query.n_days_ahead


@dataclass(frozen=True, slots=True)
class RevisionTick:
    """Revisions of one day. text: what they changed for this entry; "" if its target stayed as it was."""

    at: float
    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class Reach:
    """The day on which the entry is on target: where its projection enters the tolerance. label: its words."""

    at: float
    value: float
    early: float | None
    late: float | None
    label: str


@dataclass(frozen=True, eq=False)
class Course:
    """One entry on an axis; shares in percent, or points from the target. None: unknown or not shown.

    off: from the target, in points; shares: used, 0..1; both unrounded. values, target, low, high: at each point of the
    axis; low and high are the ends of the tolerance. likely, least, most: from now on, one more than the axis has days
    ahead; empty without a projection. before: at each point.

    marks: spans of days by kind: idle, inferred, starved, missing, before.
    """

    member: Member
    axis: Axis
    unit: Unit
    state: str
    off: F8
    shares: F8
    values: Sequence[float | None]
    target: Sequence[float | None]
    low: Sequence[float | None]
    high: Sequence[float | None]
    likely: Sequence[float]
    least: Sequence[float]
    most: Sequence[float]
    before: Sequence[float | None]
    reach: Reach | None
    revisions: Sequence[RevisionTick]
    marks: Mapping[str, Sequence[tuple[float, float]]]

    @property
    def off_now(self) -> float:
        """Points from the target at the last known point."""
        known = self.off[np.isfinite(self.off)]
        return float(known[-1]) if known.size else float("nan")

    @property
    def end(self) -> int | None:
        """Index of the last known point that is shown: its value is written beside it."""
        known = (at for at in reversed(range(len(self.values))) if self.values[at] is not None)
        return next((at for at in known if self.axis.shows(self.axis.points[at])), None)


def course_of(numbers: GroupNumbers, row: int, axis: Axis) -> Course:
    drawn, lines, unit = numbers.drawn, numbers.lines, numbers.query.unit
    member = drawn.members[row]
    known = np.flatnonzero(np.isfinite(drawn.actual[row]) & np.isfinite(drawn.target[row]))
    curve, goal = numbers.curve(row, axis), numbers.goal(row)
    return Course(
        member=member,
        axis=axis,
        unit=unit,
        state=str(drawn.states[row, known[-1]]) if known.size else "",
        off=drawn.deviation[row] * 100,
        shares=drawn.actual[row],
        values=axes.rounded(lines.values[row], _DIGITS),
        target=axes.rounded(lines.target[row], _DIGITS),
        low=axes.rounded(lines.low[row], _DIGITS),
        high=axes.rounded(lines.high[row], _DIGITS),
        likely=[round(point.likely * 100 - goal, _DIGITS) for point in curve],
        least=[round(max(point.p25 * 100 - goal, LEAST_ON_AXIS[unit]), _DIGITS) for point in curve],
        most=[round(point.p75 * 100 - goal, _DIGITS) for point in curve],
        before=axes.rounded(numbers.earlier(row), _DIGITS),
        reach=_reach_of(numbers, row, axis) if drawn.on else None,
        revisions=_revisions_of(drawn, row, axis),
        marks=_marks_of(drawn, row, axis),
    )


def _reach_of(numbers: GroupNumbers, row: int, axis: Axis) -> Reach | None:
    """None unless the day is within the axis."""
    drawn = numbers.drawn
    projection = numbers.projections.get(drawn.members[row].uid)
    target, slack, goal = float(drawn.target[row, -1]) * 100, float(drawn.slack[row, -1]) * 100, numbers.goal(row)
    if projection is None or projection.on_target_at is None or not axis.ahead:
        return None
    at, early, late = (
        None if instant is None else ordinal_of(timezone.make_naive(instant))
        for instant in (projection.on_target_at, projection.earliest_at, projection.latest_at)
    )
    if at is None or not axis.shows(at):
        return None
    starts_over = projection.curve(1)[0].likely * 100 > target
    edge = target + slack if starts_over else max(target - slack, 0.0)
    on = timezone.localtime(projection.on_target_at).date()
    return Reach(at, round(edge - goal, _DIGITS), early, late, _("on target %(day)s") % {"day": day_text(on)})


def _revisions_of(drawn: Convergence, row: int, axis: Axis) -> list[RevisionTick]:
    """One tick a day; with words where the target as it is written changed."""
    by_day: dict[int, list[int]] = {}
    for published in drawn.published:
        if published.day >= 0:
            by_day.setdefault(min(published.day, len(axis.points) - 1), []).append(published.revision)
    ticks = []
    for day, revisions in sorted(by_day.items()):
        text = ""
        was, target = (float(drawn.target[row, at]) if at >= 0 else np.nan for at in (day - 1, day))
        if isfinite(was) and isfinite(target):
            change = change_shares(was, target, decimals=1)
            if change.before != change.after:
                words = {
                    "first": min(revisions),
                    "last": max(revisions),
                    "was": change.before.removesuffix(PERCENT),
                    "target": change.after,
                }
                text = (
                    _("Rev %(last)s: target %(was)s to %(target)s") % words
                    if len(revisions) == 1
                    else _("Rev %(first)s to %(last)s: target %(was)s to %(target)s") % words
                )
        ticks.append(RevisionTick(axis.points[day], min(revisions), max(revisions), text))
    return ticks


def _marks_of(drawn: Convergence, row: int, axis: Axis) -> dict[str, Sequence[tuple[float, float]]]:
    states = drawn.states[row]
    masks: dict[str, Mask] = {
        "idle": drawn.idle[row],
        "inferred": drawn.idle_inferred[row],
        "starved": states == "starved",
        "missing": drawn.missing,
        "before": drawn.days.is_before_first | drawn.before_entry[row],
    }
    return {kind: spans for kind, mask in masks.items() if (spans := _spans(mask, axis.points))}


def _spans(mask: Mask, points: Sequence[float]) -> list[tuple[float, float]]:
    """First and last ordinal of each run of points in the mask; a point is as wide as the step to the next one."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist()
    return [
        (points[first], points[min(after, len(points) - 1)])
        for first, after in zip(edges[::2], edges[1::2], strict=True)
    ]


def read_outs(numbers: GroupNumbers, row: int, axis: Axis) -> list[str]:
    """What the line above the picture says at each stop of the axis, without its day."""
    drawn = numbers.drawn
    past = used_words_of(drawn.actual[row], drawn.target[row], drawn.states[row].tolist(), drawn.slack[row])
    earlier = numbers.earlier(row)
    before = ((earlier + numbers.lines.zero[row]) / 100).tolist() if len(earlier) else []
    n_days = numbers.query.period.n_days
    revised = {tick.at: tick for tick in _revisions_of(drawn, row, axis)}
    texts = []
    for at in range(len(axis.points))[axis.shown_points]:
        parts = [past[at]]
        if before and isfinite(before[at]):
            parts.append(before_text(n_days, before[at]))
        if (tick := revised.get(axis.points[at])) is not None:
            parts.append(revision_text(tick))
        texts.append(" · ".join(parts))
    curve = numbers.curve(row, axis)
    target, slack = float(drawn.target[row, -1]), float(drawn.slack[row, -1])
    for day, place in enumerate(axis.ahead):
        if axis.shows(place):
            known = day + 1 < len(curve) and isfinite(target)
            texts.append(expected_text(curve[day + 1].likely, target, slack) if known else _("no projection"))
    return texts


def before_text(n_days: int, share: float) -> str:
    return _("%(n)s days before %(share)s") % {"n": n_days, "share": percent(share)}


def revision_text(tick: RevisionTick) -> str:
    if tick.first == tick.last:
        return _("revision %(n)s") % {"n": tick.last}
    return _("revisions %(first)s to %(last)s") % {"first": tick.first, "last": tick.last}
