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
    "make_token": {"name": "nightly report", "scopes": ["priorities:read"], "policy": "nordgrid", "days": 90},
}


def add_examples(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    for path in result["paths"].values():
        for operation in path.values():
            example = REQUESTS.get(operation.get("operationId", ""))
            if example is not None:
                operation["requestBody"]["content"]["application/json"]["example"] = example
    return result
