"""Used and target share of a point as text, with the balance of the two."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import isfinite

import numpy as np
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from apps.engine.target_state import is_on_target, slack_of
from apps.priorities.level_facts import IDLE_STATES
from apps.priorities.sentences.numbers import UNKNOWN, compare_shares, percent, points_phrase
from apps.series.daily_series import F8, Mask
from apps.web.shell.presentation import on_target_text
from apps.web.svg.bars import USUAL_TOLERANCE

_BELOW_HALF = -1  # stands for shares above zero but below half of a tenth of a percent


def used_text(actual: float, target: float, state: str, slack: float) -> str:
    """Return e.g. "used 52.6 %, target 40.0 %, 12.6 points over". slack: half the width of the tolerance, 0..1."""
    return used_words_of(np.array([actual]), np.array([target]), [state], np.array([slack]))[0]


def expected_text(likely: float, target: float, slack: float) -> str:
    """Return e.g. "expected 7.2 %, target 8.8 %, 1.6 points under". slack: half the width of the tolerance, 0..1."""
    shares = compare_shares(likely, target)
    balance = (
        on_target_text(likely, target, slack)
        if is_on_target(likely, target, slack)
        else _balance_text(shares.points_phrase, likely > target, "off")
    )
    return _("expected %(share)s, target %(target)s, %(balance)s") % {
        "share": shares.actual,
        "target": shares.target,
        "balance": balance,
    }


def used_words_of(actual: F8, target: F8, states: Sequence[str], slack: F8) -> list[str]:
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
    for at in np.flatnonzero(known & ~_is_clear(actual, target, known)).tolist():
        shares, state = compare_shares(float(actual[at]), float(target[at])), states[at]
        balance = _balance_text(shares.points_phrase, bool(off[at] > 0), state)
        words[at] = _template(language) % {"actual": shares.actual, "target": shares.target, "balance": balance}
    usual = slack_of(target, USUAL_TOLERANCE.stated)
    for at in np.flatnonzero(known & ~is_on_target(actual, target, usual)).tolist():
        if states[at] == "on":
            shares = compare_shares(float(actual[at]), float(target[at]))
            balance = on_target_text(float(actual[at]), float(target[at]), float(slack[at]))
            words[at] = _template(language) % {"actual": shares.actual, "target": shares.target, "balance": balance}
    return words


def compared_texts(actual: F8, target: F8) -> tuple[list[str], list[str]]:
    """Return both shares of each point as `compare_shares` writes them; fractions, NaN where unknown."""
    language = get_language()
    known = [np.isfinite(shares) for shares in (actual, target)]
    shares = np.where(known[0], actual, 0.0), np.where(known[1], target, 0.0)
    both = known[0] & known[1]
    used, wanted = (
        [
            _percent_text(language, thousandths) if is_known else UNKNOWN
            for thousandths, is_known in zip(_in_thousandths(column), mask.tolist(), strict=True)
        ]
        for column, mask in zip(shares, known, strict=True)
    )
    for at in np.flatnonzero(~_is_clear(*shares, both)).tolist():
        compared = compare_shares(float(actual[at]), float(target[at]))
        used[at], wanted[at] = compared.actual, compared.target
    return used, wanted


def _is_clear(actual: F8, target: F8, both: Mask) -> Mask:
    """Mask of points whose numbers are as `compare_shares` shows them if each is rounded alone.

    both: where the two are known; one alone has nothing to differ from. A number close to the middle of two tenths is
    not clear: numpy and Python may round it differently.
    """
    off = np.abs(actual - target) * 100
    shown, wanted = np.round(actual * 100, 1), np.round(target * 100, 1)
    clear: Mask = ~both | ((shown == wanted) == (off < 5e-4))
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
    if state in IDLE_STATES:
        return _("no demand")
    return (_("%(n)s over") if is_over else _("%(n)s under")) % {"n": amount}


def short_balance(actual: float, target: float, state: str) -> str:
    """Return e.g. "▲ 12.6", for labels beside a line."""
    if not isfinite(actual) or not isfinite(target) or not state:
        return _("no data")
    if state == "on":
        return _("on target")
    if state in IDLE_STATES:
        return f"◌ {_('no demand')}"
    return f"{'▲' if actual > target else '▼'} {compare_shares(actual, target).points}"
