"""Reports of an agent, as the contract has them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from tests.instants import AT


def job(number: str, user: str = "alice", group: str = "physics", **more: Any) -> dict[str, Any]:
    """site: what fair share adds to 587."""
    site = more.pop("site", 50_000)
    return {
        "job": number,
        "array_task": None,
        "user": user,
        "group": group,
        "partition": "batch",
        "qos": "normal",
        "cpus": 8,
        "submit_at": instant(AT - timedelta(hours=1)),
        "eligible_at": None,
        "state": "pending",
        "reason": "Priority",
        "priority": 587 + site,
        "terms": {
            "age": 0,
            "assoc": 0,
            "fairshare": 0,
            "jobsize": 87,
            "partition": 500,
            "qos": 0,
            "site": site,
            "nice": 0,
        },
        "value": site,
        **more,
    }


def instant(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


QUEUE = [
    job("101", "alice", site=20_000),
    job("102", "bob", site=90_000),
    job("103", "carol", "biology", site=70_000),
    job("104", "ghost", "nowhere", site=80_000),
    job("105", "bob", site=95_000, state="held", reason="JobHeldUser"),
    job("106", "carol", "biology", site=99_000, partition="gpu"),
]


def report(**more: Any) -> dict[str, Any]:
    return {
        "pass": str(uuid4()),
        "agent": "1.0",
        "host": "head1",
        "orders_revision": 1,
        "started_at": instant(AT - timedelta(seconds=12)),
        "ended_at": instant(AT - timedelta(seconds=10)),
        "mode": "on",
        "snapshot": 1,
        "snapshot_age_s": 14.2,
        "scheduler_version": "22.05.8",
        "jobs": {"pending": 6, "mapped": 5, "unmapped": 1, "due": 4, "sent": 4, "failed": 0, "calls": 3},
        "frozen": None,
        "errors": [],
        "unmapped": [{"user": "ghost", "group": "nowhere", "jobs": 1}],
        "checks": None,
        "queue": QUEUE,
        "values": None,
        **more,
    }
