"""Fields of answers about allocations that have another name now."""

from __future__ import annotations

from apps.web.rest.deprecations import ONE_NAME, Renamed

_POLICY = "policies/<slug:policy>"
_ALLOCATIONS = (f"GET {_POLICY}/allocations/table",)
RENAMED = (
    Renamed(
        "AllocationRow",
        {
            "allocated_core_h": "allocated",
            "sub_allocated_core_h": "sub_allocated",
            "kept_core_h": "unallocated",
            "over_committed_core_h": "over_committed",
            "expected_core_h": "expected",
            "due_core_h": "due",
            "delivered_core_h": "delivered",
            "remaining_core_h": "remaining",
        },
        _ALLOCATIONS,
        *ONE_NAME,
    ),
    Renamed(
        "Allocation",
        {"core_h": "amount"},
        (
            f"GET {_POLICY}/allocations",
            f"POST {_POLICY}/allocations",
            f"GET {_POLICY}/allocations/<uuid:allocation>",
            f"PATCH {_POLICY}/allocations/<uuid:allocation>",
        ),
        *ONE_NAME,
    ),
    Renamed(
        "Capacity",
        {"cores": "per_hour"},
        (
            f"GET {_POLICY}/capacities",
            f"POST {_POLICY}/capacities",
            f"GET {_POLICY}/capacities/<int:capacity>",
            f"PATCH {_POLICY}/capacities/<int:capacity>",
        ),
        *ONE_NAME,
    ),
    Renamed("OnAllocations", {"due_core_h": "due", "delivered_core_h": "delivered"}, _ALLOCATIONS, *ONE_NAME),
    Renamed("AllocationTable", {"capacity_core_h": "capacity", "unmapped_core_h": "unmapped"}, _ALLOCATIONS, *ONE_NAME),
    Renamed(
        "Conversion",
        {
            "has_core_h": "available",
            "allocated_core_h": "allocated",
            "rest_core_h": "unallocated",
            "over_committed_core_h": "over_committed",
            "divided_core_h": "divided",
        },
        (f"GET {_POLICY}/allocations/shares",),
        *ONE_NAME,
    ),
    Renamed("ConvertedLine", {"core_h": "amount"}, (f"GET {_POLICY}/allocations/shares",), *ONE_NAME),
)
