"""Parse Slurm's accounting as printed by `sacct -P` or `-p`: columns in any order, named in the first line.

Source: `man sacct`, sections Output of job accounting fields and Job state codes. Rows of steps are not counted,
because the job's allocation covers them: batch, extern and each srun run at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

import numpy as np
from django.utils.translation import gettext_noop

from apps.usage.parsers.base import FieldNote, Parsed, Reading, RecordBatch, Rejection, concatenate_batches, excerpt
from apps.usage.parsers.lines import LongLine, read_blocks
from apps.usage.parsers.sacct_columns import as_jobs
from apps.usage.parsers.sacct_header import (
    Columns,
    guess_columns,
    no_header,
    read_header,
    require,
)
from apps.usage.parsers.sacct_rows import TOO_LONG, Rows, read_rows
from apps.usage.parsers.slurm_jobs import to_records
from apps.usage.parsers.slurm_values import WCKEYS, Problems, is_wckey

_UTC = ZoneInfo("UTC")
_SEPARATOR_LINE = re.compile(rb"sep=[^\r\n]?(?=[\r\n]|$)")  # the first line of a file for Excel
_MESSAGE = re.compile(rb"^sacct: (?:error|fatal): ([^\r\n]*+)", re.MULTILINE)
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class _State:
    """State carried from earlier lines to later ones; stored in the cursor."""

    line: int = 1
    offset: int = 0
    columns: Columns | None = None
    last_job: str = ""  # steps of this job may follow

    def as_json(self) -> dict[str, Any]:
        columns = self.columns.header if self.columns else ""
        is_guessed = self.columns is not None and self.columns.is_guessed
        cursor = {"line": self.line, "offset": self.offset, "columns": columns, "last": self.last_job}
        return {**cursor, "guessed": True} if is_guessed else cursor

    @classmethod
    def from_json(cls, cursor: Mapping[str, Any]) -> _State:
        columns = read_header(cursor["columns"].encode())
        if columns is not None and cursor.get("guessed"):
            columns = replace(columns, is_guessed=True)
        return cls(cursor["line"], cursor["offset"], columns, cursor["last"])


class Sacct:
    """`sacct --parsable2` and `--parsable`."""

    name = "sacct"
    label = gettext_noop("Slurm accounting (sacct -P)")
    extensions: tuple[str, ...] = (".sacct", ".sacct.gz", ".psv", ".log", ".txt")
    reference = "https://slurm.schedmd.com/sacct.html"
    sample = (
        "JobIDRaw|Cluster|User|Account|Partition|QOS|Submit|Start|End|ElapsedRaw|State|AllocCPUS|AllocTRES|UID\n"
        "4711|fram|ada|physics|normal|normal|1767225600|1767225660|1767229260|3600|COMPLETED|8|"
        "billing=8,cpu=8,mem=16G,node=1|1001\n"
        "4712|fram|bo|biology|gpu|normal|1767225700|1767225760|Unknown|120|RUNNING|4|"
        "billing=40,cpu=4,gres/gpu=1,mem=32G,node=1|1002\n"
    )
    fields: tuple[FieldNote, ...] = (
        FieldNote("JobIDRaw, else JobID", gettext_noop("job (JobID alone: job and array task); steps are not counted")),
        FieldNote("User, else UID; Account", gettext_noop("user, group")),
        FieldNote("Cluster", gettext_noop("cluster")),
        FieldNote("Partition, QOS, Reservation", gettext_noop("partition, qos, queue")),
        FieldNote("State", gettext_noop("finished, running, pending, or withdrawn where it never started")),
        FieldNote(
            "Submit, Start, End",
            gettext_noop("the times; local ones in the source's time zone, XDMoD's archives in UTC"),
        ),
        FieldNote("Submit, else Eligible", gettext_noop("the start of a resized job's later part")),
        FieldNote("ElapsedRaw, else Elapsed", gettext_noop("the end, where End is missing")),
        FieldNote(
            "AllocTRES, else AllocCPUS, AllocNodes", gettext_noop("cpus, gpus, mem_mb, nodes, billing; 1.50K is 1536")
        ),
        FieldNote(
            "AllocTRES with a type, licences; ConsumedEnergyRaw",
            gettext_noop("kinds: gres/gpu:h100 is gpu:h100; energy in joules"),
        ),
        FieldNote(
            "ReqTRES, else ReqCPUS",
            gettext_noop("the same of a job that waits; an array's (40_[0-3]) for all its tasks"),
        ),
        FieldNote("TimelimitRaw, else Timelimit", gettext_noop("requested_s")),
        FieldNote("OriginalSLUID, else SLUID", gettext_noop("distinguishes jobs with the same number and submission")),
        FieldNote("WCKey", gettext_noop("noted; its jobs count at account and user, as in Slurm’s fair share")),
    )
    needs_zone = True
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        for line in head.removeprefix(_BOM).splitlines():
            if line.strip() and not _SEPARATOR_LINE.fullmatch(line.strip()) and not _MESSAGE.match(line):
                return read_header(line) is not None or guess_columns(line) is not None
        return False

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse rows.

        Raises:
            Invalid: there is no header and no known order of columns, or a column is missing.
        """
        state = _State.from_json(resume) if resume else _State()
        stream.seek(state.offset)
        rest = b""
        for piece in read_blocks(stream, first_line=state.line, offset=state.offset):
            if isinstance(piece, LongLine):
                yield _long_line(piece, rest, state, reading)
                rest = b""
                continue
            parsed, rest = _block(rest + piece.data, piece.end_offset, state, reading, at_end=False)
            yield parsed
        if rest:
            yield _block(rest, state.offset + len(rest), state, reading, at_end=True)[0]


