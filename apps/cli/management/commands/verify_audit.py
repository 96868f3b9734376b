"""`manage.py verify_audit`: verify the hash chain of the audit log."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from apps.accounts.audit_log import check_chain
from apps.core.clock import now
from apps.core.counts import counted
from apps.core.operator_commands import REFUSED, OperatorCommand


class Command(OperatorCommand):
    help = (
        "Checks the hash chain of the audit log from its first row to its last, and against earlier checks. "
        "Exit status 0: intact; 1: broken, with the first wrong row."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        check = check_chain(at=now())
        if check.broken_id is not None:
            raise CommandError(
                f"The audit log is broken: {check.problem}. {check.n_rows:,} rows before it hold.", returncode=REFUSED
            )
        head = bytes(check.head_hash).hex()
        self.stdout.write(f"{counted(check.n_rows, 'row')} unbroken in {check.duration_s:.1f} s, head {head}")
