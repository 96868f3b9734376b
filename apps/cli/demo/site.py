"""Jobs of one site of the demo: submitted by its users, started by the priorities that its REST answers, and reported.

The site's program does by REST what a scheduler's agent does: it looks up ranks, and pushes accounting records.
"""

from __future__ import annotations

import json
import random
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from apps.cli.demo.cluster import Cluster, Job
from apps.cli.demo.grid import CORES, DEMAND, SITES
from apps.cli.demo.worker_names import POLICY, SOURCE

_WAITING = 12  # jobs that each user keeps in the queue
_REQUESTED_S = 900.0
_TIMEOUT_S = 30.0


class Site:
    """began_at: instant of second 0 of its jobs."""

    def __init__(self, name: str, *, address: str, token: str, began_at: datetime) -> None:
        self.name = name
        self.cluster = Cluster(CORES, [])
        self._address, self._token, self._began_at = address, token, began_at
        self._random = random.Random(name)
        self._number = 0

    def run_until(self, now_s: float, *, since_s: float, by_priority: bool) -> list[dict[str, Any]]:
        """Let users submit and the cluster work; returns records of jobs that started or ended.

        Without priorities jobs start in the order of their submission, so users who submit most get most.
        """
        self.cluster.submit(sorted(self._submitted(since_s, by_priority), key=lambda job: job.submit_s))
        step = self.cluster.advance(now_s, self.ranks() if by_priority else {})
        ended = {job.number for job in step.ended}
        running = [self._record(job, is_over=False) for job in step.started if job.number not in ended]
        return running + [self._record(job, is_over=True) for job in step.ended]

    def _submitted(self, at_s: float, by_priority: bool) -> Iterator[Job]:
        """Users fill their queues up: while submission decides, in proportion to their demand."""
        for user, demand in DEMAND[self.name].items():
            wanted = _WAITING if by_priority else 4 * demand
            for _ in range(wanted - self.cluster.n_waiting(user)):
                self._number += 1
                run_s = self._random.uniform(300, 900)
                site = SITES.index(self.name)
                submit_s = at_s + self._random.uniform(0, 1)
                yield Job(self._number, f"/{user}", site, submit_s, run_s, _REQUESTED_S, cpus=1)

    def _record(self, job: Job, *, is_over: bool) -> dict[str, Any]:
        submit_at, start_at, end_at = (
            (self._began_at + timedelta(seconds=s)).isoformat() for s in (job.submit_s, job.start_s, job.end_s)
        )
        times = {"submit": submit_at, "start": start_at, **({"end": end_at} if is_over else {})}
        state = "finished" if is_over else "running"
        facts = {"cpus": job.cpus, "requested_s": job.requested_s}
        return {"job": str(job.number), "user": job.leaf, "state": state, **times, **facts}

    def report(self, records: list[dict[str, Any]]) -> None:
        """Push records. Raises ValueError if one was rejected."""
        answer = json.loads(self._request(f"usage/records?source={SOURCE}", json.dumps(records).encode()))
        if answer["rejected"]:
            raise ValueError(f"{self.name} rejects a record: {answer['rejected'][0]['message']}")

    def ranks(self) -> dict[str, int]:
        """Rank of each user, 1 first."""
        lines = self._request(f"policies/{POLICY}/priorities/all").decode().splitlines()
        rows = [json.loads(line) for line in lines]
        return {row["entry"].rpartition("/")[2]: row["rank"] for row in rows if row.get("rank")}

    def shares(self) -> dict[str, tuple[float, float]]:
        """Target and actual share of each entry among its siblings, by its name."""
        return {entry["name"]: (entry["target"], entry["actual"] or 0.0) for entry in self._entries()}

    def uid_of(self, name: str) -> str:
        return next(str(entry["uid"]) for entry in self._entries() if entry["name"] == name)

    def _entries(self) -> list[dict[str, Any]]:
        return list(_below(json.loads(self._request(f"policies/{POLICY}/tree?depth=8"))))

    def _request(self, path: str, body: bytes | None = None) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._address}/api/v1/{path}", data=body, headers=headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - our own address
            return bytes(answer.read())


def _below(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for child in entry["children"]:
        yield child
        yield from _below(child)
