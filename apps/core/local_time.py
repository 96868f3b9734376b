"""Convert local times to instants, with one rule for the skipped hour in spring and the repeated hour in autumn."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo


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


def is_repeated(naive: datetime, zone: tzinfo) -> bool:
    """Whether this local time occurs twice."""
    first, second = (naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first < second


def _rfc3339(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
