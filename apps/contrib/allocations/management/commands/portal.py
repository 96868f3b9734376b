"""`manage.py portal import|usage|fetch`: projects and allocations of ColdFront or Waldur, and usage back."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import date
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings

from apps.accounts.actor import COMMAND
from apps.contrib.allocations.exchange.portal_import import PortalOptions, PortalPlan, import_portal, plan_portal
from apps.contrib.allocations.exchange.portal_kinds import PORTALS, usage_in_terms
from apps.contrib.allocations.exchange.portals import PortalState, PortalTerms, read_unit_rules
from apps.core.clock import now
from apps.core.errors import FieldProblem, Invalid
from apps.core.operator_commands import OperatorCommand
from apps.core.secret_files import read_secret
from apps.policies.formats import json_document
from apps.policies.formats.decoding import text_of

_MOST_PRINTED_PORTAL_LINES = 50


class Command(OperatorCommand):
    help = (
        "Imports projects, members and allocations of ColdFront or Waldur from their REST interfaces, and prints usage "
        "in their terms."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        importing = actions.add_parser(
            "import",
            help="Make a change set of new projects and members, and import allocations",
            description="Entries are added below --below; shares of entries that are there stay. Without --publish the "
            "change set is a draft, and allocations of new projects wait for it.",
        )
        _add_source(importing)
        importing.add_argument("--no-members", action="store_true", help="add projects only")
        importing.add_argument(
            "--archive-missing", action="store_true", help="archive users of a project who are no members any more"
        )
        importing.add_argument("--dry-run", action="store_true", help="print the differences and store nothing")
        importing.add_argument("--publish", action="store_true", help="publish the change set")
        importing.add_argument("--reason", default="", help="reason for the audit log")
        usage = actions.add_parser(
            "usage",
            help="Print delivered usage as the portal takes it, as JSON",
            description="For ColdFront the allocations with usage of each attribute, for Waldur the bodies of its "
            "set_usage with the amounts of this month.",
        )
        _add_source(usage)
        fetching = actions.add_parser("fetch", help="Print the answers of a portal as JSON, for --file")
        fetching.add_argument("--from", dest="kind", required=True, choices=list(PORTALS))
        _add_address(fetching)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "fetch":
            self.stdout.write(json.dumps(_answers(options), ensure_ascii=False, indent=1))
            return
        answers, terms = _answers(options), _terms(options)
        if options["action"] == "usage":
            used = usage_in_terms(
                options["kind"],
                answers,
                terms,
                policy_slug=options["policy"],
                below=options["below"],
                zone=ZoneInfo(settings.TIME_ZONE),
                at=now(),
                actor=COMMAND,
            )
            self.stdout.write(json.dumps(used, ensure_ascii=False, indent=1))
        else:
            self._import(PORTALS[options["kind"]].read(answers, terms), options)

    def _import(self, state: PortalState, options: dict[str, Any]) -> None:
        asked = PortalOptions(
            below=options["below"], members=not options["no_members"], archive_missing=options["archive_missing"]
        )
        whole: dict[str, Any] = {"policy_slug": options["policy"], "state": state, "options": asked}
        if options["dry_run"]:
            plan = plan_portal(**whole, at=now(), actor=COMMAND)
            if plan.problems:
                first = plan.problems[0]
                raise Invalid(f"{first.where} {first.message}.", code="bad_portal", fields=plan.problems)
            self._print_plan(plan, "dry run")
            return
        if not options["reason"].strip():
            raise Invalid("Importing needs --reason.", fields=[FieldProblem("--reason", "is missing")])
        done = import_portal(**whole, publish=options["publish"], reason=options["reason"], at=now(), actor=COMMAND)
        self._print_plan(done.plan, "imported")
        if done.revision is not None:
            self.stdout.write(f"published as revision {done.revision.number}")
        elif done.change_set is not None:
            self.stderr.write(f"Change set {done.change_set.pk} is a draft: publish it, then import again.")

    def _print_plan(self, plan: PortalPlan, head: str) -> None:
        counts = ", ".join(f"{name}: {n:,}" for name, n in plan.counts.items() if n)
        self.stdout.write(f"{head}, {plan.policy.slug}: {counts or 'nothing to change'}")
        lines = [f"{each['op']} {each.get('name', each.get('entry'))}" for each in plan.operations]
        lines += [
            f"{row.path}: {row.action}, {row.amount:,g} {row.unit}, {row.starts_on} to {row.ends_on}"
            for row in plan.allocations.changes
        ]
        lines += [f"{row.path}: waits, {row.amount:,g} {row.unit}" for row in plan.waiting]
        for line in lines[:_MOST_PRINTED_PORTAL_LINES]:
            self.stdout.write(f"  {line}")
        if len(lines) > _MOST_PRINTED_PORTAL_LINES:
            self.stdout.write(f"  and {len(lines) - _MOST_PRINTED_PORTAL_LINES:,} more")
        for sentence in plan.left_out[:_MOST_PRINTED_PORTAL_LINES]:
            self.stderr.write(f"left out: {sentence}")


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", default="", help="address of the portal, before /api")
    parser.add_argument("--secret", default="", help="name of the file in FAIRSHARE_SECRETS_DIR with the token")


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", required=True, help="slug of the policy")
    parser.add_argument("--from", dest="kind", required=True, choices=list(PORTALS), help="what the portal is")
    _add_address(parser)
    parser.add_argument("--file", default="", help="answers of the portal, of `portal fetch`; - for standard input")
    parser.add_argument("--below", default="/", help="path of the entry whose children the projects are (default: /)")
    parser.add_argument(
        "--unit",
        action="append",
        default=[],
        metavar="NAME=SYMBOL",
        help="unit of an attribute or component, such as 'Core Usage (Hours)=core-h' or cpu=core-h*1000; repeatable",
    )
    parser.add_argument("--starts-on", type=date.fromisoformat, help="first day, where the portal names none")
    parser.add_argument("--ends-on", type=date.fromisoformat, help="last day, where the portal names none")


def _terms(options: dict[str, Any]) -> PortalTerms:
    return PortalTerms(
        units=read_unit_rules(options["unit"]), starts_on=options["starts_on"], ends_on=options["ends_on"]
    )


def _answers(options: dict[str, Any]) -> dict[str, Any]:
    name = options.get("file", "")
    if bool(name) == bool(options["url"]):
        raise Invalid("Name a file or an address.", fields=[FieldProblem("--url", "or --file, one of them")])
    if not name:
        token = read_secret(options["secret"]) if options["secret"] else ""
        return PORTALS[options["kind"]].fetch(options["url"], token)
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise Invalid(f"{name}: {error.strerror}.", fields=[FieldProblem("--file", "can't be read")]) from error
    answers = json_document.parse(text_of(content))
    if not isinstance(answers, dict):
        raise Invalid("The file holds no object: write it with `portal fetch`.", code="bad_document")
    return answers
