"""Run checks one after the other, each in a thread with a limit of time: what hangs is named, not waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection, connections

from apps.cli.doctor.check import Check, Finding, Report, Section
from apps.core.operator_commands import database_remedy
from apps.core.postgresql import bound_statements_of_thread
from apps.core.release import release_name

CHECK_S = 20.0  # of one check
ALL_S = 60.0  # of all checks together
_STATEMENT_S = 10.0
_AWAY = "the database doesn't answer"


@dataclass
class _Attempt:
    """What a thread reports; results that come after its time are not read."""

    items: list[str | Finding] = field(default_factory=list)
    error: Exception | None = None


def examine(checks: Mapping[str, Check], *, at: datetime, check_s: float = CHECK_S, all_s: float = ALL_S) -> Report:
    """Run all checks. Without a database, those that need it are listed as not checked."""
    end_s = time.monotonic() + all_s
    away = _database_away(at, min(check_s, all_s))
    sections = []
    for name, check in checks.items():
        section = Section(name)
        sections.append(section)
        left_s = end_s - time.monotonic()
        if name == "database" and away:
            section.findings.append(away)
        if check.needs_database and away:
            section.unchecked = _AWAY
        elif left_s <= 0:
            section.unchecked = f"the checks before it took {all_s:.0f} s"
        else:
            _run(section, check, at, min(check_s, left_s))
    if any(section.unchecked and section.unchecked != _AWAY for section in sections):
        sections[0].findings += [_unfinished(section) for section in sections if section.unchecked not in ("", _AWAY)]
    return Report(at, release_name(), sections)


def _unfinished(section: Section) -> Finding:
    remedy = "Run it again with `--only`; if it stays, check the disk, the database and the network of this host."
    return Finding("check_unfinished", "warn", f"The check {section.name} has no result: {section.unchecked}.", remedy)


def _database_away(at: datetime, bound_s: float) -> Finding | None:
    def connect(_at: datetime) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return []

    attempt = _attempt(Check(connect), at, bound_s)
    if attempt is not None and attempt.error is None:
        return None
    reason = f"no answer within {bound_s:.0f} s" if attempt is None else _first_line(attempt.error)
    return Finding("database_away", "bad", f"The database is not available: {reason}.", f"Now {database_remedy()}.")


def _run(section: Section, check: Check, at: datetime, bound_s: float) -> None:
    attempt = _attempt(check, at, bound_s)
    if attempt is None:
        section.unchecked = f"no answer within {bound_s:.0f} s"
        return
    section.facts = [item for item in attempt.items if isinstance(item, str)]
    section.findings += [item for item in attempt.items if isinstance(item, Finding)]
    if attempt.error is not None:
        section.unchecked = f"{type(attempt.error).__name__}: {_first_line(attempt.error)}"


def _attempt(check: Check, at: datetime, bound_s: float) -> _Attempt | None:
    """None if it takes longer. Its thread is left behind then, and ends with the process."""
    attempt = _Attempt()

    def work() -> None:
        try:
            bound_statements_of_thread(_STATEMENT_S)
            for item in check.run(at):
                attempt.items.append(item)
        except Exception as error:  # one broken check must not hide what the others find
            attempt.error = error
        finally:
            connections.close_all()

    thread = threading.Thread(target=work, name="doctor", daemon=True)
    thread.start()
    thread.join(bound_s)
    return None if thread.is_alive() else attempt


def _first_line(error: Exception | None) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0].rstrip(".")
