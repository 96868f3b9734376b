"""`manage.py tree SLUG`: print the tree of a policy."""

from __future__ import annotations

import argparse
from typing import Any

import orjson

from apps.accounts.actor import COMMAND
from apps.core.errors import FieldProblem, Invalid
from apps.core.operator_commands import OperatorCommand
from apps.pages.tree.api import nested, uses_of
from apps.priorities.selectors import open_view
from apps.priorities.selectors.tree import iterate_rows
from apps.priorities.selectors.tree_listing import DEEPEST, Arrangement
from apps.priorities.serving import store
from apps.web.listings.listing import text_lines
from apps.web.listings.tree_listing import TREE, csv_columns, rows_of
from apps.web.texts.algorithm_text import main_column


class Command(OperatorCommand):
    help = "Prints the entries of a policy with their shares, usage and priorities, in the columns of the page's file."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("policy", help="slug of the policy")
        parser.add_argument("--level", type=int, default=2, metavar="N", help="levels below the root (default: 2)")
        parser.add_argument("--json", action="store_true", help="print the JSON of the REST API")

    def handle(self, *args: Any, **options: Any) -> None:
        level = options["level"]
        if not 0 < level <= DEEPEST:
            message = f"must be from 1 to {DEEPEST}"
            raise Invalid(f"--level {message}.", fields=[FieldProblem("--level", message)])
        store.poll()
        view = open_view(policy_slug=options["policy"], actor=COMMAND)
        if options["json"]:
            answer = nested(view, 0, level, uses_of(view, 0))
            self.stdout.write(orjson.dumps(answer, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z).decode())
            return
        own = main_column(view.snapshot.own_columns) if view.snapshot else ""
        columns = csv_columns([name for name in TREE.names("table") if own or name != "own"], own)
        printed = [column for column in columns if column.name not in ("name", "kind")]  # the path has them
        for line in text_lines(printed, rows_of(view, iterate_rows(view, Arrangement(level=level)), own_column=own)):
            self.stdout.write(line)
