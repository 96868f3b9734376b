"""Fields of a line of LSF's lsb.acct: blanks between them, texts in quotes, a quote within a text written twice.

Some fields are counts, followed by as many entries. Releases added fields at the end: 5.1 ends after `rsvId`, 7.0
after `requeueEvalues`, 9.1 after `affinity`, and 10.1 after `numGPURusages` or later. What usage needs is before
those, so that a line is read whatever its release. Source: IBM's reference of lsb.acct; where lines of real clusters
differ from its order (runLimit goes before options3, warningAction before warningTimePeriod), the lines decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from apps.usage.parsers.base import MOST_RATE
from apps.usage.parsers.field_values import NUMBER, BadRecord, note_ignored, number, shown, whole
from apps.usage.parsers.lines import Notes

_TEXT = r'"([^"]*(?:""[^"]*)*)"(?=\s|\Z)'
_FIELD = re.compile(rf'{_TEXT}|([^\s"]\S*)|"[\s\S]*', re.ASCII)  # the rest, where a quote isn't closed
_LINE = re.compile(rf'\s*(?:(?:{_TEXT}|[^\s"]\S*)(?:\s+|\Z))*', re.ASCII)
_OPEN = re.compile(r'"[^"]*(?:""[^"]*)*\Z', re.ASCII)
_HOST = re.compile(r"(?:(\d{1,9})\*)?([^*]+)")
_ASKED_HOSTS = 22  # the count of hosts that a job asked for; all fields before it are single
_LEAST_BEHIND_HOSTS = 30  # jStatus to idx
# Behind the execution hosts.
PROJECT, INDEX, MAX_RMEM, EXIT_INFO, SAAP, LAST_RESIZE, _SUBMIT_EXT = 24, 29, 30, 38, 41, 50, 53
_RUN_TIME = 13  # behind the usage of hosts
_MOST_FIELDS_COUNTED = 1_000_000
_GPUS = re.compile(r"ngpus(?:_physical|_excl_p|_excl_t)?=(\d+(?:\.\d+)?)(/(?:host|task|job))?", re.ASCII)
_RUSAGE = re.compile(r"rusage\[([^\]]*)\]")


class Hosts(NamedTuple):
    """n_slots: over all hosts. n_hosts: different ones."""

    n_slots: float
    n_hosts: int


class Finish(NamedTuple):
    """What a JOB_FINISH line says behind its first fields. saap: share attribute account path.

    run_limit_s and run_s: None where the line has none. is_elsewhere: another cluster ran it.
    """

    executed: Hosts
    project: str
    task: str
    mem_kb: str
    exit_info: str
    saap: str
    last_resize: str
    run_limit_s: float | None
    resources: str
    is_elsewhere: bool
    run_s: float | None
    allocated: Hosts


def split_line(text: str) -> list[str]:
    """The fields of a line, without their quotes.

    Raises:
        BadRecord: a quote isn't closed, or something follows one without a blank.
    """
    form = _LINE.match(text)
    end = form.end() if form else 0
    if end < len(text):
        at = len(_FIELD.findall(text[:end])) + 1
        if _OPEN.match(text, end):
            message = f"Field {at} begins with a quote that isn't closed: the line is cut off. Import the whole file."
            raise BadRecord("open_quote", message)
        message = f"Field {at} is {shown(text[end : end + 40])}: a quote within a text is written twice in lsb.acct."
        raise BadRecord("bad_quotes", message)
    return [quoted.replace('""', '"') if '"' in quoted else quoted or bare for quoted, bare in _FIELD.findall(text)]


def read_hosts(fields: Sequence[str], at: int, name: str) -> tuple[Hosts, int]:
    """The hosts of a list that begins with its count, and the place behind it. `4*host` is a host with four slots.

    Raises:
        BadRecord: the line ends before, or the count is none.
    """
    end = _behind(fields, at, name, 1)
    slots, names = 0, set()
    for entry in fields[at + 1 : end]:
        form = _HOST.fullmatch(entry)
        if not form:
            raise BadRecord("bad_fields", f"{name} names {shown(entry)}; hosts look like host1 or 16*host1.")
        slots += int(form[1] or 1)
        names.add(form[2])
    if slots > MOST_RATE:
        raise BadRecord("absurd_number", f"{name} has {slots} slots; at most {MOST_RATE:.0f} are accepted.")
    return Hosts(float(slots), len(names)), end


def read_finish(fields: Sequence[str], notes: Notes) -> Finish:
    """The fields of a JOB_FINISH line behind the hosts that it asked for.

    Raises:
        BadRecord: the line ends before the array index, or a count before it is none.
    """
    asked = _behind(fields, _ASKED_HOSTS, "numAskedHosts", 1)
    executed, at = read_hosts(fields, asked, "numExHosts")
    rest = fields[at:]
    if len(rest) < _LEAST_BEHIND_HOSTS:
        message = (
            f"The line has {len(rest)} of at least {_LEAST_BEHIND_HOSTS} fields behind its hosts: it is cut off, or of "
            "a release before LSF 5. Import the whole file."
        )
        raise BadRecord("too_few_fields", message)
    finish = Finish(
        executed=executed,
        project=rest[PROJECT],
        task=rest[INDEX],
        mem_kb=_text(rest, MAX_RMEM),
        exit_info=_text(rest, EXIT_INFO),
        saap=_text(rest, SAAP),
        last_resize=_text(rest, LAST_RESIZE),
        run_limit_s=None,
        resources="",
        is_elsewhere=False,
        run_s=None,
        allocated=Hosts(0.0, 0),
    )
    try:
        return _with_extensions(finish, rest)
    except BadRecord:
        note_ignored(notes, "extensions")
        return finish


def _with_extensions(finish: Finish, rest: Sequence[str]) -> Finish:
    """Adds what 9.1 and later write behind the job's description. All of it is helpful, none is needed."""
    if len(rest) <= _SUBMIT_EXT:
        return finish
    hosts_at = _behind(rest, _SUBMIT_EXT, "the submission's extensions", 2)
    if len(rest) <= hosts_at:
        return finish
    at = _behind_host_usage(rest, hosts_at)
    if len(rest) <= at + _RUN_TIME:
        return finish
    finish = finish._replace(
        run_limit_s=_positive(rest[at]),
        resources=rest[at + 3],
        is_elsewhere=bool(rest[at + 6]) and not rest[at + 4],
        run_s=_positive(rest[at + _RUN_TIME]),
    )
    if len(rest) <= at + 15:
        return finish
    at = _behind(rest, at + 15, "num_network", 2) + 6  # affinity, energy, cpi, gips, gbs, gflops
    if len(rest) <= at:
        return finish
    allocated, _end = read_hosts(rest, at, "numAllocSlots")
    return finish._replace(allocated=allocated)


