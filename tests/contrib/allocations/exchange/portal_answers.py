"""Answers of ColdFront 1.1.9 and Waldur, in the shapes of their serializers."""

from __future__ import annotations

from typing import Any


def cf_allocation(id: int, project: str, hours: object, account: str = "", **more: Any) -> dict[str, Any]:
    attributes = [{"allocation_attribute_type": "Core Usage (Hours)", "value": str(hours), "usage": 12.0}]
    if account:
        attributes.append({"allocation_attribute_type": "slurm_account_name", "value": account})
    return {
        "id": id,
        "project": project,
        "resource": "University HPC",
        "status": "Active",
        "allocation_users": [],
        "allocation_attributes": attributes,
        **more,
    }


def cf_project(id: int, title: str, users: tuple[str, ...] = (), allocations: tuple[int, ...] = ()) -> dict[str, Any]:
    return {
        "id": id,
        "title": title,
        "pi": "cgray",
        "status": "Active",
        "project_users": [{"user": user, "role": "User", "status": "Active"} for user in users],
        "allocations": [{"id": each, "resource": "University HPC", "status": "Active"} for each in allocations],
        "project_attributes": None,
    }


COLDFRONT: dict[str, Any] = {
    "projects": [
        cf_project(1, "Angular momentum in QGP holography", ("cgray", "csimmons"), (7,)),
        cf_project(2, "physics", ("alice", "dora"), (8, 9)),
        cf_project(3, "Old one") | {"status": "Archived"},
        cf_project(4, "Nobody's yet", ("eve",)),
    ],
    "allocations": [
        cf_allocation(7, "Angular momentum in QGP holography", 100_000, "qgp"),
        cf_allocation(8, "physics", "2500.5", start_date="2026-01-01", end_date="2026-12-31"),
        cf_allocation(9, "physics", 400, status="Denied"),
    ],
}
R1, R2, R3 = "a" * 32, "b" * 32, "c" * 32


def waldur_resource(uuid: str, backend_id: str, limits: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "name": f"HPC {backend_id}",
        "slug": f"hpc-{backend_id}",
        "backend_id": backend_id,
        "state": "OK",
        "project_uuid": "d" * 32,
        "project_name": "Climate",
        "created": "2026-03-05T09:30:00.123456Z",
        "end_date": "2026-12-31",
        "project_end_date": None,
        "limits": limits,
        "current_usages": {},
        **more,
    }


WALDUR: dict[str, Any] = {
    "resources": [
        waldur_resource(R1, "physics", {"cpu": 3, "gpu": 2, "ram": 7}),
        waldur_resource(R2, "climate", {"cpu": 1}, end_date=None, project_end_date="2027-06-30"),
        waldur_resource(R3, "gone", {"cpu": 1}, state="Terminated"),
    ],
    "teams": {
        R1: [
            {"uuid": "1", "username": "alice@idp", "role": "PROJECT.MANAGER", "offering_user_username": "alice"},
            {"uuid": "2", "username": "zoe", "role": "PROJECT.MEMBER", "offering_user_username": None},
        ],
        R2: [],
    },
}
