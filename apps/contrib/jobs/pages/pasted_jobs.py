"""Turns pasted text into the table of a page: checks listings, solves cases, and compares variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.jobs.algorithms import get_job_algorithm, name_of_algorithm
from apps.contrib.jobs.algorithms.base import JobAlgorithm
from apps.contrib.jobs.algorithms.listing_check import (
    PRESET_WEIGHTS,
    TERMS,
    VARIANTS,
    Followed,
    fitting_preset,
    fitting_weights,
    follow_grid_engine,
    follow_slurm,
    name_terms,
    priorities,
)
from apps.contrib.jobs.algorithms.listings import ASIDE, PENDING, Printed, read_printed
from apps.contrib.jobs.job_cases import explain_jobs
from apps.contrib.jobs.pages.tables import (
    MOST_JOB_ROWS,
    Cell,
    Column,
    JobRow,
    JobTable,
    LedgerRow,
    Note,
    Variants,
    compare_variants,
    grid_engine_table,
    moved_notes,
    positions_of,
    reading_label,
    short,
    waiting_verdict,
)
from apps.core.code_paths import command_name
from apps.core.errors import FieldProblem, Invalid, TooLarge
from apps.core.json_values import has_more_values
from apps.engine.case_text import read_cases
from apps.engine.errors import EngineError

MOST_PASTED_JOBS = 2_000  # a page solves the case once for each variant
MOST_PASTED_VALUES = 40 * MOST_PASTED_JOBS
_BY_COMMAND = {"command": command_name("jobs")}


def read_table(text: str, weights: Mapping[str, float] | None, variants: Sequence[str]) -> JobTable:
    """Table of the pasted jobs.

    Raises:
        Invalid: names the line or field and what to do.
        TooLarge: more jobs than a page shows.
    """
    try:
        if text.lstrip()[:1] in ("{", "["):
            return _table_of_case(_one_case(text), variants)
        printed = read_printed(text)
    except EngineError as error:
        where = error.place or "text"
        raise Invalid(error.message, code=error.code, fields=[FieldProblem(where, error.message)]) from error
    return _table_of_slurm(printed) if printed.scheduler == "slurm" else _table_of_qstat(printed, weights, variants)


def _one_case(text: str) -> dict[str, Any]:
    if has_more_values(text.encode(), MOST_PASTED_VALUES):
        raise TooLarge(_("The case has more values than a page solves: use %(command)s.") % _BY_COMMAND)
    cases = read_cases(text)
    if len(cases) != 1 or not isinstance(cases[0], dict):
        message = _("A page shows one case: paste one object, or send a list to %(command)s.") % _BY_COMMAND
        raise Invalid(message, fields=[FieldProblem("text", message)])
    case: dict[str, Any] = cases[0]
    return case


def _table_of_case(case: dict[str, Any], variants: Sequence[str]) -> JobTable:
    algorithm = get_job_algorithm(name_of_algorithm(case))
    if algorithm.name == "gridengine":
        return grid_engine_table(case, variants, most_jobs=MOST_PASTED_JOBS)
    (result,) = explain_jobs([case], most_jobs=MOST_PASTED_JOBS)
    if algorithm.name == "slurm-multifactor":
        return _slurm_case(algorithm, case, result)
    return _htcondor_case(algorithm, result) if algorithm.name == "htcondor" else _sam_case(algorithm, result)


def _slurm_case(algorithm: JobAlgorithm, case: dict[str, Any], result: dict[str, Any]) -> JobTable:
    weights = case.get("weights") or {}
    columns = [
        Column(term.name, term.label, short(weights.get(term.name, 0.0)) if term.weight else "")
        for term in algorithm.terms
    ]
    order = sorted(result["jobs"], key=lambda job: -result["jobs"][job]["priority"])
    places = positions_of(order)
    rows = [
        JobRow(
            job,
            "",
            "",
            [Cell(column.label, str(answer[column.name])) for column in columns],
            str(answer["priority"]),
            places[job],
            answer["explain"],
        )
        for job, answer in ((job, result["jobs"][job]) for job in order[:MOST_JOB_ROWS])
    ]
    return JobTable(
        algorithm.label,
        algorithm.formula,
        algorithm.reference,
        waiting_verdict(places),
        columns,
        rows,
        _("Printed priority"),
        n_jobs=len(order),
    )


def _htcondor_case(algorithm: JobAlgorithm, result: dict[str, Any]) -> JobTable:
    order = result["pending_order"]
    places = positions_of(order)
    columns = [Column(term.name, term.label) for term in algorithm.terms]
    rows = [
        JobRow(
            job,
            answer["submitter"],
            "",
            [Cell(column.label, f"{answer[column.name]:.7g}") for column in columns],
            f"{answer['effective']:.7g}",
            places[job],
            answer["explain"],
        )
        for job, answer in ((job, result["jobs"][job]) for job in order[:MOST_JOB_ROWS])
    ]
    return JobTable(
        algorithm.label,
        algorithm.formula,
        algorithm.reference,
        waiting_verdict(places),
        columns,
        rows,
        _("Effective priority"),
        n_jobs=len(order),
        notes=[Note("of_case", text) for text in result["notes"]],
    )


def _sam_case(algorithm: JobAlgorithm, result: dict[str, Any]) -> JobTable:
    words = {"front": _("front"), "back": _("back"), "priority": _("priority group")}
    rows = [
        JobRow(
            job,
            "",
            "",
            [
                Cell(_("Group"), answer["group"]),
                _benefit_cell(answer),
                Cell(_("Goes to"), words[answer["queue"]]),
                Cell(_("Fraction after"), _fraction(answer["fraction_after"])),
            ],
            str(answer["priority"]),
            None,
            answer["explain"],
        )
        for job, answer in list(result["jobs"].items())[:MOST_JOB_ROWS]
    ]
    n_front = sum(answer["queue"] == "front" for answer in result["jobs"].values())
    verdict = ngettext("%(n)s of %(of)s job goes to the front.", "%(n)s of %(of)s jobs go to the front.", n_front)
    return JobTable(
        algorithm.label,
        algorithm.formula,
        algorithm.reference,
        verdict % {"n": n_front, "of": len(result["jobs"])},
        [
            Column("group", _("Group")),
            Column("benefit", _("Benefit")),
            Column("queue", _("Goes to")),
            Column("fraction_after", _("Fraction after")),
        ],
        rows,
        _("Printed priority"),
        n_jobs=len(result["jobs"]),
        has_places=False,
        notes=[Note("of_case", text) for text in result["notes"]],
        ledger=_ledger(result["ledger"]),
        ledger_unit=result["ledger"]["unit"],
    )


def _benefit_cell(answer: dict[str, Any]) -> Cell:
    """The job's benefit to its group, and the part of each function of a weighted sum."""
    amount = "–" if answer["benefit"] is None else short(answer["benefit"])
    return Cell(_("Benefit"), amount, ", ".join(f"{name} {short(value)}" for name, value in answer["parts"].items()))


