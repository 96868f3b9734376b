"""`manage.py sam SLUG [STEP JOB]`: print the ledger of SAM's queue, or report one step of a job, as JSON."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from apps.accounts.actor import COMMAND
from apps.contrib.jobs.gateway import services
from apps.contrib.jobs.gateway.selectors import get_ledger
from apps.contrib.jobs.gateway.services import JobReport
from apps.core import clock
from apps.core.operator_commands import OperatorCommand
from apps.priorities.serving import store

STEPS = {"started": services.start, "finished": services.finish, "cancelled": services.cancel}


class Command(OperatorCommand):
    help = "Prints the ledger of SAM's queue, or reports one step of a job, as JSON."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("policy")
        parser.add_argument("step", nargs="?", choices=["decide", *STEPS])
        parser.add_argument("job", nargs="?", default="")
        parser.add_argument("--group", default="", help="for decide: name or path of the job's group")
        parser.add_argument("--benefit", type=float, help="estimated for decide, measured for finished")

    def handle(
        self,
        *args: Any,
        policy: str,
        step: str | None,
        job: str,
        group: str,
        benefit: float | None,
        **options: Any,
    ) -> None:
        store.poll()
        at, report = clock.now(), JobReport(job, benefit)
        if step is None:
            answer = get_ledger(policy_slug=policy, at=at, actor=COMMAND)
        elif step == "decide":
            answer = services.decide(policy_slug=policy, report=report, group=group, at=at, actor=COMMAND)
        else:
            answer = STEPS[step](policy_slug=policy, report=report, at=at, actor=COMMAND)
        self.stdout.write(json.dumps(answer, ensure_ascii=False, indent=1, default=str))
