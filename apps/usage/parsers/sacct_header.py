"""Identify the columns of sacct's parsable output, by its header or by the form of its first row."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from apps.core.errors import Invalid
from apps.usage.parsers.base import excerpt

# Orders of columns known for output without a header (-n). The first is the recommended one.
RECOMMENDED = (
    *("JobIDRaw", "Cluster", "User", "Account", "Partition", "QOS", "Submit", "Start", "End", "ElapsedRaw", "State"),
    *("AllocCPUS", "AllocTRES", "ReqTRES", "Reservation", "UID"),
)
_ALSO_KNOWN = (
    *("JobID", "JobIDRaw", "User", "Account", "Cluster", "Partition", "State", "Submit", "Start", "End", "Elapsed"),
    *("AllocTRES", "AllocCPUS", "CPUTimeRAW", "TimelimitRaw"),
)
# Of the archives that Open XDMoD reads, whose times are in UTC.
XDMOD = (
    *("JobID", "JobIDRaw", "Cluster", "Partition", "QOS", "Account", "Group", "GID", "User", "UID", "Submit"),
    *("Eligible", "Start", "End", "Elapsed", "ExitCode", "State", "NNodes", "NCPUS", "ReqCPUS", "ReqMem", "ReqTRES"),
    *("AllocTRES", "Timelimit", "NodeList", "JobName"),
)
# Its archives of 6.6 to 9.x: without QOS and with ReqGRES, and at first without AllocTRES.
_XDMOD_9 = (
    *("JobID", "JobIDRaw", "Cluster", "Partition", "Account", "Group", "GID", "User", "UID", "Submit", "Eligible"),
    *("Start", "End", "Elapsed", "ExitCode", "State", "NNodes", "NCPUS", "ReqCPUS", "ReqMem", "ReqGRES", "ReqTRES"),
)
_XDMOD_OLD = (
    (*_XDMOD_9, "AllocTRES", "Timelimit", "NodeList", "JobName"),
    (*_XDMOD_9, "Timelimit", "NodeList", "JobName"),
)
# Of the script slurm_acc.sh that APEL's sites run.
_APEL = (
    *("JobID", "JobName", "User", "Group", "Start", "End", "Elapsed", "CPUTimeRAW", "Partition", "NCPUS", "NNodes"),
    *("NodeList", "MaxRSS", "MaxVMSize", "State"),
)
_OF_XDMOD = (XDMOD, *_XDMOD_OLD)
WITHOUT_HEADER = (RECOMMENDED, (*RECOMMENDED, "TimelimitRaw", "JobID"), _ALSO_KNOWN, *_OF_XDMOD, _APEL)
# Times as seconds since 1970: local times need the source's zone and are ambiguous for an hour a year.
COMMAND = (
    f"SLURM_TIME_FORMAT=%s sacct -a -X -P --duplicates --format={','.join((*RECOMMENDED, 'TimelimitRaw', 'JobID'))}"
)
# The same for each time window of a collected source, whose times are printed as seconds anyway.
COLLECTED = COMMAND.partition(" ")[2].replace(" --format", " -S {from} -E {to} --format")

# sacct --delimiter takes any text.
_DELIMITER = re.compile(rb"[\x01\t\x1d-\x20!#$&'()*+,./:;<=>?@\[\\\]^`{|}~]{1,16}")
_OF_SPREADSHEETS = (b"\t", b";", b",")  # which put quotes around values that contain them
_TIME = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:?\d\d)?|\d{1,12}|Unknown|None|None assigned|N/A|"
_DURATION = rb"(?:\d+-)?(?:\d+:)?\d+:\d+(?:\.\d+)?|\d+|"
_LIMIT = _DURATION + rb"UNLIMITED|Partition_Limit|INVALID|"
_COUNT = rb"\d*"
_SIZE = rb"(?:\d+(?:\.\d+)?[KMGTPE]?)?"
_JOB = rb"\d+(?:_\d+|_\[[^\]|]*\]|\+\d+)?"
_STEP = rb"(?:\.[\w+-]+)?"
_NUMBER = rb"\d+(?:\.\d+)?[KMGTPE]?"
_TRES = rb"(?:[^\s,=]+=[^\s,=]+(?:,[^\s,=]+=[^\s,=]+)*)?"
_GRES = rb"(?:[^\s,=:]+(?::[^\s,=]+)?(?:,[^\s,=:]+(?::[^\s,=]+)?)*)?"
_NAMES = ("Cluster", "Account", "User", "Partition", "QOS", "Group")
_SHAPES = {
    **dict.fromkeys(("JobID", "JobIDRaw"), _JOB + _STEP),
    **dict.fromkeys(("Submit", "Start", "End", "Eligible"), _TIME),
    **dict.fromkeys(("Elapsed", "Suspended", "CPUTime", "TotalCPU", "UserCPU", "SystemCPU"), _DURATION),
    **dict.fromkeys(("Reserved", "Planned", "ResvCPU", "PlannedCPU", "AveCPU", "MinCPU"), _DURATION),
    **dict.fromkeys(("Timelimit", "TimelimitRaw"), _LIMIT),
    **dict.fromkeys(("AllocTRES", "ReqTRES"), _TRES),
    **dict.fromkeys(("AllocGRES", "ReqGRES"), _GRES),
    **dict.fromkeys(("AllocCPUS", "AllocNodes", "NCPUS", "NNodes"), _NUMBER),
    **dict.fromkeys(("ReqCPUS", "ReqNodes"), _SIZE),
    "ReqMem": _SIZE + rb"[nc]?",  # up to 20.11 per node or per CPU
    "ElapsedRaw": _COUNT,
    **dict.fromkeys(("CPUTimeRAW", "ResvCPURAW", "PlannedCPURAW", "DBIndex", "AssocID", "GID", "UID"), _COUNT),
    **dict.fromkeys(("QOSRAW", "WCKeyID", "Restarts", "Priority"), _COUNT),
    **dict.fromkeys(("ExitCode", "DerivedExitCode"), rb"(?:\d+:\d+)?"),
    **dict.fromkeys(("AveRSS", "AveVMSize", "MaxRSS", "MaxVMSize", "AvePages", "MaxPages"), _SIZE),
    **dict.fromkeys(("AveDiskRead", "AveDiskWrite", "MaxDiskRead", "MaxDiskWrite", "AveCPUFreq"), _SIZE),
    **dict.fromkeys(("ConsumedEnergy", "ConsumedEnergyRaw"), _SIZE),
    **dict.fromkeys(_NAMES, rb"\S*"),
    "State": rb"[A-Z_]+\+?(?: by \d+)?",
    **dict.fromkeys(("SLUID", "OriginalSLUID"), rb"(?:[sS][0-9A-Za-z]{13})?"),
}
# Read to be noted alone: a row whose value can't be told from other free text is read without it.
NOTED = frozenset(["WCKey"])
# Columns of free text, which may contain the separator and line breaks.
_FREE = frozenset(
    [
        *("AdminComment", "Comment", "Constraints", "Container", "Extra", "JobName", "Licenses", "StdErr", "StdIn"),
        *("StdOut", "SubmitLine", "SystemComment", "WCKey", "WorkDir"),
    ]
)
_READ = frozenset(
    [
        *("JobID", "JobIDRaw", "User", "UID", "Account", "Cluster", "Partition", "QOS", "Reservation", "State"),
        *("Submit", "Start", "End", "Elapsed", "ElapsedRaw", "AllocTRES", "ReqTRES", "AllocCPUS", "NCPUS", "ReqCPUS"),
        *("AllocNodes", "NNodes", "ReqNodes", "Eligible", "Timelimit", "TimelimitRaw", "ConsumedEnergyRaw"),
        "AllocGRES",
        *("SLUID", "OriginalSLUID"),
        *NOTED,
    ]
)
_BY_LOWER = {name.lower(): name for name in (*_SHAPES, *_FREE, *_READ)}
_WORD = re.compile(rb"[A-Za-z][A-Za-z0-9%]*")
_WITHOUT_QUOTES = re.compile(rb'"([A-Za-z][A-Za-z0-9%-]*)"')
_WIDTH = re.compile(rb"%-?\d+")


@dataclass(frozen=True)
class Columns:
    """Column names and separator. is_trailing: the separator also ends each row. is_guessed: there is no header."""

    names: tuple[str, ...]
    delimiter: bytes = b"|"
    is_trailing: bool = False
    is_guessed: bool = False
    read: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "read", tuple(dict.fromkeys(name for name in self.names if name in _READ)))

    @cached_property
    def n_fields(self) -> int:
        return len(self.names) + self.is_trailing

    @cached_property
    def indices(self) -> tuple[int, ...]:
        """Positions of the needed columns, in the order of `read`."""
        return tuple(self.names.index(name) for name in self.read)

    @cached_property
    def free(self) -> tuple[int, ...]:
        return tuple(place for place, name in enumerate(self.names) if name in _FREE)

    @cached_property
    def shapes(self) -> tuple[re.Pattern[bytes] | None, ...]:
        return tuple(_COMPILED.get(name) for name in self.names)

    @property
    def has_quotes(self) -> bool:
        """Whether values may be in quotes, as spreadsheets write them."""
        return self.delimiter in _OF_SPREADSHEETS

    @property
    def are_times_utc(self) -> bool:
        return self.is_guessed and self.names in _OF_XDMOD

    @cached_property
    def lead(self) -> int:
        """Number of columns before the first free-text column if the job's number is among them; else 0."""
        lead = self.free[0] if self.free else len(self.names)
        return lead if {"JobID", "JobIDRaw"} & set(self.names[:lead]) else 0

    @cached_property
    def header(self) -> str:
        """The header line of these columns; `read_header` parses it."""
        delimiter = self.delimiter.decode()
        return delimiter.join(self.names) + delimiter * self.is_trailing


