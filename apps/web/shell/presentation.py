"""Formats shares, balances, amounts, durations and instants as text for all pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import formats, timezone
from django.utils.functional import Promise
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.engine.target_state import State as EntryState
from apps.engine.target_state import is_on_target, state_of
from apps.priorities.sentences.numbers import (
    MINUS,
    NBSP,
    UNKNOWN,
    as_typed,
    change_shares,
    clock_text,
    compare_shares,
    count,
    heading_of_metric,
    number,
    points,
    unit_of_metric,
)
from apps.priorities.usage_factors import CORE_S, unit_of_usage
from apps.web.shell import field_labels
from apps.web.svg.bars import USUAL_TOLERANCE, State, Tolerance

_TITLE_WIDTH = 80  # characters
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class KeyedText:
    """One sentence with its key; several are joined with their keys."""

    key: str
    text: str

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True, slots=True)
class StatusBadge:
    """A condition as a badge: CSS class, icon, word and key."""

    css: str
    icon: str
    word: str | Promise
    key: str


def joined(sentences: Iterable[KeyedText]) -> KeyedText:
    parts = [each for each in sentences if each]
    return KeyedText(" ".join(each.key for each in parts), " ".join(each.text for each in parts))


def first_line(text: str) -> str:
    """First line of a reason, shortened to a title."""
    return Truncator(text.strip().partition("\n")[0]).chars(_TITLE_WIDTH)


def hour_unit(metric: Mapping[str, Any]) -> str:
    """Unit of an hour of usage in a policy's metric: core-h, GPU-hours, billing-hours."""
    return _("core-h") if unit_of_usage(metric) == CORE_S else unit_of_metric(metric["weights"])


def hour_heading(metric: Mapping[str, Any]) -> str:
    """`hour_unit` as the heading of a column."""
    return _("Core-h") if unit_of_usage(metric) == CORE_S else heading_of_metric(metric["weights"])


def change(before: float | None, after: float | None) -> str:
    """Signed change of shares in points, where neither share is shown: +7.4, −3.3, ±0."""
    return change_shares(before, after).change


def shares(value: float | None) -> str:
    """Stored shares as they were typed; None is *inherit*."""
    if value is None:
        return _("inherit")
    return as_typed(value)


def shares_short(value: float | None) -> str:
    """Shares with at most six significant digits for a column; the tooltip has the exact number."""
    if value is None or value == int(value) or abs(value) >= 1e6:
        return shares(value)
    return shares(float(f"{value:.6g}"))


def hours(amount_s: float | None) -> str:
    """Hours of an amount in seconds of any unit, which is named beside: 214,806; one decimal below ten; <0.1 below."""
    if amount_s is None:
        return UNKNOWN
    amount_h = amount_s / SECONDS_PER_HOUR
    if 0 < amount_h < 0.05:
        return f"<{number(0.1, 1)}"
    return number(amount_h, 1 if 0 < amount_h < 10 else 0)


def cores(value: float) -> str:
    """A number of cores: 1,024; 4; 0.5."""
    return count(round(value)) if value >= 10 or value == int(value) else f"{value:.3g}"


def cores_text(value: float) -> str:
    """A number of cores with its unit: 1 core; 0.5 cores."""
    return ngettext("%(n)s core", "%(n)s cores", 1 if value == 1 else 2) % {"n": cores(value)}


def signed_hours(amount_s: float) -> str:
    """As `hours`, with a sign."""
    text = hours(abs(amount_s))
    return text if not amount_s else f"{MINUS if amount_s < 0 else '+'}{text}"


def age(seconds: float) -> str:
    """Age of data: 40 s, 4 min, 9 h, 3 d."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}{NBSP}s"
    if whole < 3600:
        return f"{whole // 60}{NBSP}min"
    if whole < 2 * 86400:
        return f"{whole // 3600}{NBSP}h"
    return f"{whole // 86400}{NBSP}d"


def duration(seconds: float) -> str:
    """A window or half-life in the largest unit without remainder: 7 d, 36 h, 90 s."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{count(seconds / size)}{NBSP}{unit}"
    return f"{count(seconds)}{NBSP}s"


def clock_time(at: datetime, now: datetime) -> str:
    """12:04 CET for today, "1 Dec, 12:04 CET" for this year, else with the year."""
    return clock_text(at, _form_of(at, now))


def time_in_list(at: datetime, now: datetime) -> str:
    """As `clock_time`, without the zone: for rows, whose page names the zone once."""
    return formats.date_format(timezone.localtime(at), _form_of(at, now))


def _form_of(at: datetime, now: datetime) -> str:
    here, today = timezone.localtime(at), timezone.localtime(now)
    if here.date() == today.date():
        return "H:i"
    return "j M, H:i" if here.year == today.year else "j M Y, H:i"


