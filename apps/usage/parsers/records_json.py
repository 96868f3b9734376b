"""Parse records in the format of the REST API: a JSON list, or one JSON object per line, from a request or a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple
from zoneinfo import ZoneInfo

import orjson
from django.utils.translation import gettext_noop

from apps.core.errors import FieldProblem, Invalid, Malformed, TooLarge
from apps.core.json_values import has_more_values
from apps.core.local_time import NoSuchTime, add_leap_second, instant_of, split_leap_second
from apps.core.resource_kinds import BadKind, gpus_of, read_kinds
from apps.usage.parsers.base import (
    LAST_US,
    MOST_JOB_S,
    STATES,
    FieldNote,
    Parsed,
    Reading,
    RecordBatch,
    RecordRow,
    Rejection,
    concatenate_batches,
    excerpt,
)
from apps.usage.parsers.field_values import LONGEST_OF_FIELDS, NEEDLESS, VALUES_IGNORED, BadRecord, if_readable
from apps.usage.parsers.lines import MOST_LINE_BYTES, Notes, Rows, SingleLines, parse_lines
from apps.usage.parsers.records_plain import (
    CONTROL,
    FORBIDDEN,
    INTEGERS,
    KNOWN,
    MAYBE_NUMBER,
    NUMBERS,
    REQUIRED,
    TIMES,
    plain_records,
)

KINDS = "kinds"
MOST_POSTED_RECORDS = 50_000
MOST_RECORD_VALUES = 30 * MOST_POSTED_RECORDS  # a record has up to 25 fields
_MOST_JSON_LINES = 4 * MOST_POSTED_RECORDS  # blank ones included
JSON_TYPES = ("application/json",)
NDJSON_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl")

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime.fromtimestamp(LAST_US / 1e6, UTC)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(Z|z|[+-]\d\d:\d\d)?")
_FEW = 4  # records that are parsed faster one by one
_BYTES_AT_A_TIME = 8 * 1024**2  # usual records have 1.3 MB; the parser holds Python's lock, for 20 ms at most
_AT_A_TIME = 5_000  # one record that needs a full check slows down the batch


class Records(NamedTuple):
    """Contents of a request body: valid records with their lines (from 1), and rejections."""

    """ignored: number of values that usage doesn't need and that can't be stored, by field."""

    batch: RecordBatch
    rejections: list[Rejection]
    ignored: dict[str, int]


def parse_records(body: bytes, *, content_type: str, zone: ZoneInfo | None) -> Records:
    """Parse a request body.

    Raises:
        Malformed: the body is not a list or lines of JSON.
        TooLarge: it has more than 50,000 records.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind in NDJSON_TYPES:
        items = _lines(body)
    elif kind in JSON_TYPES:
        items = _list(body)
    else:
        raise Invalid(
            f"Records come as application/json (a list) or application/x-ndjson, not as {kind or 'nothing'!r}.",
            code="unsupported_media_type",
        )
    batches: list[RecordBatch] = []
    rejections: list[Rejection] = []
    notes: dict[str, int] = {}
    while some := list(islice(items, _AT_A_TIME)):
        batch = _parse_all_at_once(some) if len(some) > _FEW else None
        batches.append(batch or _parse_one_by_one(some, zone, rejections, notes))
    ignored = {name.removeprefix(VALUES_IGNORED).strip(): n for name, n in notes.items()} if notes else {}
    return Records(concatenate_batches(batches), rejections, ignored)


def _parse_all_at_once(items: Sequence[_Item]) -> RecordBatch | None:
    """Parse all items at once; None if one needs a full check."""
    values = _values_of_lines([item.text for item in items]) if items[0].text else [item.value for item in items]
    return None if values is None else plain_records(values, [item.line for item in items])


def _values_of_lines(lines: Sequence[bytes]) -> list[Any] | None:
    """The objects of lines, read at once; None if one line may need a full check.

    Each line begins with an object, and no string may contain the end of a line. So as many flat objects as lines are
    one on each: an object could only span two lines within a list, and `plain_records` refuses lists.
    """
    text = b"[\n" + b",\n".join(lines) + b"]"
    if len(text) > _BYTES_AT_A_TIME or text.count(b"\n{") != len(lines) or max(map(len, lines)) > MOST_LINE_BYTES:
        return None
    try:
        values: list[Any] = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    is_one_each = len(values) == len(lines) and set(map(type, values)) == {dict}
    return values if is_one_each and text.count(b'"') == _n_quotes(values) else None


