"""Capacity by partition, reservations and sizes of jobs, as sinfo, scontrol and squeue of Slurm print them."""

from typing import Dict, List, Sequence

from agent import names
from agent.adapters.slurm_numbers import count, instant, number_or_none
from agent.names import shown
from agent.queue_state import Partition, Reservation, RunningJob, added, parse_duration, parse_gpus
from agent.records import Size, Unreadable

# A row for each node and partition: rows of several nodes have the GPUs in use of one of them.
NODE_COLUMNS = "NodeList:0|,PartitionName:0|,Available:0|,Time:0|,StateLong:0|,CPUsState:0|,Gres:0|,GresUsed:0"
_N_NODE_COLUMNS = 8
_MOST_NAME = 128  # characters of a reservation
_DOWN = ("down", "fail", "error", "unknown", "future", "inval")
_DRAINED = ("drain", "maint", "reboot", "blocked", "power")


class Times:
    """Cells of a listing of jobs: limit, start, end, nodes, TRES, eligible time and dependency."""

    def __init__(self, cells: Sequence[str]) -> None:
        limit, start, end, nodes, tres, eligible, dependency = cells
        self.limit_s = parse_duration(limit)
        self.start_at, self.end_at, self.eligible_at = (instant(cell) for cell in (start, end, eligible))
        self.nodes = int(nodes) if nodes.isdigit() and len(nodes) < 9 else None
        self.gpus = parse_gpus(tres)
        self.has_dependency = dependency not in ("", "(null)")

    def size(self, reason: str) -> Size:
        planned_at = None if "BeginTime" in reason.split(",") else self.start_at
        return Size(self.nodes, self.gpus, self.limit_s, self.eligible_at, planned_at, self.has_dependency)

    def of(self, job: RunningJob) -> RunningJob:
        return job._replace(nodes=self.nodes, gpus=self.gpus, limit_s=self.limit_s, started_at=self.start_at)


def parse_partitions(text: str) -> List[Partition]:
    """Capacity by partition from rows in NODE_COLUMNS. Raises: Unreadable for another shape."""
    partitions: Dict[str, Partition] = {}
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) != _N_NODE_COLUMNS:
            raise Unreadable(f"A row of sinfo has {len(cells)} columns: {shown(line)}")
        _node, name, available, limit, state, cpus, gres, used = cells
        if not names.PARTITION.fullmatch(name):
            continue
        try:
            _busy, idle, _other, n_cpus = (max(count(cell), 0) for cell in cpus.split("/"))
        except ValueError:
            raise Unreadable(f"sinfo lists no processors for {shown(name)}: {shown(line)}")
        before = partitions.get(name) or Partition(
            name, available == "up", parse_duration(limit), *(0,) * 5, gpus=(), gpus_free=()
        )
        is_down, is_drained = _is_down(state), _is_drained(state)
        takes_jobs = not is_down and not is_drained and not state.startswith("reserved")
        gpus = parse_gpus(gres)
        free = added(gpus, parse_gpus(used), -1) if takes_jobs else ()
        partitions[name] = before._replace(
            cpus=before.cpus + n_cpus,
            cpus_free=before.cpus_free + (idle if takes_jobs else 0),
            nodes=before.nodes + 1,
            nodes_down=before.nodes_down + is_down,
            nodes_drained=before.nodes_drained + is_drained,
            gpus=added(before.gpus, gpus),
            gpus_free=added(before.gpus_free, tuple((each, max(n, 0)) for each, n in free)),
        )
    return list(partitions.values())


def _is_down(state: str) -> bool:
    return state.startswith(_DOWN) or "*" in state


def _is_drained(state: str) -> bool:
    """Also nodes in maintenance ($), that reboot (^) or power down (%, !)."""
    return not _is_down(state) and (state.startswith(_DRAINED) or any(flag in state for flag in "$^%!"))


def parse_reservations(text: str) -> List[Reservation]:
    """Rows of `scontrol --oneliner show reservation`; those without a time are left out."""
    reservations = []
    for line in text.splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        begin_at, end_at = instant(fields.get("StartTime", "")), instant(fields.get("EndTime", ""))
        if "ReservationName" not in fields or begin_at is None or end_at is None:
            continue
        partition = fields.get("PartitionName", "")
        reservations.append(
            Reservation(
                name=shown(fields["ReservationName"], _MOST_NAME),
                begin_at=begin_at,
                end_at=end_at,
                partition=partition if names.PARTITION.fullmatch(partition) else "",
                nodes=number_or_none(fields.get("NodeCnt", "")),
                cpus=number_or_none(fields.get("CoreCnt", "")),
                is_maintenance="MAINT" in fields.get("Flags", "").split(","),
            )
        )
    return reservations
