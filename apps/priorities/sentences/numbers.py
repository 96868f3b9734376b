"""Format numbers for sentences: shares in percent, differences in points, counts, signed priorities, instants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import combinations
from math import isfinite
from typing import NamedTuple

from django.utils import formats, timezone
from django.utils.functional import Promise
from django.utils.translation import get_language, gettext_lazy, ngettext
from django.utils.translation import gettext as _

from apps.core.resource_kinds import ENERGY
from apps.priorities.usage_factors import only_resource

NBSP = "\u00a0"
MINUS = "\u2212"
UNKNOWN = "\u2013"
_MOST_DECIMALS = 3
_LEAST_DIFFERENCE = 10.0**-_MOST_DECIMALS / 2  # in points; what is closer is shown as equal
_ROUNDING = 1e-12  # of fractions: a smaller difference is an error of rounding


class HourUnit(NamedTuple):
    """Name of an hour of a resource, in a sentence and as the heading of a column."""

    name: Promise
    heading: Promise


HOUR_UNITS = {
    "cpu_s": HourUnit(gettext_lazy("core-hours"), gettext_lazy("Core-hours")),
    "gpu_s": HourUnit(gettext_lazy("GPU-hours"), gettext_lazy("GPU-hours")),
    "mem_gb_s": HourUnit(gettext_lazy("GB-hours"), gettext_lazy("GB-hours")),
    "node_s": HourUnit(gettext_lazy("node-hours"), gettext_lazy("Node-hours")),
    "billing": HourUnit(gettext_lazy("billing-hours"), gettext_lazy("Billing-hours")),
    ENERGY: HourUnit(gettext_lazy("watt-hours"), gettext_lazy("Watt-hours")),
}


def percent(fraction: float | None, decimals: int = 1) -> str:
    """33.6 %; a dash if unknown; "<0.1 %" for a fraction above 0 that would be rounded to 0."""
    if fraction is None or not isfinite(fraction):
        return UNKNOWN
    points = fraction * 100
    smallest = 10.0**-decimals
    if 0 < points < smallest / 2:
        return f"<{number(smallest, decimals)}{NBSP}%"
    return f"{number(points, decimals)}{NBSP}%"


def decimals_beside(*fractions: float | None) -> int:
    """The fewest decimals, 1 to 3, with which fractions beside each other in percent look different if they are."""
    known = [fraction * 100 for fraction in fractions if fraction is not None and isfinite(fraction)]
    differs = [(a, b, abs(a - b) >= _LEAST_DIFFERENCE) for a, b in combinations(known, 2)]
    for decimals in range(1, _MOST_DECIMALS):
        if all((round(a, decimals) != round(b, decimals)) == is_other for a, b, is_other in differs):
            return decimals
    return _MOST_DECIMALS


def decimals_of_column(off_target: Iterable[tuple[float | None, float | None]]) -> int:
    """The fewest decimals, 1 to 3, of all shares of a table, so that no entry off its target seems to be on it.

    off_target: actual share and target of each row that shows a difference.
    """
    pairs = [(a * 100, t * 100) for a, t in off_target if a is not None and t is not None]
    known = [(a, t) for a, t in pairs if isfinite(a) and isfinite(t) and abs(a - t) >= _LEAST_DIFFERENCE]
    for decimals in range(1, _MOST_DECIMALS):
        if all(round(a, decimals) != round(t, decimals) for a, t in known):
            return decimals
    return _MOST_DECIMALS


def difference_beside(difference: float, fractions: Sequence[float | None], decimals: int) -> float:
    """A difference of two of these fractions as that of the numbers that are shown; unchanged without two of them."""
    shown = [round(fraction * 100, decimals) for fraction in fractions if fraction is not None and isfinite(fraction)]
    gaps = (abs(left - right) / 100 for left, right in combinations(shown, 2))
    return min(gaps, key=lambda gap: abs(gap - abs(difference)), default=abs(difference))


@dataclass(frozen=True, slots=True)
class ComparedShares:
    """An actual share and its target in percent, and their difference in points, as they are shown beside each other.

    difference: that of the two numbers as shown, in points without sign; None where one is unknown.
    """

    actual: str
    target: str
    difference: float | None
    decimals: int

    @property
    def points(self) -> str:
        """8.2; empty where one is unknown."""
        return "" if self.difference is None else number(self.difference, self.decimals)

    @property
    def points_phrase(self) -> str:
        """8.2 points; empty where one is unknown."""
        return "" if self.difference is None else points_phrase(self.difference / 100, self.decimals)


def compare_shares(actual: float | None, target: float | None, *, decimals: int | None = None) -> ComparedShares:
    """Round an actual share and its target for each other: what is over its target looks larger than it.

    decimals: of the column in which they are shown; by default what these two need.
    """
    if actual is None or target is None or not isfinite(actual) or not isfinite(target):
        return ComparedShares(percent(actual, decimals or 1), percent(target, decimals or 1), None, decimals or 1)
    decimals = decimals or decimals_beside(actual, target)
    difference = abs(round(actual * 100, decimals) - round(target * 100, decimals))
    return ComparedShares(percent(actual, decimals), percent(target, decimals), difference, decimals)


@dataclass(frozen=True, slots=True)
class ChangedShares:
    """A share in percent before and after, and its signed change in points, as they are shown beside each other.

    change: +7.4, −3.3, ±0: that of the two numbers as shown; what is unknown counts as 0. A change that vanishes is
    "<0.1".
    """

    before: str
    after: str
    change: str
    decimals: int


def change_shares(before: float | None, after: float | None, *, decimals: int | None = None) -> ChangedShares:
    """Round a share before and after for each other: what has changed looks changed, and by the number beside it.

    decimals: of the column in which they are shown; by default what these two need.
    """
    decimals = decimals or decimals_beside(before, after)
    was, is_now = (round((share or 0.0) * 100, decimals) for share in (before, after))
    if was != is_now:
        change = ("+" if is_now > was else MINUS) + number(abs(is_now - was), decimals)
    elif abs((after or 0.0) - (before or 0.0)) > _ROUNDING:
        change = f"<{number(10.0**-decimals, decimals)}"
    else:
        change = "±0"
    return ChangedShares(percent(before, decimals), percent(after, decimals), change, decimals)


def points(fraction: float, decimals: int = 1) -> str:
    """The size of a difference of shares, without sign and unit: 8.2."""
    return number(abs(fraction) * 100, decimals)


def points_phrase(difference: float, decimals: int = 1) -> str:
    """8.2 points, for sentences."""
    shown = round(abs(difference) * 100, decimals)
    return ngettext("%(n)s point", "%(n)s points", 1 if shown == 1 else 2) % {"n": points(difference, decimals)}


def signed(value: float | None, decimals: int = 3) -> str:
    """A priority: +0.036, −0.315, 0.000."""
    if value is None or not isfinite(value):
        return UNKNOWN
    rounded = round(value, decimals)
    sign = "+" if rounded > 0 else MINUS if rounded < 0 else ""
    return f"{sign}{number(abs(rounded), decimals)}"


def signed_exact(value: float) -> str:
    """A priority with six significant digits, to show small differences: +0.0364521."""
    sign = "+" if value > 0 else MINUS if value < 0 else ""
    return f"{sign}{abs(value):.6g}"


def ratio(value: float | None) -> str:
    """A number ≥ 0 of any size, to three digits: 1.13, 0.0032, 2.1e+09."""
    if value is None or not isfinite(value):
        return UNKNOWN
    return amount(value) if value == 0 or 1e-2 <= value < 1e6 else f"{value:.3g}"


def signed_list(values: Sequence[float], decimals: int = 3) -> str:
    """Priorities of all levels in parentheses."""
    return f"({', '.join(signed(value, decimals) for value in values)})"


def factor(value: float | None) -> str:
    return UNKNOWN if value is None or not isfinite(value) else number(value, 4)


def count(value: float) -> str:
    """A whole number, rounded: 214,806."""
    return _format(round(value), 0, get_language())


def number(value: float, decimals: int) -> str:
    """A number rounded to some decimals: 1,240.6. Use it instead of Django's formatting, which truncates."""
    return _format(round(value, decimals) + 0.0, decimals, get_language())  # −0.0 + 0.0 is 0.0


