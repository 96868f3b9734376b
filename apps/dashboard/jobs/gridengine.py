"""A Grid Engine case as a table: every job's terms, readings side by side, and the tickets of each user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.dashboard.jobs.tables import (
    MOST_ROWS,
    Cell,
    Column,
    JobRow,
    JobTable,
    Note,
    TicketSum,
    Variants,
    moved_notes,
    others_of,
    places_of,
    short,
    waiting_verdict,
)
from apps.engine.jobs import get_job_algorithm
from apps.engine.jobs.gridengine import term_weights
from apps.engine.jobs.printed.rows import PENDING
from apps.priorities.job_cases import explain_jobs

AS_SHIPPED = "8.1.9"
MOST_SUMS = 20  # users of a page whose tickets are added up
_TICKETS = (
    ("otckt", gettext_lazy("override")),
    ("ftckt", gettext_lazy("functional")),
    ("stckt", gettext_lazy("share tree")),
)


def grid_engine_table(
    case: dict[str, Any], variants: Sequence[str], *, most_jobs: int, with_tickets: bool = False
) -> JobTable:
    """8.1.9 in full; beside it each amendment alone and, where there are several, all that are chosen together.

    with_tickets: also a column of tickets by policy, as `qstat -ext` prints them.

    Raises:
        Invalid: with the place. TooLarge: more than most_jobs.
    """
    algorithm = get_job_algorithm("gridengine")
    base, others = _solve(case, variants, most_jobs)
    given = {str(job["id"]): job for job in case["jobs"]}
    waiting = {job for job, each in given.items() if (each.get("state") or PENDING) == PENDING}
    places = _places(base, waiting)
    beside: Variants = [
        (reading_label(reading), {job: each["prior"] for job, each in other["jobs"].items()}, _places(other, waiting))
        for reading, other in others.items()
    ]
    weights = term_weights(case)
    columns = [Column(term.name, term.label, short(weights[term.weight])) for term in algorithm.terms]
    order = list(dict.fromkeys([*base["pending_order"], *base["jobs"]]))
    rows = [
        _row(job, base["jobs"][job], given.get(job, {}), columns, places, beside, with_tickets=with_tickets)
        for job in order[:MOST_ROWS]
    ]
    return JobTable(
        algorithm.label,
        algorithm.formula,
        algorithm.reference,
        waiting_verdict(places),
        [*columns, *([Column("tckts", _("Tickets held"))] if with_tickets else [])],
        rows,
        _("Priority"),
        n_jobs=len(order),
        variants=[label for label, _totals, _places in beside],
        notes=[*(Note("of_case", text) for text in base.get("notes", [])), *moved_notes(places, beside)],
        sums=_sums(base, given, places),
    )


def _solve(
    case: dict[str, Any], variants: Sequence[str], most_jobs: int
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The answer as 8.1.9 has it, and those of the case's own variant and the chosen ones by their setting."""
    config = case.get("config")
    known = dict(config) if isinstance(config, dict) else {}
    own = [part for part in str(known.get("variant") or AS_SHIPPED).split("+") if part != AS_SHIPPED]
    chosen = list(dict.fromkeys([*own, *variants]))
    readings = [AS_SHIPPED, *chosen, *(["+".join(chosen)] if len(chosen) > 1 else [])]
    cases = [{**case, "config": {**known, "variant": reading}} for reading in readings]
    (base,) = explain_jobs(cases[:1], most_jobs=most_jobs)
    others = explain_jobs(cases[1:], most_jobs=most_jobs * len(cases))
    return base, dict(zip(readings[1:], others, strict=True))


def _places(result: Mapping[str, Any], waiting: set[str]) -> dict[str, int]:
    """Places of the jobs that could start; the scheduler lists held ones behind them."""
    return places_of([job for job in result["pending_order"] if job in waiting])


def _row(
    job: str,
    answer: dict[str, Any],
    given: dict[str, Any],
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
        cells.append(Cell(_("Tickets held"), _tickets(answer["tckts"]), ", ".join(parts), is_wide=True))
    state = str(given.get("state") or "pending")
    total = f"{answer['prior']:.5f}"
    return JobRow(
        job,
        str(given.get("user") or ""),
        state,
        cells,
        total,
        places.get(job),
        answer["explain"],
        others=others_of(job, places, beside),
    )


def _sums(base: Mapping[str, Any], given: Mapping[str, Any], places: Mapping[str, int]) -> list[TicketSum]:
    """Tickets of running and waiting jobs by user, in the order of the case, then of all; none where there are none."""
    totals = base.get("totals")
    if not totals or not any(each["tckts"] for each in totals.values()):
        return []
    jobs: dict[str, list[str]] = {}
    for job, each in given.items():
        jobs.setdefault(str(each.get("user") or "–"), []).append(job)
    users = [_sum(user, mine, base, given, places) for user, mine in list(jobs.items())[:MOST_SUMS]]
    return [*users, _sum(_("All jobs"), list(given), base, given, places, is_total=True)]


def _sum(
    label: str,
    jobs: Sequence[str],
    base: Mapping[str, Any],
    given: Mapping[str, Any],
    places: Mapping[str, int],
    *,
    is_total: bool = False,
) -> TicketSum:
    by_state = {
        state: [job for job in jobs if (given[job].get("state") or PENDING) == state] for state in ("running", PENDING)
    }
    tickets = {state: sum(base["jobs"][job]["tckts"] for job in mine) for state, mine in by_state.items()}
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
    """To a tenth of a ticket."""
    return f"{value:,.1f}".removesuffix(".0")


def reading_label(reading: str) -> str:
    """What a variant is called; several joined by +."""
    variants = get_job_algorithm("gridengine").variants
    labels = {each.setting: each.label for each in variants}
    return labels.get(reading) or " + ".join(labels.get(part, part) for part in reading.split("+"))
