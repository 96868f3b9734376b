"""`manage.py sam_case --policy P [--path /physics] [--jobs FILE]`: print a policy as a case for `manage.py jobs`."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.contrib.jobs.sam_cases import sam_case
from apps.core import clock
from apps.core.code_paths import command_name
from apps.core.operator_commands import OperatorCommand
from apps.priorities.serving import store


class Command(OperatorCommand):
    help = f"Prints targets and usage of an entry's children as a case of SAM's queue, for `{command_name('jobs')} -`."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--policy", required=True)
        parser.add_argument("--path", default="/", help="path of the entry whose children are the groups (default: /)")
        parser.add_argument("--jobs", default="", help="file with a JSON list of jobs for the case")

    def handle(self, *args: Any, policy: str, path: str, jobs: str, **options: Any) -> None:
        case_jobs = _read_jobs(jobs) if jobs else []
        store.poll()
        case = sam_case(policy_slug=policy, path=path, actor=COMMAND, at=clock.now(), jobs=case_jobs)
        self.stdout.write(json.dumps(case, ensure_ascii=False, indent=1))


def _read_jobs(path: str) -> list[Any]:
    try:
        with open(path, encoding="utf-8") as file:
            jobs = json.load(file)
    except (OSError, ValueError) as error:
        raise CommandError(f"{path}: {error}") from error
    if not isinstance(jobs, list):
        raise CommandError(f"{path}: must be a list of jobs.")
    return jobs
