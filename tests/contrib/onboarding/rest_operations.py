"""Operations of this plug-in that generated data can't succeed with."""

from __future__ import annotations

NEEDS_SENSE = {
    "POST /api/v1/slurm-config",
    "POST /api/v1/setup",
    "POST /api/v1/setup/policy",
    "DELETE /api/v1/setup",
    "GET /api/v1/setup",
}
