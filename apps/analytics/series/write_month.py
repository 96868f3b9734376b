"""Built days into tiles and rows, in the transaction of the run's step."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np

from apps.analytics.models import SeriesDay
from apps.analytics.series.builder import Builder, BuiltDay
from apps.analytics.series.calendar import Day
from apps.analytics.series.revision_state import Standing
from apps.analytics.series.storage.fields import KNOWS_WAITING
from apps.analytics.series.storage.tiles import Month, Slots, empty_month, put_day, read_month, widened, write_month
from apps.policies.models import Policy


class BuiltMonth:
    """The days of a month from some day on, with those before as they are stored."""

    def __init__(self, policy: Policy, month_on: date, days: Sequence[Day], slots: Slots) -> None:
        self.policy = policy
        self.month_on = month_on
        self._slots = slots
        self._first = (days[0].on - month_on).days
        self._n_days = (days[-1].on - month_on).days + 1
        self._month = empty_month(self._n_days, len(slots))
        self._stored: Month | None = None  # as it was; read when something of it is to stay
        self._rows: list[SeriesDay] = []
        self._placed: tuple[Standing, np.ndarray[tuple[int], np.dtype[np.int64]]] | None = None
        if self._first:
            for name, values in self._before().items():
                self._month[name][: self._first] = values[: self._first]

    def _before(self) -> Month:
        if self._stored is None:
            self._stored = read_month(self.policy, self.month_on, n_days=self._n_days, n_slots=len(self._slots))
        return self._stored

    def add_all(self, builder: Builder, days: Sequence[Day]) -> None:
        for built in builder.build(days):
            self._add(built)

    def _add(self, built: BuiltDay) -> None:
        if self._placed is None or self._placed[0] is not built.standing:
            self._placed = (built.standing, self._slots.of(built.standing.tree))
            self._month = widened(self._month, len(self._slots))
            self._stored = None if self._stored is None else widened(self._stored, len(self._slots))
        at, slots = (built.day.on - self.month_on).days, self._placed[1]
        put_day(self._month, at, slots, built.values)
        if built.keeps_waiting:
            self._keep_waiting(at)
        self._rows.append(
            SeriesDay(
                policy=self.policy, on=built.day.on, ends_at=built.day.to_at,
                revision_number=built.standing.number, is_before_first=built.is_before_first,
                root_used=built.values.root_used, root_decayed=built.values.root_decayed,
            )
        )  # fmt: skip

    def _keep_waiting(self, at: int) -> None:
        """Records of then are gone: what was known of them stays known."""
        month, before = self._month, self._before()
        kept, flags = before["waited_core_s"][at], before["flags"][at]
        month["waited_core_s"][at] = np.where(month["flags"][at] > 0, np.maximum(month["waited_core_s"][at], kept), 0.0)
        month["flags"][at] |= np.where(month["flags"][at] > 0, flags & KNOWS_WAITING, 0).astype(np.uint8)

    def store(self) -> None:
        """In the caller's transaction. Days of the month behind the last built one are gone: they follow on it."""
        SeriesDay.objects.filter(policy=self.policy, on__in=[row.on for row in self._rows]).delete()
        SeriesDay.objects.bulk_create(self._rows)
        self._slots.store_new()
        write_month(self.policy, self.month_on, self._month)
