"""All checks in the order of the report: the core's, and those that plug-ins add."""

from __future__ import annotations

from collections.abc import Mapping

from apps.cli.doctor.check import Check
from apps.cli.doctor.data import check_audit, check_peers, check_snapshots, check_sources
from apps.cli.doctor.database import check_database
from apps.cli.doctor.instance import check_backups, check_clock, check_disk, check_settings, check_versions
from apps.cli.doctor.outside import check_outside
from apps.cli.doctor.series import check_series
from apps.cli.doctor.work import check_broker, check_workers
from apps.core.plugins import with_additions

_OWN: Mapping[str, Check] = {
    "settings": Check(check_settings, needs_database=False),
    "outside": Check(check_outside, needs_database=False),
    "versions": Check(check_versions),
    "disk": Check(check_disk, needs_database=False),
    "backups": Check(check_backups, needs_database=False),
    "clock": Check(check_clock),
    "database": Check(check_database),
    "broker": Check(check_broker, needs_database=False),
    "workers": Check(check_workers),
    "sources": Check(check_sources),
    "peers": Check(check_peers),
    "snapshots": Check(check_snapshots),
    "series": Check(check_series),
    "audit": Check(check_audit),
}


def all_checks() -> dict[str, Check]:
    return with_additions(_OWN, "doctor_checks")
