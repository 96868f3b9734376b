"""Explained job priorities as tables: weighted terms in columns, sums, variants side by side, and changed positions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.contrib.jobs.algorithms import get_job_algorithm
from apps.contrib.jobs.algorithms.gridengine import term_weights
from apps.contrib.jobs.algorithms.listings import PENDING
from apps.contrib.jobs.job_cases import explain_jobs

_LONG_NUMBER = re.compile(r"\d+\.\d{7,}")
MOST_JOB_ROWS = 200  # shown on a page; all jobs are computed
Variants = list[tuple[str, dict[str, float], dict[str, int]]]  # label, priorities and positions of each variant

AS_SHIPPED = "8.1.9"
MOST_SUMMED_USERS = 20  # users on a page whose tickets are summed
_TICKETS = (
    ("otckt", gettext_lazy("override")),
    ("ftckt", gettext_lazy("functional")),
    ("stckt", gettext_lazy("share tree")),
)


@dataclass(frozen=True, slots=True)
class Column:
    """One term: its label, and its weight if all jobs have the same."""

    name: str
    label: str
    weight: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A weighted term and its normalised value."""

    label: str
    amount: str
    value: str = ""
    is_wide: bool = False  # takes a whole line in a narrow window


@dataclass(frozen=True, slots=True)
class VariantResult:
    """The job under another variant: priority, position, and by how many positions it moved up."""

    label: str
    total: str
    place: int | None
    moved: int = 0

    @property
    def moved_text(self) -> str:
        if not self.moved or self.place is None:
            return ""
        return _("%(n)s up") % {"n": self.moved} if self.moved > 0 else _("%(n)s down") % {"n": -self.moved}


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job: its terms, their sum, and the lines that explain them."""

    job: str
    user: str
    state: str
    cells: Sequence[Cell]
    total: str
    place: int | None
    lines: Sequence[str]
    doubts: Sequence[str] = ()
    others: Sequence[VariantResult] = ()

    @property
    def short_lines(self) -> list[str]:
        """The lines with seven significant digits; REST and the terminal have all of them."""
        return [_LONG_NUMBER.sub(lambda match: f"{float(match[0]):.7g}", line) for line in self.lines]


@dataclass(frozen=True, slots=True)
class TicketSum:
    """A user's running and waiting jobs, their tickets, and the position of the first waiting job."""

    label: str
    n_running: int
    of_running: str
    n_waiting: int
    of_waiting: str
    first_place: int | None
    is_total: bool = False


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A fair-share group: share; benefit before, booked and after; fraction of all; and balance owed."""

    group: str
    share: str
    before: str
    booked: str
    after: str
    fraction: str
    owed: str


class Note(NamedTuple):
    """A remark on a whole table; its key doesn't change with its wording."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class JobTable:
    """The complete result. sum_label: name of the sum of the terms."""

    title: str
    formula: str
    reference: str
    verdict: str
    columns: Sequence[Column]
    rows: Sequence[JobRow]
    sum_label: str
    n_jobs: int
    variants: Sequence[str] = ()
    notes: Sequence[Note] = field(default_factory=tuple)
    has_places: bool = True
    sums: Sequence[TicketSum] = ()
    ledger: Sequence[LedgerRow] = ()
    ledger_unit: str = ""

    @property
    def n_hidden(self) -> int:
        return self.n_jobs - len(self.rows)

    @property
    def n_columns(self) -> int:
        return 2 + len(self.columns) + 1 + len(self.variants) + self.has_places


def positions_of(order: Sequence[str]) -> dict[str, int]:
    """Position of each job in the queue, from 1."""
    return {job: place for place, job in enumerate(order, start=1)}


def waiting_verdict(places: Mapping[str, int]) -> str:
    """Sentence: how many jobs wait, and which is next."""
    if not places:
        return _("No job is waiting.")
    first = next(iter(places))
    n = len(places)
    return ngettext("One job waits: %(first)s.", "%(n)s jobs wait; job %(first)s is next.", n) % {
        "n": n,
        "first": first,
    }


def short(value: object) -> str:
    """A weight as text."""
    return f"{value:.10g}" if isinstance(value, int | float) else str(value)


def compare_variants(
    job: str, base: Mapping[str, int], variants: Sequence[tuple[str, Mapping[str, float], Mapping[str, int]]]
) -> list[VariantResult]:
    """The job under each variant (label, priorities, positions) compared with its position under the base."""
    return [
        VariantResult(
            label,
            f"{totals.get(job, 0.0):.5f}",
            places.get(job),
            base[job] - places[job] if job in base and job in places else 0,
        )
        for label, totals, places in variants
    ]


def moved_notes(base: Mapping[str, int], variants: Sequence[tuple[str, object, Mapping[str, int]]]) -> list[Note]:
    """Notes on what each variant changes in the order."""
    if not variants:
        return []
    changes = []
    for label, _totals, places in variants:
        moved = sum(place != places.get(job) for job, place in base.items())
        text = _("%(variant)s: %(n)s") if moved else _("%(variant)s: none")
        changes.append(text % {"variant": label, "n": moved})
    return [Note("moved", _("Changed positions: %(changes)s.") % {"changes": "; ".join(changes)})]


