"""What a scheduler says beside its waiting jobs: running and ended jobs, capacity, reservations; and a report of it.

A report has jobs of one shape together, so that 100,000 tasks of an array are one row with columns of numbers.
"""

import re
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

Gpus = Tuple[Tuple[str, int], ...]  # number by type, by name; ANY_GPU where no type is known

ANY_GPU = "gpu"
MOST_RUNNING = 100_000  # jobs of a report
MOST_SHAPES = 20_000  # of them: about 5 MB, so that waiting jobs have room
MOST_GPU_TYPES = 32
MOST_ENDED = 20_000
MOST_PARTITIONS = 2_000
MOST_RESERVATIONS = 2_000
MOST_SENT = 2**31 - 1  # the largest count that the server takes
_DURATION = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,9}):(\d{1,9})", re.ASCII)
_NO_TYPE = r":\(null\)"  # as Slurm 22.05 prints it for GPUs that it counts by device
_GPU = re.compile(rf"(?:^|,)(?:gres[/:])?gpu(?:{_NO_TYPE}|:([\w.+-]{{1,64}}))?[:=](\d{{1,9}})", re.ASCII)


class RunningJob(NamedTuple):
    """Times in seconds since 1970. limit_s: None without one. nodes: None if unknown."""

    id: str
    array: str  # number of its array; "" for none
    user: str
    group: str
    partition: str
    qos: str
    cpus: int
    nodes: Optional[int]
    gpus: Gpus
    limit_s: Optional[float]
    submit_at: Optional[float]
    started_at: Optional[float]


class EndedJob(NamedTuple):
    """A job that left the queue. started_at: None if it never ran."""

    id: str
    array: str
    is_cancelled: bool
    started_at: Optional[float]
    ended_at: float


class Partition(NamedTuple):
    """Capacity. cpus_free, gpus_free: idle on nodes that take jobs. limit_s: None without one."""

    name: str
    is_up: bool
    limit_s: Optional[float]
    cpus: int
    cpus_free: int
    nodes: int
    nodes_down: int
    nodes_drained: int
    gpus: Gpus
    gpus_free: Gpus


class Reservation(NamedTuple):
    name: str
    begin_at: float
    end_at: float
    partition: str
    nodes: Optional[int]
    cpus: Optional[int]
    is_maintenance: bool


class QueueState(NamedTuple):
    """partitions, reservations: None if the scheduler doesn't list them. problem: why, if it should."""

    running: List[RunningJob]
    ended: List[EndedJob]
    partitions: Optional[List[Partition]] = None
    reservations: Optional[List[Reservation]] = None
    problem: str = ""


def document(
    state: QueueState, partitions: Optional[Sequence[str]], instant: Callable[[Optional[float]], Optional[str]]
) -> Dict[str, Any]:
    """The state as reports have it. partitions: those in the scope of the orders; None for all."""
    running = _in_scope(state.running, partitions)
    running.sort(key=lambda job: -(job.started_at or 0))
    ended = sorted(state.ended, key=lambda job: -job.ended_at)
    shapes, n_shaped = _shapes(running[:MOST_RUNNING])
    there = [each for each in state.partitions or () if partitions is None or each.name in partitions]
    return {
        "running": shapes,
        "ended": [
            {
                "job": job.id,
                "array": job.array,
                "cancelled": job.is_cancelled,
                "started_at": instant(job.started_at),
                "ended_at": instant(job.ended_at),
            }
            for job in ended[:MOST_ENDED]
        ],
        "partitions": None if state.partitions is None else [_partition(each) for each in there[:MOST_PARTITIONS]],
        "reservations": None
        if state.reservations is None
        else [_reservation(each, instant) for each in state.reservations[:MOST_RESERVATIONS]],
        "omitted": len(running) - n_shaped,
    }


def _in_scope(jobs: Iterable[RunningJob], partitions: Optional[Sequence[str]]) -> List[RunningJob]:
    return [job for job in jobs if partitions is None or not set(partitions).isdisjoint(job.partition.split(","))]


def _shapes(jobs: Sequence[RunningJob]) -> Tuple[List[Dict[str, Any]], int]:
    """Jobs by what they have in common, with times in whole seconds since 1970; and how many these are."""
    shapes: Dict[Tuple[Any, ...], Dict[str, Any]] = {}
    n_shaped = 0
    for job in jobs:
        key = (job.user, job.group, job.partition, job.qos, job.cpus, job.nodes, job.gpus, job.limit_s, job.array)
        shape = shapes.get(key)
        if shape is None and len(shapes) == MOST_SHAPES:
            continue
        n_shaped += 1
        if shape is None:
            shape = shapes[key] = {
                "user": job.user,
                "group": job.group,
                "partition": job.partition,
                "qos": job.qos,
                "cpus": job.cpus,
                "nodes": job.nodes,
                "gpus": dict(job.gpus),
                "limit_s": job.limit_s,
                "array": job.array,
                "jobs": [],
                "submitted": [],
                "started": [],
            }
        shape["jobs"].append(job.id)
        shape["submitted"].append(_second(job.submit_at))
        shape["started"].append(_second(job.started_at))
    return list(shapes.values()), n_shaped


def _second(at: Optional[float]) -> Optional[int]:
    return int(at) if at is not None and 0 <= at < 253402300800 else None


def _partition(partition: Partition) -> Dict[str, Any]:
    fields = dict(partition._asdict(), gpus=dict(partition.gpus), gpus_free=dict(partition.gpus_free))
    for name in ("cpus", "cpus_free", "nodes", "nodes_down", "nodes_drained"):
        fields[name] = min(fields[name], MOST_SENT)
    fields["up"] = fields.pop("is_up")
    return fields


def _reservation(reservation: Reservation, instant: Callable[[Optional[float]], Optional[str]]) -> Dict[str, Any]:
    fields = dict(reservation._asdict(), begin_at=instant(reservation.begin_at), end_at=instant(reservation.end_at))
    fields["maintenance"] = fields.pop("is_maintenance")
    return fields


def parse_duration(text: str) -> Optional[float]:
    """Seconds of `1-02:03:04`, `02:03:04` or `03:04`; None for UNLIMITED and any other word."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def parse_gpus(text: str) -> Gpus:
    """GPUs by type of `gres/gpu=3,gres/gpu:a100=1`, where the first is the sum, or of `gpu:a100:4(S:0-1),gpu:2`."""
    is_sum = "=" in text
    total, typed = 0, {}  # type: Tuple[int, Dict[str, int]]
    for name, number in _GPU.findall(text):
        if name:
            typed[name] = typed.get(name, 0) + int(number)
        else:
            total += int(number)
    rest = total - sum(typed.values()) if is_sum else total
    if rest > 0:
        typed[ANY_GPU] = typed.get(ANY_GPU, 0) + rest
    return tuple(sorted((name, number) for name, number in typed.items() if number > 0)[:MOST_GPU_TYPES])


def added(one: Gpus, other: Gpus, times: int = 1) -> Gpus:
    """one + times × other, by type."""
    sums = dict(one)
    for name, number in other:
        sums[name] = sums.get(name, 0) + times * number
    return tuple(sorted(sums.items()))
