"""`manage.py analyse SLUG [FIGURE]`: print the effect of an operator and a resolution on a policy's tree.

`manage.py analyse FIGURE` prints a figure of the papers: about operators alone, without a policy and a database.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import orjson

from apps.accounts.actor import COMMAND
from apps.contrib.lab.advisor.runs import advice_sentence
from apps.contrib.lab.operators.figures import FIGURES
from apps.contrib.lab.operators.records import BOUNDS, NAMES, FigureTable, as_json, columns_of, read_query
from apps.contrib.lab.operators.selectors import (
    OperatorsPage,
    get_figure,
    get_operators_page,
    get_paper_figure,
)
from apps.core import clock, tables
from apps.core.operator_commands import OperatorCommand
from apps.priorities.serving import store
from apps.web.texts.operator_choices import OperatorChoice


class Command(OperatorCommand):
    help = "Prints the effect of an operator and a resolution on the tree of a policy, or the numbers of one figure."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("policy", help="slug of the policy; or a figure of the papers, which is of no policy")
        parser.add_argument(
            "figure", nargs="?", choices=list(FIGURES), help="figure to print (default: the check and all operators)"
        )
        for name in NAMES:
            text = f"{BOUNDS[name][0]:g} to {BOUNDS[name][1]:g}" if name in BOUNDS else "a name"
            text = "path of an entry" if name == "entry" else text
            parser.add_argument(f"--{name.replace('_', '-')}", default="", metavar=name.upper(), help=text)
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--json", action="store_true", help="print the JSON of the REST API")
        how.add_argument("--csv", action="store_true", help="print the rows as CSV")

    def handle(self, *args: Any, **options: Any) -> None:
        query = read_query({name: options[name] for name in NAMES})
        if not options["figure"] and options["policy"] in FIGURES:
            self._figure(get_paper_figure(figure=options["policy"], query=query), options)
            return
        store.poll()
        asked: dict[str, Any] = {"policy_slug": options["policy"], "query": query, "actor": COMMAND}
        if options["figure"]:
            self._figure(get_figure(figure=options["figure"], **asked), options)
        else:
            verdict = advice_sentence(policy_slug=options["policy"], at=clock.now(), actor=COMMAND)
            self._page(replace(get_operators_page(**asked), verdict=verdict), options)

    def _figure(self, figure_table: FigureTable, options: dict[str, Any]) -> None:
        if options["json"]:
            self._json(figure_table.json())
            return
        names = [column.name for column in figure_table.columns]
        rows = [[getattr(row, name) for name in names] for row in figure_table.rows]
        if options["csv"]:
            self._csv(names, rows)
            return
        self.stdout.write(
            f"{figure_table.title}, {figure_table.unit}\n{figure_table.sentence}\n\n{_aligned(names, rows)}"
        )

    def _page(self, page: OperatorsPage, options: dict[str, Any]) -> None:
        choices = [as_json(choice) for choice in page.operators]
        names = [column.name for column in columns_of(OperatorChoice)]
        if options["json"]:
            self._json(page.json())
            return
        if options["csv"]:
            self._csv(names, [[choice[name] for name in names] for choice in choices])
            return
        self.stdout.write("".join(f"{text}\n" for text in (page.check.sentence, page.verdict) if text))
        width = max(len(choice.name) for choice in page.operators)
        for choice in page.operators:
            mark = "*" if choice.is_current else " "
            self.stdout.write(f"{mark} {choice.name:<{width}}  {choice.sentence}")
        self.stdout.write(f"Figures: {', '.join(FIGURES)}")

    def _json(self, document: dict[str, Any]) -> None:
        self.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())

    def _csv(self, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        columns = [tables.Column(name) for name in names]
        for piece in tables.pieces(columns, rows, "csv"):
            self.stdout.write(piece.decode(), ending="")


def _aligned(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table with aligned columns: text to the left, numbers to the right."""
    cells = [list(names), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(names))]
    is_text = [bool(rows) and isinstance(rows[0][at], str) for at in range(len(names))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(row, widths, is_text, strict=True)
        ).rstrip()
        for row in cells
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