def _parse_one_by_one(
    items: Sequence[_Item], zone: ZoneInfo | None, rejections: list[Rejection], notes: dict[str, int]
) -> RecordBatch:
    rows, lines = [], []
    for item in items:
        try:
            row = _row(item.read(), zone, notes)
        except BadRecord as bad:
            rejections.append(Rejection(item.line, bad.code, bad.message, excerpt(item.text)))
        else:
            rows.append(row)
            lines.append(item.line)
    return RecordBatch.from_rows(rows, lines)


def parse_line(line: bytes, *, zone: ZoneInfo | None, notes: dict[str, int]) -> RecordRow:
    """Parse a line of a file.

    Raises:
        BadRecord: it is not a valid record.
    """
    return _row(_line(line), zone, notes)


class _Item(NamedTuple):
    line: int
    text: bytes  # empty if the value was parsed with the whole body
    value: Any = None

    def read(self) -> Any:
        return _line(self.text) if self.text else self.value


def _lines(body: bytes) -> Iterator[_Item]:
    body = body.removeprefix(b"\xef\xbb\xbf")
    if body.count(b"\n") > _MOST_JSON_LINES:
        raise _too_many()
    n_records = 0
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line.strip():
            continue
        n_records += 1
        if n_records > MOST_POSTED_RECORDS:
            raise _too_many()
        yield _Item(number, line)


def _too_many() -> TooLarge:
    return TooLarge(f"More than {MOST_POSTED_RECORDS} records: send them in parts.", code="too_many_records")


def _line(line: bytes) -> Any:
    if len(line) > MOST_LINE_BYTES:
        raise BadRecord("line_too_long", f"The line is longer than {MOST_LINE_BYTES // 1024**2} MB.")
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadRecord("bad_json", _why(error)) from error
    if isinstance(value, dict) and line.count(b'"') != _n_quotes([value]):
        return _parse_with_duplicates(line)
    return value


def _list(body: bytes) -> Iterator[_Item]:
    if has_more_values(body, MOST_RECORD_VALUES):
        raise _too_many()
    try:
        values = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _malformed(f"The body is not JSON: {_why(error)}", "bad_json") from error
    if not isinstance(values, list):
        raise _malformed("The body is one JSON list of records; one object a line is application/x-ndjson.")
    if len(values) > MOST_POSTED_RECORDS:
        raise _too_many()
    if body.count(b'"') != _n_quotes([value for value in values if isinstance(value, dict)]):
        values = _parse_with_duplicates(body)
    for number, value in enumerate(values, start=1):
        yield _Item(number, b"", value)


def _malformed(message: str, code: str = "invalid") -> Malformed:
    return Malformed(message, code=code, fields=[FieldProblem("body", message)])


def _n_quotes(records: Sequence[dict[str, Any]]) -> int:
    """Number of quotes in flat objects. More quotes in the text mean a duplicate name or an escape, which needs a full
    check.
    """
    types = list(map(type, chain.from_iterable(map(dict.values, records))))
    return 2 * (len(types) + types.count(str))


class _Repeated(dict[str, Any]):
    """An object with a duplicate name."""

    name = ""


def _parse_with_duplicates(text: bytes) -> Any:
    """Parse valid JSON of limited depth again, marking objects with duplicate names."""
    return json.loads(text, object_pairs_hook=_pairs)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) == len(pairs):
        return record
    names = [name for name, _ in pairs]
    repeated = _Repeated(record)
    repeated.name = next(name for name in names if names.count(name) > 1)
    return repeated


