"""Operations of this plug-in that generated data can't succeed with."""

from __future__ import annotations

# Routes with several formats whose readers see every row: tests of this plug-in compare these.
FOR_ALL_NUMBERS = {
    "policies/{policy}/experiments/{experiment}/history",
    "policies/{policy}/experiments/{experiment}/variants/{variant}",
}
NEEDS_SENSE = {
    "POST /api/v1/policies/{policy}/experiments/traces",
    "DELETE /api/v1/policies/{policy}/experiments/traces/{trace}",
    "GET /api/v1/policies/{policy}/experiments/{experiment}",
    "DELETE /api/v1/policies/{policy}/experiments/{experiment}",
    "POST /api/v1/policies/{policy}/experiments/{experiment}/cancel",
    "POST /api/v1/policies/{policy}/experiments/{experiment}/evidence",
    "POST /api/v1/policies/{policy}/experiments",
    "POST /api/v1/policies/{policy}/experiments/estimate",
    "GET /api/v1/policies/{policy}/experiments/{experiment}/variants/{variant}",
    "GET /api/v1/policies/{policy}/experiments/{experiment}/variants/{variant}/waits",
    "GET /api/v1/policies/{policy}/experiments/{experiment}/history",
}
LARGE_BODIES = {"make_experiment", "estimate_experiment"}
READ_BY_POST = {"experiment-estimate"}
