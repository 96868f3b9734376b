"""Texts of the convergence figures (shares, balances, days), their revision marks and links, and the
rows of their CSV.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
from django.utils import formats
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from apps.priorities.sentences.numbers import compare_shares, percent, points_phrase
from apps.series.convergence.records import Convergence
from apps.series.daily_series import F8
from apps.web.figures import Mark, axes
from apps.web.figures.axes import moment

_IDLE = ("no_demand", "met")
_MOST_MARKS = 48
_BELOW_HALF = -1  # stands for shares above zero but below half of a tenth of a percent


@dataclass(frozen=True, slots=True)
class Links:
    """Links of a figure. moment: URL with {at} for the value of x (a day or an hour); revision: by number; entry: by
    uid and name; "" if the page has none.
    """

    moment: str = ""
    revision: Callable[[int], str] = lambda _number: ""
    entry: Callable[[str, str], str] = lambda _uid, _name: ""


NO_LINKS = Links()


def used_text(actual: float, target: float, state: str) -> str:
    """Return e.g. "used 52.6 %, target 40.0 %, 12.6 points over"."""
    return used_words_of(np.array([actual]), np.array([target]), [state])[0]


def used_words_of(actual: F8, target: F8, states: Sequence[str]) -> list[str]:
    """Return the same text for each point of a line; fractions, NaN where unknown.

    A figure has thousands of points with numbers of three digits, so most texts are cached.
    """
    language, nothing = get_language(), _("no data")
    known = np.isfinite(actual) & np.isfinite(target)
    actual, target = np.where(known, actual, 0.0), np.where(known, target, 0.0)
    off = actual - target
    columns = (
        _in_thousandths(actual),
        _in_thousandths(target),
        _as_integers(np.abs(np.rint(actual * 1000) - np.rint(target * 1000))),
        (off > 0).tolist(),
        states,
    )
    words = [
        _sentence(language, *point) if is_known else nothing
        for is_known, *point in zip(known.tolist(), *columns, strict=True)
    ]
    for at in np.flatnonzero(known & ~_is_clear(actual, target)).tolist():
        shares, state = compare_shares(float(actual[at]), float(target[at])), states[at]
        balance = _balance_text(shares.points_phrase, bool(off[at] > 0), state)
        words[at] = _template(language) % {"actual": shares.actual, "target": shares.target, "balance": balance}
    return words


def _is_clear(actual: F8, target: F8) -> npt.NDArray[np.bool_]:
    """Mask of points whose numbers are as `compare_shares` shows them if each is rounded alone.

    A number close to the middle of two tenths is not clear: numpy and Python may round it differently.
    """
    off = np.abs(actual - target) * 100
    shown, wanted = np.round(actual * 100, 1), np.round(target * 100, 1)
    clear: npt.NDArray[np.bool_] = (shown == wanted) == (off < 5e-4)
    for value in (actual * 100, target * 100):
        clear &= np.abs(value * 10 % 1 - 0.5) > 1e-6
    return clear


def _in_thousandths(fraction: F8) -> list[int]:
    """Round as `percent` does; `_BELOW_HALF` for shares that it calls less than a tenth of a percent."""
    tenth = np.where(fraction * 100 < 0.05, _BELOW_HALF, 1.0)
    return _as_integers(np.where((fraction > 0) & (fraction < 0.001), tenth, fraction * 1000))


def _as_integers(values: F8) -> list[int]:
    whole: list[int] = np.rint(values).astype(np.int64).tolist()
    return whole


@lru_cache(maxsize=32_768)
def _sentence(language: str | None, actual: int, target: int, off: int, is_over: bool, state: str) -> str:
    """Build the text of one point from numbers in thousandths."""
    balance = _balance(language, off, is_over, state)
    return _template(language) % {
        "actual": _percent_text(language, actual),
        "target": _percent_text(language, target),
        "balance": balance,
    }


@lru_cache(maxsize=8192)
def _percent_text(_language: str | None, thousandths: int) -> str:
    return percent(1e-9 if thousandths == _BELOW_HALF else thousandths / 1000)


@lru_cache(maxsize=8)
def _template(_language: str | None) -> str:
    return _("used %(actual)s, target %(target)s, %(balance)s")


@lru_cache(maxsize=8192)
def _balance(_language: str | None, thousandths: int, is_over: bool, state: str) -> str:
    return _balance_text(points_phrase(thousandths / 1000), is_over, state)


def _balance_text(amount: str, is_over: bool, state: str) -> str:
    if state == "on":
        return _("on target")
    if state == "no_demand":
        return _("no demand")
    return (_("%(n)s over") if is_over else _("%(n)s under")) % {"n": amount}


def short_balance(actual: float, target: float, state: str) -> str:
    """Return e.g. "▲ 12.6", for labels beside a line."""
    if not isfinite(actual) or not isfinite(target) or not state:
        return _("no data")
    if state == "on":
        return _("on target")
    if state == "no_demand":
        return f"◌ {_('no demand')}"
    return f"{'▲' if actual > target else '▼'} {compare_shares(actual, target).points}"


def mark_of(state: str, off: float) -> str:
    """Return the colour token of a line by its latest state."""
    if state == "on":
        return "$level-mark"
    if state in _IDLE or not isfinite(off):
        return "$line-strong" if state == "no_demand" else "$under-mark"
    return "$over-mark" if off > 0 else "$under-mark"


def day_text(on: date) -> str:
    if isinstance(on, datetime):
        return formats.date_format(on, "j M, H:i")
    return _day_text(get_language(), on)


@lru_cache(maxsize=4096)
def _day_text(_language: str | None, on: date) -> str:
    """Only days are cached: equal instants may be in different zones."""
    return formats.date_format(on, "j M Y")


def revision_marks(found: Convergence, links: Links) -> list[Mark]:
    """Return marks of the period's revisions, limited to the newest."""
    marks = []
    for one in found.published[-_MOST_MARKS:]:
        at = moment(found.on[one.day]) if one.day >= 0 else one.on.isoformat()
        text = _("Revision %(n)s, %(day)s") % {"n": one.revision, "day": formats.date_format(one.on, "j M Y")}
        marks.append(Mark(at, _("Rev %(n)s") % {"n": one.revision}, text, links.revision(one.revision)))
    return marks


