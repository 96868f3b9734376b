"""Types that all parsers share: records as rows and columns, rejected lines, and the parser protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from apps.core.resource_kinds import NO_KINDS, Kinds, distinct_kinds
from apps.usage.parsers.slurm_billing import NO_WEIGHTS, BillingWeights

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.bytes_]
Flags = npt.NDArray[np.bool_]

NO_TIME = np.iinfo(np.int64).min  # in columns of microseconds: the source reports no such time
STATES = ("pending", "running", "finished", "withdrawn")  # a later state replaces an earlier one
PENDING, RUNNING, FINISHED, WITHDRAWN = range(4)

# What buckets hold exactly: an hour of the largest rate is below 2⁴³ s (see buckets.py).
MOST_RATE = 2.0**31  # processors, devices, nodes, gigabytes, billing units per second
MOST_MEM_MB = MOST_RATE * 1024
MOST_JOB_S = 3660 * 86400
MOST_REVISION = 2**62
MOST_RESTART = 2**31 - 1
FIRST_US = 0  # 1970
LAST_US = 7_258_118_400 * 1_000_000  # 2200
EXCERPT = 120
_SHARED = ("people", "job_classes", "kinds", "are_runs", "events", "differ_by_start")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class RecordRow(NamedTuple):
    """One record of usage with the names and units of the REST contract; instants are aware."""

    job: str
    user: str = ""
    group: str = ""
    state: str = "finished"
    submit_at: datetime | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    cpus: float = 0.0
    gpus: float = 0.0
    nodes: float = 0.0
    mem_mb: float = 0.0
    billing: float = 0.0
    requested_s: float | None = None
    queue: str = ""
    partition: str = ""
    qos: str = ""
    site: str = ""
    cluster: str = ""
    dn: str = ""
    fqan: str = ""
    project: str = ""
    array_task: str = ""
    restart: int = 0
    revision: int = 0
    is_charge: bool = False  # a charge without a job, e.g. a reservation
    kinds: Kinds = NO_KINDS


class Rates(NamedTuple):
    """What a job holds while it runs."""

    cpus: float
    gpus: float
    nodes: float
    mem_mb: float


class RunEvent(NamedTuple):
    """A line of a log about a run of a job: what it means depends on the other lines of that job.

    kind: it waits (wait), a run starts (start), ended (end), was over by then (stop), or was over or is withdrawn
    (gone); is suspended (rest), continues (resume), holds other resources from then on (change) or held them until then
    (phase; part: since walltime_s before, exactly), starts again from a checkpoint (again), asks for something else
    (ask). rates: what a rest released; nothing means all. row: the line as a record, if it says more than its job.
    walltime_s: in which it held its resources.
    """

    kind: str
    job: str
    array_task: str
    at_us: int
    line: int
    rates: Rates = Rates(0.0, 0.0, 0.0, 0.0)
    row: RecordRow | None = None
    walltime_s: float | None = None


ENDS_READING = frozenset(("cut_off", "broken_xml", "bad_encoding"))  # codes of rejections behind which nothing was read


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected line: its number, an error code with a message, and the start of the line.

    n_lines: of the row or record that begins there.
    """

    line: int
    code: str
    message: str
    excerpt: str = ""
    n_lines: int = 1


def count_rejected(rejections: Sequence[Rejection]) -> int:
    """Number of rejected lines."""
    return sum(rejection.n_lines for rejection in rejections)


class AccountNames(NamedTuple):
    """The names in a record that identify its account, together with the source's namespace."""

    user: str
    group: str = ""
    dn: str = ""
    fqan: str = ""
    project: str = ""


class JobClassKey(NamedTuple):
    queue: str
    partition: str
    qos: str


