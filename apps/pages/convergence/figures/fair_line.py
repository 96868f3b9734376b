"""The fair line: every entry of a level on one axis of used ÷ target, day by day and into the forecast.

Reference of the axis: place = log2(used ÷ target), so that half and double of a target are equally far from *fair*, 0.
Edge values: nothing used is at the left end; usage without a target at the right end; neither of both on the line;
what is unknown has no place. Shares, states and forecasts are those of the page's other pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import groupby
from math import isfinite, log2
from typing import Any

import numpy as np
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from apps.pages.convergence.figures.course import PERCENT, GroupNumbers, ordinal_of
from apps.pages.convergence.figures.days_ahead import states_ahead
from apps.pages.convergence.figures.fair_layout import PAD, ROOMS, Room, Spot, lay_out, pixels_of_root
from apps.pages.convergence.figures.labels import caption, file_name
from apps.pages.convergence.figures.over_time import stop_label
from apps.pages.convergence.figures.tiles import balance_text
from apps.policies.settings import tolerances_of
from apps.priorities.level_facts import OFF_STATES, StateCount
from apps.priorities.projections import NEXT_DAYS
from apps.priorities.sentences import numbers as number_texts
from apps.priorities.sentences.numbers import clock_text, compare_shares, percent
from apps.series.convergence.query import BEFORE_ENTRY, Member, leaf_mask
from apps.series.convergence.records import Convergence
from apps.series.convergence.verdict import inside_by_point
from apps.series.daily_series import F8, Mask
from apps.web.figures import Column, Figure, Table
from apps.web.figures.used_and_target import compared_texts

NAME = "fair-line"
N_FAIR_DAYS = 60  # that are played before now
ENDS = (-2.6, 2.6)  # of the axis: a sixth and six times the target
TICKS = ((-2, "¼"), (-1, "½"), (0, gettext_noop("fair")), (1, "2 ×"), (2, "4 ×"))
MOST_CIRCLES = 200  # of the largest targets; the others are a density
N_BINS = 53  # of the density
MOST_FAIR_ROWS = 500  # of the table
_LETTERS = {"on": "n", "over": "o", "starved": "u", "inferred": "u", "met": "i", "no_demand": "i", BEFORE_ENTRY: "b"}
_FRONT, _BEHIND = "\u2068", "\u2069"  # first strong isolate: a name of any direction keeps to itself


@dataclass(frozen=True, slots=True)
class MemberLinks:
    """Addresses of an entry: select shows its course; shares and group are "" where they lead nowhere."""

    select: str
    entry: str
    shares: str
    group: str


@dataclass(frozen=True, eq=False)
class FairLine:
    """Shares of a level at each stop, (entries, stops), 0..1, NaN where unknown: days or hours up to now, then days of
    the forecast. states: as of days; of the forecast by the same tolerance. n_past: stops that aren't ahead.
    """

    numbers: GroupNumbers
    stops: Sequence[float]
    labels: Sequence[str]
    actual: F8
    target: F8
    slack: F8
    states: Any
    n_past: int

    @property
    def convergence(self) -> Convergence:
        return self.numbers.convergence

    @property
    def now(self) -> int:
        return self.n_past - 1

    @property
    def n_stops(self) -> int:
        return len(self.stops)

    @cached_property
    def places(self) -> F8:
        """On the axis, 0..1."""
        return places_of(self.actual, self.target)

    @cached_property
    def known(self) -> Mask:
        """Whether an entry can be placed at any stop, (entries,)."""
        known: Mask = np.asarray(np.isfinite(self.places).any(axis=1), np.bool_)
        return known

    @cached_property
    def rows(self) -> list[int]:
        """Entries with a circle: those off target now, furthest first, then the others, the largest target first."""
        size = np.nan_to_num(self.target).max(axis=1, initial=0.0)
        names = [member.name for member in self.convergence.members]
        rows = sorted(np.flatnonzero(self.known).tolist(), key=lambda row: (-size[row], names[row]))[:MOST_CIRCLES]
        off = {row: order for order, row in enumerate(self.off_at(self.now))}
        return sorted(rows, key=lambda row: off.get(row, len(off)))

    @cached_property
    def rest(self) -> list[int]:
        """Entries that are a density."""
        drawn = set(self.rows)
        return [row for row in np.flatnonzero(self.known).tolist() if row not in drawn]

    @cached_property
    def inside(self) -> tuple[F8, Mask]:
        """Part of all targets within their tolerance at each stop, 0..1, and where it is known."""
        return inside_by_point(self.actual, self.target, self.slack)

    def off_at(self, stop: int) -> list[int]:
        """Rows off target at a stop, furthest first."""
        if not 0 <= stop < self.n_stops:
            return []
        away = np.abs(self.actual[:, stop] - self.target[:, stop])
        rows = [row for row, state in enumerate(self.states[:, stop].tolist()) if state in OFF_STATES]
        return sorted(rows, key=lambda row: (-float(np.nan_to_num(away[row])), self.convergence.members[row].name))

    def letter(self, row: int, stop: int) -> str:
        return _LETTERS.get(str(self.states[row, stop]), "x")


def places_of(actual: F8, target: F8) -> F8:
    """(log2(used ÷ target) − low) ÷ (high − low), limited to 0..1; NaN where either is unknown."""
    low, high = ENDS
    known = np.isfinite(actual) & np.isfinite(target)
    both = known & (actual > 0) & (target > 0)
    ratio = np.divide(actual, target, out=np.ones_like(actual), where=both)
    place = (np.clip(np.log2(ratio), low, high) - low) / (high - low)
    place = np.where(known & (actual <= 0) & (target > 0), 0.0, place)
    place = np.where(known & (actual > 0) & (target <= 0), 1.0, place)
    result: F8 = np.where(known, place, np.nan)
    return result


def fair_line_of(numbers: GroupNumbers) -> FairLine | None:
    """The line up to now and, of days, the forecast; None without days or entries."""
    convergence = numbers.convergence
    if not convergence.on or not convergence.members:
        return None
    on = convergence.on[-N_FAIR_DAYS - 1 :] if not convergence.is_by_hour else convergence.on
    played = slice(len(convergence.on) - len(on), None)
    stops = [ordinal_of(timezone.make_naive(at) if isinstance(at, datetime) else at) for at in on]
    labels = [_label(at, stop) for at, stop in zip(on, stops, strict=True)]
    actual, target, slack = (
        column[:, played] for column in (convergence.actual, convergence.target, convergence.slack)
    )
    states = convergence.states[:, played]
    likely = _likely(numbers)
    if likely is not None:
        now = convergence.latest_at
        start = ordinal_of(timezone.make_naive(now)) if now is not None else stops[-1]
        ahead = [start + day for day in range(1, NEXT_DAYS + 1)]
        wanted, width = (np.repeat(column[:, -1:], NEXT_DAYS, axis=1) for column in (target, slack))
        stops, labels = [*stops, *ahead], [*labels, *map(stop_label, ahead)]
        states = np.column_stack([states, states_ahead(likely, wanted, width, states[:, -1])])
        actual, target, slack = (np.column_stack(pair) for pair in ((actual, likely), (target, wanted), (slack, width)))
    return FairLine(numbers, stops, labels, actual, target, slack, states, len(on))


def _label(at: date, stop: float) -> str:
    return clock_text(at, "j M, H:i") if isinstance(at, datetime) else stop_label(stop)


def _likely(numbers: GroupNumbers) -> F8 | None:
    """Expected shares of the days ahead, NaN where an entry has no projection; None without any."""
    convergence = numbers.convergence
    if not numbers.projections or convergence.is_by_hour or convergence.latest_at is None:
        return None
    likely = np.full((len(convergence.members), NEXT_DAYS), np.nan)
    for row, member in enumerate(convergence.members):
        projection = numbers.projections.get(member.uid)
        if projection is not None:
            likely[row] = [point.likely for point in projection.next_days[1 : NEXT_DAYS + 1]]
    return likely if np.isfinite(likely).any() else None


# --- Words


def heading_at(line: FairLine, stop: int) -> str:
    """How much of all targets is within its tolerance; what isn't all is never called 100 %, what isn't nothing 0 %."""
    share, known = (float(column[stop]) for column in line.inside)
    if not known:
        return _("Nothing is known of this time")
    rounded = share if share in (0.0, 1.0) else min(max(share, 0.01), 0.99)
    words = {"share": percent(rounded, 0), "n": number_texts.count(len(line.convergence.members))}
    if line.convergence.n_all > len(line.convergence.members):
        return _("%(share)s of the %(n)s largest shares are where they should be") % words
    if stop > line.now:
        return _("%(share)s of all shares will be where they should be") % words
    return _("%(share)s of all shares are where they should be") % words


def detail_at(line: FairLine, stop: int) -> str:
    """How many entries are off target, and the furthest of them; sources without data."""
    count = StateCount.of(line.states[:, stop].tolist())
    parts = []
    if count.n_all:
        text = ngettext("%(off)s of %(n)s is off target.", "%(off)s of %(n)s are off target.", count.n_off)
        parts.append(text % {"off": number_texts.count(count.n_off), "n": number_texts.count(count.n_all)})
    off = line.off_at(stop)
    if off:
        shares = compare_shares(float(line.actual[off[0], stop]), float(line.target[off[0], stop]))
        words = {"name": line.convergence.members[off[0]].name, "actual": shares.actual, "target": shares.target}
        parts.append(_("Furthest: %(name)s, %(actual)s of a target of %(target)s.") % words)
    if stop > line.now:
        parts.append(_("Expected at the usual pace."))
    missing = _missing_at(line, stop)
    if missing:
        parts.append(_("Without usage of %(names)s.") % {"names": ", ".join(missing)})
    return " ".join(parts)


def _missing_at(line: FairLine, stop: int) -> Sequence[str]:
    if stop > line.now or line.convergence.is_by_hour:
        return ()
    return line.convergence.gaps.get(date.fromordinal(int(line.stops[stop])), ())


def tolerance_part(line: FairLine) -> float:
    """Half the width of the band as part of the target: the smallest of the entries', 0..1."""
    is_leaf = leaf_mask(line.convergence.members)
    relative = tolerances_of(line.convergence.settings.tolerance, is_leaf)["relative"]
    return float(min(relative.min(initial=1.0), 1.0))


