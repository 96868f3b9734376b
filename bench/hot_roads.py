"""The roads that are gone most often, each as one piece of work: what `bench.against` measures of two commits.

A process that is started here works on the database of FAIRSHARE_VAR: `hold` makes it and what the roads need, and
holds it until its input ends; `measure` prints what each road took; `count` goes each road once for each request, under
a program that counts instructions.
"""

from __future__ import annotations

import gc
import io
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from bench import editor, ingest, lookup, shapes
from bench.own_database import choose, own_database, set_up
from bench.wire_counts import ServerTime, traced

Work = Callable[[], object]
N_ENTRIES = 20_000
N_NAMES = 1_000
N_JOBS = 10_000
N_LEAVES = 100_000
ROUNDS = 5
_SETUP = "roads.json"  # in FAIRSHARE_VAR: what `hold` has made


def _look_up(made: Mapping[str, Any]) -> Work:
    """1,000 names of a policy, the whole request."""
    from django.core.handlers.wsgi import WSGIHandler

    handler = WSGIHandler()
    names = [f"user{number}" for number in np.random.default_rng(1).permutation(N_ENTRIES)[:N_NAMES].tolist()]
    body = orjson.dumps({"accounts": names})
    path = f"/api/v1/policies/{lookup.SLUG}/priorities/lookup"
    return lambda: lookup.request(handler, path, body, made["reads"])


def _one_record(made: Mapping[str, Any]) -> Work:
    """A job that has ended, the whole request, as a scheduler's epilog sends it."""
    from django.test import Client

    client = Client(headers={"authorization": f"Bearer {made['writes']}", "host": "localhost"})
    number = time.time_ns()

    def send() -> None:
        nonlocal number
        number += 1
        record = {
            **{"job": str(number), "cluster": "c1", "user": "user7", "group": "group1", "cpus": 8, "queue": "batch"},
            **{"submit": "2026-03-01T10:00:00Z", "start": "2026-03-01T10:05:00Z", "end": "2026-03-01T12:00:00Z"},
        }
        answer = client.post("/api/v1/usage/records?source=one", [record], content_type="application/json")
        assert answer.status_code == 200, answer.content[:500]
        assert answer.json()["new"] == 1

    return send


def _set_shares(made: Mapping[str, Any]) -> Work:
    """One number typed over in the editor of a policy, with the rows that the page shows around it."""
    from uuid import UUID

    from django.test import Client

    from apps.accounts.models import User

    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get(username="editor"))
    address = f"/changes/{made['draft']}/edit/"
    uids = [UUID(uid) for uid in made["uids"]]
    at = 0

    def edit() -> None:
        nonlocal at
        at += 1
        editor.edit(client, made["draft"], address, uids[at % len(uids)], at)

    return edit


def _engine(made: Mapping[str, Any]) -> Work:
    """Ranks and factors of 100,000 users, by numpy alone."""
    from apps.engine.algorithms import compute

    tree, usage = shapes.standard(N_LEAVES)

    def work() -> None:
        for name in ("aequus", "slurm-fair-tree"):
            compute(tree, usage, algorithm={"name": name})

    return work


def _ingest(made: Mapping[str, Any]) -> Work:
    """10,000 new jobs of a log with their hours, each time into a source of its own."""
    from apps.accounts.actor import COMMAND
    from apps.core.clock import now
    from apps.usage.parsers.base import Reading
    from apps.usage.parsers.swf import Swf
    from apps.usage.records.ingest import ingest_batch
    from apps.usage.services import NewSource, make_source

    log = io.BytesIO(ingest.synthetic_log(N_JOBS))
    batches = [piece.batch for piece in Swf().parse(log, Reading(at=datetime.now(UTC)))]

    def work() -> None:
        slug = f"log{time.time_ns()}"
        source = make_source(NewSource(slug=slug, name=slug), at=now(), actor=COMMAND)
        counts = [ingest_batch(source=source, rows=batch, at=now()) for batch in batches]
        assert sum(each.new for each in counts) == N_JOBS

    return work


