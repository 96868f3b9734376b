"""A bulk look-up of 1,000 names, the whole request in process, beside an answer made by hand without Django.

The floor is a function that reads the request body with orjson, builds the objects from plain Python lists and dumps
them with orjson: what no framework, token check, policy check or scope can be faster than without ready text.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import orjson

from bench.clock import processor_s
from bench.report import BenchLine

N_LEAVES = 100_000
N_NAMES = 1_000
ROUNDS = 60
GOAL, COLD_GOAL = 2.0, 3.0
SLUG = "bench"


def measure() -> list[BenchLine]:
    """Fastest of several interleaved rounds, so that a busy machine slows both sides."""
    from django.core.handlers.wsgi import WSGIHandler

    text = prepare()
    handler = WSGIHandler()
    names = [f"user{number}" for number in np.random.default_rng(1).permutation(N_LEAVES)[:N_NAMES].tolist()]
    body = orjson.dumps({"accounts": names})

    def ask() -> bytes:
        return request(handler, f"/api/v1/policies/{SLUG}/priorities/lookup", body, text)

    floor = _floor(orjson.loads(ask()), N_LEAVES)
    assert orjson.loads(floor(body))["results"] == orjson.loads(ask())["results"], "both sides give the same answer"
    assert len(orjson.loads(ask())["results"]) == N_NAMES
    floor_s = warm_s = cold_s = float("inf")
    for _ in range(ROUNDS):
        floor_s = min(floor_s, processor_s(lambda: floor(body)))
        warm_s = min(warm_s, processor_s(ask))
    for _ in range(5):
        _clear_caches()
        cold_s = min(cold_s, processor_s(ask))
    shown = f"beside {floor_s * 1e6:.0f} µs by hand"
    return [
        BenchLine(
            "bulk look-up of 1,000 names, whole request / floor",
            warm_s / floor_s,
            GOAL,
            f"{warm_s * 1e6:.0f} µs {shown}; {N_LEAVES:,} leaves",
        ),
        BenchLine(
            "the same for names nobody asked for before / floor",
            cold_s / floor_s,
            COLD_GOAL,
            f"{cold_s * 1e6:.0f} µs {shown}; no ready pieces, first time of each name",
        ),
    ]


def prepare(n_leaves: int = N_LEAVES) -> str:
    """A policy of groups with 100 users each, computed and served; returns a token for it."""
    from apps.accounts.actor import COMMAND
    from apps.accounts.models import User
    from apps.accounts.services import NewToken, make_token
    from apps.core.clock import now
    from apps.mapping.rules.rule import Rule
    from apps.mapping.services import set_rules
    from apps.policies.models import Policy
    from apps.policies.services import make_policy, publish_document
    from apps.policies.tree.stored import load_tree
    from apps.priorities.recompute.staleness import request_recompute
    from apps.priorities.serving import store
    from apps.runs.services import work_run_now

    at = now() - timedelta(seconds=1)
    make_policy(slug=SLUG, name=SLUG, at=at, actor=COMMAND)
    groups = [
        {
            "name": f"group{group}",
            "children": [
                {"name": f"user{group * 100 + user}", "kind": "user", "shares": 1 + user % 7} for user in range(100)
            ],
        }
        for group in range(n_leaves // 100)
    ]
    document = {"policy": SLUG, "root": {"name": SLUG, "children": groups}}
    publish_document(policy_slug=SLUG, document=document, reason="bench", at=at, actor=COMMAND)
    root_uid = load_tree(Policy.objects.get(slug=SLUG)).uuid(0)
    set_rules(policy_slug=SLUG, rules=[Rule("glob", root_uid, suffix="/{group}/{user}")], at=at, actor=COMMAND)
    work_run_now(request_recompute(policy_slug=SLUG, at=at, actor=COMMAND).pk)
    store.poll()  # the thread that looks by itself may have looked a moment ago, for another bench
    user = User.objects.create_superuser("bench")
    return make_token(NewToken(name="bench", scopes=["priorities:read"], user=user), at=at, actor=COMMAND)[1]


def _floor(answer: dict[str, Any], n_leaves: int) -> Callable[[bytes], bytes]:
    """The same answer by hand: a dict of names, a list for each member, one object built for each name."""
    from apps.priorities.serving import store

    snapshot = store.newest(SLUG)
    leaves = np.flatnonzero(snapshot.values.is_ranked)
    assert len(leaves) == n_leaves
    known = snapshot.describe(leaves)
    place = {snapshot.tree.name[entry]: at for at, entry in enumerate(leaves.tolist())}
    entry, factor, rank, priorities, vector, key = (
        [member[name] for member in known] for name in ("entry", "factor", "rank", "priorities", "vector", "key")
    )
    head = {name: value for name, value in answer.items() if name != "results"}

    def by_hand(body: bytes) -> bytes:
        results = []
        for name in orjson.loads(body)["accounts"]:
            at = place[name]
            results.append(
                {
                    "account": name,
                    "entry": entry[at],
                    "factor": factor[at],
                    "rank": rank[at],
                    "of": n_leaves,
                    "priorities": priorities[at],
                    "vector": vector[at],
                    "key": key[at],
                }
            )
        return orjson.dumps({**head, "results": results})

    return by_hand


def request(handler: Any, path: str, body: bytes, text: str) -> bytes:
    """One WSGI call through everything that a real request goes through."""
    statuses: list[str] = []
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "HTTP_HOST": "localhost",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_AUTHORIZATION": f"Bearer {text}",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.input": io.BytesIO(body),
        "wsgi.url_scheme": "http",
        "wsgi.errors": io.StringIO(),
    }
    response = handler(environ, lambda status, _headers, *_rest: statuses.append(status))
    content = b"".join(response)
    response.close()
    assert statuses == ["200 OK"], (statuses, content[:300])
    return content


def _clear_caches() -> None:
    from apps.priorities.serving import store

    snapshot = store.newest(SLUG)
    snapshot.clear_caches()
    snapshot.index.forget()