def tolerance_text(line: FairLine) -> str:
    """What the band means."""
    points = float(line.convergence.settings.tolerance["points"])
    words = {"part": percent(tolerance_part(line), 0), "points": number_texts.number(points, 1)}
    return _("tolerance: %(part)s of the target, at least %(points)s points") % words


def band_places(line: FairLine) -> tuple[float, float]:
    """Both ends of the tolerance on the axis, 0..1."""
    part = tolerance_part(line)
    low, high = places_of(np.array([1 - part, 1 + part]), np.ones(2)).tolist()
    return low, high


def tick_places() -> Iterator[tuple[float, str]]:
    low, high = ENDS
    for at, text in TICKS:
        yield (at - low) / (high - low), _(text) if at == 0 else text


def factor_text(actual: float, target: float) -> str:
    """2.2 ×; "" beyond the axis, where circles are at its end."""
    if not (isfinite(actual) and isfinite(target)) or actual <= 0 or target <= 0:
        return ""
    ratio = actual / target
    if not isfinite(ratio) or ratio <= 0 or not ENDS[0] < log2(ratio) < ENDS[1]:
        return ""
    return _("%(n)s ×") % {"n": number_texts.number(ratio, 1)}


def used_of_target(actual: str, target: str) -> str:
    """19.8 of 8.8 %."""
    return _("%(actual)s of %(target)s") % {"actual": actual.removesuffix(PERCENT), "target": target}