@dataclass(slots=True)
class RecordBatch:
    """Valid records as columns. `who` and `job_class` index the lists of distinct names; text is UTF-8 without NUL.

    is_nameless: the scheduler knew no name of the user when it listed the job (its name service was down), and gave a
    number or `nobody` instead. None are without this column.

    kind: index into `kinds`, of which the first is none. All have none without this column.

    sluid: Slurm's own number of the job, 0 for none. It distinguishes jobs of the same number and submission.

    are_runs: a log whose runs are known by their starts. events: lines of it that are no record by themselves.

    differ_by_start: runs of one job and submission are records of their own, as Slurm gives them no numbers.
    """

    line: I8
    job: Bytes
    array_task: Bytes
    cluster: Bytes
    site: Bytes
    restart: I8
    revision: I8
    state: I8
    who: I8
    job_class: I8
    submit_us: I8
    start_us: I8
    end_us: I8
    cpus: F8
    gpus: F8
    nodes: F8
    mem_mb: F8
    billing: F8
    requested_s: F8  # NaN if no time was requested
    is_charge: Flags
    people: list[AccountNames]
    job_classes: list[JobClassKey]
    is_nameless: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    kind: I8 = field(default_factory=lambda: np.zeros(0, np.int64))
    sluid: I8 = field(default_factory=lambda: np.zeros(0, np.int64))
    kinds: list[Kinds] = field(default_factory=lambda: [NO_KINDS])
    are_runs: bool = False
    events: tuple[RunEvent, ...] = ()
    differ_by_start: bool = False

    def __post_init__(self) -> None:
        if len(self.is_nameless) != len(self.line):
            self.is_nameless = np.zeros(len(self.line), np.bool_)
        if len(self.kind) != len(self.line):
            self.kind = np.zeros(len(self.line), np.int64)
        if len(self.sluid) != len(self.line):
            self.sluid = np.zeros(len(self.line), np.int64)

    def __len__(self) -> int:
        return len(self.line)

    def take(self, chosen: I8 | Flags) -> RecordBatch:
        """The columns of the chosen records; the lists of names are shared."""
        columns = {name: getattr(self, name)[chosen] for name in COLUMNS}
        shared = {name: getattr(self, name) for name in _SHARED}
        return RecordBatch(**columns, **shared)

    @classmethod
    def from_rows(cls, rows: Sequence[RecordRow], lines: Sequence[int] | None = None) -> RecordBatch:
        """Build columns from valid rows (`records_json` validates rows of requests and files)."""
        column: Any = RecordRow(*(zip(*rows, strict=True) if rows else [()] * len(RecordRow._fields)))
        people: dict[AccountNames, int] = {}
        job_classes: dict[JobClassKey, int] = {}
        names = map(AccountNames, column.user, column.group, column.dn, column.fqan, column.project)
        classes = map(JobClassKey, column.queue, column.partition, column.qos)
        who = [people.setdefault(each, len(people)) for each in names]
        job_class = [job_classes.setdefault(each, len(job_classes)) for each in classes]
        start_us, submit_us = _microseconds(column.start_at), _microseconds(column.submit_at)
        kinds, kind = distinct_kinds(column.kinds)
        return cls(
            line=np.asarray(range(1, len(rows) + 1) if lines is None else lines, dtype=np.int64),
            job=text_column(column.job),
            array_task=text_column(column.array_task),
            cluster=text_column(column.cluster),
            site=text_column(column.site),
            restart=np.asarray(column.restart, dtype=np.int64),
            revision=np.asarray(column.revision, dtype=np.int64),
            state=np.asarray([STATES.index(state) for state in column.state], dtype=np.int64),
            who=np.asarray(who, dtype=np.int64),
            job_class=np.asarray(job_class, dtype=np.int64),
            submit_us=np.where(submit_us == NO_TIME, start_us, submit_us),
            start_us=start_us,
            end_us=_microseconds(column.end_at),
            cpus=np.asarray(column.cpus, dtype=np.float64),
            gpus=np.asarray(column.gpus, dtype=np.float64),
            nodes=np.asarray(column.nodes, dtype=np.float64),
            mem_mb=np.asarray(column.mem_mb, dtype=np.float64),
            billing=np.asarray(column.billing, dtype=np.float64),
            requested_s=np.asarray(column.requested_s, dtype=np.float64),  # None is NaN
            is_charge=np.asarray(column.is_charge, dtype=np.bool_),
            people=list(people),
            job_classes=list(job_classes),
            kind=np.asarray(kind, dtype=np.int64),
            kinds=kinds,
        )


COLUMNS = tuple(name for name in RecordBatch.__slots__ if name not in _SHARED)