_COMPILED = {name: re.compile(shape) for name, shape in _SHAPES.items()}


def read_header(line: bytes) -> Columns | None:
    """The columns named by a line; None if it is no header."""
    line = _WITHOUT_QUOTES.sub(rb"\1", line.rstrip(b"\r\n"))
    word = _WORD.match(line)
    if not word:
        return None
    ends = _DELIMITER.match(line, word.end())
    if ends is None or ends[0].strip(b" ") == b"":  # columns aligned by blanks have no separator
        return None
    delimiter = ends[0]
    words = [_WIDTH.sub(b"", name) for name in line.split(delimiter)]
    is_trailing = words[-1] == b""
    words = words[:-1] if is_trailing else words
    if not all(map(_WORD.fullmatch, words)):
        return None
    names = tuple(_BY_LOWER.get(name.decode().lower(), name.decode()) for name in words)
    if not {"JobID", "JobIDRaw"} & set(names):
        return None
    return Columns(names, delimiter, is_trailing)


def guess_columns(line: bytes) -> Columns | None:
    """The columns of a file without a header, if its first row fits a known order; else None."""
    fields = line.rstrip(b"\r\n").split(b"|")
    for names in WITHOUT_HEADER:
        for is_trailing in (False, True):
            columns = Columns(names, b"|", is_trailing, is_guessed=True)
            if (not is_trailing or not fields[-1]) and _is_first_row(_without_bars(fields, columns), columns):
                return columns
    return None