def texts_beside(line: FairLine, row: int, stop: int, room: Room) -> tuple[str, str]:
    """Name and shares, or that there is no demand, beside a circle; empty on target and where nothing is known."""
    letter = line.letter(row, stop)
    if letter not in "oui":
        return "", ""
    name = isolated(line.convergence.members[row].name, room.most_letters)
    if letter == "i":
        return name, _("no demand")
    used, target = compared_texts(line.actual[row, stop : stop + 1], line.target[row, stop : stop + 1])
    return name, used_of_target(used[0], target[0])


def isolated(name: str, most_letters: int) -> str:
    """A name of any direction, its begin and end where it is too long."""
    if len(name) > most_letters:
        half = (most_letters - 1) // 2
        name = f"{name[:half]}…{name[-half:]}"
    return f"{_FRONT}{name}{_BEHIND}"


def spots_of(line: FairLine, room: Room) -> tuple[float, list[Spot]]:
    """k of radii, and the circle of each of `rows` now."""
    rows = line.rows
    target = np.nan_to_num(line.target[rows]) if rows else np.zeros((0, line.n_stops))
    root_px = pixels_of_root(target.max(axis=1, initial=0.0), room)
    places = np.array([_last_place(line, row) for row in rows])
    words = ["  ".join(texts_beside(line, row, line.now, room)).strip() for row in rows]
    return root_px, lay_out(places, target[:, line.now], root_px, words, range(len(rows)), room)


