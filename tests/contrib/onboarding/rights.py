"""Rows of the rights matrix for the addresses of this plug-in."""

from __future__ import annotations

from tests.rights_world import API, HTMX, Row

ROWS = [
    # The first steps: administrators alone (not begun)
    Row("setup/", "/setup/", "302 403 403 403 403 200 302 302 302 302 302"),
    Row("setup/_progress", "/setup/_progress", "302 403 403 403 403 204 302 302 302 302 302", headers=HTMX),
    *(
        Row(f"setup/{step}/", f"/setup/{step}/", f"302 403 403 403 403 {admin} 302 302 302 302 302", "post", {})
        for step, admin in (
            ("tree", 422), ("here", 422), ("slurmrestd", 422), ("log", 422), ("source", 404), ("zone", 422),
            ("confirm", 404),
            ("again", 404), ("accounts", 404), ("publish", 404), ("discard", 404),
        )
    ),
    # REST: policies made and proposed as documents
    Row(API + "slurm-config", "/api/v1/slurm-config", "401 200 200 200 200 200 403 403 200 401 401", "post",
        {"text": "PriorityType = priority/multifactor"}),
    # Schedulers: managers of the whole policy; agents have tokens of their own; the queue by whose numbers one sees
    Row(API + "setup", "/api/v1/setup", "401 403 403 403 403 422 403 403 403 401 401", "post", {"outputs": "x"}),
    Row(API + "setup", "/api/v1/setup", "401 403 403 403 403 404 403 403 403 401 401", "delete"),
    Row(API + "setup/policy", "/api/v1/setup/policy", "401 403 403 403 403 404 403 403 403 401 401", "post",
        {"version": 1, "policy": "x", "reason": "x"}),
    Row(API + "setup", "/api/v1/setup", "401 403 403 403 403 404 403 403 403 401 401"),
]  # fmt: skip
