"""A scheduler's own commands: accounting asked for window by window, or a listing of what runs and waits now.

Programs are run with arguments as a list, never through a shell, in bounded time and output.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast
from zoneinfo import ZoneInfo

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from apps.core.addresses import allowed_targets
from apps.core.errors import Invalid, TooLarge, Unavailable
from apps.usage.models import Source
from apps.usage.parsers.base import Reading, excerpt
from apps.usage.parsers.registry import AUTO, format_of
from apps.usage.sources.pieces import Clock, Cursor, Piece, Progress, listed, whole_listing

# --- Programs ---------------------------------------------------------------------------------------------------------
MOST_ARGUMENTS = 64
MOST_CHARACTERS = 1024
_READ = 256 * 1024
_MOST_ERROR = 4096
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish", "busybox", "env", "sudo", "su", "doas", "xargs"}
_PASSED_ON = ("SLURM_CONF", "SGE_ROOT", "SGE_CELL", "SGE_CLUSTER_NAME", "PBS_HOME", "PBS_EXEC", "KRB5CCNAME")


def allowed_program(name: str) -> str:
    """The whole path of a program that the operator named, by its path or its last part.

    Raises:
        Invalid: the operator didn't name it, it is a shell, or it isn't there.
    """
    for path in settings.FAIRSHARE_COLLECT_COMMANDS:
        if name not in (path, Path(path).name):
            continue
        if not os.path.isabs(path) or Path(path).name in SHELLS:
            message = (
                f"FAIRSHARE_COLLECT_COMMANDS names {path}: whole paths of programs that are no shells belong there."
            )
            raise Invalid(message, code="command_not_allowed")
        if not (os.path.isfile(path) and os.access(path, os.X_OK)):
            raise Invalid(f"There is no program {path} on the machine of the worker.", code="no_command")
        return path
    there = ", ".join(settings.FAIRSHARE_COLLECT_COMMANDS) or "none so far"
    message = f"{excerpt(name)!r} isn't among the programs of FAIRSHARE_COLLECT_COMMANDS ({there})."
    raise Invalid(message, code="command_not_allowed")


def output_of(arguments: Sequence[str], *, time_zone: str, timeout_s: float, most_bytes: int) -> BinaryIO:
    """The program's output, in a file without a name; none of it if the program fails.

    Raises:
        Unavailable: it fails, or takes too long.
        TooLarge: it writes more than that.
    """
    program = allowed_program(arguments[0])
    name = Path(program).name
    kept = cast(BinaryIO, tempfile.TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR))  # noqa: SIM115 - the caller's
    try:
        with subprocess.Popen(
            [program, *arguments[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(program, time_zone, os.environ, wants_json="--json" in arguments),
            cwd="/",
            start_new_session=True,
        ) as process:
            try:
                error = _read(process, kept, name, time.monotonic() + timeout_s, most_bytes)
            finally:
                with suppress(ProcessLookupError, PermissionError):  # whatever it started ends with it
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            reason = excerpt(error.strip().splitlines()[-1]) if error.strip() else "it doesn't say why"
            raise Unavailable(f"{name} ended with status {process.returncode}: {reason}", code="command_failed")
        kept.seek(0)
    except OSError as failure:
        kept.close()
        raise Unavailable(f"{name} can't be started: {failure.strerror}.", code="command_failed") from failure
    except BaseException:
        kept.close()
        raise
    return kept


def environment(program: str, time_zone: str, ours: Mapping[str, str], *, wants_json: bool = False) -> dict[str, str]:
    """An empty environment but for the variables that locate the scheduler.

    Times are seconds since 1970. In JSON they always are; there sacct 22.05 can't read its own -S in that format.
    """
    return {
        "PATH": f"{Path(program).parent}:/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "HOME": "/",
        "TZ": time_zone,
        **({} if wants_json else {"SLURM_TIME_FORMAT": "%s"}),
        **{name: ours[name] for name in _PASSED_ON if name in ours},
    }


def _read(process: subprocess.Popen[bytes], kept: BinaryIO, name: str, end_s: float, most_bytes: int) -> bytes:
    """Read until both ends are closed and the program has ended; returns the end of its error output."""
    n_bytes, error = 0, b""
    assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - both are pipes
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        waiting.register(process.stderr, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(max(0.0, end_s - time.monotonic()))
            if not ready:
                raise _too_slow(name)
            for key, _events in ready:
                data = os.read(key.fd, _READ)
                if not data:
                    waiting.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    error = (error + data)[-_MOST_ERROR:]
                else:
                    n_bytes += len(data)
                    if n_bytes > most_bytes:
                        raise TooLarge(f"{name} writes over {most_bytes // 1024**2} MB: ask for a shorter time.")
                    kept.write(data)
    try:
        process.wait(max(0.0, end_s - time.monotonic()))
    except subprocess.TimeoutExpired as late:
        raise _too_slow(name) from late
    return error


def _too_slow(name: str) -> Unavailable:
    return Unavailable(f"{name} didn't end in its time, and was stopped.", code="command_too_slow")


# --- Collection by command --------------------------------------------------------------------------------------------
WIDEST = timedelta(days=1)  # of one question: bounds its answer when much has to be caught up with


class Window(NamedTuple):
    from_at: datetime
    to_at: datetime


def windows(cursor: Mapping[str, Any], terms: Mapping[str, Any], at: datetime) -> Iterator[Window]:
    """From the cursor to now, a day at most each; the first time as far back as the source says."""
    to_s = cursor.get("to_s")
    if to_s is None:
        begin = at - timedelta(seconds=terms["look_back_s"])
    else:
        begin = min(datetime.fromtimestamp(to_s, UTC), at) - timedelta(seconds=terms["overlap_s"])
    begin = begin.replace(microsecond=0)
    while begin < at:
        end = min(begin + max(WIDEST, timedelta(seconds=2 * terms["overlap_s"])), at)
        yield Window(begin, end)
        if end >= at:
            return
        begin = end


FROM, TO = "{from}", "{to}"  # the window, in the zone of the source: 2026-01-31T12:00:00
FROM_S, TO_S = "{from_s}", "{to_s}"  # those in seconds since 1970
PLACES = (FROM, TO, FROM_S, TO_S)
_HEAD = 64 * 1024


def asks_for_windows(arguments: Sequence[str]) -> bool:
    return any(place in argument for argument in arguments for place in PLACES)


def pieces_of(source: Source, at: datetime, clock: Clock) -> Iterator[Piece]:
    """Its times are in the zone of the source, else in UTC: the program is started in it.

    The cursor moves past a window with its last piece, so that an incomplete answer is requested again.
    """
    terms, zone = source.collecting, ZoneInfo(source.time_zone or "UTC")
    progress, reading = Progress(dict(source.cursor)), Reading(at, zone)
    if not asks_for_windows(terms["command"]):
        yield from _answer(terms, terms["command"], terms["format"], reading, progress)
    else:
        for window in windows(progress.cursor, terms, at):
            yield from _answer(terms, filled(terms["command"], window, zone), terms["format"], reading, progress)
            yield progress.mark(to_s=int(window.to_at.timestamp()))
    yield from listing_of(source, clock, progress.cursor)


def filled(arguments: Sequence[str], window: Window, zone: ZoneInfo) -> list[str]:
    """The arguments with the instants of the window in their places."""
    values = {}
    for (place, place_s), instant in zip(((FROM, FROM_S), (TO, TO_S)), window, strict=True):
        values[place] = f"{instant.astimezone(zone):%Y-%m-%dT%H:%M:%S}"
        values[place_s] = str(int(instant.timestamp()))
    found = []
    for argument in arguments:
        for place, value in values.items():
            argument = argument.replace(place, value)
        found.append(argument)
    return found


def listing_of(source: Source, clock: Clock, cursor: Cursor) -> Iterator[Piece]:
    """The command that lists open jobs, where a source has one beside its accounting.

    It is asked last and has the last word, so its instant is later than that of the accounting: a job that
    accounting believes to be running for ever is closed.
    """
    terms, zone = source.collecting, ZoneInfo(source.time_zone or "UTC")
    if terms.get("listing"):
        yield from _answer(terms, terms["listing"], AUTO, Reading(clock(), zone), Progress(cursor))


def _answer(
    terms: Cursor, arguments: Sequence[str], format: str, reading: Reading, progress: Progress
) -> Iterator[Piece]:
    """One question. A listing that says nothing at all is no empty one: its frame is missing."""
    place = arguments[0].rpartition("/")[2]
    zone = reading.zone.key if reading.zone else "UTC"
    most_bytes, timeout_s = int(settings.FAIRSHARE_UPLOAD_BYTES), float(terms["timeout_s"])
    with output_of(arguments, time_zone=zone, timeout_s=timeout_s, most_bytes=most_bytes) as stream:
        head = stream.read(_HEAD)
        stream.seek(0)
        if not head:
            if asks_for_windows(terms.get("command", [])) and arguments is not terms.get("listing"):
                return
            raise Invalid(f"{place} wrote nothing: a listing without jobs still has its frame.", code="empty_answer")
        collector = format_of(format, head)
        if collector.is_listing:
            parsed = whole_listing(collector, stream, reading)
            yield listed(collector, parsed, reading.at, progress.cursor, place)
        else:
            for parsed in collector.parse(stream, reading):
                yield progress.after(parsed, place, collector)


# --- System checks ----------------------------------------------------------------------------------------------------
_TARGET = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")


@register()
def check_collecting(app_configs: Sequence[AppConfig] | None, **_more: Any) -> list[CheckMessage]:
    return [*_targets(), *_programs(), *_folders()]


def _targets() -> Iterator[CheckMessage]:
    for entry in sorted(allowed_targets()):
        if not _TARGET.fullmatch(entry):
            message = f"FAIRSHARE_OUTBOUND_ALLOW holds {entry!r}, which is no single target."
            yield Error(
                message, hint="Write host:port or [IPv6]:port; networks and * are not allowed.", id="usage.E001"
            )
    file = settings.FAIRSHARE_OUTBOUND_CA_FILE
    if file and not os.access(file, os.R_OK):
        yield Error(f"FAIRSHARE_OUTBOUND_CA_FILE={file} can't be read.", id="usage.E002")


def _programs() -> Iterator[CheckMessage]:
    for path in settings.FAIRSHARE_COLLECT_COMMANDS:
        if not os.path.isabs(path) or Path(path).name in SHELLS:
            hint = "Write the whole path of a program that is no shell, such as /usr/bin/sacct."
            yield Error(f"FAIRSHARE_COLLECT_COMMANDS holds {path!r}.", hint=hint, id="usage.E003")


def _folders() -> Iterator[CheckMessage]:
    for path in settings.FAIRSHARE_COLLECT_FOLDERS:
        if not os.path.isabs(path) or Path(path).resolve() == Path("/"):
            hint = "Write the whole path of a folder that holds accounting and nothing secret."
            yield Error(f"FAIRSHARE_COLLECT_FOLDERS holds {path!r}.", hint=hint, id="usage.E004")
