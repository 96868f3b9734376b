"""Examples of the OpenAPI document: a body for every request that has one, and the answers that schedulers read."""

from __future__ import annotations

from typing import Any

from apps.core.plugins import keyed

_REASON = {"reason": "Agreed by the board in March"}
_FINGERPRINT = "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"
_ACCOUNT = {"namespace": "umea", "user": "alice", "group": "ocean"}
_RULE = {"kind": "group", "group": "ocean", "entry": "/climate/ocean"}

#: By operation id: the body of a request. `test_schema.py` compares them with the schema. Plug-ins add theirs.
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
    "make_policy": {"slug": "nordgrid", "name": "Nordgrid", "settings": {"algorithm": {"name": "aequus"}}},
    "put_document": {
        "name": "root",
        "children": [{"name": "climate", "shares": 60}, {"name": "genomics", "shares": 40}],
    },
    "update_change_set": {
        **_REASON,
        "operations": [{"op": "set_shares", "entry": "/climate/ocean", "shares": 30}],
        "effective_at": "2026-04-01T00:00:00Z",
    },
    "compute_back_test_of_change_set": {"days": 30},
    "comment_on_change_set": {"text": "Is 30 agreed with the VO?", "operation": 0},
    "publish_change_set": {**_REASON, "effective_at": "2026-04-01T00:00:00Z"},
    "rebase_change_set": {
        "choices": [{"entry": "0197a1de-3c47-7b14-9a2b-6f0a2d1c9e55", "field": "shares", "take": "mine"}]
    },
    "create_grant": {**_REASON, "entry": "/climate", "person": "maria", "role": "lead"},
    "change_grant": {**_REASON, "role": "manager", "expires_at": "2026-12-31T00:00:00Z"},
    "attach_account": {**_REASON, "account": _ACCOUNT, "entry": "/climate/ocean/alice"},
    "assign_accounts": {**_REASON, "assignments": [{"account": _ACCOUNT, "entry": "/climate/ocean/alice"}]},
    "add_mapping_rule": {**_REASON, **_RULE},
    "replace_mapping_rules": {**_REASON, "rules": [_RULE, {"kind": "default", "entry": "/others"}]},
    "change_mapping_rule": {**_REASON, "rule": _RULE, "position": 2},
    "try_mapping": {"rules": [_RULE]},
    "recompute": {"as_of": "2026-03-01T12:00:00Z"},
    "make_source": {
        "slug": "umea",
        "name": "Umeå",
        "namespace": "umea",
        "kind": "push",
        "time_zone": "Europe/Stockholm",
        "expected_every_s": 3600,
    },
    "change_source": {"expected_every_s": 7200, "keep_records_days": 400},
    "make_publication": {"policy": "nordgrid", "entry": "/climate", "name": "climate", "is_open": False},
    "make_feed": {"policy": "nordgrid", "entry": "/climate", "name": "climate", "capacity_cores": 4096},
    "preview_mount": {"policy": "nordgrid", "url": "https://vo.example/api/v1/publications/climate"},
    "make_mount": {
        **_REASON,
        "policy": "nordgrid",
        "entry": "/climate",
        "url": "https://vo.example/api/v1/publications/climate",
        "issuer": "vo.example",
        "publication": "climate",
        "fingerprint": _FINGERPRINT,
        "every_s": 300,
    },
    "change_mount": {**_REASON, "every_s": 600, "stale_action": "keep"},
    "fetch_mount": _REASON,
    "trust_key_of_mount": {**_REASON, "fingerprint": _FINGERPRINT},
    "preview_subscription": {
        "policy": "nordgrid",
        "entry": "/climate",
        "url": "https://site-b.example/api/v1/feeds/climate",
    },
    "subscribe": {
        **_REASON,
        "policy": "nordgrid",
        "entry": "/climate",
        "url": "https://site-b.example/api/v1/feeds/climate",
        "issuer": "site-b.example",
        "feed": "climate",
        "fingerprint": _FINGERPRINT,
        "capacity_cores": 2048,
    },
    "change_subscription": {**_REASON, "every_s": 600, "stale_action": "keep"},
    "fetch_subscription": _REASON,
    "agree_capacity": {**_REASON, "cores": 3072},
    "trust_key_of_subscription": {**_REASON, "fingerprint": _FINGERPRINT},
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


def requests() -> dict[str, Any]:
    """Bodies by operation id, with those of the installed plug-ins."""
    return REQUESTS | keyed("rest_examples")


def add_examples(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Also to bodies that have a reason and nothing else, as those of *archive*."""
    bodies, schemas = requests(), result["components"]["schemas"]
    for path in result["paths"].values():
        for operation in path.values():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None:
                name = body["schema"].get("$ref", "").rpartition("/")[2]
                is_reason = set(schemas.get(name, {}).get("properties", ())) == {"reason"}
                example = bodies.get(operation["operationId"], _REASON if is_reason else None)
                if example is not None:
                    body["example"] = example
            answer = ANSWERS.get(operation.get("operationId", ""))
            if answer is not None:
                operation["responses"]["200"]["content"]["application/json"]["example"] = answer
    return result