def _row(record: Any, zone: ZoneInfo | None, notes: dict[str, int]) -> RecordRow:
    if not isinstance(record, dict):
        raise BadRecord("not_an_object", "A record is a JSON object.")
    if isinstance(record, _Repeated):
        raise BadRecord("duplicate_key", f"{_shown(record.name)} is given twice.")
    fields = {name: value for name, value in record.items() if value is not None}
    for name in record.keys() - KNOWN - {KINDS}:
        raise BadRecord("unknown_field", f"There is no field {_shown(name)}.")
    state = fields.get("state", "finished")
    if state not in STATES:
        raise BadRecord("bad_state", f"state is finished, running, pending or withdrawn, not {_shown(state)}.")
    for name in REQUIRED[state]:
        if name not in fields:
            raise BadRecord("missing_field", f"{name} is missing.")
    for name in FORBIDDEN.get(state, ()):
        if name in fields:
            raise BadRecord("unexpected_field", f"A {state} job has no {name}.")
    values: dict[str, Any] = {**_times(fields, state, zone)}
    for name in NEEDLESS:
        if name in fields:
            values[name] = _needless(name, fields.pop(name), notes)
    values |= {name: _text(name, fields[name]) for name in LONGEST_OF_FIELDS if name in fields}
    values |= {name: _number(name, fields[name]) for name in NUMBERS if name in fields}
    values |= {name: _integer(name, fields[name]) for name in INTEGERS if name in fields}
    if not values["job"] or not values["user"]:
        raise BadRecord("missing_field", f"{'user' if values['job'] else 'job'} is empty.")
    row = RecordRow(state=state, **values)
    return _with_kinds(row, record) if KINDS in fields else row


def _with_kinds(row: RecordRow, record: dict[str, Any]) -> RecordRow:
    """The row with its amounts by kind. GPUs that aren't given are the sum of their kinds, and never less."""
    if isinstance(record[KINDS], _Repeated):
        raise BadRecord("duplicate_key", f"{_shown(record[KINDS].name)} is given twice in kinds.")
    try:
        kinds = read_kinds(record[KINDS])
    except BadKind as bad:
        raise BadRecord("bad_kinds", f"kinds: {bad}.") from bad
    of_gpus = gpus_of(kinds)
    if record.get("gpus") is not None and row.gpus < of_gpus:
        raise BadRecord("bad_kinds", f"gpus is {row.gpus:g}, less than the GPUs in kinds, which are {of_gpus:g}.")
    return row._replace(kinds=kinds, gpus=max(row.gpus, of_gpus))


def _needless(name: str, value: Any, notes: dict[str, int]) -> Any:
    """A value that usage doesn't need: what a record has without it, and a note, where it can't be stored."""
    read = _number if name in NUMBERS else _text
    return if_readable(lambda: read(name, value), NEEDLESS[name], notes, name)


def _text(name: str, value: Any) -> str:
    if name in MAYBE_NUMBER and type(value) is int:
        value = str(value)
    if type(value) is not str:
        raise BadRecord("wrong_type", f"{name} is a string, not {_shown(value)}.")
    if len(value) > LONGEST_OF_FIELDS[name]:
        raise BadRecord("too_long", f"{name} has more than {LONGEST_OF_FIELDS[name]} characters.")
    if CONTROL.search(value):
        raise BadRecord("bad_text", f"{name} contains a control character.")
    return value


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float):
        raise BadRecord("wrong_type", f"{name} is a number, not {_shown(value)}.")
    if value < 0:
        raise BadRecord("negative_number", f"{name} is {_shown(value)}, below zero.")
    if value > NUMBERS[name]:
        raise BadRecord("absurd_number", f"{name} is {_shown(value)}; at most {NUMBERS[name]:.0f} is accepted.")
    return float(value)


def _integer(name: str, value: Any) -> int:
    if type(value) is not int:
        raise BadRecord("wrong_type", f"{name} is a whole number, not {_shown(value)}.")
    if not 0 <= value <= INTEGERS[name]:
        raise BadRecord("absurd_number", f"{name} is {_shown(value)}, not from 0 to {INTEGERS[name]}.")
    return value


def _times(fields: dict[str, Any], state: str, zone: ZoneInfo | None) -> dict[str, datetime | None]:
    times = {name: _time(name, fields[name], zone) for name in TIMES if name in fields}
    submit_at, start_at, end_at = (times.get(name) for name in TIMES)
    if state == "withdrawn":
        end_at = None
        if submit_at is None and start_at is None:
            raise BadRecord(
                "missing_field", "submit, or start, is missing: with the job's id it identifies the record."
            )
    if start_at and end_at and end_at < start_at:
        end_at = _second_instant(fields["end"], zone) or end_at
        if end_at < start_at:
            raise BadRecord("end_before_start", f"end ({fields['end']}) is before start ({fields['start']}).")
    if start_at and end_at and (end_at - start_at).total_seconds() > MOST_JOB_S:
        raise BadRecord("absurd_run_time", f"It ran for more than {MOST_JOB_S // 86400} days.")
    return {"submit_at": submit_at, "start_at": start_at, "end_at": end_at}


