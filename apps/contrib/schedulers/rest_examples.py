"""Examples of bodies of this plug-in's requests, by operation id."""

from __future__ import annotations

from typing import Any

REQUESTS: dict[str, Any] = {
    "connect_scheduler": {
        "name": "umea",
        "policy": "nordgrid",
        "kind": "slurm",
        "reach": "agent",
        "namespace": "umea",
        "mode": "shadow",
        "every_s": 60,
    },
    "change_scheduler": {"mode": "canary", "canary_partition": "test"},
    "switch_scheduler_on": {"partitions": ["batch"], "reason": "A week in shadow agreed"},
    "report_scheduler_pass": {
        "pass": "0197a1de-3c47-7b14-9a2b-6f0a2d1c9e55",
        "agent": "1.0.0",
        "host": "head1",
        "orders_revision": 3,
        "started_at": "2026-03-01T12:00:00Z",
        "ended_at": "2026-03-01T12:00:02Z",
        "mode": "on",
        "jobs": {"pending": 48, "mapped": 48, "unmapped": 0, "due": 5, "sent": 5, "failed": 0, "calls": 1},
    },
    "change_scheduler_limits": {"tag": "4f2a9c1b7d3e5a60", "accounts": ["ocean", "polar"], "percent_a_day": 20},
    "request_scheduler_limits": {"tag": "4f2a9c1b7d3e5a60"},
    "approve_scheduler_limits": {"tag": "4f2a9c1b7d3e5a60"},
    "order_scheduler_shares": {"tag": "2026-03-01T12:00:00Z", "put_back": [{"group": "ocean", "user": ""}]},
    "follow_scheduler": {"dry_run": True},
    "take_over_scheduler_shares": {"tag": "2026-03-01T12:00:00Z", "lines": [{"group": "ocean", "user": "alice"}]},
}
