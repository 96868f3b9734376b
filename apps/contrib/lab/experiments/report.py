"""The outcome of a variant beside the base's, as records: entries, who gains and who loses, and curves."""

from __future__ import annotations

from datetime import date, timedelta
from math import isnan
from uuid import UUID

import numpy as np

from apps.contrib.lab.experiments.headline import headline_json, headline_of, known
from apps.contrib.lab.experiments.outcome import F8, I8, Outcome
from apps.contrib.lab.experiments.records import Curve, EntryNumbers, VariantReport

MOST_REPORTED_MOVES = 20  # leaves of each list
LEAST_CHANGE_S = 1.0  # of a mean wait: a smaller one is no gain and no loss


def report_of(
    experiment_id: int, index: int, title: str, outcome: Outcome, base: Outcome | None, *, first_day: date | None
) -> VariantReport:
    """base: None for the base itself, or where it gave no result."""
    place_was = places_in(outcome, base)
    numbers = _Numbers(outcome, base, place_was)
    gains, losses = _moved(outcome, base, place_was)
    shown, idle = outcome.shown.tolist(), _idle(outcome)
    n_days = len(outcome.day_core_h)
    headline = headline_of(headline_json(outcome))
    if headline is None:
        raise RuntimeError("An outcome has a headline.")
    return VariantReport(
        experiment=experiment_id,
        index=index,
        title=title,
        headline=headline,
        headline_was=None if base is None else headline_of(headline_json(base)),
        entries=tuple(numbers.of(i) for i in shown),
        n_entries=int((~outcome.is_rest).sum()) - 1,
        gains=tuple(numbers.of(i) for i in gains[:MOST_REPORTED_MOVES].tolist()),
        losses=tuple(numbers.of(i) for i in losses[:MOST_REPORTED_MOVES].tolist()),
        n_gain=len(gains),
        n_lose=len(losses),
        idle=tuple(outcome.path(i) for i in idle[:MOST_REPORTED_MOVES].tolist()),
        n_idle=len(idle),
        at_h=tuple(outcome.at_h.tolist()),
        curves=tuple(_curve(outcome, base, column, int(place_was[i])) for column, i in enumerate(shown)),
        days=() if first_day is None else tuple(first_day + timedelta(days=n) for n in range(n_days)),
        n_days=n_days,
    )


def _idle(outcome: Outcome) -> I8:
    """Entries below the root of which, and of all below which, no job ran or waited; the uppermost of a branch."""
    is_idle = (outcome.n_jobs == 0) & (outcome.core_h == 0) & ~outcome.is_rest
    is_idle[0] = False
    return np.flatnonzero(is_idle & ~is_idle[outcome.parent])


def places_in(outcome: Outcome, base: Outcome | None) -> I8:
    """The place of each entry in the base, −1 where it has none."""
    if base is None:
        return np.full(len(outcome.uid), -1, dtype=np.int64)
    place_of = {uid.tobytes(): i for i, uid in enumerate(base.uid) if not base.is_rest[i]}
    uids = zip(outcome.uid, outcome.is_rest.tolist(), strict=True)
    return np.array([-1 if rest else place_of.get(uid.tobytes(), -1) for uid, rest in uids], dtype=np.int64)


def _moved(outcome: Outcome, base: Outcome | None, place_was: I8) -> tuple[I8, I8]:
    """(leaves that wait less on average than in the base, leaves that wait longer), the largest change first."""
    none = np.zeros(0, np.int64)
    if base is None:
        return none, none
    mean_was = np.where(place_was >= 0, base.wait_mean_s[place_was], np.nan)
    change = np.where(outcome.is_group, np.nan, outcome.wait_mean_s - mean_was)
    order = np.argsort(change, kind="stable")
    order = order[np.isfinite(change[order])]
    gains = order[change[order] < -LEAST_CHANGE_S]
    losses = order[change[order] > LEAST_CHANGE_S][::-1]
    return gains, losses


class _Numbers:
    """Numbers of an entry in the outcome and in the base."""

    def __init__(self, outcome: Outcome, base: Outcome | None, place_was: I8) -> None:
        self.outcome, self.base, self.place_was = outcome, base, place_was

    def of(self, i: int) -> EntryNumbers:
        outcome, base, was = self.outcome, self.base, int(self.place_was[i])
        path = outcome.path(i)
        settled = float(outcome.settled_h[i])
        is_here = base is not None and was >= 0

        def before(name: str) -> float | None:
            return known(getattr(base, name)[was]) if is_here else None

        return EntryNumbers(
            entry=UUID(bytes=outcome.uid[i].tobytes()),
            path=path,
            name=outcome.name[i],
            depth=path.count("/"),
            is_group=bool(outcome.is_group[i]),
            target=known(outcome.target[i]),
            target_was=before("target"),
            n_jobs=int(outcome.n_jobs[i]),
            n_waiting=int(outcome.n_waiting[i]),
            wait_mean_s=known(outcome.wait_mean_s[i]),
            wait_mean_was_s=before("wait_mean_s"),
            wait_median_s=known(outcome.wait_median_s[i]),
            wait_median_was_s=before("wait_median_s"),
            wait_p90_s=known(outcome.wait_p90_s[i]),
            wait_p90_was_s=before("wait_p90_s"),
            core_h=float(outcome.core_h[i]),
            core_h_was=before("core_h") or 0.0,
            fair_points=known(outcome.fair[i]),
            rms_points=known(outcome.rms[i]),
            rms_was_points=before("rms"),
            settled_h=known(settled),
            settled_was_h=before("settled_h"),
            is_settled=None if isnan(settled) else np.isfinite(settled).item(),
        )


def _curve(outcome: Outcome, base: Outcome | None, column: int, was: int) -> Curve:
    i = int(outcome.shown[column])
    column_was = np.flatnonzero(base.shown == was) if base is not None and was >= 0 else np.zeros(0, np.int64)
    share_was: tuple[float | None, ...] = ()
    core_was: tuple[float, ...] = ()
    if base is not None and len(column_was):
        at = int(column_was[0])
        same = len(base.at_h) == len(outcome.at_h)
        share_was = _values(base.share[:, at] if same else np.interp(outcome.at_h, base.at_h, base.share[:, at]))
        core_was = tuple(base.day_core_h[:, at].tolist())
    return Curve(
        entry=UUID(bytes=outcome.uid[i].tobytes()),
        path=outcome.path(i),
        name=outcome.name[i],
        target=known(outcome.target[i]),
        share=_values(outcome.share[:, column]),
        share_was=share_was,
        core_h=tuple(outcome.day_core_h[:, column].tolist()),
        core_h_was=core_was,
    )


def _values(values: F8) -> tuple[float | None, ...]:
    return tuple(known(value) for value in values.tolist())