def grid_engine_table(
    case: dict[str, Any], variants: Sequence[str], *, most_jobs: int, with_tickets: bool = False
) -> JobTable:
    """Table for Grid Engine 8.1.9, beside it each amendment alone and all chosen ones together.

    with_tickets: adds a column of tickets by policy, as `qstat -ext` prints them.

    Raises:
        Invalid: names the field.
        TooLarge: more than most_jobs.
    """
    algorithm = get_job_algorithm("gridengine")
    base, others = _solve(case, variants, most_jobs)
    case_jobs = {str(job["id"]): job for job in case["jobs"]}
    waiting = {job for job, each in case_jobs.items() if (each.get("state") or PENDING) == PENDING}
    places = _positions(base, waiting)
    beside: Variants = [
        (
            reading_label(reading),
            {job: each["prior"] for job, each in other["jobs"].items()},
            _positions(other, waiting),
        )
        for reading, other in others.items()
    ]
    weights = term_weights(case)
    columns = [Column(term.name, term.label, short(weights[term.weight])) for term in algorithm.terms]
    order = list(dict.fromkeys([*base["pending_order"], *base["jobs"]]))
    rows = [
        _row(job, base["jobs"][job], case_jobs.get(job, {}), columns, places, beside, with_tickets=with_tickets)
        for job in order[:MOST_JOB_ROWS]
    ]
    return JobTable(
        algorithm.label,
        algorithm.formula,
        algorithm.reference,
        waiting_verdict(places),
        [*columns, *([Column("tckts", _("Ticket total"))] if with_tickets else [])],
        rows,
        _("Priority"),
        n_jobs=len(order),
        variants=[label for label, _totals, _places in beside],
        notes=[*(Note("of_case", text) for text in base.get("notes", [])), *moved_notes(places, beside)],
        sums=_sums(base, case_jobs, places),
    )


def _solve(
    case: dict[str, Any], variants: Sequence[str], most_jobs: int
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Result as in 8.1.9, and results of the case's own variant and the chosen ones, by their setting."""
    config = case.get("config")
    known = dict(config) if isinstance(config, dict) else {}
    own = [part for part in str(known.get("variant") or AS_SHIPPED).split("+") if part != AS_SHIPPED]
    chosen = list(dict.fromkeys([*own, *variants]))
    readings = [AS_SHIPPED, *chosen, *(["+".join(chosen)] if len(chosen) > 1 else [])]
    cases = [{**case, "config": {**known, "variant": reading}} for reading in readings]
    (base,) = explain_jobs(cases[:1], most_jobs=most_jobs)
    others = explain_jobs(cases[1:], most_jobs=most_jobs * len(cases))
    return base, dict(zip(readings[1:], others, strict=True))


def _positions(result: Mapping[str, Any], waiting: set[str]) -> dict[str, int]:
    """Positions of jobs that could start; the scheduler lists held jobs after them."""
    return positions_of([job for job in result["pending_order"] if job in waiting])


def _row(
    job: str,
    answer: dict[str, Any],
    case_job: dict[str, Any],
    columns: Sequence[Column],
    places: Mapping[str, int],
    beside: Variants,
    *,
    with_tickets: bool,
) -> JobRow:
    cells = [
        Cell(
            column.label,
            f"{float(column.weight) * answer[column.name]:.5f}",
            f"{column.weight} × {answer[column.name]:.5f}",
        )
        for column in columns
    ]
    if with_tickets:
        parts = [f"{label} {_tickets(answer[name])}" for name, label in _TICKETS if answer[name]]
        cells.append(Cell(_("Ticket total"), _tickets(answer["tckts"]), ", ".join(parts), is_wide=True))
    state = str(case_job.get("state") or "pending")
    total = f"{answer['prior']:.5f}"
    return JobRow(
        job,
        str(case_job.get("user") or ""),
        state,
        cells,
        total,
        places.get(job),
        answer["explain"],
        others=compare_variants(job, places, beside),
    )


def _sums(base: Mapping[str, Any], case_jobs: Mapping[str, Any], places: Mapping[str, int]) -> list[TicketSum]:
    """Tickets of running and waiting jobs by user, in the case's order, then in all; empty without tickets."""
    totals = base.get("totals")
    if not totals or not any(each["tckts"] for each in totals.values()):
        return []
    jobs: dict[str, list[str]] = {}
    for job, each in case_jobs.items():
        jobs.setdefault(str(each.get("user") or "–"), []).append(job)
    users = [_sum(user, own_jobs, base, case_jobs, places) for user, own_jobs in list(jobs.items())[:MOST_SUMMED_USERS]]
    return [*users, _sum(_("Total"), list(case_jobs), base, case_jobs, places, is_total=True)]


def _sum(
    label: str,
    jobs: Sequence[str],
    base: Mapping[str, Any],
    case_jobs: Mapping[str, Any],
    places: Mapping[str, int],
    *,
    is_total: bool = False,
) -> TicketSum:
    by_state = {
        state: [job for job in jobs if (case_jobs[job].get("state") or PENDING) == state]
        for state in ("running", PENDING)
    }
    tickets = {state: sum(base["jobs"][job]["tckts"] for job in state_jobs) for state, state_jobs in by_state.items()}
    first = min((places[job] for job in jobs if job in places), default=None)
    return TicketSum(
        label,
        len(by_state["running"]),
        _tickets(tickets["running"]),
        len(by_state[PENDING]),
        _tickets(tickets[PENDING]),
        first,
        is_total,
    )


def _tickets(value: float) -> str:
    """Tickets with one decimal."""
    return f"{value:,.1f}".removesuffix(".0")


def reading_label(reading: str) -> str:
    """Label of a variant; several are joined by +."""
    variants = get_job_algorithm("gridengine").variants
    labels = {each.setting: each.label for each in variants}
    return labels.get(reading) or " + ".join(labels.get(part, part) for part in reading.split("+"))