def _last_place(line: FairLine, row: int) -> float:
    """The place now, or the last one before."""
    known = np.flatnonzero(np.isfinite(line.places[row, : line.n_past]))
    known = known if known.size else np.flatnonzero(np.isfinite(line.places[row]))
    return float(line.places[row, known[-1]])


@dataclass(frozen=True, slots=True)
class TimeMark:
    """Words under the slider. part: of its length, 0..1."""

    part: float
    text: str


def time_marks(line: FairLine) -> list[TimeMark]:
    """Now, where the forecast begins; empty where nothing is ahead."""
    if line.n_stops <= line.n_past:
        return []
    return [TimeMark(line.now / (line.n_stops - 1), _("now"))]


# --- The figure


def fair_line_figure(
    line: FairLine | None,
    links_of: Callable[[Member], MemberLinks],
    *,
    rooms: Sequence[Room] = ROOMS,
    svg: str = "",
) -> Figure:
    """The numbers of all stops for the page's script, and the table of now. rooms: wide and narrow."""
    title = _("Nothing to compare yet")
    if line is None or not line.rows:
        message = _("No usage of these entries is known in these days.")
        return Figure(NAME, title, message, (), {}, Table((), (), ()), empty=message, reads=False)
    convergence, now = line.convergence, line.now
    laid_out = [(room, *spots_of(line, room)) for room in rooms]
    hidden = len(convergence.members) - int(line.known.sum())
    return Figure(
        name=NAME,
        title=heading_at(line, now),
        note=line.labels[now],
        sentence=detail_at(line, now),
        traces=(),
        layout={},
        table=_table(line),
        file=file_name(convergence, NAME),
        caption=caption(convergence),
        reads=False,
        extra={
            "labels": line.labels,
            "marks": time_marks(line),
            "pad": PAD,
            "now": now,
            "headings": [heading_at(line, stop) for stop in range(line.n_stops)],
            "details": [detail_at(line, stop) for stop in range(line.n_stops)],
            "ends": ENDS,
            "rooms": [
                {"root": root, "height": room.height, "letters": room.most_letters} for room, root, _s in laid_out
            ],
            "groups": [
                _group(line, row, [spots[at].y for _room, _root, spots in laid_out], links_of)
                for at, row in enumerate(line.rows)
            ],
            "rest": _density(line),
            "n_unknown": hidden,
            "svg": svg,
        },
    )


