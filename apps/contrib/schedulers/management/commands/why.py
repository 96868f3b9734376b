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
        found = find_waiting(job=options["job"], scheduler=options["scheduler"], at=now(), actor=COMMAND)
        if options["json"]:
            answer = asdict(found) | {"fairshare_decides": found.fairshare_decides}
            self.stdout.write(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
            return
        self.stdout.write(f"{found.scheduler}: job {found.job.job} of {found.job.user}, {found.reason.code or '-'}")
        self.stdout.write(found.reason.text)
        for part in found.terms:
            share = "" if part.share is None else f"{100 * part.share:6.1f} %"
            self.stdout.write(f"  {part.name:<12}{part.value:>14,.0f}  {share}".rstrip())
        if found.ahead_text:
            self.stdout.write(found.ahead_text)
        for group in found.groups:
            self.stdout.write(f"  {group.path or 'others':<40}{group.jobs:>8}")
