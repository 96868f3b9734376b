"""What `compute`, `jobs` and their like share: cases from files in, one JSON list out, one line per bad case."""

from __future__ import annotations

import gc
import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from apps.cli.commands import BAD_INPUT
from apps.engine.case_text import read_cases
from apps.engine.cases import solve_all
from apps.engine.errors import BadCase


def add_file_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file with cases, or - for standard input")


def print_results(command: BaseCommand, files: list[str], solver: Callable[[object], dict[str, Any]]) -> None:
    """Results in order on standard output; what is wrong on standard error, and then exit status 2."""
    results: list[str] = []
    problems: list[str] = []
    n_cases = 0
    for name in files:
        try:
            cases = read_cases(_read_text(name))
        except BadCase as problem:
            problems.append(f"{name}: {problem.message}")
            continue
        gc.freeze()  # the cases stay until the end, so that the garbage collector needn't scan them repeatedly
        for outcome in solve_all(cases, first_index=n_cases, solver=solver):
            if isinstance(outcome, tuple):
                problems.append(": ".join(outcome))
            else:
                results.append(json.dumps(outcome, allow_nan=False))
        n_cases += len(cases)
    gc.unfreeze()
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
        raise BadCase(f"no UTF-8 at byte {problem.start}; JSON is written in UTF-8") from None


def _printable(line: str) -> str:
    """One line on any terminal: control characters and lone surrogates escaped."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in line
    )
