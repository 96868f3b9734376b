"""Promises of starts as a database has them, and how often they held, beside the scheduler's own planned starts."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import psycopg

from apps.contrib.starts.models import Outcome
from apps.contrib.starts.prediction import promises as pure
from apps.contrib.starts.prediction.bases import is_learned
from apps.contrib.starts.prediction.predictor import PastPromise
from apps.contrib.starts.prediction.promises import FLOOR_S, LEVELS, Promise, WaitingJob
from apps.contrib.starts.prediction.record import above_floor, held, held_by_burst, pinball

AT_80 = LEVELS.index(0.80)
SETTLED = (Outcome.KEPT, Outcome.BROKEN)
APART = (Outcome.KEPT_APART, Outcome.BROKEN_APART)
LEAST_SETTLED = 100  # of one kind and level, before its share is judged
# A calibration that learns nothing keeps all or few of them; one that learns is nearer, even in its first two hours.
WIDELY = {0.50: (0.25, 0.80), 0.80: (0.60, 0.97), 0.95: (0.80, 1.0)}
_PROMISED = (
    'id, job, "user", partition, cpus, limit_s, extract(epoch from since_at), is_first, extract(epoch from made_at),'
    " made_in, age_s, basis, bounds_s, offers, planned_s, soon"
)
_SETTLED = (
    "outcomes, settled_in, planned_outcome, was_soon, cause, extract(epoch from withdrawn_at),"
    " extract(epoch from left_at), has_started"
)
_BEHIND = "FROM starts_startpromise WHERE id > %s ORDER BY id"


class Promised(NamedTuple):
    """What nothing may change afterwards. Instants in seconds since 1970."""

    pk: int
    job: str
    user: str
    partition: str
    cpus: float
    limit_s: float | None
    since_s: float
    is_first: bool
    made_s: float
    made_in: int
    age_s: float
    basis: str
    bounds_s: tuple[float, ...]
    offers: tuple[tuple[str, tuple[float, ...]], ...]
    planned_s: float | None
    soon: float | None


class Row(NamedTuple):
    """A promise with what became of it."""

    promised: Promised
    outcomes: tuple[int, ...]
    settled_in: tuple[int | None, ...]
    planned_outcome: int
    was_soon: bool | None
    cause: str
    withdrawn_s: float | None
    left_s: float | None
    has_started: bool | None

    def as_past(self, bounds_s: tuple[float, ...] | None = None) -> PastPromise:
        """As of a log; bounds_s: what another base would have promised. Those that don't count are withdrawn."""
        made = self.promised
        job = WaitingJob(made.user, made.cpus, made.limit_s, made.partition)
        promise = Promise(job, made.made_s, made.age_s, bounds_s or made.bounds_s, made.basis, made.offers)
        left_s = math.inf if self.left_s is None else self.left_s
        if bounds_s is None:
            taught = {Outcome.KEPT: pure.Outcome.KEPT, Outcome.BROKEN: pure.Outcome.BROKEN}
            outcomes = tuple(taught.get(Outcome(each), pure.Outcome.WITHDRAWN) for each in self.outcomes)
        elif self.cause or not self.has_started:
            outcomes = (pure.Outcome.WITHDRAWN,) * len(LEVELS)
        else:
            outcomes = tuple(promise.outcome(level, left_s, started=True) for level in range(len(LEVELS)))
        return PastPromise(promise, outcomes, left_s - made.made_s, made.soon)


def read_promised(session: psycopg.Connection[Any], after: int = 0) -> list[Promised]:
    rows = session.execute(f"SELECT {_PROMISED} {_BEHIND}", [after])
    return [_promised(cells) for cells in rows]


def read_rows(session: psycopg.Connection[Any]) -> list[Row]:
    n_promised = len(Promised._fields)
    rows = session.execute(f"SELECT {_PROMISED}, {_SETTLED} {_BEHIND}", [0])
    return [Row(_promised(cells[:n_promised]), *map(_plain, cells[n_promised:])) for cells in rows]


def _promised(cells: Sequence[Any]) -> Promised:
    promised = Promised._make(map(_plain, cells))
    return promised._replace(offers=tuple((base, tuple(bounds_s)) for base, bounds_s in promised.offers))


def _plain(cell: Any) -> Any:
    """Numbers as float, arrays as tuples; the offers of bases are JSON."""
    if isinstance(cell, list):
        return tuple(cell)
    return float(cell) if type(cell).__name__ == "Decimal" else cell


def by_kind(rows: Sequence[Row]) -> dict[str, list[Row]]:
    return {
        "at submit": [row for row in rows if row.promised.age_s == 0],
        "waiting": [row for row in rows if row.promised.age_s > 0],
    }


def shrinkable(rows: Sequence[Row], level: int) -> list[PastPromise]:
    """Promises that a calibration makes shorter as long as more than a level's share of them hold.

    A kept one of 5 minutes isn't among them, since no shorter one can be made; nor is one from before waits were known,
    which begins with the same hour for all.
    """
    learned = [row.as_past() for row in rows if is_learned(row.promised.basis, row.promised.offers)]
    return [
        each
        for each in learned
        if each.promise.bounds_s[level] > FLOOR_S or each.outcomes[level] is not pure.Outcome.KEPT
    ]


