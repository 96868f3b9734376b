"""`manage.py check_usage`: verify for each source that hourly usage is the sum of its records."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND
from apps.core.clock import now
from apps.core.counts import counted
from apps.core.operator_commands import REFUSED, OperatorCommand
from apps.usage.models import Source
from apps.usage.quality.bucket_audit import MOST_NAMED_BUCKETS, BucketAudit, Difference, audit_buckets, repair_buckets
from apps.usage.selectors import get_source


class Command(OperatorCommand):
    help = "Compares stored hourly usage with the sum of all records. Lists differences, with exit status 1."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--source", metavar="NAME", help="slug of a usage source (default: all)")
        parser.add_argument("--repair", action="store_true", help="recompute buckets that differ; needs --reason")
        parser.add_argument("--reason", default="", help="reason for the audit log")
        parser.add_argument("--json", action="store_true", help="print one JSON object for each source")

    def handle(self, *args: Any, **options: Any) -> None:
        slug = options["source"]
        sources = [get_source(slug=slug, actor=COMMAND)] if slug else list(Source.all_objects.order_by("slug"))
        n_left = 0
        for source in sources:
            audit = (
                repair_buckets(source, reason=options["reason"], at=now(), actor=COMMAND)
                if options["repair"]
                else audit_buckets(source)
            )
            self._print_result(audit, as_json=options["json"])
            n_left += audit.n_different - audit.n_repaired
        if n_left:
            remedy = "sealed hours can't be repaired: their records are gone" if options["repair"] else "see --repair"
            raise CommandError(
                f"{counted(n_left, 'bucket is', 'buckets are')} not the sum of their records; {remedy}.",
                returncode=REFUSED,
            )

    def _print_result(self, audit: BucketAudit, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(asdict(audit), default=str))
            return
        head = f"{audit.source}: {counted(audit.n_records, 'record')}, {counted(audit.n_buckets, 'bucket')}: "
        if not audit.n_different:
            self.stdout.write(f"{head}{_agreement(audit)}")
            return
        self.stdout.write(f"{head}{counted(audit.n_different, 'bucket differs', 'buckets differ')}")
        for difference in audit.first:
            self.stdout.write(f"  {_described(difference)}")
        if audit.n_different > MOST_NAMED_BUCKETS:
            self.stdout.write("  …")
        if audit.n_repaired:
            self.stdout.write(f"  {audit.n_repaired} of them were written anew from their records")


def _agreement(audit: BucketAudit) -> str:
    """What was shown where nothing differs: no more than could be compared."""
    if not audit.n_buckets:
        return "nothing to compare"
    if not audit.n_records:
        return "nothing could be compared, no finished record is kept; sums by hour are as they were stored"
    if audit.n_sealed:
        n_compared = audit.n_buckets - audit.n_sealed
        return (
            f"{n_compared} are the sum of their records; {audit.n_sealed} lie in hours with removed records,"
            " whose sums by hour agree"
        )
    return "every bucket is the sum of its records"


def _described(difference: Difference) -> str:
    whose = difference.account or "all accounts together"
    site = f" at {difference.site}" if difference.site else ""
    where = f"{difference.hour_at:%Y-%m-%d %H:%M} UTC, {whose}{site}"
    return f"{where}: {difference.amount} is {difference.stored}, its records come to {difference.expected}"