def _ledger(ledger: dict[str, Any]) -> list[LedgerRow]:
    return [
        LedgerRow(
            group,
            _fraction(each["share"]),
            short(each["before"]),
            short(each["booked"]),
            short(each["after"]),
            _fraction(each["fraction"]),
            short(each["owed"]),
        )
        for group, each in list(ledger["groups"].items())[:MOST_JOB_ROWS]
    ]


def _table_of_qstat(printed: Printed, typed_weights: Mapping[str, float] | None, variants: Sequence[str]) -> JobTable:
    fitting = None if typed_weights else fitting_weights(printed.jobs)
    preset = fitting_preset(printed.jobs)
    weights = typed_weights or fitting or PRESET_WEIGHTS[preset]
    algorithm = get_job_algorithm("gridengine")
    followed = follow_grid_engine(printed.jobs, weights)
    totals = {each.job.job: each.printed for each in followed}
    places = _order(followed, totals)
    chosen = [name for name in variants if name in VARIANTS]
    readings = [[name] for name in chosen] + ([chosen] if len(chosen) > 1 else [])
    beside: Variants = []
    for reading in readings:
        priority_of_job = priorities(printed.jobs, weights, reading)
        beside.append((reading_label("+".join(reading)), priority_of_job, _order(followed, priority_of_job)))
    labels = {term.name: term.label for term in algorithm.terms}
    columns = [Column(name, labels[name], short(weights[weight])) for name, weight in TERMS]
    in_line = sorted(followed, key=lambda each: places.get(each.job.job, len(places) + each.job.line))
    rows = [
        JobRow(
            each.job.job,
            each.job.user,
            each.job.state,
            [_printed_cell(column, each, decimals=5) for column in columns],
            f"{each.printed:.5f}",
            places.get(each.job.job),
            each.lines,
            each.doubts,
            compare_variants(each.job.job, places, beside),
        )
        for each in in_line[:MOST_JOB_ROWS]
    ]
    notes = [
        _weights_note(weights, is_given=typed_weights is not None, is_found=fitting is not None, preset=preset),
        *_doubt_notes(followed),
    ]
    notes += [*moved_notes(places, beside), *_left_out(variants, chosen)]
    return JobTable(
        algorithm.label,
        algorithm.formula,
        algorithm.reference,
        waiting_verdict(places),
        columns,
        rows,
        _("Printed priority"),
        n_jobs=len(followed),
        variants=[label for label, _totals, _places in beside],
        notes=notes,
    )


