"""`manage.py start_promises SCHEDULER`: what promises of starts taught is compared with its rows, or made from them."""

from __future__ import annotations

import argparse
from typing import Any

from apps.contrib.schedulers.permissions import find_scheduler
from apps.contrib.starts.learned import is_as_rows_teach, rebuild
from apps.contrib.starts.learned_trees import are_as_rows_teach, learned_trees, rebuild_trees
from apps.contrib.starts.sentences import past_queues_sentence
from apps.core.operator_commands import OperatorCommand


class Command(OperatorCommand):
    help = "Says whether what promises of starts taught is what their rows teach; with --rebuild, makes it from them"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("scheduler", help="name of the scheduler")
        parser.add_argument("--rebuild", action="store_true", help="store what the rows teach")

    def handle(self, *args: Any, **options: Any) -> None:
        scheduler = find_scheduler(options["scheduler"])
        if options["rebuild"]:
            is_same = not any([rebuild(scheduler), rebuild_trees(scheduler)])
        else:
            is_same = is_as_rows_teach(scheduler) and are_as_rows_teach(scheduler)
        done = "it was made from them" if options["rebuild"] else "--rebuild makes it from them"
        same = f"{scheduler.name}: what was learned is what the rows of promises teach."
        self.stdout.write(same if is_same else f"{scheduler.name}: what was learned differs from the rows; {done}.")
        if (trees := learned_trees(scheduler)) is not None:
            self.stdout.write(past_queues_sentence(trees))