def day(at: datetime, now: datetime) -> str:
    here = timezone.localtime(at)
    return formats.date_format(here, "j M" if here.year == timezone.localtime(now).year else "j M Y")


def calendar_day(text: str) -> str:
    """1 Dec 2026 for an ISO date."""
    return formats.date_format(date.fromisoformat(text), "j M Y")


def short_day(on: date) -> str:
    """1 Dec."""
    return formats.date_format(on, "j M")


def long_day(on: date) -> str:
    """1 December 2026."""
    return formats.date_format(on, "j F Y")


def day_heading(at: datetime, now: datetime) -> str:
    """Tue 1 December for this year, else with the year."""
    here = timezone.localtime(at)
    is_this_year = here.year == timezone.localtime(now).year
    return formats.date_format(here, "D j F" if is_this_year else "D j F Y")


def seconds_between(earlier: datetime, later: datetime) -> float:
    return max((later - earlier) / timedelta(seconds=1), 0.0)


@dataclass(frozen=True, slots=True)
class Balance:
    """State, number and word of a comparison with the target; `state` sets icon and colour."""

    state: State
    amount: str
    word: str

    @property
    def text(self) -> str:
        return f"{self.amount} {self.word}".strip()

    @property
    def is_off_target(self) -> bool:
        """Whether it shows a difference."""
        return self.state in (State.OVER, State.UNDER)

    @property
    def icon(self) -> str:
        return "idle" if self.state is State.NO_DATA else self.state.value


def on_target_text(actual: float, target: float, slack: float) -> str:
    """With the tolerance, in points, where it is what makes a large difference count as on target.

    slack: half the width of the band around the target, as a fraction.
    """
    return _("on target, ±%(n)s") % {"n": points(slack)} if is_wide(actual, target) else _("on target")


def is_wide(actual: float, target: float) -> bool:
    """Whether it surprises that a share counts as on target: it is beyond the usual tolerance."""
    return not is_on_target(actual, target, USUAL_TOLERANCE.around(target))


def balance(
    actual: float | None,
    target: float | None,
    *,
    has_usage: bool = True,
    tolerance: Tolerance = USUAL_TOLERANCE,
    decimals: int | None = None,
) -> Balance:
    """Over, under or on target by the tolerance; no demand if a positive target has no usage.

    has_usage: also for jobs that wait, which are demand. decimals: of the column of shares beside it; by default what
    its two shares need.
    """
    state = state_of(target=target, actual=actual, has_usage=has_usage, has_demand=False, tolerance=tolerance.stated)
    return balance_of(state, actual, target, tolerance=tolerance, decimals=decimals)


def balance_of(
    state: EntryState,
    actual: float | None,
    target: float | None,
    *,
    tolerance: Tolerance = USUAL_TOLERANCE,
    decimals: int | None = None,
) -> Balance:
    """A known state in words: over or under by the difference of the two shares as they are shown beside it."""
    if state == "unknown" or actual is None or target is None:
        return Balance(State.NO_DATA, "", _("no data"))
    if state == "idle":
        return Balance(State.IDLE, "", _("no demand"))
    if state == "on":
        return Balance(State.ON, "", on_target_text(actual, target, tolerance.around(target)))
    word = _("over") if state == "over" else _("under")
    return Balance(State(state), compare_shares(actual, target, decimals=decimals).points, word)


def not_shown() -> Balance:
    """Shown instead of a hidden balance."""
    return Balance(State.NO_DATA, "", _("not shown"))


def why_not_shown() -> str:
    """Why a sum is hidden from readers of sums."""
    return ngettext(
        "Not shown: it would reveal single users. Group usage is shown with at least %(n)s active "
        "user, none above four fifths of it.",
        "Not shown: it would reveal single users. Group usage is shown with at least %(n)s active "
        "users, none above four fifths of it.",
        settings.FAIRSHARE_SMALLEST_GROUP,
    ) % {"n": settings.FAIRSHARE_SMALLEST_GROUP}


def field_conflict(path: str, field: str, *, base: object, current: object, wanted: object) -> str:
    """Sentence about a field that two users changed at the same time."""
    written = _shares_text if field == "shares" else _value_text
    return _("%(field)s of %(path)s: originally %(base)s, now %(theirs)s; your value is %(mine)s.") % {
        "field": field_labels.conflicting_field(field),
        "path": path,
        "base": written(base),
        "theirs": written(current),
        "mine": written(wanted),
    }


def _shares_text(value: object) -> str:
    return shares(float(value)) if isinstance(value, int | float) else shares(None)


def _value_text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return UNKNOWN if value in (None, "") else str(value)
