"""Operations of this plug-in: large bodies, what generated data can't succeed with, and what addresses name."""

from __future__ import annotations

from typing import Any

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers.services import connect_scheduler
from tests.small_site import Site

NEEDS_SENSE = {
    "POST /api/v1/schedulers/{scheduler}/on",
    "POST /api/v1/schedulers",
    "PATCH /api/v1/schedulers/{scheduler}",
    "DELETE /api/v1/schedulers/{scheduler}",
    "POST /api/v1/schedulers/{scheduler}/passes",
    "GET /api/v1/schedulers/{scheduler}/why",
    "POST /api/v1/schedulers/{scheduler}/shares/orders",
    "DELETE /api/v1/schedulers/{scheduler}/shares/orders/{order}",
    "POST /api/v1/schedulers/{scheduler}/shares/take-over",
    "POST /api/v1/schedulers/{scheduler}/shares/follow",
    "PATCH /api/v1/schedulers/{scheduler}/limits",
    "POST /api/v1/schedulers/{scheduler}/limits/request",
    "POST /api/v1/schedulers/{scheduler}/limits/approve",
    "GET /api/v1/policies/{policy}/why",
}
READ_BY_POST = {"scheduler-passes"}  # a pass has an id of its own
LARGE_BODIES = {"order_scheduler_shares", "report_scheduler_pass", "take_over_scheduler_shares"}


def real_names(site: Site) -> dict[str, Any]:
    return {"scheduler": connect_scheduler(policy_slug="grid", name="c1", settings={}, at=site.at, actor=SYSTEM).name}
