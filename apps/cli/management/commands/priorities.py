"""`manage.py priorities SLUG`: print the newest priorities."""

from __future__ import annotations

import argparse
from typing import Any

import orjson

from apps.core.clock import now
from apps.core.operator_commands import OperatorCommand
from apps.priorities.serving import store
from apps.priorities.serving.leaf_lines import every_leaf


class Command(OperatorCommand):
    help = "Prints the newest priorities of the given accounts, or of all leaves."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("policy", help="slug of the policy")
        parser.add_argument("--account", action="append", default=[], metavar="NAME", help="user name; may be repeated")
        parser.add_argument("--json", action="store_true", help="print the JSON of the REST API")

    def handle(self, *args: Any, **options: Any) -> None:
        store.poll()
        snapshot = store.newest(options["policy"], poll=False)
        results = snapshot.lookup(options["account"]) if options["account"] else list(every_leaf(snapshot))
        if options["json"]:
            answer = {**snapshot.head(now()), "results": results}
            self.stdout.write(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
            return
        for result in sorted(results, key=lambda result: (result.get("rank") is None, result.get("rank") or 0)):
            rank = f"{result['rank']}/{result['of']}" if result.get("rank") else result.get("error", "-")
            name = result["account"] or "-"
            self.stdout.write(f"{rank:>12}  {result['factor']:.6f}  {name}  {result['entry'] or ''}".rstrip())
