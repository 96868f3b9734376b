"""`manage.py doctor`: examine the instance, and print each finding with its remedy."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from apps.cli.doctor.checks import all_checks
from apps.cli.doctor.examination import examine
from apps.cli.doctor.rendering import report_json, report_text
from apps.core.clock import now
from apps.core.operator_commands import REFUSED, OperatorCommand


class Command(OperatorCommand):
    help = "Examines settings, versions, disk, clock, database, work and data, and prints findings with their remedies"
    requires_system_checks = ()  # they are a part of it

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--only", action="append", metavar="SECTION", choices=list(all_checks()), help="one section; repeatable"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        checks = all_checks()
        chosen = {name: check for name, check in checks.items() if name in (options["only"] or checks)}
        report = examine(chosen, at=now())
        self.stdout.write(report_json(report) if options["json"] else report_text(report))
        if report.needs_attention:
            self.stdout.flush()
            sys.exit(REFUSED)
