"""The heading of a panel: share, target and balance of the last point of its line, in words."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from apps.analytics.convergence.before_entry import BEFORE_ENTRY
from apps.analytics.convergence.records import Convergence
from apps.priorities.sentences.numbers import UNKNOWN, percent, points

Shape = Literal["on", "over", "under", "idle", "nodata"]
_STATE_WORDS = {
    "on": gettext_noop("on target"),
    "over": gettext_noop("over"),
    "starved": gettext_noop("under, jobs wait"),
    "met": gettext_noop("under, no demand"),
    "no_demand": gettext_noop("no demand"),
    "inferred": gettext_noop("under; demand unknown"),
    BEFORE_ENTRY: gettext_noop("before the entry"),
}
STATES = tuple(_STATE_WORDS)
_SHAPES: dict[str, tuple[Shape, str]] = {
    "on": ("on", _STATE_WORDS["on"]),
    "over": ("over", _STATE_WORDS["over"]),
    "starved": ("under", _STATE_WORDS["starved"]),
    "inferred": ("under", gettext_noop("under")),
    "met": ("idle", gettext_noop("no demand")),
    "no_demand": ("idle", _STATE_WORDS["no_demand"]),
}


@dataclass(frozen=True, slots=True)
class Heading:
    """actual, target: the words below the name. shape: form and colour of the balance; amount: in points, or "".

    word: what the balance is called; "" where nothing is known of a point.
    """

    actual: str
    target: str
    shape: Shape
    amount: str
    word: str


def state_words(state: str) -> str:
    """One word or two."""
    return _(_STATE_WORDS[state]) if state in _STATE_WORDS else UNKNOWN


def heading_of(found: Convergence, row: int) -> Heading:
    """Of the newest snapshot where the line ends there, else of the last day."""
    actual, target = (float(column[row, -1]) for column in (found.actual, found.target))
    shares = [percent(one) if isfinite(one) else UNKNOWN for one in (actual, target)]
    reads = (_("actual %(share)s") % {"share": shares[0]}, _("target %(share)s") % {"share": shares[1]})
    if not found.told[row].any():
        return Heading(_("not shown: fewer than five active members"), reads[1], "nodata", "", "")
    shape, amount, word = balance_words(str(found.states[row, -1]), actual - target)
    return Heading(*reads, shape, amount, word)


def balance_words(state: str, difference: float) -> tuple[Shape, str, str]:
    """Shape, amount in points, and word of a point."""
    if not isfinite(difference) or not state:
        return "nodata", "", state_words(state) if state == BEFORE_ENTRY else _("no data")
    shape, word = _SHAPES.get(state, _SHAPES["no_demand"])
    return shape, points(difference) if shape in {"over", "under"} else "", _(word)


def newest_words(found: Convergence) -> str:
    """What the last point is of; "" where it is a day, or an hour, that is over."""
    if found.latest_at is None:
        return ""
    at = formats.date_format(timezone.localtime(found.latest_at), "j M, H:i")
    over = _("complete hours") if found.is_by_hour else _("complete days")
    text = _("Headings and ends of lines are from the newest snapshot, %(at)s; summary and averages cover %(over)s.")
    return text % {"at": at, "over": over}
