"""Operations of this plug-in that generated data can't succeed with, and what its addresses name."""

from __future__ import annotations

from typing import Any

from apps.contrib.notices.models import Rule
from tests.small_site import Site

NEEDS_SENSE = {
    "GET /api/v1/policies/{policy}/statements",
    "GET /api/v1/notices/{notice}",
    "PATCH /api/v1/notices/{notice}",
    "POST /api/v1/notices/rules",
    "PATCH /api/v1/notices/rules/{rule}",
    "DELETE /api/v1/notices/rules/{rule}",
}


def real_names(site: Site) -> dict[str, Any]:
    return {"rule": Rule.objects.earliest("pk").pk, "notice": 1}