def _long_line(piece: LongLine, rest: bytes, state: _State, reading: Reading) -> Parsed:
    """Reject a line over the limit, and a row that would continue in it."""
    parsed, _ = _block(rest, piece.end_offset, state, reading, at_end=True)
    parsed.rejections.append(Rejection(piece.line, "line_too_long", TOO_LONG, excerpt(piece.head)))
    state.line, state.offset = piece.line + 1, piece.end_offset
    parsed.n_lines, parsed.resume, parsed.offset = parsed.n_lines + 1, state.as_json(), state.offset
    return parsed


def _block(data: bytes, end_offset: int, state: _State, reading: Reading, *, at_end: bool) -> tuple[Parsed, bytes]:
    """Parse whole lines; returns the records, and the start of a row that continues in later lines."""
    first_line, batches = state.line, []
    rejections: list[Rejection] = []
    notes: dict[str, int] = {}
    rest = b""
    data = _without_messages(data, first_line, rejections)
    parts = list(_parts(data, state))
    for i, (line, part, columns) in enumerate(parts):
        state.columns = columns
        is_cut = at_end or i < len(parts) - 1
        rows = read_rows(part, line, columns, at_end=is_cut, is_first=not state.last_job)
        rest = rows.rest
        rejections += rows.rejections
        for name, n in rows.notes.items():
            notes[name] = notes.get(name, 0) + n
        batches.append(_records(rows, state, reading, rejections, notes))
    state.line = first_line + _n_lines(data) - _n_lines(rest)
    state.offset = end_offset - len(rest)
    rejections.sort(key=lambda rejection: rejection.line)
    return Parsed(
        concatenate_batches(batches), rejections, notes, state.as_json(), state.line - first_line, state.offset
    ), rest


def _without_messages(data: bytes, first_line: int, rejections: list[Rejection]) -> bytes:
    """The data with blanks in the place of what sacct reports of itself, if its errors went into the file, too."""

    def blank(match: re.Match[bytes]) -> bytes:
        line = first_line + data.count(b"\n", 0, match.start())
        why = f"sacct reports: {excerpt(match[1])}. Rows may be missing: run it again, and import the file then."
        rejections.append(Rejection(line, "source_error", why, excerpt(match[0])))
        return b" " * len(match[0])

    return _MESSAGE.sub(blank, data) if b"sacct: " in data else data


def _n_lines(data: bytes) -> int:
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


