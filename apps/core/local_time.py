"""Convert local times to instants, with one rule for the skipped hour in spring and the repeated hour in autumn."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

_LEAP = re.compile(r"(.*\d\d:\d\d:)60(.*)", re.ASCII | re.DOTALL)


class NoSuchTime(ValueError):
    """The local time was skipped when clocks were put forward.

    before, after: the instants (UTC) by the offset before and after the change, in the order of time.
    """

    def __init__(self, naive: datetime, zone: tzinfo, before: datetime, after: datetime) -> None:
        self.before, self.after = before, after
        nearest = " or ".join(f"{_rfc3339(at)} ({at.astimezone(zone):%H:%M} there)" for at in (before, after))
        super().__init__(
            f"{naive.isoformat(' ')} doesn't exist in {zone}: clocks were put forward. The nearest are {nearest}."
        )


def instant_of(naive: datetime, zone: tzinfo, *, not_before: datetime | None = None) -> datetime:
    """The instant (UTC) of a local time without offset.

    In a repeated hour it is the first occurrence, or the second if the first is before `not_before`: a job doesn't end
    before it starts.

    Raises:
        NoSuchTime: clocks skipped it, so the instant is ambiguous.
        OverflowError: it is beyond the calendar.
    """
    first, second = (naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first.astimezone(zone).replace(tzinfo=None, fold=0) != naive:
        raise NoSuchTime(naive, zone, second, first)
    return second if not_before is not None and first < not_before else first


def split_leap_second(text: str) -> tuple[str, timedelta]:
    """A time in ISO 8601 without its leap second, and what that adds: 23:59:60 is a second after 23:59:59.

    As clocks of POSIX count, that is the instant of 0:00, too. Any other time stays as it is.
    """
    form = _LEAP.fullmatch(text)
    return (f"{form[1]}59{form[2]}", timedelta(seconds=1)) if form else (text, timedelta())


def add_leap_second(at: datetime, leap: timedelta) -> datetime:
    """The instant with what `split_leap_second` took from its text. ValueError: no day of UTC ends there."""
    last = at.astimezone(UTC)
    if leap and (last.hour, last.minute) != (23, 59):
        raise ValueError("a leap second is at the end of a day in UTC")
    return at + leap


def is_repeated(naive: datetime, zone: tzinfo) -> bool:
    """Whether this local time occurs twice."""
    first, second = (naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first < second


def _rfc3339(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
