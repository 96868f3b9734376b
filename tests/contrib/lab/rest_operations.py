"""Operations of this plug-in that generated data can't succeed with."""

from __future__ import annotations

NEEDS_SENSE = {
    "POST /api/v1/policies/{policy}/experiments",
    "POST /api/v1/policies/{policy}/experiments/estimate",
    "GET /api/v1/policies/{policy}/experiments/{experiment}/variants/{variant}",
    "GET /api/v1/policies/{policy}/experiments/{experiment}/history",
}
LARGE_BODIES = {"make_experiment", "estimate_experiment"}
READ_BY_POST = {"experiment-estimate"}
