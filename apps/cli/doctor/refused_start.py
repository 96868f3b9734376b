"""The report where the settings refuse to start: one finding, without Django."""

from __future__ import annotations

import sys

from apps.cli.doctor.check import Finding, Report, Section
from apps.cli.doctor.rendering import report_json, report_text
from apps.core.release import release_name


def print_refusal(reason: str) -> None:
    """Print the report, and end with status 1."""
    remedy = "Correct it in the environment or in the file of FAIRSHARE_CONFIG: docs/settings.md."
    section = Section("settings", findings=[Finding("settings_refused", "bad", reason, remedy)])
    report = Report(None, release_name(), [section])
    print(report_json(report) if "--json" in sys.argv else report_text(report))
    sys.exit(1)