def _behind_host_usage(rest: Sequence[str], at: int) -> int:
    """The place behind the usage of each host: five fields, and where the release writes it a count of pairs.

    Of both forms that one is meant, behind which numbers are where they belong.
    """
    places = []
    for is_extended in (True, False):
        try:
            place = at + 1
            for _host in range(_count(rest, at, "numHostRusage")):
                place = _behind(rest, place + 5, "hHostExtendInfo", 2) if is_extended else place + 5
        except BadRecord:
            continue
        places.append(place)
    return next((place for place in places if _are_numbers(rest, place)), places[-1] if places else len(rest))


def _are_numbers(rest: Sequence[str], at: int) -> bool:
    """Whether runLimit, options3, avgMem, the job ids of other clusters and runTime begin here."""
    places = [at + place for place in (0, 1, 2, 5, 7, 8, _RUN_TIME)]
    return places[-1] < len(rest) and all(NUMBER.fullmatch(rest[place]) for place in places)


def gpus_of(finish: Finish, notes: Notes) -> float:
    """GPUs by the resource requirement that was in effect: on each host, for each task, or of the job."""
    requests = {form.groups() for part in _RUSAGE.findall(finish.resources) for form in _GPUS.finditer(part)}
    if not requests:
        return 0.0
    if len(requests) > 1:
        notes["gpu_requests_not_counted"] += 1
        return 0.0
    ((n, per),) = requests
    held = finish.executed
    times = {"/task": held.n_slots, "/job": 1.0}.get(per or "/host", float(held.n_hosts))
    return number("ngpus_physical", n) * times


def _behind(fields: Sequence[str], at: int, name: str, n_fields: int) -> int:
    """The place behind a count and its entries of so many fields."""
    end = at + 1 + _count(fields, at, name) * n_fields
    if end > len(fields):
        message = f"{name} is {fields[at]}, but the line ends before: it is cut off. Import the whole file."
        raise BadRecord("too_few_fields", message)
    return end


def _count(fields: Sequence[str], at: int, name: str) -> int:
    if at >= len(fields):
        raise BadRecord("too_few_fields", f"The line ends before {name}: it is cut off. Import the whole file.")
    count = whole(name, fields[at])
    if not 0 <= count <= _MOST_FIELDS_COUNTED:
        raise BadRecord("absurd_number", f"{name} is {count}; from 0 to {_MOST_FIELDS_COUNTED} is accepted.")
    return count


def _text(rest: Sequence[str], at: int) -> str:
    return rest[at] if at < len(rest) else ""


def _positive(text: str) -> float | None:
    """A number of seconds; 0 and −1 say that there is none."""
    value = number("a time of the extensions", text)
    return value if value > 0 else None
