"""Operations of this plug-in: large bodies, and those that generated data can't succeed with."""

from __future__ import annotations

from apps.contrib.jobs import api

NEEDS_SENSE = {
    "GET /api/v1/policies/{policy}/sam",
    "PUT /api/v1/policies/{policy}/sam",
    "POST /api/v1/policies/{policy}/sam/decide",
    "POST /api/v1/policies/{policy}/sam/started",
    "POST /api/v1/policies/{policy}/sam/finished",
    "POST /api/v1/policies/{policy}/sam/cancelled",
    "POST /api/v1/jobs/explain",
}
LARGE_BODIES = {"explain_jobs"}
PARSING_MODULES = (api,)
READ_BY_POST = {"jobs-explain"}