@dataclass(slots=True)
class Parsed:
    """A piece of a file: records, rejected lines, notes with their counts, and the state for resuming behind it."""

    batch: RecordBatch
    rejections: list[Rejection]
    notes: dict[str, int] = field(default_factory=dict)
    resume: dict[str, Any] = field(default_factory=dict)  # JSON; pass it to `parse` to continue behind this piece
    n_lines: int = 0
    offset: int = 0  # of the unpacked file, read so far


class Reading(NamedTuple):
    """Context of a parser.

    at: current time. zone: for times without a zone, which are rejected if it is None. billing: weights from which
    Slurm's billing is computed exactly.
    """

    at: datetime
    zone: ZoneInfo | None = None
    billing: BillingWeights = NO_WEIGHTS


class FieldNote(NamedTuple):
    """A field of a format, and the field of a record that it becomes."""

    name: str
    meaning: str


class Collector(Protocol):
    """A format: its name, how it is recognised, and how it is parsed.

    is_listing: a file lists all running and pending jobs, so that missing ones have vanished. needs_zone: its times are
    local, without a zone. sample: a short made-up file. Formats are tried in the order of the registry.
    """

    name: str
    label: str
    extensions: tuple[str, ...]
    reference: str
    sample: str
    fields: tuple[FieldNote, ...]
    needs_zone: bool
    is_listing: bool

    def sniff(self, head: bytes) -> bool: ...

    def parse(
        self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None
    ) -> Iterator[Parsed]: ...


def concatenate_batches(batches: Sequence[RecordBatch]) -> RecordBatch:
    """Concatenate batches and merge their lists of names."""
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return RecordBatch.from_rows([])
    columns = {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in COLUMNS}
    people, columns["who"] = _recoded([(batch.people, batch.who) for batch in batches])
    job_classes, columns["job_class"] = _recoded([(batch.job_classes, batch.job_class) for batch in batches])
    kinds, columns["kind"] = _recoded([(batch.kinds, batch.kind) for batch in batches])
    events = tuple(event for batch in batches for event in batch.events)
    return RecordBatch(
        **columns,
        people=people,
        job_classes=job_classes,
        kinds=kinds,
        are_runs=any(batch.are_runs for batch in batches),
        events=events,
        differ_by_start=any(batch.differ_by_start for batch in batches),
    )


Name = TypeVar("Name", AccountNames, JobClassKey, Kinds)


def _recoded(parts: Sequence[tuple[list[Name], I8]]) -> tuple[list[Name], I8]:
    """Merge lists of names into one without duplicates, and translate the codes."""
    known: dict[Name, int] = {}
    code_maps = [np.array([known.setdefault(name, len(known)) for name in names], np.int64) for names, _ in parts]
    codes = [code_map[code] for code_map, (_, code) in zip(code_maps, parts, strict=True)]
    return list(known), np.concatenate(codes)


def text_column(texts: Sequence[str]) -> Bytes:
    encoded = [text.encode() for text in texts]
    return np.array(encoded, dtype=f"S{max(map(len, encoded), default=1) or 1}")


def narrow_column(texts: Sequence[bytes], most: int) -> Bytes:
    """Texts as a column, cut behind `most` + 1 bytes: one that no value can be must not widen all others."""
    return np.array(texts, dtype=f"S{min(max(map(len, texts), default=1) or 1, most + 1)}")


def instant(us: int) -> datetime | None:
    """Microseconds since 1970 as an aware instant."""
    if us == NO_TIME:
        return None
    seconds, rest = divmod(int(us), 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def microseconds(at: datetime) -> int:
    """An aware instant as microseconds since 1970, exactly."""
    since = at.astimezone(UTC) - _EPOCH
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


def excerpt(line: bytes | str) -> str:
    """The start of a line, with unprintable characters replaced."""
    text = line[: EXCERPT * 4].decode("utf-8", "replace") if isinstance(line, bytes) else line
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text[:EXCERPT])


def _microseconds(instants: Sequence[datetime | None]) -> I8:
    return np.asarray([NO_TIME if at is None else microseconds(at) for at in instants], dtype=np.int64)
