"""Parse Flux's jobs in JSON: what `flux jobs --json` and `flux job list` print, and exported tables of jobs.

- A document {"jobs": […]} of `flux jobs -a --json`, or one job for each line, as `flux job list` prints them.
- Rows of the table `jobs` of flux-accounting, and of the former module job-archive, one object a line, as
  `sqlite3 -json` writes them. These alone have the resource set R, and so GPUs.

Usage is (t_inactive − t_run) × what R allots, as flux-accounting counts: a job holds its resources from its allocation
until it is inactive, so that its epilog counts. A run has one R, whose ranks are its nodes. Jobs of an instance within
a job are part of it. Sources: Flux's RFC 14, 19, 20 and 21, and flux-accounting's table of jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO

import orjson
from django.utils.translation import gettext_noop

from apps.core.errors import Invalid
from apps.usage.parsers.base import LAST_US, FieldNote, Parsed, Reading, RecordBatch, RecordRow, Rejection, excerpt
from apps.usage.parsers.field_values import BadRecord, checked, if_readable, note_ignored, shown
from apps.usage.parsers.flux_resources import Held, held_of
from apps.usage.parsers.json_items import MOST_ITEM_BYTES, Item, JsonItems
from apps.usage.parsers.json_lines import loaded, number_in
from apps.usage.parsers.lines import Notes, Rows, SingleLines, parse_lines

_DOCUMENT = re.compile(rb'\s*\{\s*"jobs"\s*:\s*\[')
_MARKS = (re.compile(rb'"t_submit"\s*:'), re.compile(rb'"userid"\s*:'))
_HEAD = 4096
_PIECE_JOBS, _PIECE_BYTES = 5000, 16 * 1024**2
_F58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_DECIMAL = re.compile(r"\d{1,20}", re.ASCII)
_MOST_FLUX_ID = 2**64
_NO_PROJECT = "*"  # flux-accounting's default project


class Flux:
    """Jobs of Flux, in a document or one a line."""

    name = "flux"
    label = gettext_noop("Flux jobs in JSON (flux-accounting's jobs, job-archive, flux jobs --json)")
    extensions: tuple[str, ...] = (".json", ".jsonl")
    reference = "https://flux-framework.readthedocs.io/projects/flux-accounting/en/latest/"
    sample = (
        '{"id":"14965276672","userid":5001,"username":"ada","t_submit":1767225600.79,"t_run":1767225660.0,'
        '"t_inactive":1767229260.0,"ranks":"19-20","R":"{\\"version\\":1,\\"execution\\":{\\"R_lite\\":[{\\"rank\\":'
        '\\"19-20\\",\\"children\\":{\\"core\\":\\"0-47\\",\\"gpu\\":\\"0-7\\"}}],\\"nodelist\\":[\\"node[186-187]\\"],'
        '\\"properties\\":{\\"h100@gpu\\":\\"19-20\\"}}}","jobspec":"{}","project":"cms","bank":"physics",'
        '"requested_duration":7200.0,"actual_duration":3600.0}\n'
    )
    fields: tuple[FieldNote, ...] = (
        FieldNote("id, else jobid", gettext_noop("job, as a decimal number")),
        FieldNote("username, else userid", gettext_noop("user; without a name its number")),
        FieldNote("bank, project", gettext_noop("group, project; * is no project; both also of jobspec")),
        FieldNote("queue", gettext_noop("queue, also of jobspec")),
        FieldNote("t_submit, t_run, t_inactive", gettext_noop("submit, start, end; without t_run it never ran")),
        FieldNote("R, else ncores and nnodes", gettext_noop("cpus, nodes (ranks), gpus: of R alone")),
        FieldNote("execution.properties of R, such as h100@gpu", gettext_noop("kinds: gpu:h100")),
        FieldNote("requested_duration, else duration", gettext_noop("requested_s, also of jobspec")),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return start.startswith((b"{", b"[")) and all(mark.search(start) for mark in _MARKS)

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse jobs, rejected individually by their line, or in a document by their number.

        Raises:
            Invalid: `not_lines`: a list of jobs that isn't written one a line.
        """
        head = stream.read(_HEAD).removeprefix(b"\xef\xbb\xbf")
        stream.seek(0)
        if _DOCUMENT.match(head):
            return _read_document(stream, dict(resume or {}))
        if re.match(rb"\s*\[\s*\{", head) and b"\n" not in head.strip() and len(head) >= _HEAD - 3:
            message = "The jobs are a list on one line. Write one job a line: jq -c '.[]'. Nothing was imported."
            raise Invalid(message, code="not_lines")
        return parse_lines(stream, _Reader(), resume)


