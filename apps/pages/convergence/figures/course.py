"""The course of one entry as it is drawn: its share, target and tolerance by day, the days ahead, and revisions.

The picture of the server, that of plotly.js, the read-outs, the table and the CSV are made from these numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
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

IDLE_STATES = ("no_demand", "met")
PERCENT = f"{NBSP}%"
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

    @property
    def drawn(self) -> Convergence:
        """The points that are drawn: days, or weeks of a long period."""
        convergence = self.convergence
        return sample_weekly(convergence) if convergence.period.n_days > DAILY_UP_TO else convergence


@dataclass(frozen=True, slots=True)
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

    def part(self, at: float) -> float:
        """The place of an ordinal, 0..1 within the picture."""
        return (at - self.first) / (self.last - self.first)

    def shows(self, at: float) -> bool:
        return self.first - 1e-9 <= at <= self.last + 1e-9

    @property
    def stops(self) -> list[float]:
        """Points at which the cursor stops."""
        return [at for at in (*self.points, *self.ahead) if self.shows(at)]

    @property
    def resting(self) -> int:
        """Index of the stop whose numbers are shown without a cursor: the last one that isn't ahead."""
        return max(sum(self.shows(at) for at in self.points) - 1, 0)


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
    return Axis(first, last, points, ahead, known_now, whole, (first, last) != whole)


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

    @property
    def shown_values(self) -> list[float]:
        """All values within the axis, for its scale."""
        rows = [self.values, self.before, self.low, self.high]
        shown = [at for at, place in enumerate(self.axis.points) if self.axis.shows(place)]
        past = [row[at] for row in rows for at in shown if at < len(row)]
        ahead = [
            value
            for value, place in zip(self.likely, (self.axis.now, *self.axis.ahead), strict=False)
            if place is not None and self.axis.shows(place)
        ]
        # A target holds from its point on, also one before the first day that is shown.
        earlier = [at for at, place in enumerate(self.axis.points) if place < self.axis.first][-1:]
        return [
            value
            for value in (*past, *ahead, *(row[at] for row in (self.low, self.high) for at in earlier))
            if value is not None
        ]


def course_of(numbers: GroupNumbers, row: int, axis: Axis) -> Course:
    drawn, unit = numbers.drawn, numbers.query.unit
    member = drawn.members[row]
    target, slack = drawn.target[row] * 100, drawn.slack[row] * 100
    zero = target if unit == "points" else np.zeros_like(target)
    known = np.flatnonzero(np.isfinite(drawn.actual[row]) & np.isfinite(drawn.target[row]))
    before = numbers.before.get(member.uid, {})
    n_days = timedelta(days=numbers.query.period.n_days)
    earlier = [before.get(on - n_days, np.nan) for on in drawn.on] if before else []
    if drawn.latest_at is not None and earlier:
        earlier[-1] = np.nan  # a day that is not over has no equal one before
    projection = numbers.projections.get(member.uid)
    curve = projection.curve(len(axis.ahead)) if projection is not None and axis.ahead else ()
    floor = -np.inf if unit == "points" else 0.0
    goal = float(zero[-1]) if len(zero) else 0.0
    return Course(
        member=member,
        axis=axis,
        unit=unit,
        state=str(drawn.states[row, known[-1]]) if known.size else "",
        off=drawn.deviation[row] * 100,
        shares=drawn.actual[row],
        values=axes.rounded(drawn.actual[row] * 100 - zero, 2),
        target=axes.rounded(target - zero, 2),
        low=axes.rounded(np.maximum(target - slack - zero, floor), 2),
        high=axes.rounded(target + slack - zero, 2),
        likely=[round(point.likely * 100 - goal, 2) for point in curve],
        least=[round(max(point.p25 * 100 - goal, floor), 2) for point in curve],
        most=[round(point.p75 * 100 - goal, 2) for point in curve],
        before=axes.rounded(np.array(earlier) * 100 - (zero if unit == "points" else 0.0), 2) if earlier else [],
        reach=_reach_of(projection, axis, float(target[-1]), float(slack[-1]), goal) if len(target) else None,
        revisions=_revisions_of(drawn, row, axis),
        marks=_marks_of(drawn, row, axis),
    )


def _reach_of(projection: Projection | None, axis: Axis, target: float, slack: float, goal: float) -> Reach | None:
    """None unless the day is within the axis."""
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
    return Reach(at, round(edge - goal, 2), early, late, _("on target %(day)s") % {"day": day_text(on)})


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
        "missing": np.array([on in drawn.gaps for on in drawn.on], np.bool_),
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
    member = drawn.members[row]
    past = used_words_of(drawn.actual[row], drawn.target[row], drawn.states[row].tolist())
    course = course_of(numbers, row, axis)
    n_days = numbers.query.period.n_days
    revised = {tick.at: tick for tick in course.revisions}
    zero = drawn.target[row] * 100 if course.unit == "points" else np.zeros(len(drawn.on))
    texts = []
    for at, place in enumerate(axis.points):
        if not axis.shows(place):
            continue
        parts = [past[at]]
        if course.before and (value := course.before[at]) is not None:
            parts.append(before_text(n_days, (value + float(zero[at])) / 100))
        if (tick := revised.get(place)) is not None:
            parts.append(revision_text(tick))
        texts.append(" · ".join(parts))
    projection = numbers.projections.get(member.uid)
    curve: Sequence[CurvePoint] = projection.curve(len(axis.ahead)) if projection is not None and axis.ahead else ()
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