def _time(name: str, value: Any, zone: ZoneInfo | None) -> datetime:
    if type(value) is not str:
        raise BadRecord("wrong_type", f"{name} is a time like 2026-11-20T12:00:00Z, not {_shown(value)}.")
    form = _RFC3339.fullmatch(value)
    if not form:
        raise BadRecord("bad_time", f"{name} is {_shown(value)}; times look like 2026-11-20T12:00:00Z.")
    plain, leap = split_leap_second(value.upper())
    try:
        instant = datetime.fromisoformat(plain)
        if form[1] is None:
            instant = _aware(name, value, instant, zone)
        instant = add_leap_second(instant.astimezone(UTC), leap)
    except (ValueError, OverflowError) as error:
        raise BadRecord("bad_time", f"{name} is {_shown(value)}, which no calendar has.") from error
    if not _FIRST <= instant <= _LAST:
        raise BadRecord("absurd_time", f"{name} ({value}) is not between 1970 and 2200.")
    return instant


def _aware(name: str, value: str, naive: datetime, zone: ZoneInfo | None) -> datetime:
    if zone is None:
        raise BadRecord(
            "naive_time", f"{name} ({value}) has no offset, and the source has no time zone: add Z or +01:00."
        )
    try:
        return instant_of(naive, zone)
    except NoSuchTime as error:
        raise BadRecord("nonexistent_time", f"{name}: {error}") from error


def _second_instant(value: str, zone: ZoneInfo | None) -> datetime | None:
    """The second of two instants of an ambiguous local time: used for an end that would otherwise be before its
    start.
    """
    form = _RFC3339.fullmatch(value)
    if zone is None or form is None or form[1] is not None:
        return None
    plain, leap = split_leap_second(value.upper())
    return datetime.fromisoformat(plain).replace(tzinfo=zone, fold=1).astimezone(UTC) + leap


def _why(error: orjson.JSONDecodeError) -> str:
    return f"{error.msg} (line {error.lineno}, column {error.colno})."


def _shown(value: Any) -> str:
    return excerpt(repr(value) if not isinstance(value, list | dict) else f"a {type(value).__name__}")


class Ndjson:
    """One JSON object a line."""

    name = "ndjson"
    label = gettext_noop("Records as JSON, one a line (NDJSON)")
    extensions: tuple[str, ...] = (".ndjson", ".jsonl")
    reference = "https://github.com/ndjson/ndjson-spec"
    sample = (
        '{"job": "17", "user": "ada", "group": "physics", "start": "2026-01-01T01:00:00Z", '
        '"end": "2026-01-01T02:00:00Z", "cpus": 4, "gpus": 1, "queue": "long"}\n'
        '{"job": "18", "user": "ben", "state": "running", "start": "2026-01-01T01:30:00Z", "cpus": 1}\n'
    )
    fields: tuple[FieldNote, ...] = (
        FieldNote(
            "job, array_task, submit, restart", gettext_noop("a record is known by these, with its source and cluster")
        ),
        FieldNote("user, group, dn, fqan, project", gettext_noop("whose it is; user must be there")),
        FieldNote("state", gettext_noop("finished (if not given), running, pending or withdrawn")),
        FieldNote("submit, start, end", gettext_noop("RFC 3339; without an offset in the source's zone")),
        FieldNote(
            "cpus, gpus, nodes, mem_mb, billing", gettext_noop("amounts while it runs; billing in units a second")
        ),
        FieldNote("kinds", gettext_noop('amounts by kind, such as {"gpu:h100": 2}; of energy, joules in total')),
        FieldNote("requested_s", gettext_noop("how long it may run")),
        FieldNote("queue, partition, qos; site, cluster", gettext_noop("its class; where it ran")),
        FieldNote("revision", gettext_noop("the higher one replaces the lower")),
    )
    needs_zone = False
    is_listing = False

    def sniff(self, head: bytes) -> bool:
        line = next((raw_line for raw_line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if raw_line.strip()), b"")
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            return False
        return isinstance(value, dict) and "job" in value and ("user" in value or "cpus" in value)

    def parse(self, stream: BinaryIO, reading: Reading, *, resume: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
        """Parse lines; each is a record, rejected individually."""
        return parse_lines(stream, _Reader(reading), resume)


class _Reader(SingleLines):
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def take(self, text: str, line: int, notes: Notes) -> Rows:
        row = parse_line(text.encode("utf-8", "surrogateescape"), zone=self._reading.zone, notes=notes)
        return [(line, row)]
