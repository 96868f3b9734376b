"""Usage by age over months: only hours with usage are kept, and where decay allows it, one sum instead of them.

`sites.Aging` weighs all hours of all queues at each step. Here a queue's closed hours are one sum if ageing by some
time multiplies every hour by the same factor, less those that leave the window; else its hours are weighed one by one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from apps.contrib.lab.simulation.columns import Jobs, Paths, Plan, State
from apps.contrib.lab.simulation.scenario import Scenario
from apps.contrib.lab.simulation.sites import MOST_WEIGHINGS, Views, put
from apps.engine import decay
from apps.engine.arrays import FloatArray, IntArray
from apps.engine.decay_functions import BUCKET_S
from apps.engine.errors import BadCase


class LongAging(Views):
    """As `sites.Aging`, for long times, many queues, and usage before the start."""

    def __init__(self, scenario: Scenario, entries: IntArray, jobs: Jobs, paths: Paths, plan: Plan, state: State):
        super().__init__(scenario, entries, jobs, paths, plan, state)
        self.shape = (plan.sites + 1, plan.queues)
        window = scenario.window
        self.is_multiplicative = window.is_multiplicative
        self.endless = replace(window, length_s=None) if self.is_multiplicative else window
        self.hour_factor = window.function.hour_factor(window.settings)
        self.reach_s = window.reach_s
        self.closed = np.zeros(self.shape[0] * self.shape[1])  # sum of closed hours, as weighted at `last_s`
        self.open: dict[int, FloatArray] = {}  # by hour, those that have not ended
        self.hours: deque[tuple[int, IntArray, FloatArray]] = deque()  # closed: hour, cells, amounts
        self.aged = np.zeros(self.shape)
        self.last_s = 0.0
        self._refuse_many(scenario, len(jobs.site_queue))
        self._add_past(scenario, entries)

    def _refuse_many(self, scenario: Scenario, n_jobs: int) -> None:
        n_past = 0 if scenario.past is None else len(scenario.past.entry)
        weighings = (2 * n_jobs + 2 * n_past) * scenario.end_s / scenario.aging_step_s
        if not self.is_multiplicative and weighings > MOST_WEIGHINGS:
            raise BadCase(
                f"{scenario.window.aging} weighs each hour again at each step: {weighings:.3g} times; at most "
                f"{MOST_WEIGHINGS:,}. Fewer hours are simulated with it",
                place="usage.window",
            )

    def _add_past(self, scenario: Scenario, entries: IntArray) -> None:
        past = scenario.past
        if past is None or not len(past.entry):
            return
        queue = np.searchsorted(entries, past.entry)
        n_queues = self.shape[1]
        here = past.site >= 0
        cell = np.concatenate([past.site[here] * n_queues + queue[here], (self.shape[0] - 1) * n_queues + queue])
        hour = np.concatenate([past.hour[here], past.hour])
        amount = np.concatenate([past.amount[here], past.amount])
        order = np.argsort(hour, kind="stable")
        edges = np.flatnonzero(np.diff(hour[order], prepend=np.iinfo(np.int64).min)).tolist()
        for begin, end in zip(edges, [*edges[1:], len(order)], strict=True):
            rows = order[begin:end]
            self._close(int(hour[rows[0]]), cell[rows], amount[rows], seen_s=0.0)
        self._drop_old(0.0)
        self.aged = self._weighted(0.0)

    def step(self, now_s: float) -> None:
        """Add usage since the last step to its hours, and set usage to the weighted sum of all hours."""
        seen_s = self.seen_s(now_s)
        base, rate = self._lines()
        requested = self._requested(seen_s)
        self._book(np.maximum(0.0, base + rate * seen_s - requested - self.aged), seen_s)
        if self.is_multiplicative and seen_s > self.last_s:
            self.closed *= self._weight(seen_s - self.last_s, seen_s)
        for hour in [hour for hour in sorted(self.open) if (hour + 1) * BUCKET_S <= seen_s]:
            amount = self.open.pop(hour)
            cells = np.flatnonzero(amount)
            self._close(hour, cells, amount[cells], seen_s)
        self._drop_old(seen_s)
        self.aged = self._weighted(seen_s)
        self.last_s = seen_s
        base = self.aged + requested - rate * seen_s
        put(self.state.usage_sums.base, self.by_slot(base[:-1]))
        put(self.state.usage_sums.pooled_base, base[-1])

    def _weight(self, age_s: float, seen_s: float) -> float:
        return float(decay.weights(np.array([age_s]), self.endless, seen_s + self.scenario.origin_s)[0])

    def _close(self, hour: int, cells: IntArray, amount: FloatArray, seen_s: float) -> None:
        """An hour has ended; from now on it ages."""
        if self.is_multiplicative:
            factor = self._weight(seen_s - (hour + 1) * BUCKET_S, seen_s)
            self.closed += np.bincount(cells, amount * factor, minlength=len(self.closed))
            if self.reach_s is None:
                return
        self.hours.append((hour, cells, amount))

    def _drop_old(self, seen_s: float) -> None:
        """Forget the hours that have left the window."""
        while self.reach_s is not None and self.hours and seen_s - (self.hours[0][0] + 1) * BUCKET_S >= self.reach_s:
            hour, cells, amount = self.hours.popleft()
            if self.is_multiplicative:
                factor = self._weight(seen_s - (hour + 1) * BUCKET_S, seen_s)
                self.closed -= np.bincount(cells, amount * factor, minlength=len(self.closed))
        np.maximum(self.closed, 0.0, out=self.closed)

    def _weighted(self, seen_s: float) -> FloatArray:
        """(sites + 1, queues) usage by its age."""
        total = self.closed.copy() if self.is_multiplicative else self._weigh_hours(seen_s)
        for hour, amount in self.open.items():
            if hour * BUCKET_S < seen_s:
                total += amount
        return (total * self.hour_factor).reshape(self.shape)

    def _weigh_hours(self, seen_s: float) -> FloatArray:
        total = np.zeros(self.shape[0] * self.shape[1])
        if not self.hours:
            return total
        hours = np.array([hour for hour, _cells, _amount in self.hours], dtype=np.float64)
        age_s = seen_s - (hours + 1.0) * BUCKET_S
        weights = decay.weights(age_s, self.scenario.window, seen_s + self.scenario.origin_s).tolist()
        for weight, (_hour, cells, amount) in zip(weights, self.hours, strict=True):
            if weight:
                total[cells] += weight * amount
        return total

    def _book(self, amount: FloatArray, seen_s: float) -> None:
        """Divide the amount among the hours since the last step in proportion to time."""
        if seen_s <= self.last_s:
            return
        first, last = int(self.last_s // BUCKET_S), int(seen_s // BUCKET_S)
        flat = amount.reshape(-1)
        for hour in range(first, last + 1):
            begin_s, end_s = max(self.last_s, hour * BUCKET_S), min(seen_s, (hour + 1) * BUCKET_S)
            if end_s > begin_s:
                part = flat * ((end_s - begin_s) / (seen_s - self.last_s))
                self.open[hour] = self.open[hour] + part if hour in self.open else part


def book_past(scenario: Scenario, entries: IntArray, jobs: Jobs, paths: Paths, plan: Plan, state: State) -> None:
    """Book usage before the start where usage has no age."""
    past = scenario.past
    if past is None:
        return
    views = Views(scenario, entries, jobs, paths, plan, state)
    queue = np.searchsorted(entries, past.entry)
    pooled: FloatArray = np.bincount(queue, past.amount, minlength=plan.queues).astype(np.float64)
    put(state.usage_sums.pooled_base, pooled)
    here = past.site >= 0
    cell = past.site[here] * plan.queues + queue[here]
    own = np.bincount(cell, past.amount[here], minlength=plan.sites * plan.queues).astype(np.float64)
    put(state.usage_sums.base, views.by_slot(own.reshape(plan.sites, plan.queues)))
