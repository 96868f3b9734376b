"""Charge the unused time of Slurm's reservations, as records without a job: off unless a source's settings say so.

charge = reserved × time − Σ held × overlap, per resource, where `held` is what each job of the reservation holds and
`overlap` how long it ran within it; never below 0. It is one record over the time of the reservation, at the rate
charge / time, under the reservation's account. It is stored once the reservation is over, and replaced when
accounting reports a job of it later. ARCHER2 charges unused time so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import Q

from apps.core.errors import Unavailable
from apps.usage.models import Record, Source
from apps.usage.parsers.base import MOST_JOB_S, RecordRow
from apps.usage.parsers.slurm_values import number_of, read_tres

KEEP_S = 7 * 86400  # how long a reservation that is over is corrected by jobs that are reported later
MOST_REMEMBERED = 1000
_NOT_CHARGED = frozenset(("MAINT", "IGNORE_JOBS", "TIME_FLOAT", "FLEX"))  # maintenance, or no fixed part of the cluster
_PREFIX = "reservation "
_RESOURCES = ("cpus", "gpus", "nodes", "mem_mb", "billing")

Rates = dict[str, float]  # by resource


@dataclass(frozen=True)
class Reservation:
    """A reservation as the controller listed it last; times in seconds since 1970. account: "" without exactly one."""

    name: str
    account: str
    start_s: int
    end_s: int
    rates: Rates
    partition: str = ""

    @property
    def key(self) -> str:
        """One occurrence of it: a daily one has the same name and another start each day."""
        return f"{self.start_s} {self.name}"


class Charges(NamedTuple):
    """Records to store, and what a source remembers of its reservations (JSON)."""

    rows: list[RecordRow]
    remembered: dict[str, Any]


def read_reservations(document: Mapping[str, Any]) -> list[Reservation]:
    """The reservations of an answer of /slurm/VERSION/reservations that can be charged to one account.

    Raises:
        Unavailable: it has no list of them. Without it each would seem deleted.
    """
    listed = document.get("reservations")
    if not isinstance(listed, list):
        raise Unavailable("The answer has no list of reservations.", code="bad_answer")
    readable = (_reservation(each) for each in listed if isinstance(each, dict))
    return [each for each in readable if each is not None]


def _reservation(item: Mapping[str, Any]) -> Reservation | None:
    start, end = number_of(item.get("start_time")), number_of(item.get("end_time"))
    name, accounts, tres = (item.get(field) for field in ("name", "accounts", "tres"))
    flags = item.get("flags")
    if not (isinstance(name, str) and name.isprintable() and 0 < len(name) <= 100 and isinstance(tres, str)):
        return None
    if not isinstance(accounts, str) or not accounts or "," in accounts or accounts.startswith("-"):
        return None
    if start is None or end is None or not 0 < end - start <= MOST_JOB_S:
        return None
    if isinstance(flags, list) and _NOT_CHARGED & set(map(str, flags)):
        return None
    try:
        amounts, _kinds, _unreadable = read_tres(tres)
    except ValueError:
        return None
    rates = {name: max(0.0, value) for name, value in amounts._asdict().items() if value == value}  # not NaN
    partition = item.get("partition")
    return Reservation(name, accounts, int(start), int(end), rates, partition if isinstance(partition, str) else "")


def charge_reservations(
    source: Source, listed: Sequence[Reservation], remembered: Mapping[str, Any], *, at: datetime
) -> Charges:
    """Charges of reservations that are over, as far as they changed since the last time.

    listed: those that the controller has now; one that it has no longer before its end was deleted or moved, and ends
    where it was listed last. remembered: what the former call returned, {} at first.
    """
    now_s, known = int(at.timestamp()), {key: dict(value) for key, value in remembered.items()}
    present = {each.key: each for each in listed}
    for key, each in present.items():
        known[key] = {**known.get(key, {}), "reservation": asdict(each), "seen_s": now_s}
    rows = []
    for key, value in list(known.items()):
        reservation = Reservation(**value["reservation"])
        if key not in present and now_s < reservation.end_s:
            reservation = replace(reservation, end_s=min(value.get("seen_s", now_s), now_s))
            value["reservation"] = asdict(reservation)
            if reservation.end_s <= reservation.start_s:
                del known[key]
                continue
        if now_s >= reservation.end_s:
            unused = unused_rates(reservation, _held(source, reservation))
            charge = {**asdict(reservation), "rates": unused}
            if charge != value.get("charged"):
                value["revision"] = max(now_s, value.get("revision", 0) + 1)  # also if the clock went back
                rows.append(_row(reservation, unused, source, revision=value["revision"]))
                value["charged"] = charge
        if key not in present and now_s > reservation.end_s + KEEP_S:
            del known[key]
    newest = sorted(known, key=lambda key: int(key.partition(" ")[0]))[-MOST_REMEMBERED:]
    return Charges(rows, {key: known[key] for key in newest})


def unused_rates(reservation: Reservation, held: Mapping[str, float]) -> Rates:
    """What is charged per second of the reservation. held: seconds × amount that its jobs held, by resource."""
    time_s = reservation.end_s - reservation.start_s
    return {name: max(0.0, rate * time_s - held.get(name, 0.0)) / time_s for name, rate in reservation.rates.items()}


def _held(source: Source, reservation: Reservation) -> dict[str, float]:
    start_at, end_at = _instants(reservation)
    is_of_it = Q(source=source, job_class__queue=reservation.name, is_charge=False, state="finished")
    jobs = Record.objects.filter(is_of_it, start_at__lt=end_at, end_at__gt=start_at)
    held = dict.fromkeys(_RESOURCES, 0.0)
    for job in jobs.values_list("start_at", "end_at", *_RESOURCES).iterator():
        overlap_s = (min(job[1], end_at) - max(job[0], start_at)).total_seconds()
        for name, amount in zip(_RESOURCES, job[2:], strict=True):
            held[name] += amount * overlap_s
    return held


def _row(reservation: Reservation, unused: Rates, source: Source, *, revision: int) -> RecordRow:
    start_at, end_at = _instants(reservation)
    return RecordRow(
        job=f"{_PREFIX}{reservation.name}",
        group=reservation.account,
        submit_at=start_at,
        start_at=start_at,
        end_at=end_at,
        queue=reservation.name,
        partition=reservation.partition,
        cluster=source.cluster,
        revision=revision,
        is_charge=True,
        cpus=unused.get("cpus", 0.0),
        gpus=unused.get("gpus", 0.0),
        nodes=unused.get("nodes", 0.0),
        mem_mb=unused.get("mem_mb", 0.0),
        billing=unused.get("billing", 0.0),
    )


def _instants(reservation: Reservation) -> tuple[datetime, datetime]:
    return datetime.fromtimestamp(reservation.start_s, UTC), datetime.fromtimestamp(reservation.end_s, UTC)
