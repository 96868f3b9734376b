"""Questions of a site's day, asked of Slurm's own commands and of this service, about the same users and jobs.

On one side are slurmctld, slurmdbd and MariaDB, on the other PostgreSQL and the web server. Both have the tree of
`full_site`, its two weeks of jobs at the end of last month, and the same waiting jobs. Slurm is asked first, and has
gone when ours begins. Compared is processor time of the client and of all that serves it. Answers that differ fail the
run. --entries and --records set other sizes, --record stores the table of docs/scale.md.
"""

from __future__ import annotations

import http.client
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from bench import full_site
from bench.answer_costs import AnswerCost, await_rest, cost_of
from bench.recompute import SLUG, n_groups
from bench.report import BenchLine
from bench.same_answers import differences
from bench.slurm_answers import SCHEDULER, SlurmAnswers, Subjects, ask_slurm
from bench.slurm_tables import USERS_A_GROUP, last_month
from bench.web_server import web_server
from docsite import beside_slurm

N_ENTRIES, N_RECORDS = 102_100, 300_000  # 100,089 users; set by the options
RECORDS_RUN = False  # set by the options
QUICK_ROUNDS = 50
_PATIENCE_S = 300.0  # of the agent with a web server that has just started
_POLICY = f"/api/v1/policies/{SLUG}"
_SETTINGS = {"algorithm": {"name": "slurm-fair-tree"}, "window": {"length_s": None, "aging": "none"}}


class Question(NamedTuple):
    """key: of Slurm's answer, which may answer several. of: the kind of the answers, by which they are compared."""

    text: str
    key: str
    of: str
    method: str
    path: str
    body: Any = None
    rounds: int = 1


class Pair(NamedTuple):
    question: str
    slurm: AnswerCost
    ours: AnswerCost

    @property
    def ratio(self) -> float:
        return self.ours.cpu_s / self.slurm.cpu_s


def measure_large() -> Iterator[BenchLine]:
    import pytest

    from apps.core.clock import now

    at = now().replace(second=0, microsecond=0)
    group = n_groups(N_ENTRIES) * 2 // 3
    subjects = Subjects(f"g{group}", f"u{group}-5", *last_month(at))
    try:
        slurm = ask_slurm(N_ENTRIES, N_RECORDS, subjects)
    except pytest.skip.Exception as missing:
        print(f"beside_slurm is left out: {missing}", file=sys.stderr)
        return
    pairs = _ask_ours(subjects, slurm, at)
    if RECORDS_RUN:
        beside_slurm.store(_recorded(pairs, slurm, at))
    for pair in pairs:
        yield BenchLine(f"{pair.question}: ours / Slurm's", pair.ratio, None, f"{pair.ours}; {pair.slurm}")


def _recorded(pairs: list[Pair], slurm: SlurmAnswers, at: datetime) -> beside_slurm.Run:
    answers = [{"question": pair.question, "slurm": asdict(pair.slurm), "ours": asdict(pair.ours)} for pair in pairs]
    return {
        "users": n_groups(N_ENTRIES) * USERS_A_GROUP,
        "jobs": N_RECORDS,
        "on": f"{at:%Y-%m-%d}",
        "versions": {**slurm.versions, "PostgreSQL": _postgresql()},
        "processor": f"{os.cpu_count()} cores of an {_processor()}",
        "answers": answers,
    }


def _postgresql() -> str:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        return str(cursor.fetchone()[0]).split()[0]


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def questions(subjects: Subjects, job: str) -> Iterator[Question]:
    group, user = subjects.group, subjects.user
    division = f"d{int(group[1:]) // 100 * 100}"
    first, last = subjects.month, subjects.month_ends - timedelta(days=1)
    people = [{"user": f"u{group[1:]}-{k}"} for k in range(USERS_A_GROUP)]
    table = f"of=/{division}/{group}&from={first:%F}&to={last:%F}"
    month = f"from={first:%FT%TZ}&to={subjects.month_ends:%FT%TZ}"
    yield Question("shares, usage and factor of all users", "all users", "tree", "GET", f"{_POLICY}/tree?format=csv")
    yield Question("the factor of all users", "all users", "factors", "GET", f"{_POLICY}/priorities/all")
    yield Question(
        "the factors of one account's users", "one account", "looked up", "POST", f"{_POLICY}/priorities/lookup",
        {"accounts": people}, QUICK_ROUNDS,
    )  # fmt: skip
    one = f"{_POLICY}/priorities?account={user}"
    yield Question("the factor of one user", "one user", "looked up", "GET", one, None, QUICK_ROUNDS)
    buckets = f"/api/v1/usage/buckets?format=csv&step=day&{month}"
    yield Question("usage of every user last month", "month of all", "buckets", "GET", buckets)
    one_table = f"{_POLICY}/allocations/table?{table}"
    yield Question(
        "usage of one account's users last month", "month of one account", "table", "GET", one_table, None, QUICK_ROUNDS
    )
    why = f"/api/v1/schedulers/{SCHEDULER}/why?job={job}"
    yield Question("why one job waits", "why", "why", "GET", why, None, QUICK_ROUNDS)


def _ask_ours(subjects: Subjects, slurm: SlurmAnswers, at: datetime) -> list[Pair]:
    from agent.rest import Rest
    from apps.accounts.actor import COMMAND
    from apps.accounts.models import User
    from apps.accounts.services import NewToken, make_token
    from apps.contrib.schedulers.services import connect_scheduler

    full_site.build(N_ENTRIES, N_RECORDS, at, jobs_until=subjects.month_ends, settings=_SETTINGS)
    admin = User.objects.create_superuser("admin")
    connect_scheduler(
        policy_slug=SLUG, name=SCHEDULER, settings={"kind": "slurm", "mode": "shadow"}, at=at, actor=COMMAND
    )
    scopes = ["admin", "schedulers"]
    _token, text = make_token(NewToken(name="bench", scopes=scopes, user=admin), at=at, actor=COMMAND)
    pairs, different = [], list[str]()
    with web_server() as port:
        Rest(f"http://127.0.0.1:{port}", SCHEDULER, text, timeout_s=_PATIENCE_S).report(slurm.report)
        await_rest()
        for question in questions(subjects, slurm.job):
            ours, answer = cost_of(
                f"{question.method} {question.path.removeprefix('/api/v1/')}",
                _asker(port, text, question),
                question.rounds,
            )
            cost = slurm.costs[question.key]
            different += differences(question.of, slurm.texts[question.key], answer, is_cut=cost.is_cut)
            pairs.append(Pair(question.text, cost, ours))
    assert not different, different
    return pairs


def _asker(port: int, token: str, question: Question) -> Callable[[], str]:
    headers = {"Host": "localhost", "Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = None if question.body is None else json.dumps(question.body)

    def ask() -> str:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        connection.request(question.method, question.path, body=body, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, (question.path, answer.status, text[:500])
        connection.close()
        return text

    return ask