def _table_of_slurm(printed: Printed) -> JobTable:
    algorithm = get_job_algorithm("slurm-multifactor")
    followed = follow_slurm(printed)
    order = sorted(followed, key=lambda each: -each.printed)
    places = positions_of([each.job.job for each in order])
    columns = [
        Column(term.name, term.label, short(printed.weights.get(term.name, "")) if printed.weights else "")
        for term in algorithm.terms
        if any(term.name in each.terms for each in followed)
    ]
    rows = [
        JobRow(
            each.job.job,
            each.job.user,
            each.job.state,
            [_printed_cell(column, each, decimals=0) for column in columns],
            f"{each.printed:.0f}",
            places[each.job.job],
            each.lines,
            each.doubts,
        )
        for each in order[:MOST_JOB_ROWS]
    ]
    missing = not (printed.weights and printed.factors)
    ask = Note(
        "weights_missing",
        _("Add the output of sprio -w and of sprio -n -l to see each term with its weight and factor."),
    )
    return JobTable(
        algorithm.label,
        algorithm.formula,
        algorithm.reference,
        waiting_verdict(places),
        columns,
        rows,
        _("Printed priority"),
        n_jobs=len(followed),
        notes=[*_doubt_notes(followed), *([ask] if missing else [])],
    )


def _printed_cell(column: Column, each: Followed, *, decimals: int) -> Cell:
    if column.name not in each.terms:
        return Cell(column.label, "–" if each.job.role != ASIDE else "0")
    value = f"{column.weight} × {each.values[column.name]:.7g}" if column.name in each.values and column.weight else ""
    return Cell(column.label, f"{each.terms[column.name]:.{decimals}f}", value)


def _order(followed: Sequence[Followed], totals: Mapping[str, float]) -> dict[str, int]:
    """Position of pending jobs: by priority, then by submission, then in the listing's order."""
    pending = [each.job for each in followed if each.job.role == PENDING]
    return positions_of(
        [job.job for job in sorted(pending, key=lambda job: (-totals[job.job], job.submitted, job.line))]
    )


def _weights_note(weights: Mapping[str, float], *, is_given: bool, is_found: bool, preset: str) -> Note:
    words = " / ".join(short(weights[weight]) for _term, weight in TERMS)
    text = _("Weights of urgency, tickets and POSIX priority: %s.")
    if is_given:
        return Note("weights_given", text % words)
    if is_found:
        inferred = _("Weights of urgency, tickets and POSIX priority: %s (inferred from the rows).")
        return Note("weights_found", inferred % words)
    return Note("weights_installed", text % f"{words} ({preset})")


def _doubt_notes(followed: Sequence[Followed]) -> list[Note]:
    """Notes on rows whose priority doesn't match, and on terms that the listing has no column for."""
    n = sum(bool(each.doubts) for each in followed)
    notes = _not_listed([each for each in followed if each.not_listed])
    if n:
        text = ngettext("%s row does not match: see its line.", "%s rows do not match: see their lines.", n) % n
        return [Note("doubted", text), *notes]
    return notes or [Note("all_follow", _("All printed priorities match their terms."))]


def _not_listed(rows: Sequence[Followed]) -> list[Note]:
    if not rows:
        return []
    low, high = min(each.left for each in rows), max(each.left for each in rows)
    amount = short(low) if high - low < 2e-5 else f"{short(low)}–{short(high)}"  # the last printed digit
    words = {"amount": amount, "terms": name_terms(rows[0].not_listed)}
    text = _("%(amount)s of each priority is %(terms)s, which this output doesn’t show.") % words
    return [Note("not_listed", f"{text} {_('Paste qstat -ext -urg -pri to see every term.')}")]


def _left_out(variants: Sequence[str], chosen: Sequence[str]) -> list[Note]:
    left = [reading_label(name) for name in variants if name not in chosen]
    text = _("%s needs shares, which scheduler output doesn’t have: paste a case.") % ", ".join(left)
    return [Note("needs_shares", text)] if left else []


def _fraction(value: float | None) -> str:
    return "–" if value is None else f"{value:.5g}"
