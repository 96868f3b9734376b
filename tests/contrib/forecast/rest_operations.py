"""Operations of this plug-in that generated data can't succeed with."""

from __future__ import annotations

NEEDS_SENSE = {
    "GET /api/v1/policies/{policy}/goal",
}
