"""Examples of bodies of this plug-in's requests, by operation id."""

from __future__ import annotations

from typing import Any

REQUESTS: dict[str, Any] = {
    "create_allocation": {
        "entry": "/climate",
        "starts_on": "2026-04-01",
        "ends_on": "2027-03-31",
        "amount": 2_000_000,
        "reason": "Call of spring 2026",
    },
    "put_allocation_file": {
        "allocations": [
            {
                "entry": "/climate",
                "unit": "core-h",
                "amount": 2_000_000,
                "starts_on": "2026-04-01",
                "ends_on": "2027-03-31",
                "reason": "Call of spring 2026",
            }
        ]
    },
    "get_portal_usage": {
        "portal": "coldfront",
        "answers": {
            "allocations": [
                {
                    "id": 7,
                    "project": "climate",
                    "resource": "University HPC",
                    "status": "Active",
                    "start_date": "2026-04-01",
                    "end_date": "2027-03-31",
                    "allocation_attributes": [{"allocation_attribute_type": "Core Usage (Hours)", "value": "2000000"}],
                }
            ]
        },
        "units": ["Core Usage (Hours)=core-h"],
    },
    "change_allocation": {"amount": 2_500_000, "reason": "Supplement of June"},
    "request_allocation": {
        "entry": "/climate/ocean",
        "amount": 50_000,
        "unit": "GPU-h",
        "starts_on": "2026-10-01",
        "ends_on": "2027-03-31",
        "reason": "Two new postdocs",
    },
    "grant_allocation_request": {"amount": 40_000, "text": "The rest in spring"},
    "decline_allocation_request": {"text": "The partition is full until March"},
    "draft_allocations": {
        "starts_on": "2026-04-01",
        "ends_on": "2027-03-31",
        "rest": "spread",
        "reason": "Shares from the allocations of spring 2026",
    },
    "add_capacity": {"site": "umea", "starts_on": "2026-04-01", "per_hour": 4096, "reason": "New racks"},
    "change_capacity": {"ends_on": "2026-09-30", "reason": "The racks go in October"},
}
