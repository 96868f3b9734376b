"""`manage.py propose_policy --policy SLUG --from-source NAME`: make a tree of a usage source's groups and users."""

from __future__ import annotations

import argparse
from typing import Any

from apps.accounts.actor import COMMAND
from apps.contrib.onboarding.services import PolicyProposal, propose_policy
from apps.core.clock import now
from apps.core.counts import counted
from apps.core.errors import FieldProblem, Invalid
from apps.core.operator_commands import OperatorCommand
from apps.engine.decay_functions import DECAY_FUNCTIONS

_DAY_S = 86_400


class Command(OperatorCommand):
    help = (
        "Makes a tree of the groups and users of a usage source, and a rule that maps them. Without --publish it is a "
        "draft. By default, a new policy counts the whole log without decay."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--policy", required=True, help="slug of the policy; made if it does not exist")
        parser.add_argument("--from-source", required=True, help="slug of the usage source")
        parser.add_argument(
            "--proportional", action="store_true", help="shares in proportion to usage, in place of equal shares"
        )
        parser.add_argument("--window-days", metavar="N|all", help="length of the window; all: unlimited")
        parser.add_argument("--aging", choices=tuple(DECAY_FUNCTIONS), help="decay function within the window")
        parser.add_argument("--publish", action="store_true", help="publish the change set")
        parser.add_argument("--reason", default="", help="reason for the audit log; required with --publish")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["publish"] and not options["reason"].strip():
            raise Invalid("--publish needs --reason.", fields=[FieldProblem("--reason", "is missing")])
        proposal = propose_policy(
            PolicyProposal(
                policy_slug=options["policy"],
                source_slug=options["from_source"],
                proportional=options["proportional"],
                settings=_settings(options["window_days"], options["aging"]),
                publish=options["publish"],
                reason=options["reason"],
            ),
            at=now(),
            actor=COMMAND,
        )
        size = f"{counted(proposal.n_groups, 'group')}, {counted(proposal.n_users, 'user')}"
        if proposal.revision is None:
            self.stdout.write(f"policy {options['policy']} draft, change set {proposal.change_set.pk}: {size}")
            self.stderr.write("Nobody is affected yet: publish the change set, or add --publish --reason TEXT.")
        else:
            self.stdout.write(f"policy {options['policy']} revision {proposal.revision.number}: {size}")


def _settings(window_days: str | None, aging: str | None) -> dict[str, Any]:
    window: dict[str, Any] = {}
    if window_days == "all":
        window["length_s"] = None
    elif window_days is not None:
        if not (window_days.isascii() and window_days.isdigit() and 0 < int(window_days) <= 73_000):
            message = "is a number of days, or all"
            raise Invalid(f"--window-days {message}.", fields=[FieldProblem("--window-days", message)])
        window["length_s"] = int(window_days) * _DAY_S
    if aging is not None:
        window["aging"] = aging
    return {"window": window} if window else {}
