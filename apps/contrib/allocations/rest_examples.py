"""Examples of bodies of this plug-in's requests, by operation id."""

from __future__ import annotations

from typing import Any

REQUESTS: dict[str, Any] = {
    "create_allocation": {
        "entry": "/climate",
        "starts_on": "2026-04-01",
        "ends_on": "2027-03-31",
        "core_h": 2_000_000,
        "reason": "Call of spring 2026",
    },
    "change_allocation": {"core_h": 2_500_000, "reason": "Supplement of June"},
    "draft_allocations": {
        "starts_on": "2026-04-01",
        "ends_on": "2027-03-31",
        "rest": "spread",
        "reason": "Shares from the allocations of spring 2026",
    },
    "add_capacity": {"site": "umea", "starts_on": "2026-04-01", "cores": 4096, "reason": "New racks"},
    "change_capacity": {"ends_on": "2026-09-30", "reason": "The racks go in October"},
}