def _without_bars(fields: list[bytes], columns: Columns) -> list[bytes]:
    """The fields with those that free text in the last column was split into as one."""
    last = len(columns.names) - 1
    is_split = columns.names[last] in _FREE and len(fields) > columns.n_fields
    return [*fields[:last], b"", *fields[len(fields) - columns.is_trailing :]] if is_split else fields


def _is_first_row(fields: list[bytes], columns: Columns) -> bool:
    """Whether all but names, which may have blanks, have the form of the columns' values."""
    checked = [b"" if name in _NAMES else text for name, text in zip(columns.names, fields, strict=False)]
    return len(fields) == columns.n_fields and fits(columns, checked)


def fits(columns: Columns, fields: list[bytes]) -> bool:
    """Whether fields have the form of the columns' values."""
    pairs = zip(columns.shapes, fields, strict=False)
    return all(shape is None or shape.fullmatch(text) is not None for shape, text in pairs)


def require(columns: Columns) -> None:
    """Check that all columns needed for usage are present.

    Raises:
        Invalid: a column is missing.
    """
    names = set(columns.names)
    needed = {
        "User (or UID)": {"User", "UID"},
        "State": {"State"},
        "Start": {"Start"},
        "End (or ElapsedRaw)": {"End", "Elapsed", "ElapsedRaw"},
        "AllocCPUS (or AllocTRES)": {"AllocCPUS", "NCPUS", "AllocTRES"},
    }
    missing = [name for name, any_of in needed.items() if not any_of & names]
    if missing:
        raise Invalid(
            f"The header names no column {', '.join(missing)}. Call it like this: {COMMAND}", code="missing_columns"
        )


def no_header(text: bytes, line: int) -> Invalid:
    return Invalid(
        f"Line {line} ({excerpt(text)}) names no columns, and its fields are not in a known order. Leave out "
        f"-n, or call it like this: {COMMAND}",
        code="no_header",
    )
