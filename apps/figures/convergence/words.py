"""Shares, balances and days in words, the same in all figures of convergence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from math import isfinite

from django.utils import formats
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from apps.figures import Mark
from apps.figures.axes import moment
from apps.priorities.convergence.reading import Convergence
from apps.priorities.sentences.numbers import percent, points, points_phrase

_IDLE = ("no_demand", "met")
_MOST_MARKS = 48


@dataclass(frozen=True, slots=True)
class Links:
    """Where parts of a figure lead. moment: with {at} for the value of x, of a day or an hour; revision: by its number;
    entry: by uid and name; "" where the page has none."""

    moment: str = ""
    revision: Callable[[int], str] = lambda _number: ""
    entry: Callable[[str, str], str] = lambda _uid, _name: ""


NO_LINKS = Links()


def used_words(actual: float, target: float, state: str) -> str:
    """used 52.6 %, target 40.0 %, 12.6 points over"""
    if not isfinite(actual) or not isfinite(target):
        return _("no number")
    off = actual - target
    balance = _balance(round(abs(off) * 1000), off > 0, state, get_language())
    return _form(get_language()) % {"actual": _percent(actual), "target": _percent(target), "balance": balance}


def _percent(fraction: float) -> str:
    """A figure has thousands of numbers with three digits: most have been written before."""
    return percent(fraction) if fraction < 0.001 else _written(round(fraction * 1000), get_language())


@lru_cache(maxsize=8192)
def _written(thousandths: int, _language: str | None) -> str:
    return percent(thousandths / 1000)


@lru_cache(maxsize=8)
def _form(_language: str | None) -> str:
    return _("used %(actual)s, target %(target)s, %(balance)s")


@lru_cache(maxsize=8192)
def _balance(thousandths: int, is_over: bool, state: str, _language: str | None) -> str:
    return _balance_words(thousandths / 1000 * (1 if is_over else -1), state)


def _balance_words(off: float, state: str) -> str:
    if state == "on":
        return _("on target")
    if state == "no_demand":
        return _("no demand")
    return (_("%(points)s over") if off > 0 else _("%(points)s under")) % {"points": points_phrase(off)}


def short_balance(actual: float, target: float, state: str) -> str:
    """▲ 12.6, for labels beside a line."""
    if not isfinite(actual) or not isfinite(target) or not state:
        return _("no number")
    if state == "on":
        return _("on target")
    if state == "no_demand":
        return f"◌ {_('no demand')}"
    return f"{'▲' if actual > target else '▼'} {points(actual - target)}"


def mark_of(state: str, off: float) -> str:
    """The token of a line by its state now."""
    if state == "on":
        return "$level-mark"
    if state in _IDLE or not isfinite(off):
        return "$line-strong" if state == "no_demand" else "$under-mark"
    return "$over-mark" if off > 0 else "$under-mark"


def day_words(on: date) -> str:
    return formats.date_format(on, "j M, H:i" if isinstance(on, datetime) else "j M Y")


def revision_marks(found: Convergence, links: Links) -> list[Mark]:
    """The revisions of the period, the newest of very many."""
    marks = []
    for one in found.published[-_MOST_MARKS:]:
        at = moment(found.on[one.day]) if one.day >= 0 else one.on.isoformat()
        text = _("Revision %(n)s, %(day)s") % {"n": one.number, "day": formats.date_format(one.on, "j M Y")}
        marks.append(Mark(at, _("rev %(n)s") % {"n": one.number}, text, links.revision(one.number)))
    return marks


def caption(found: Convergence) -> str:
    """Policy, revision and moment, below a downloaded picture."""
    last = found.latest_at or (found.on[-1] if found.on else None)
    until = "" if last is None else formats.date_format(last, "j M Y, H:i" if isinstance(last, datetime) else "j M Y")
    return " · ".join(part for part in (found.policy_name, _("revision %(n)s") % {"n": found.revision}, until) if part)


def file_name(found: Convergence, figure: str) -> str:
    first, last = (moment(one)[:10] for one in (found.on[0], found.on[-1])) if found.on else ("", "")
    return f"fairshare_{found.policy_slug}_{figure}_{first}_{last}_rev{found.revision}"