class _Reader(SingleLines):
    def take(self, text: str, line: int, notes: Notes) -> Rows:
        text = text.strip()
        if text in ("[", "]", "[]"):
            return []
        if not text.startswith("{") or not text.endswith("}"):  # a row of a list
            text = text.removeprefix("[").rstrip().removesuffix("]").rstrip().removesuffix(",").strip()
        value = loaded(text)
        if not isinstance(value, dict):
            raise BadRecord("not_an_object", "A job is a JSON object.")
        return [(line, _row(value, notes))]


def _read_document(stream: BinaryIO, cursor: dict[str, Any]) -> Iterator[Parsed]:
    """Jobs of a document in pieces. The line of a rejection is the job's number, from 1."""
    stream.seek(cursor.get("offset", 0))
    items = JsonItems(stream, "jobs", offset=cursor.get("offset", 0), number=cursor.get("number", 0))
    piece: list[Item] = []
    n_bytes = 0
    for item in items:
        piece.append(item)
        n_bytes += len(item.data)
        if len(piece) == _PIECE_JOBS or n_bytes > _PIECE_BYTES:
            yield _piece(piece, cursor)
            piece, n_bytes = [], 0
    last = _piece(piece, cursor)
    if items.problem:
        number = int(cursor.get("number", 0)) + 1
        why = f"{items.problem} Jobs from the {number}. on are not in it. Export the document again."
        last.rejections.append(Rejection(number, "cut_off", why))
    if last.n_lines or last.rejections:
        yield last


def _piece(items: list[Item], cursor: dict[str, Any]) -> Parsed:
    """The rows of these items; moves the cursor behind them."""
    rows: Rows = []
    rejections: list[Rejection] = []
    notes: Notes = Notes()
    for item in items:
        try:
            rows.append((item.number, _row(_job_of(item), notes)))
        except BadRecord as bad:
            rejections.append(Rejection(item.number, bad.code, bad.message, excerpt(item.data)))
    batch = RecordBatch.from_rows([row for _, row in rows], [number for number, _ in rows])
    if items:
        cursor |= {"number": items[-1].number, "offset": items[-1].end_offset}
    return Parsed(batch, rejections, dict(notes), dict(cursor), len(items), cursor.get("offset", 0))