def _group(line: FairLine, row: int, y: list[float], links_of: Callable[[Member], MemberLinks]) -> dict[str, Any]:
    member = line.convergence.members[row]
    used, target = compared_texts(line.actual[row], line.target[row])
    places = line.places[row]
    return {
        "uid": str(member.uid),
        "name": member.name,
        "y": y,
        "x": [round(place, 4) if isfinite(place) else None for place in places.tolist()],
        "t": _runs([round(share, 5) if isfinite(share) else 0 for share in line.target[row].tolist()]),
        "s": "".join(line.letter(row, stop) for stop in range(line.n_stops)),
        "used": used,
        "target": _runs(target),
        "links": links_of(member),
    }


def _runs(values: Sequence[Any]) -> list[tuple[int, Any]]:
    """[first index, value] of each run of equal values."""
    return [(next(run)[0], value) for value, run in groupby(enumerate(values), key=lambda one: one[1])]


def _density(line: FairLine) -> dict[str, Any] | None:
    """Targets of the entries without a circle by place, as part of the highest of all stops; None without any."""
    if not line.rest:
        return None
    places, weight = line.places[line.rest], np.nan_to_num(line.target[line.rest])
    at = np.clip(np.nan_to_num(places) * N_BINS, 0, N_BINS - 1).astype(np.int64)
    weight = np.where(np.isfinite(places), weight, 0.0)
    bins = np.array([np.bincount(at[:, stop], weight[:, stop], N_BINS) for stop in range(line.n_stops)])
    top = float(bins.max())
    n = len(line.rest)
    text = ngettext("%(n)s smaller one as a density", "%(n)s smaller ones as a density", n)
    return {"words": text % {"n": number_texts.count(n)}, "bins": np.round(bins / top if top else bins, 3).tolist()}


def _table(line: FairLine) -> Table:
    """One row per entry, furthest first; the CSV has every stop."""
    now, convergence = line.now, line.convergence
    has_forecast = line.n_stops > line.n_past
    columns = [Column(_("Name"), is_number=False), Column(_("Used")), Column(_("Target")), Column(_("Used ÷ target"))]
    columns.append(Column(_("Balance"), is_number=False))
    if has_forecast:
        columns.append(Column(_("In %(n)s days") % {"n": NEXT_DAYS}))
    rest = sorted(set(range(len(convergence.members))) - set(line.rows), key=lambda row: convergence.members[row].name)
    rows = []
    for row in [*line.rows, *rest][:MOST_FAIR_ROWS]:
        actual, target = float(line.actual[row, now]), float(line.target[row, now])
        shares = compare_shares(actual, target)
        _shape, amount, word = balance_text(str(line.states[row, now]), actual, target)
        factor = (
            number_texts.number(actual / target, 2)
            if target > 0 and isfinite(actual / target)
            else number_texts.UNKNOWN
        )
        cells = [convergence.members[row].name, shares.actual, shares.target, factor, f"{amount} {word}".strip()]
        rows.append([*cells, percent(float(line.actual[row, -1]))] if has_forecast else cells)
    return Table(
        tuple(columns),
        rows,
        _RawStops(line),
        header=("at", "entry", "uid", "used_percent", "target_percent", "state", "is_expected"),
    )


class _RawStops(Sequence[Sequence[Any]]):
    """A CSV row for each entry and stop, made when it is written."""

    def __init__(self, line: FairLine) -> None:
        self._line = line

    def __len__(self) -> int:
        return len(self._line.convergence.members) * self._line.n_stops

    def __getitem__(self, at: Any) -> Any:
        if not 0 <= at < len(self):
            raise IndexError(at)
        line, (row, stop) = self._line, divmod(at, self._line.n_stops)
        member = line.convergence.members[row]
        shares = [float(column[row, stop]) for column in (line.actual, line.target)]
        numbers = [round(share * 100, 4) if isfinite(share) else "" for share in shares]
        moment = datetime.fromordinal(int(line.stops[stop])) + timedelta(days=line.stops[stop] % 1)
        moment = (moment + timedelta(seconds=0.5)).replace(microsecond=0)
        text = moment.isoformat(" ", "minutes") if line.convergence.is_by_hour else moment.date().isoformat()
        return [text, member.name, str(member.uid), *numbers, str(line.states[row, stop]), int(stop > line.now)]
