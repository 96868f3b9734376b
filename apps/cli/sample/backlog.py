"""A file that the site Umeå sent after a failure: most lines are good, some are rejected, one account is unknown."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from apps.accounts.actor import Actor
from apps.accounts.names.account_ids import AccountKey
from apps.cli.sample.grid import NAMESPACE, POLICY_SLUG, Grid
from apps.mapping.attachments import attach_account
from apps.runs.services import claim_run, work_lease
from apps.usage.services import start_import

SOURCE = "umea-slurm"
FILE_NAME = "umea-backlog.ndjson"
MONITORING = AccountKey(namespace=NAMESPACE, user_name="monitoring", group_name="robots")
ENSEMBLE = AccountKey(namespace=NAMESPACE, user_name="ensemble", group_name="robots")
GUESTS = "climate-guests"  # a group whose accounts become members by rule
N_GOOD, N_REJECTED = 40, 4
_OTHERS = (("monitoring", "robots"), ("ensemble", "robots"), ("summer-school", GUESTS), ("commissioning", "umea-staff"))
_FIRST_JOB = 900_001


def import_backlog(*, at: datetime, admin: Actor) -> None:
    text = "".join(f"{json.dumps(line)}\n" for line in _lines(at))
    started = start_import(
        source_slug=SOURCE, format="ndjson", file=io.BytesIO(text.encode()), file_name=FILE_NAME, at=at, actor=admin
    )
    work_at(started.run_id, at)


def attach_robots(uid_of: Callable[[str], UUID], *, at: datetime, admin: Actor, manager: Actor) -> None:
    """Service accounts are attached by hand; `commissioning` stays unmapped."""
    for account, path, reason, actor in (
        (MONITORING, "/operations/tests", "Checks the clusters every hour.", admin),
        (ENSEMBLE, "/climate/seasonal", "Runs the ensemble of the seasonal forecast.", manager),
    ):
        attach_account(
            policy_slug=POLICY_SLUG, entry_uid=uid_of(path), account=account, reason=reason, at=at, actor=actor
        )


def work_at(run_id: int, at: datetime) -> None:
    """Work on a run here, by the clock of the sample."""
    lease = claim_run(at=at, run_id=run_id, clock=lambda: at)
    if lease is None:
        raise LookupError(f"run {run_id} can't be claimed")
    work_lease(lease)


def _lines(at: datetime) -> Iterator[dict[str, Any]]:
    """Jobs of three nights ago: those of the VOs, of accounts of no project, and lines that can't be read."""
    begin_at = (at - timedelta(days=3)).replace(hour=1, minute=0, second=0, microsecond=0)
    members = [one for one in Grid().members if one.vo in ("climate", "fusion", "solar")]
    for number in range(N_GOOD - len(_OTHERS)):
        member = members[number % len(members)]
        account = {"user": member.user, "group": member.vo, "project": member.project}
        yield _record(number, begin_at + timedelta(minutes=3 * number), account)
    for number, (user, group) in enumerate(_OTHERS, N_GOOD - len(_OTHERS)):
        yield _record(number, begin_at, {"user": user, "group": group})
    end = (begin_at - timedelta(hours=1)).isoformat()
    mistakes: tuple[dict[str, Any], ...] = ({"end": end}, {"cpus": -8}, {"user": ""}, {"end": "tomorrow"})
    for number, wrong in enumerate(mistakes, N_GOOD):
        yield _record(number, begin_at, {"user": "siriberg", "group": "climate"}) | wrong


def _record(number: int, start_at: datetime, account: dict[str, str]) -> dict[str, Any]:
    end_at = start_at + timedelta(hours=1, minutes=number)
    return {
        "job": str(_FIRST_JOB + number),
        **account,
        "submit": start_at.isoformat(),
        "start": start_at.isoformat(),
        "end": end_at.isoformat(),
        "cpus": 4,
        "nodes": 1,
        "mem_mb": 16_000,
        "queue": "batch",
        "qos": "normal",
    }
