"""Input and output of `compute`, `jobs` and `simulate`: cases from files, results as one JSON list."""

from __future__ import annotations

import gc
import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from apps.core import tables
from apps.core.operator_commands import BAD_INPUT
from apps.engine.case_text import read_cases
from apps.engine.cases import solve_all
from apps.engine.errors import BadCase


def add_file_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file with cases, or - for standard input")


def print_results(
    command: BaseCommand,
    files: list[str],
    solver: Callable[[object], dict[str, Any]],
    table: Callable[[dict[str, Any]], Iterator[Sequence[Any]]] | None = None,
    columns: Sequence[tables.Column] = (),
) -> None:
    """Print results in input order on standard output. Problems go to standard error, with exit status 2.

    table: makes the rows of one result, printed as CSV below `columns` in place of the JSON list.
    """
    rows: list[Sequence[Any]] = []
    results: list[str] = []
    problems: list[str] = []
    n_cases = 0
    for name in files:
        try:
            cases = read_cases(_read_text(name))
        except BadCase as problem:
            problems.append(f"{name}: {problem.message}")
            continue
        gc.freeze()  # the garbage collector need not scan the cases, which are used until the end
        for outcome in solve_all(cases, first_index=n_cases, solver=solver):
            if isinstance(outcome, tuple):
                problems.append(": ".join(outcome))
            else:
                rows.extend(table(outcome) if table else ())
                results.append("" if table else json.dumps(outcome, allow_nan=False))
        n_cases += len(cases)
    gc.unfreeze()
    if table:
        for piece in tables.pieces(columns, rows, "csv"):
            command.stdout.write(piece.decode(), ending="")
    else:
        command.stdout.write("[" + ",\n ".join(results) + "]")
    for line in problems:
        command.stderr.write(f"error: {_printable(line)}", style_func=str)
    if problems:
        raise SystemExit(BAD_INPUT)


def _read_text(name: str) -> str:
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as problem:
        raise BadCase(f"can't be read: {problem.strerror or problem}") from None
    except ValueError as problem:  # a name with a NUL in it
        raise BadCase(f"can't be read: {problem}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise BadCase(f"invalid UTF-8 at byte {problem.start}") from None


def _printable(line: str) -> str:
    """The text with control characters and lone surrogates escaped, for one line on any terminal."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in line
    )