@lru_cache(maxsize=65_536)
def _format(value: float, decimals: int, _language: str | None) -> str:
    """Cached, because Django reads the language's settings in each call and a page has thousands of numbers."""
    return formats.number_format(value, decimals, force_grouping=True)


def as_typed(value: float) -> str:
    """A setting or share for an input field, without grouping: 0.125, 1200000."""
    return formats.number_format(f"{value:.10g}" if abs(value) < 1e15 else value, force_grouping=False)


def amount(value: float) -> str:
    """A number of any size to about three digits: 1,240; 0.0312."""
    size = abs(value)
    decimals = (
        0 if value == round(value) else 0 if size >= 100 or size == 0 else 1 if size >= 10 else 2 if size >= 0.1 else 4
    )
    return number(value, decimals)


def clock_text(at: datetime, form: str = "j M Y, H:i") -> str:
    """An instant with its zone: 20 Nov 2026, 12:00 CET. In the zone of the page.

    form: Django's, with the clock time last.
    """
    here = timezone.localtime(at)
    return f"{formats.date_format(here, form)}{NBSP}{here:%Z}"


def day_and_time(at: datetime) -> str:
    """Fri 20 Nov 2026, 12:00 CET, in the zone of the page."""
    return clock_text(at, "D j M Y, H:i")


