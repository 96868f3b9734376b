"""`manage.py goal POLICY ENTRY --by DAY`: print changes that bring an entry to its target by a day."""

from __future__ import annotations

import argparse
from typing import Any
from uuid import UUID

import orjson
from django.utils import timezone

from apps.accounts.actor import COMMAND
from apps.contrib.forecast.goals.records import GoalOption, GoalSolution
from apps.contrib.forecast.goals.selectors import add_option_to_draft, get_solution, read_goal
from apps.core import clock
from apps.core.errors import NotFound
from apps.core.operator_commands import OperatorCommand
from apps.priorities.selectors.rows import open_view
from apps.priorities.serving import store

_MOST_PRINTED_GOAL_SHARES = 5


class Command(OperatorCommand):
    help = "Prints changes that bring an entry to its target by a day, and which entries lose by each."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("policy", help="slug of the policy")
        parser.add_argument("entry", help="path or uid of the entry")
        parser.add_argument("--by", required=True, metavar="DAY", help="day within a year, such as 2026-12-15")
        parser.add_argument(
            "--most-lost",
            default="",
            metavar="POINTS",
            help="percentage points that any other entry may lose (default 1)",
        )
        parser.add_argument(
            "--least-target", default="", metavar="PERCENT", help="lowest target of the entry (default 0)"
        )
        parser.add_argument(
            "--most-target", default="", metavar="PERCENT", help="highest target of the entry (default 100)"
        )
        parser.add_argument("--draft", default="", metavar="CHANGE", help="make a draft of one of the printed changes")
        parser.add_argument("--json", action="store_true", help="print the JSON of the REST API")

    def handle(self, *args: Any, **options: Any) -> None:
        store.poll()
        slug = options["policy"]
        today = timezone.localtime(clock.now()).date()
        goal = read_goal(options, entry=_uid_of(slug, options["entry"]), today=today)
        solution = get_solution(policy_slug=slug, goal=goal, actor=COMMAND)
        if options["json"]:
            self.stdout.write(orjson.dumps(solution, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z).decode())
        else:
            self._print(solution)
        if options["draft"]:
            draft = add_option_to_draft(
                policy_slug=slug, goal=goal, lever=options["draft"], draft=None, actor=COMMAND, at=clock.now()
            )
            self.stderr.write(f"Draft {draft.pk}: review and publish it at /changes/{draft.pk}/")

    def _print(self, solution: GoalSolution) -> None:
        used, target = solution.without.actual * 100, solution.without.target * 100
        self.stdout.write(
            f"{solution.path}: {used:.1f} % of {target:.1f} % on {solution.at:%Y-%m-%d} if nothing changes"
        )
        if solution.is_reached_already:
            self.stdout.write("On target: nothing has to change.")
        for option in solution.options:
            self._print_option(option)
        if not solution.options and not solution.is_reached_already:
            self.stdout.write("Not possible; closest:" if solution.closest else "Not possible.")
            if solution.closest:
                self._print_option(solution.closest)

    def _print_option(self, option: GoalOption) -> None:
        self.stdout.write(f"{option.lever}: {option.actual * 100:.1f} % of {option.target * 100:.1f} %")
        for share in option.shares[:_MOST_PRINTED_GOAL_SHARES]:
            self.stdout.write(f"  shares of {share.name}: {share.before:g} to {share.after:g}")
        if option.refund_h is not None:
            self.stdout.write(f"  refund: {option.refund_h:,.1f} hours of {option.resource}")
        if option.half_life_s is not None:
            self.stdout.write(f"  half-life: {option.half_life_s / 86_400:g} days")
        for moved in option.moved[:_MOST_PRINTED_GOAL_SHARES]:
            self.stdout.write(f"  {moved.path:<40}{moved.points:+8.2f} points")


def _uid_of(slug: str, text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        tree = open_view(policy_slug=slug, actor=COMMAND).tree
    i = tree.index_of_path(text)
    if i is None:
        raise NotFound(f"There is no entry {text!r} in the policy {slug!r}.")
    return tree.uuid(i)
