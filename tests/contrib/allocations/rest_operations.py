"""Operations of this plug-in that generated data can't succeed with, and what its addresses name."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from apps.accounts.actor import SYSTEM
from apps.contrib.allocations.capacities import CapacityTerms, add_capacity
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from tests.small_site import Site

# Rows of its routes with several formats, for tests/web/rest/test_format_consistency.py.
FORMATS: dict[str, Any] = {
    "policies/{policy}/allocations/file": (
        {},
        lambda body: [(row["entry"], f"{row['amount']:g}") for row in json.loads(body)["allocations"]],
        ("entry", "amount"),
    ),
}
NEEDS_SENSE = {
    "POST /api/v1/policies/{policy}/pack/links/{link}/revoke",
    "POST /api/v1/policies/{policy}/allocations",
    "PATCH /api/v1/policies/{policy}/allocations/{allocation}",
    "DELETE /api/v1/policies/{policy}/allocations/{allocation}",
    "GET /api/v1/policies/{policy}/allocations/shares",
    "POST /api/v1/policies/{policy}/allocations/shares",
    "PUT /api/v1/policies/{policy}/allocations/file",
    "POST /api/v1/policies/{policy}/allocations/requests",
    "POST /api/v1/policies/{policy}/allocations/requests/{asked}/grant",
    "POST /api/v1/policies/{policy}/allocations/requests/{asked}/decline",
    "POST /api/v1/policies/{policy}/allocations/requests/{asked}/withdraw",
    "POST /api/v1/policies/{policy}/capacities",
    "PATCH /api/v1/policies/{policy}/capacities/{capacity}",
    "DELETE /api/v1/policies/{policy}/capacities/{capacity}",
}


def real_names(site: Site) -> dict[str, Any]:
    """An allocation and a capacity, to ask for."""
    days: Any = {"starts_on": date(2026, 1, 1), "ends_on": date(2026, 12, 31)}
    whole: Any = {"policy_slug": "grid", "at": site.at, "actor": SYSTEM}
    allocation = AllocationTerms(amount=5, reason="try", **days)
    uid = create_allocation(entry_uid=site.uid("/physics"), terms=allocation, **whole).uid
    capacity = add_capacity(terms=CapacityTerms(per_hour=1, reason="try", **days), **whole)
    return {"allocation": str(uid), "capacity": capacity.pk}