def _parts(data: bytes, state: _State) -> Iterator[tuple[int, bytes, Columns]]:
    """Cut data at headers: concatenated files have several, with different columns."""
    line, columns = state.line, state.columns
    if line == 1:
        data = data.removeprefix(_BOM)
    if columns is None:
        skipped = len(data) - len(data.lstrip(b" \r\n"))
        named = _SEPARATOR_LINE.match(data, skipped)
        if named is not None:
            skipped = data.find(b"\n", named.end()) + 1 or len(data)
        line, data = line + data.count(b"\n", 0, skipped), data[skipped:]
        if not data:
            return
        first = data.partition(b"\n")[0]
        columns = guess_columns(first) if read_header(first) is None else None
        if columns is None and read_header(first) is None:
            raise no_header(first, line)
    if b"JobID" not in data and columns is not None:
        yield line, data, columns
        return
    held: list[bytes] = []
    held_line = line
    for number, text in enumerate(_lines(data), start=line):
        header = read_header(text) if b"JobID" in text else None
        if header is None:
            held.append(text)
            continue
        if columns is not None and held:
            yield held_line, b"".join(held), columns
        require(header)
        columns, held, held_line = header, [], number + 1
    if columns is not None:
        yield held_line, b"".join(held), columns


def _lines(data: bytes) -> list[bytes]:
    """Lines with their ends; only \\n ends a line."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _records(
    rows: Rows,
    state: _State,
    reading: Reading,
    rejections: list[Rejection],
    notes: dict[str, int],
) -> RecordBatch:
    _drop_steps(rows, state, rejections, notes)
    if not rows.lines:
        return RecordBatch.from_rows([])
    _note_wckeys(rows, notes)
    problems = _replace_zero_bytes(rows)
    if state.columns is not None and state.columns.are_times_utc:
        reading = reading._replace(zone=_UTC)
    jobs = as_jobs(rows.texts, np.asarray(rows.lines, np.int64), reading, problems, notes)
    batch = to_records(jobs, problems, notes)
    rejections += [Rejection(rows.lines[row], code, why, rows.shown(row)) for row, (code, why) in problems.items()]
    return batch


def _note_wckeys(rows: Rows, notes: dict[str, int]) -> None:
    n_keyed = sum(is_wckey(text.decode("utf-8", "replace")) for text in rows.texts.pop("WCKey", ()))
    if n_keyed:
        notes[WCKEYS] = notes.get(WCKEYS, 0) + n_keyed


def _replace_zero_bytes(rows: Rows) -> Problems:
    """Replace zero bytes, which text columns can't store, and report their rows."""
    problems: Problems = {}
    for name, texts in rows.texts.items() if rows.has_zeros else ():
        for row, text in enumerate(texts):
            if b"\0" in text:
                problems[row] = (
                    "bad_text",
                    f"{name} contains a zero byte: the file is damaged there; export it again.",
                )
        rows.texts[name] = [text.replace(b"\0", b"?") for text in texts]
    return problems


def _drop_steps(rows: Rows, state: _State, rejections: list[Rejection], notes: dict[str, int]) -> None:
    """Remove rows of steps. A step without the row of its job is reported once per job, and not counted either."""
    ids = rows.texts.get("JobIDRaw") or rows.texts.get("JobID") or []
    steps = [row for row, text in enumerate(ids) if b"." in text] if b"." in b"".join(ids) else []
    if steps:
        notes["steps_skipped"] = notes.get("steps_skipped", 0) + len(steps)
        allocations = sorted(set(range(len(ids))) - set(steps))
        jobs = {ids[row] for row in allocations} | {state.last_job.encode()}
        for row in steps:
            job = ids[row].partition(b".")[0]
            if job not in jobs:
                jobs.add(job)
                rejections.append(_orphan(rows.lines[row], ids[row], job, rows.shown(row)))
        rows.texts = {name: [texts[row] for row in allocations] for name, texts in rows.texts.items()}
        rows.lines = [rows.lines[row] for row in allocations]
        ids = rows.texts.get("JobIDRaw") or rows.texts.get("JobID") or []
    if ids:
        state.last_job = ids[-1].decode("ascii", "replace")[:64]


def _orphan(line: int, step: bytes, job: bytes, shown: str) -> Rejection:
    why = (
        f"Step {excerpt(step)} has no row of its job {excerpt(job)}. Steps overlap, so they "
        "don't add up to the usage of the job: it is not counted. Call sacct with -X for whole jobs."
    )
    return Rejection(line, "step_without_job", why, shown)
