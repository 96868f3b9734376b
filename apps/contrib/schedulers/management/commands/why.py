"""`manage.py why JOB`: print why a job waits."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

import orjson

from apps.accounts.actor import COMMAND
from apps.contrib.schedulers.waiting import find_waiting
from apps.core.clock import now
from apps.core.operator_commands import OperatorCommand
from apps.priorities.serving import store


class Command(OperatorCommand):
    help = "Prints why a job waits: the scheduler's reason, the terms of its priority, and the jobs ahead by group."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("job", help="job number")
        parser.add_argument(
            "--scheduler",
            default="",
            metavar="NAME",
            help="name of the scheduler, if several have a job of this number",
        )
        parser.add_argument("--json", action="store_true", help="print the JSON of the REST API")

    def handle(self, *args: Any, **options: Any) -> None:
        store.poll()
        waiting = find_waiting(job=options["job"], scheduler=options["scheduler"], at=now(), actor=COMMAND)
        if options["json"]:
            answer = asdict(waiting) | {"fairshare_decides": waiting.fairshare_decides}
            self.stdout.write(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
            return
        self.stdout.write(
            f"{waiting.scheduler}: job {waiting.job.job} of {waiting.job.user}, {waiting.reason.code or '-'}"
        )
        self.stdout.write(waiting.reason.text)
        for text in waiting.start.sentences if waiting.start else ():
            self.stdout.write(text)
        for part in waiting.terms:
            share = "" if part.share is None else f"{100 * part.share:6.1f} %"
            self.stdout.write(f"  {part.name:<12}{part.value:>14,.0f}  {share}".rstrip())
        if waiting.priorities_text:
            self.stdout.write(waiting.priorities_text)
        for place in waiting.priorities:
            ahead = "" if place.ahead is None else f"{place.ahead:>8,} ahead"
            names = f"{place.partition or '-':<20}{place.qos or '-':<20}"
            self.stdout.write(f"  {names}{place.priority:>14,.0f}{ahead}")
        if waiting.ahead_text:
            self.stdout.write(waiting.ahead_text)
        for group in waiting.groups:
            self.stdout.write(f"  {group.path or 'others':<40}{group.jobs:>8}")