def _job_of(item: Item) -> dict[str, Any]:
    if not item.is_whole:
        raise BadRecord("too_long", f"The job has more than {MOST_ITEM_BYTES // 1024**2} MB.")
    try:
        value = orjson.loads(item.data)
    except orjson.JSONDecodeError as error:
        raise BadRecord("bad_json", f"It is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise BadRecord("not_an_object", "A job is a JSON object.")
    return value


def _row(job: Mapping[str, Any], notes: Notes) -> RecordRow:
    submit_at, start_at, end_at = (_instant(name, job) for name in ("t_submit", "t_run", "t_inactive"))
    if end_at is not None and start_at is None:
        notes["never_ran"] += 1
    if isinstance(job.get("jobs"), list):
        notes["steps_skipped"] += len(job["jobs"])  # of an instance within the job
    state = "pending" if end_at is None else "withdrawn"
    if start_at is not None:
        state = "running" if end_at is None else "finished"
    held = _held(job, notes, ran=start_at is not None)
    system = _system(job, notes)
    project = _text(job, "project") or _text(system, "project")
    user = _text(job, "username")
    if not user:
        number = number_in(job.get("userid"))
        if number is None:
            raise BadRecord("no_user", "The job has neither a username nor a userid.")
        notes["users_by_number"] += 1
        user = str(int(number))
    return checked(
        RecordRow(
            job=_id(job.get("id", job.get("jobid"))),
            user=user,
            group=_text(job, "bank") or _text(system, "bank"),
            project="" if project == _NO_PROJECT else project,
            queue=_text(job, "queue") or _text(system, "queue"),
            state=state,
            submit_at=submit_at or start_at,
            start_at=start_at,
            end_at=end_at if start_at is not None else None,
            cpus=held.cores,
            gpus=held.gpus,
            nodes=held.nodes,
            requested_s=_duration(job, system, notes),
            kinds=held.kinds,
        ),
        notes,
    )


def _held(job: Mapping[str, Any], notes: Notes, *, ran: bool) -> Held:
    """What R says; without it what the job list has, which knows no GPUs.

    Raises:
        BadRecord: the job ran, and nothing says on how many cores.
    """
    problem = BadRecord(
        "no_processors", "The job has neither R nor ncores: export the table of jobs with its column R."
    )
    if job.get("R") not in (None, ""):
        try:
            held = held_of(job["R"], notes)
            if held.cores or not ran:
                return held
            problem = BadRecord("no_processors", "R has no core.")
        except BadRecord as bad:
            problem = bad
    cores, nodes = (max(number_in(job.get(name)) or 0.0, 0.0) for name in ("ncores", "nnodes"))
    if ran and not cores:
        raise problem
    if job.get("R") not in (None, ""):
        note_ignored(notes, "R")
    return Held(nodes, cores, 0.0, ())


def _system(job: Mapping[str, Any], notes: Notes) -> Mapping[str, Any]:
    """Of jobspec, which may be a text: attributes.system."""
    spec = job.get("jobspec")
    if isinstance(spec, str) and spec:
        text = spec
        spec = if_readable(lambda: loaded(text), {}, notes, "jobspec")
    attributes = spec.get("attributes") if isinstance(spec, dict) else None
    system = attributes.get("system") if isinstance(attributes, dict) else None
    return system if isinstance(system, dict) else {}


def _duration(job: Mapping[str, Any], system: Mapping[str, Any], notes: Notes) -> float | None:
    """Seconds that it asked for; 0 is no limit."""
    for value in (job.get("requested_duration"), job.get("duration"), system.get("duration")):
        seconds = number_in(value)
        if seconds:
            return seconds
        if value not in (None, "") and seconds is None:
            note_ignored(notes, "duration")
    return None


def _id(value: Any) -> str:
    """A job id as a decimal number, from any of the forms of RFC 19 that aren't words or emoji."""
    if type(value) is int and 0 <= value < _MOST_FLUX_ID:
        return str(value)
    text = value if isinstance(value, str) else ""
    number = -1
    if _DECIMAL.fullmatch(text):
        number = int(text)
    elif text[:1] in ("ƒ", "f") and text[1:] and all(letter in _F58 for letter in text[1:12]) and len(text) <= 12:
        number = 0
        for letter in text[1:]:
            number = number * 58 + _F58.index(letter)
    elif form := re.fullmatch(r"0x([0-9a-fA-F]{1,16})|([0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){3})", text, re.ASCII):
        number = int(form[1] or form[2].replace(".", ""), 16)
    if not 0 <= number < _MOST_FLUX_ID:
        raise BadRecord("bad_job", f"id is {shown(str(value))}; ids look like 14965276672 or ƒPoRxNb.")
    return str(number)


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _instant(name: str, job: Mapping[str, Any]) -> datetime | None:
    """Seconds since 1970 with a fraction; 0 is none.

    Raises:
        BadRecord: it is no number, or not between 1970 and 2200.
    """
    value = job.get(name)
    if value in (None, "", 0):
        return None
    seconds = number_in(value)
    if seconds is None:
        raise BadRecord("not_a_number", f"{name} is {shown(str(value))}, which is not a number.")
    if not 0 < seconds * 1e6 <= LAST_US:
        raise BadRecord("absurd_time", f"{name} ({seconds:g}) is not between 1970 and 2200.")
    return datetime.fromtimestamp(seconds, UTC)