def outside_bands(rows: Sequence[Row]) -> list[str]:
    """Kinds and levels that held too seldom, or too often where shorter promises could have been made."""
    outside = []
    for kind, of_kind in by_kind(rows).items():
        past = [row.as_past() for row in of_kind]
        for level, q in enumerate(LEVELS):
            least, most = WIDELY[q]
            settled, could_shrink = held(past, level), held(shrinkable(of_kind, level), level)
            if settled.n >= LEAST_SETTLED and (settled.share or 0.0) < least:
                outside.append(f"{kind}, {q:.0%}: {settled.kept:.0f} of {settled.n:.0f} held")
            if could_shrink.n >= LEAST_SETTLED and (could_shrink.share or 0.0) > most:
                outside.append(
                    f"{kind}, {q:.0%}: {could_shrink.kept:.0f} of {could_shrink.n:.0f} that could be shorter held"
                )
    return outside


def record_lines(rows: Sequence[Row], phases: Callable[[float], str]) -> Iterator[str]:
    """The record as a table. phases: name of the part of the run by the instant of a promise."""
    for title, of_kind in by_kind(rows).items():
        yield f"{title}: {len(of_kind)} promises of {len({row.promised.job for row in of_kind})} jobs"
        yield from _of_levels(of_kind)
        yield from _beside_planned(of_kind)
        yield from _of_bases(of_kind)
        for phase in dict.fromkeys(phases(row.promised.made_s) for row in of_kind):
            part = [row.as_past() for row in of_kind if phases(row.promised.made_s) == phase]
            shares = " ".join(_share(held(part, level).share) for level in range(len(LEVELS)))
            yield f"  made {phase}: {len(part)} promises, held {shares}"
    with_soon = [row for row in rows if row.promised.soon is not None and row.was_soon is not None]
    if with_soon:
        brier = statistics.fmean(((row.promised.soon or 0.0) - bool(row.was_soon)) ** 2 for row in with_soon)
        best = statistics.fmean(bool(row.was_soon) for row in with_soon)
        yield f"within 5 minutes: Brier {brier:.3f}, of the best constant ({best:.2f}) {best * (1 - best):.3f}"


def _of_levels(rows: Sequence[Row]) -> Iterator[str]:
    past = [row.as_past() for row in rows]
    for level, q in enumerate(LEVELS):
        outcomes = Counter(Outcome(row.outcomes[level]) for row in rows)
        by_job, by_burst = held(past, level), held_by_burst(past, level)
        above = held(above_floor(past, level), level)
        bounds = [row.promised.bounds_s[level] / 60 for row in rows]
        counts = ", ".join(f"{outcomes[each]} {each.label}" for each in Outcome if outcomes[each])
        yield (
            f"  {q:.0%}: held {_share(by_job.share)} by job, {_share(by_burst.share)} of {by_burst.n:.0f} bursts, "
            f"{_share(above.share)} of {above.n:.0f} above the floor; "
            f"median bound {statistics.median(bounds or [math.nan]):.1f} min; {counts}"
        )
    causes = Counter(row.cause for row in rows if row.cause)
    yield f"  withdrawn: {', '.join(f'{n} {cause}' for cause, n in causes.most_common()) or 'none'}"


def _beside_planned(rows: Sequence[Row]) -> Iterator[str]:
    """%S as a promise at the same instants, and ours of these: those that a known cause ended are in neither."""
    beside = [row for row in rows if row.planned_outcome in SETTLED]
    if not beside:
        yield "  %S: none was planned"
        return
    late_s = [
        row.left_s - row.promised.made_s - (row.promised.planned_s or 0.0) for row in beside if row.left_s is not None
    ]
    ours = " ".join(_share(held([row.as_past() for row in beside], level).share) for level in range(len(LEVELS)))
    above = [row for row in beside if (row.promised.planned_s or 0.0) > FLOOR_S]
    yield (
        f"  %S held {_held_of(beside)} of {len(beside)}, beyond 5 minutes {_held_of(above)} of {len(above)}; "
        f"start minus %S: {_minutes(late_s)}; ours of the same {ours}"
    )


def _held_of(rows: Sequence[Row]) -> str:
    return _share(sum(row.planned_outcome == Outcome.KEPT for row in rows) / len(rows) if rows else None)


def _of_bases(rows: Sequence[Row]) -> Iterator[str]:
    """Each base with its own offsets, on the promises that had it: of these, also what was promised."""
    for base in sorted({base for row in rows for base, _bounds in row.promised.offers}):
        having = [row for row in rows if base in dict(row.promised.offers)]
        offered = [row.as_past(dict(row.promised.offers)[base]) for row in having]
        ours = [row.as_past(row.promised.bounds_s) for row in having]
        shares = " ".join(_share(held(offered, level).share) for level in range(len(LEVELS)))
        losses = " ".join(f"{pinball(offered, level):.3f}/{pinball(ours, level):.3f}" for level in range(len(LEVELS)))
        n_chosen = sum(row.promised.basis == base for row in having)
        counts = f"{len(having)} offers, {n_chosen} chosen"
        yield f"  base {base}: {counts}; would have held {shares}; its loss/promised {losses}"


def _minutes(seconds: Sequence[float]) -> str:
    """5 %, 20 %, 50 %, 80 % and 95 % of them, in minutes."""
    if not seconds:
        return "–"
    ordered = sorted(seconds)
    parts = [ordered[min(int(part * len(ordered)), len(ordered) - 1)] for part in (0.05, 0.2, 0.5, 0.8, 0.95)]
    return " ".join(f"{each / 60:+.1f}" for each in parts) + " min at 5, 20, 50, 80, 95 %"


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.3f}"
