"""Examples of the OpenAPI document: of the operations that scripts and schedulers begin with."""

from __future__ import annotations

from typing import Any

#: By operation id: the body of a request. `test_schema.py` compares them with the schema.
REQUESTS: dict[str, Any] = {
    "look_up_priorities": {"accounts": ["alice", {"user": "bob", "group": "physics"}]},
    "make_change_set": {
        "base_revision": 7,
        "reason": "Agreed by the board in March",
        "operations": [{"op": "set_shares", "entry": "/climate/ocean", "shares": 25}],
    },
    "push_records": [
        {
            "job": "4711",
            "user": "alice",
            "group": "ocean",
            "start": "2026-03-01T08:00:00Z",
            "end": "2026-03-01T10:00:00Z",
            "cpus": 32,
        }
    ],
    "make_token": {"name": "nightly report", "scopes": ["priorities:read"], "policy": "nordgrid", "days": 90},
}

_LOOKED_UP = {
    "policy": "nordgrid",
    "snapshot": 4182,
    "revision": 7,
    "as_of": "2026-03-01T12:00:00Z",
    "computed_at": "2026-03-01T12:00:02Z",
    "age_s": 14.2,
    "algorithm": {"name": "aequus"},
    "results": [
        {"account": "alice", "entry": "/climate/ocean/alice", "factor": 0.784, "rank": 36, "of": 162},
        {"account": "bob", "entry": None, "factor": 0.0, "error": "unmapped"},
    ],
}
#: By operation id: the body of the answer.
ANSWERS: dict[str, Any] = {
    "get_priorities": _LOOKED_UP,
    "look_up_priorities": _LOOKED_UP,
    "push_records": {"new": 1, "duplicate": 0, "corrected": 0, "late": 0, "rejected": [], "unmapped": 0},
}


def add_examples(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    for path in result["paths"].values():
        for operation in path.values():
            example = REQUESTS.get(operation.get("operationId", ""))
            if example is not None:
                operation["requestBody"]["content"]["application/json"]["example"] = example
            answer = ANSWERS.get(operation.get("operationId", ""))
            if answer is not None:
                operation["responses"]["200"]["content"]["application/json"]["example"] = answer
    return result