# Of each road its way, and how often it is gone for one measurement.
ROADS: dict[str, tuple[Callable[[Mapping[str, Any]], Work], int]] = {
    "look-up": (_look_up, 30),
    "one-record": (_one_record, 10),
    "set-shares": (_set_shares, 5),
    "engine-100k": (_engine, 3),
    "ingest-10k": (_ingest, 1),
}


def prepare() -> dict[str, Any]:
    """Make what the roads need, once for all processes of a side; JSON."""
    from django.core.management import call_command
    from django.test import Client

    from apps.accounts.actor import COMMAND
    from apps.accounts.models import Token, User
    from apps.accounts.services import NewToken, make_token
    from apps.core.clock import now
    from apps.policies.models import ChangeSet
    from apps.usage.services import NewSource, make_source

    call_command("collectstatic", interactive=False, verbosity=0)
    reads = lookup.prepare(N_ENTRIES)
    make_source(NewSource(slug="one", name="one"), at=now(), actor=COMMAND)
    scopes = [Token.Scope.USAGE_WRITE]
    new = NewToken(name="one", user=User.objects.get(username="bench"), scopes=scopes, days=1)
    writes = make_token(new, at=now(), actor=COMMAND)[1]
    uids = editor.prepare("edited", N_ENTRIES)
    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.create_superuser("editor"))
    client.post("/policy/edited/edit")
    draft = ChangeSet.objects.latest("pk").pk
    return {"reads": reads, "writes": writes, "uids": [str(uid) for uid in uids], "draft": draft}


def _hold(var: Path) -> None:
    from bench.own_copy import execute

    with own_database(var):
        (var / _SETUP).write_text(json.dumps(prepare()))
        execute("ALTER SYSTEM SET autovacuum = off")  # the server writes only what it is asked for
        execute("SELECT pg_reload_conf()")
        print("ready", flush=True)
        sys.stdin.read()


def _ways(var: Path, names: Sequence[str]) -> dict[str, Work]:
    """The chosen roads, each gone once before it is measured."""
    choose(var)
    set_up()
    _stand_still()
    made = json.loads((var / _SETUP).read_text())
    ways = {name: ROADS[name][0](made) for name in names}
    for work in ways.values():
        work()
    return ways


def _stand_still() -> None:
    """Let nothing happen by the clock: no thread that looks for news, no token that is verified again meanwhile."""
    from django.conf import settings

    from apps.accounts import token_cache

    settings.FAIRSHARE_SNAPSHOT_POLL_S = 3600.0
    for name in ("FRESH_S", "REFRESH_S"):
        setattr(token_cache, name, 1e6)


def _measure(var: Path, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """By road: seconds of the processor, of this process and of the database, for going it once; and its counts."""
    ways = _ways(var, names)
    server = ServerTime()
    measured: dict[str, dict[str, float]] = {}
    for name, work in ways.items():
        times = ROADS[name][1]
        own, database = [], []
        for _ in range(ROUNDS):
            own_s, database_s = time.process_time(), server.seconds()
            for _ in range(times):
                work()
            own.append((time.process_time() - own_s) / times)
            database.append((server.seconds() - database_s) / times)
        with traced() as counts:
            work()
        measured[name] = {
            "own_s": statistics.median(own),
            "database_s": statistics.median(database),
            **asdict(counts[0]),
        }
    return measured


def _count(var: Path, names: Sequence[str]) -> None:
    """Go each road without being counted, then once between two lines that are read; nothing is tidied up meanwhile."""
    for name, work in _ways(var, names).items():
        work()
        gc.collect()
        gc.disable()
        print(name, flush=True)
        sys.stdin.readline()
        work()
        print("gone", flush=True)
        sys.stdin.readline()
        gc.enable()


def main(arguments: Sequence[str]) -> None:
    from apps.engine import fast

    kind, *names = arguments
    var = Path(os.environ["FAIRSHARE_VAR"])
    with fast.switched(False):
        if kind == "hold":
            _hold(var)
        elif kind == "measure":
            print(json.dumps(_measure(var, names)))
        else:
            _count(var, names)


if __name__ == "__main__":
    main(sys.argv[1:])
