"""Decayed usage of single jobs as Slurm's multifactor plugin charges it, second by second of the job.

Slurm calculates at ticks, every PriorityCalcPeriod. At a tick all usage decays for the time since the last one. Then
each running job is charged for the slice that it ran since the last tick or its start, and the slice is decayed by its
whole length s. A job that ends between ticks is charged at once for its last slice, which the next tick then decays for
the whole period.

    d = 1 − 0.693 / half-life
    slice that ends at a tick T:        s · d^s · d^(now − T)
    last slice, after a tick T:         s · d^s · d^(now − T), from the next tick on
    last slice, until the next tick:    s · d^s

now is the last tick: between ticks nothing decays. This reproduces RawUsage of sshare to its last printed digit, except
for a job that ends in the second of a tick: times are whole seconds, and Slurm may end it before the tick, as here, or
after it, which decays its last slice by one period less.

PriorityUsageResetPeriod sets all usage to zero at the first tick T at or after the reset, before T charges its slices.
So a job that ended before T keeps nothing, and one that runs on keeps the slice that ends at T.

Source: plugins/priority/multifactor (17.11 to 26.05), with AccountingStorageEnforce=limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray
from apps.engine.decay import Window
from apps.engine.decay_functions import SLURM_LN2


@dataclass(frozen=True)
class PeriodCharge:
    """Charges of jobs at `as_of_s` with a window that charges by period. Instants are seconds since 1970."""

    window: Window
    as_of_s: float

    def tick_before(self, at_s: npt.ArrayLike) -> FloatArray:
        """The last tick at or before each instant."""
        period_s, phase_s = self.window.settings["calc_period_s"], self.window.settings["phase_s"]
        before: FloatArray = np.floor((np.asarray(at_s, np.float64) - phase_s) / period_s) * period_s + phase_s
        return before

    def charged_from(self, start_s: FloatArray, part_before_s: FloatArray | None) -> FloatArray:
        """From when each job is charged: its start; after a resize, the last tick before it or the job's start.

        The part before was charged until the resize, so that Slurm charges some seconds with both sizes.
        part_before_s: start of the part before, NaN if there is none; None if no job has one.
        """
        if part_before_s is None:
            return start_s
        with np.errstate(invalid="ignore"):
            resized: FloatArray = np.maximum(self.tick_before(np.ceil(start_s) - 1.0), part_before_s)
        return np.where(np.isnan(part_before_s), start_s, resized)

    def charged_s(self, start_s: FloatArray, end_s: FloatArray, from_s: FloatArray | None = None) -> FloatArray:
        """Decayed seconds of each job, from `from_s` on. end_s: at or after `as_of_s` for a job that runs on."""
        charged = self.charged_until_s(end_s, start_s, end_s)
        reset_s = self._reset_tick_s()
        if reset_s is not None:
            first_s = np.full(np.shape(end_s), reset_s - float(self.window.settings["calc_period_s"]))
            from_s = first_s if from_s is None else np.maximum(from_s, first_s)
            charged = np.where((end_s > reset_s) | (end_s >= self.as_of_s), charged, 0.0)
        if from_s is None:
            return charged
        return np.maximum(charged - self.charged_until_s(from_s, start_s, end_s), 0.0)

    def _reset_tick_s(self) -> float | None:
        """The tick that last set usage to zero; None without resets."""
        last_s = self.window.last_reset_s(self.as_of_s)
        if last_s is None:
            return None
        before_s = float(self.tick_before(last_s))
        return before_s if before_s == last_s else before_s + float(self.window.settings["calc_period_s"])

    def charged_until_s(self, until_s: FloatArray, start_s: FloatArray, end_s: FloatArray) -> FloatArray:
        """The part of a job's decayed seconds that it ran before each instant; arguments broadcast."""
        period_s = float(self.window.settings["calc_period_s"])
        last_s = self.tick_before(self.as_of_s)
        is_over = end_s < self.as_of_s
        stop_s = np.where(is_over, end_s, last_s)
        until_s = np.minimum(until_s, stop_s)
        first_s = self.tick_before(start_s) + period_s  # the tick that charges the first slice
        # A job that ends in the second of a tick has ended before it.
        stop_before_s = np.where(is_over, self.tick_before(np.ceil(stop_s) - 1.0), last_s)
        before_s = np.minimum(self.tick_before(until_s), stop_before_s)

        # Weights of a second in the first slice, in a whole one, ended by the tick after `until`, and in the last one.
        in_first = self._left(first_s - start_s + last_s - first_s)
        in_whole = self._left(period_s + last_s - before_s - period_s)
        lasts_s = stop_s - np.maximum(stop_before_s, start_s)
        in_last = self._left(lasts_s + np.where(last_s > stop_before_s, last_s - stop_before_s, 0.0))

        is_in_last = is_over & (until_s > stop_before_s)
        whole = self._whole_slices(np.maximum(before_s - first_s, 0.0), last_s - before_s)
        later = (first_s - start_s) * in_first + whole
        later = later + (until_s - before_s) * np.where(is_in_last, in_last, in_whole)
        early = (until_s - start_s) * np.where(is_in_last, in_last, in_first)
        charged: FloatArray = np.where(until_s > start_s, np.where(until_s > first_s, later, early), 0.0)
        return charged

    def _left(self, age_s: FloatArray) -> FloatArray:
        with np.errstate(under="ignore"):
            left: FloatArray = np.exp(np.maximum(age_s, 0.0) * self._log_d)
        return left

    def _whole_slices(self, length_s: FloatArray, age_s: FloatArray) -> FloatArray:
        """Decayed seconds of whole slices of this length together, the last of which was charged `age_s` ago.

        Σ D · d^D · d^(age + jD), j = 0 … n − 1
        """
        period_s = float(self.window.settings["calc_period_s"])
        ratio = np.expm1(length_s * self._log_d) / math.expm1(period_s * self._log_d)
        whole: FloatArray = period_s * self._left(period_s + age_s) * ratio
        return whole

    @property
    def _log_d(self) -> float:
        return math.log1p(-SLURM_LN2 / self.window.settings["half_life_s"])