def moment_url(found: Convergence, links: Links) -> str:
    """Return the URL of the page at a point of x: the hour, or the end of the day."""
    return links.moment if found.is_by_hour else links.moment.replace("{at}", "{at}T23:59")


def caption(found: Convergence) -> str:
    """Policy, revision and time, for below a downloaded picture."""
    last = found.latest_at or (found.on[-1] if found.on else None)
    until = "" if last is None else formats.date_format(last, "j M Y, H:i" if isinstance(last, datetime) else "j M Y")
    return " · ".join(part for part in (found.policy_name, _("Revision %(n)s") % {"n": found.revision}, until) if part)


def file_name(found: Convergence, figure: str) -> str:
    first, last = (moment(one)[:10] for one in (found.on[0], found.on[-1])) if found.on else ("", "")
    return f"fairshare_{found.policy_slug}_{figure}_{first}_{last}_rev{found.revision}"


class RawRows(Sequence[Sequence[Any]]):
    """CSV rows of a day (or hour) and percents with four digits, "" where unknown. columns: fractions by `on`."""

    def __init__(self, on: Sequence[date], columns: Sequence[F8]) -> None:
        self._on, self._columns = on, columns

    def __len__(self) -> int:
        return len(self._on)

    def __getitem__(self, at: Any) -> Any:
        numbers = (float(column[at]) * 100 for column in self._columns)
        return [axes.moment(self._on[at]), *(round(one, 4) if isfinite(one) else "" for one in numbers)]
