"""Examples of bodies of this plug-in's requests, by operation id."""

from __future__ import annotations

from typing import Any

REQUESTS: dict[str, Any] = {
    "explain_jobs": {
        "algorithm": {"name": "slurm-multifactor"},
        "weights": {"fairshare": 100_000, "age": 1_000},
        "jobs": [{"id": "4711", "fairshare": 0.5, "age_s": 3600}],
    },
    "set_sam_rules": {"entry": "/climate", "booked_at": "end", "p_back": 0, "p_front": 8},
    "decide_sam_job": {"job": "4711", "benefit": 7200, "account": {"user": "alice", "group": "ocean"}},
    "start_sam_job": {"job": "4711"},
    "finish_sam_job": {"job": "4711", "benefit": 6800},
    "cancel_sam_job": {"job": "4711"},
}