def date(at: datetime) -> str:
    """27 December, in the zone of the page."""
    return formats.date_format(timezone.localtime(at), "j F")


def dates(first: datetime, last: datetime) -> str:
    """8 to 18 December, or 24 December to 1 January: one month is named once."""
    start, end = timezone.localtime(first), timezone.localtime(last)
    is_one_month = (start.year, start.month) == (end.year, end.month)
    shown = formats.date_format(start, "j" if is_one_month else "j F")
    return _("%(first)s to %(last)s") % {"first": shown, "last": date(last)}


def either(names: Sequence[str]) -> str:
    """umea or luleå."""
    *others, last = names
    return _("%(first)s or %(last)s") % {"first": ", ".join(others), "last": last} if others else last


def kinds(kind: str) -> str:
    """Name of several entries of one kind; others, where the kind is unknown or mixed."""
    names = {"vo": _("VOs"), "project": _("projects"), "group": _("groups")}
    return names.get(kind, _("others"))


def span(seconds: float) -> str:
    """A duration in words: 5 hours, 3½ days, 40 days."""
    hours = seconds / 3600
    if hours < 36:
        n = max(round(hours), 1)
        return ngettext("%(n)s hour", "%(n)s hours", n) % {"n": count(n)}
    halves = round(hours / 12)
    whole, half = divmod(halves, 2) if halves < 28 else (round(hours / 24), 0)
    return ngettext("%(n)s day", "%(n)s days", 2 if half else whole) % {"n": f"{count(whole)}{'½' if half else ''}"}


def adjustment_sentence(resource: str, amount_s: float, at: datetime, note: str) -> str:
    """A sentence about an adjustment: "Includes −120 core-hours credited on 18 Nov 2026: node failure."."""
    hours = number(abs(amount_s) / 3600, 1 if amount_s % 3600 else 0)
    words = {
        "amount": f"−{hours}" if amount_s < 0 else f"+{hours}",
        "unit": unit_of(resource),
        "day": formats.date_format(timezone.localtime(at), "j M Y"),
    }
    if amount_s < 0:
        sentence = _("Includes %(amount)s %(unit)s credited on %(day)s") % words
    else:
        sentence = _("Includes %(amount)s %(unit)s charged on %(day)s") % words
    text = f"{sentence}: {note}" if note else sentence
    return text if text.endswith((".", "!", "?")) else f"{text}."


def unit_of(resource: str) -> str:
    """Name of the unit of a resource, by the hour."""
    known = HOUR_UNITS.get(resource)
    return str(known.name) if known else _("hours of %(kind)s") % {"kind": resource}


def unit_of_metric(weights: Mapping[str, float]) -> str:
    """The unit of a metric: of its resource if that is the only one, with weight 1; else weighted hours."""
    only = only_resource(weights)
    return unit_of(only) if only else _("weighted hours")


def heading_of_metric(weights: Mapping[str, float]) -> str:
    """`unit_of_metric` as the heading of a column."""
    only = only_resource(weights)
    if not only:
        return _("Weighted hours")
    known = HOUR_UNITS.get(only)
    return str(known.heading) if known else _("Hours of %(kind)s") % {"kind": only}


def job_hours(job_h: float | None) -> str:
    """Core-hours without unit, to three digits below 100."""
    if job_h is None:
        return "–"
    if job_h == 0:
        return number(0, 0)
    if job_h >= 100:
        return count(round(job_h))
    return number(job_h, 1) if job_h >= 1 else f"{job_h:.2g}"
