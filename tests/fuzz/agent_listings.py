"""What agents read of schedulers and of the server: only their own refusals, and nothing that a command may not get."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from agent import names
from agent.adapters import gridengine, slurm, slurm_state
from agent.commands import Output
from agent.orders import KNOBS, read_orders
from agent.queue_state import QueueState, document
from agent.records import Job, Queue, ServerFailure, Unreadable
from agent.report import instant, queue_rows
from agent.shares import parse_associations, parse_share_tree
from agent.source import read_look_up
from apps.contrib.schedulers.own_values import read_values
from apps.contrib.schedulers.queue_table import read_queue
from apps.contrib.schedulers.running_table import read_running
from apps.core.errors import DomainError


def _text(data: bytes) -> str:
    """As `agent.commands` decodes what a command prints."""
    return data.decode("utf-8", "replace")


def squeue(data: bytes) -> bool:
    """Of squeue and sprio, between which an empty line stands."""
    listing, _, terms = _text(data).partition("\n\n")
    priorities = slurm.parse_priorities(terms)
    queues = [slurm.parse_queue(listing, priorities, knob) for knob in KNOBS["slurm"]]
    for queue in queues:
        _check_queue(queue)
    return bool(queues[0].jobs)


def queue_state(data: bytes) -> bool:
    """Of squeue, sinfo and scontrol, between which an empty line stands: the server reads what the agent sends."""
    listing, _, rest = _text(data).partition("\n\n")
    nodes, _, reserved = rest.partition("\n\n")
    queue = slurm.parse_queue_state(listing, {}, "sitefactor", 1_795_991_700.0)
    _check_queue(queue)
    state = queue.state or QueueState([], [])
    with suppress(Unreadable):
        state = state._replace(partitions=slurm_state.parse_partitions(nodes))
    state = state._replace(reservations=slurm_state.parse_reservations(reserved))
    sent = json.loads(json.dumps(document(state, None, instant), allow_nan=False))
    read_queue(json.loads(json.dumps(queue_rows(queue.jobs, {}, takes_queue_state=True), allow_nan=False)))
    return bool(len(read_running(sent)) or sent["partitions"] or sent["reservations"])


def qstat(data: bytes) -> bool:
    queues = []
    for knob in ("override_tickets", "priority"):
        try:
            queues.append(gridengine.parse_queue(_text(data), knob, 100_000))
        except Unreadable:
            continue
        _check_queue(queues[-1])
    return any(queue.jobs for queue in queues)


def associations(data: bytes) -> bool:
    try:
        shares = parse_associations(_text(data), "c1")
    except Unreadable:
        return False
    json.dumps(shares.document(), allow_nan=False)
    return bool(shares.by_key())


def share_tree(data: bytes) -> bool:
    try:
        shares = parse_share_tree(_text(data))
    except Unreadable:
        return False
    json.dumps(shares.document(), allow_nan=False)
    return bool(shares.by_key())


def sshare(data: bytes) -> bool:
    """What the agent reports is JSON, which the server reads or refuses."""
    try:
        rows = slurm.parse_shares(_text(data), "c1")
    except Unreadable:
        return False
    sent = json.loads(json.dumps(rows, allow_nan=False))
    try:
        read_values(sent)
    except DomainError:
        return False
    return bool(rows)


class _Printing:
    """In place of agent.commands: each command prints the same."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read(self, argv: list[str]) -> str:
        return self._text

    def run(self, argv: list[str]) -> Output:
        return Output(0, self._text, "")


def config(data: bytes) -> bool:
    is_read = False
    for kind, adapter in (("slurm", slurm.Slurm), ("gridengine", gridengine.GridEngine)):
        asked = adapter(cast(Any, _Printing(_text(data))))
        try:
            read = asked.read_config()
        except Unreadable:
            continue
        is_read = True
        for knob in (*KNOBS[kind], "shares"):
            findings = asked.check(knob, read)
            assert all("\n" not in f"{each.found}{each.remedy}" for each in findings)
    return is_read


def orders(data: bytes) -> bool:
    return _document(data, read_orders)


def look_up(data: bytes) -> bool:
    return _document(data, lambda document: read_look_up([("kim", "atlas", ""), ("ann", "", "")], document))


def _document(data: bytes, read: Callable[[Any], object]) -> bool:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return False
    try:
        read(document)
    except ServerFailure:
        return False
    return True


def _check_queue(queue: Queue) -> None:
    for job in queue.jobs:
        _check_job(job)
    assert all(names.JOB.fullmatch(number) for number in (*queue.known, *queue.running))
    assert all(type(value) is int for value in queue.running.values())
    assert all("\n" not in why and len(why) < 1_000 for why in queue.skipped)


def _check_job(job: Job) -> None:
    assert names.JOB.fullmatch(job.id)
    assert names.USER.fullmatch(job.user)
    assert not job.group or names.GROUP.fullmatch(job.group)
    assert job.array_task is None or names.ARRAY_TASK.fullmatch(job.array_task)
    numbers: Sequence[float | None] = (job.cpus, job.submit_at, job.priority, job.current, *(job.terms or {}).values())
    assert all(number is None or math.isfinite(number) for number in numbers)
    assert all("\n" not in text for text in (*job.partitions, job.qos, job.reason))
