"""Fields of a line of a PBS accounting log, and the resources that they allocate.

Processors are what usage needs: where no field has their number in a form that can be read, a line is refused. Other
values that can't be read count as missing (`values_ignored`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from apps.core.resource_kinds import GPU, BadKind, Kinds, kind_of_device, make_kinds
from apps.usage.parsers.base import MOST_MEM_MB, MOST_RATE, Rates
from apps.usage.parsers.field_values import NUMBER, BadRecord, amount, if_readable, note_ignored, shown
from apps.usage.parsers.lines import Notes

_SIZE = re.compile(r"(\d{1,18})([kmgtpKMGTP]?)([bwBW]?)", re.ASCII)
_WORD_BYTES = 8
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SLOTS = re.compile(r"(\d+)(?:\*(\d+)|-(\d+))?", re.ASCII)
_NAME = re.compile(r"(?:^|(?<=\s))([A-Za-z_][\w.\-]*)=", re.ASCII)
_QUOTED = re.compile(r"('[^']*'|\"[^\"]*\")(?=\s|$)")
# The servers write these as they are, blanks included; all other values end at a blank, or are quoted.
_TEXTS = frozenset(("user", "group", "account", "project", "jobname", "queue", "owner"))
_ABSENT = ("", "None")  # Cobalt writes None
# A site's names for the type of a GPU; PBS itself has accelerator_model.
_GPU_TYPES = ("gpu_type", "gpu_model", "gputype", "accelerator_model")
_ASKED_TYPES = tuple(f"Resource_List.{name}" for name in _GPU_TYPES)
_COLUMNS_OF_CHUNK = frozenset(("ncpus", "ngpus", "mem", "vmem", "mpiprocs", "ompthreads", "accelerator_memory"))
_GENERIC = re.compile(r"([A-Za-z][\w.-]*)(?::(\d{1,9}))?", re.ASCII)


def split_fields(text: str) -> dict[str, str]:
    """Fields of a line by name. A text runs to the next ` name=`; of duplicate names the first counts, since a job's
    name may contain anything.
    """
    fields: dict[str, str] = {}
    name = _NAME.search(text)
    while name:
        quoted = _QUOTED.match(text, name.end())
        following = _NAME.search(text, quoted.end() if quoted else name.end())
        if quoted:
            value = quoted[1][1:-1]
        else:
            value = text[name.end() : following.start() if following else len(text)].rstrip()
            if name[1] not in _TEXTS:
                value = "" if value[:1].isspace() else (value.split(maxsplit=1) or [""])[0]
        fields.setdefault(name[1], value)
        name = following
    return fields


def allocated(fields: Mapping[str, str], notes: Notes, *, ran: bool = True) -> Rates:
    """The allocated resources, each by the first field that has it: exec_vnode, slots of exec_host, the request.

    Raises:
        BadRecord: the job ran, and no field has a number of processors, although one has something else.
    """
    vnodes = _ignoring_bad(lambda: _vnodes(fields.get("exec_vnode", ""), notes), notes, "exec_vnode")
    hosts = _ignoring_bad(lambda: _hosts(fields.get("exec_host", "")), notes, "exec_host")
    bad = next((each for each in (vnodes, hosts) if isinstance(each, BadRecord)), None)
    held = vnodes if isinstance(vnodes, Rates) else Rates(0.0, 0.0, 0.0, 0.0)
    listed = hosts if isinstance(hosts, _Hosts) else _Hosts(0, None)
    of_hosts = held.cpus or listed.slots or 0.0
    cpus = _cpus_of_cray(fields, of_hosts, notes) or of_hosts
    if not cpus:
        cpus, bad = _requested_cpus(fields, bad, notes)
    if not cpus and bad is not None and ran:
        raise bad
    if not cpus:
        notes["processors_unknown"] += 1
    nodes = float(listed.n_hosts) if listed.slots is not None else 0.0
    return Rates(
        cpus=cpus or max(1.0, float(listed.n_hosts)),
        gpus=held.gpus or _requested_gpus(fields, notes),
        nodes=nodes
        or held.nodes
        or _first(fields, ("Resource_List.nodect",), notes)
        or listed.n_hosts
        or if_readable(lambda: _asked_nodes(fields.get("Resource_List.nodes", "")).nodes, 0.0, notes, "nodes"),
        mem_mb=held.mem_mb or _memory_mb(fields, notes),
    )


def kinds_of(fields: Mapping[str, str], rates: Rates, notes: Notes) -> Kinds:
    """What a job holds by kind: GPUs by the type that it asks for, other devices of exec_vnode, and generic resources.

    Allocated GPUs of a request for one type are of that type; of several, each counts as requested.
    """
    amounts: list[tuple[str, float]] = []
    for first, pairs in _chunks(fields.get("Resource_List.select", "")):
        count = float(first) if first.isascii() and first.isdigit() else 1.0
        of_chunk = dict([*([first.partition("=")[::2]] if "=" in first else []), *pairs])
        kind = next((of_chunk[name] for name in _GPU_TYPES if of_chunk.get(name)), "")
        n = if_readable(lambda chunk=of_chunk: amount("ngpus", chunk.get("ngpus", "0") or "0"), 0.0, notes, "ngpus")  # type: ignore[misc]
        if kind and n:
            amounts.append((_device(kind), count * n))
    asked = next((fields[name] for name in _ASKED_TYPES if fields.get(name) not in (None, *_ABSENT)), "")
    if asked and not amounts:
        amounts.append((_device(asked), rates.gpus))
    if len({name for name, _n in amounts}) == 1:
        amounts = [(amounts[0][0], rates.gpus)]
    elif math.fsum(n for _name, n in amounts) > rates.gpus:
        amounts = []
    amounts += _other_devices(fields.get("exec_vnode", ""))
    amounts += [
        (f"gres/{form[1]}", float(form[2] or 1)) for form in _GENERIC.finditer(fields.get("Resource_List.gres", ""))
    ]
    kinds, bad = make_kinds(amounts)
    for name in bad:
        note_ignored(notes, name)
    return kinds


def _device(kind: str) -> str:
    try:
        return kind_of_device(GPU, kind)
    except BadKind:
        return kind  # noted where it is refused


def _other_devices(text: str) -> Iterator[tuple[str, float]]:
    """Numbers of exec_vnode that no column of a record has, such as a site's own nvme=1."""
    for _first, pairs in _chunks(text.replace("(", "").replace(")", "")):
        for name, value in pairs:
            if name not in _COLUMNS_OF_CHUNK and NUMBER.fullmatch(value):
                yield f"gres/{name}", float(value)


def released(fields: Mapping[str, str], notes: Notes) -> Rates:
    """The resources that the server released when it suspended a run; none where it names none: then it is all."""
    nothing = Rates(0.0, 0.0, 0.0, 0.0)
    name = "resources_released"
    return if_readable(lambda: _vnodes(fields.get(name, ""), notes), nothing, notes, name)


def _ignoring_bad(read: Callable[[], object], notes: Notes, name: str) -> object:
    try:
        return read()
    except BadRecord as bad:
        note_ignored(notes, name)
        return bad


def _cpus_of_cray(fields: Mapping[str, str], of_hosts: float, notes: Notes) -> float:
    """Processors of a job on a Cray, whose fields name the host that launches it: exec_vnode and ncpus have 1 there.

    They are the width of the request times its depth (PBS Professional), or its size (Torque, ALPS); 0 elsewhere.
    """
    if of_hosts > 1:
        return 0.0
    width = _first(fields, ("Resource_List.mppwidth",), notes)
    depth = _first(fields, ("Resource_List.mppdepth",), notes) or 1.0
    return min(width * depth, MOST_RATE) or _first(fields, ("Resource_List.size",), notes)


def _requested_cpus(fields: Mapping[str, str], bad: BadRecord | None, notes: Notes) -> tuple[float, BadRecord | None]:
    """Processors by the request, and the first problem with one of its fields."""
    nodes = fields.get("Resource_List.nodes", "")
    reads: list[Callable[[], float]] = [
        lambda: _number(fields, "total_execution_slots"),
        lambda: _asked_nodes(nodes).cpus if "ppn=" in nodes else 0.0,
        lambda: max(_number(fields, "Resource_List.ncpus"), 0.0 if "ppn=" in nodes else _asked_nodes(nodes).cpus),
        lambda: _selected(fields.get("Resource_List.select", "")).cpus,
        lambda: _number(fields, "Resource_List.procs"),
        lambda: _number(fields, "resources_used.ncpus"),
    ]
    for read in reads:
        cpus = _ignoring_bad(read, notes, "ncpus")
        if isinstance(cpus, BadRecord):
            bad = bad or cpus
        elif isinstance(cpus, float) and cpus:
            return cpus, bad
    return 0.0, bad


def _requested_gpus(fields: Mapping[str, str], notes: Notes) -> float:
    asked = _first(fields, ("Resource_List.ngpus", "Resource_List.gpus"), notes)
    if asked:
        return asked
    chosen = if_readable(lambda: _selected(fields.get("Resource_List.select", "")).gpus, 0.0, notes, "ngpus")
    return chosen or if_readable(lambda: _asked_nodes(fields.get("Resource_List.nodes", "")).gpus, 0.0, notes, "gpus")


def _memory_mb(fields: Mapping[str, str], notes: Notes) -> float:
    for name in ("Resource_List.mem", "resources_used.mem"):
        text = fields.get(name, "")
        if text not in _ABSENT:
            size_mb = if_readable(lambda text=text: _size_mb("mem", text), 0.0, notes, "mem")  # type: ignore[misc]
            if size_mb:
                return size_mb
    return 0.0


def _number(fields: Mapping[str, str], name: str) -> float:
    text = fields.get(name, "")
    return 0.0 if text in _ABSENT else _bounded(name, amount(name, text))


def _first(fields: Mapping[str, str], names: tuple[str, ...], notes: Notes) -> float:
    """The first of these numbers that is above 0; one that can't be read is missing."""
    for name in names:
        value = if_readable(lambda name=name: _number(fields, name), 0.0, notes, name.rpartition(".")[2])  # type: ignore[misc]
        if value:
            return value
    return 0.0


def _bounded(name: str, value: float) -> float:
    if value > MOST_RATE:
        raise BadRecord("absurd_number", f"{name} is {value:g}; at most {MOST_RATE:.0f} is accepted.")
    return value


def _vnodes(text: str, notes: Notes) -> Rates:
    """Sum of (n1:ncpus=4:mem=8gb)+(n2:ncpus=1:ngpus=1+n3:ncpus=1)."""
    cpus = gpus = mem_mb = 0.0
    names = set()
    for name, resources in _chunks(text.replace("(", "").replace(")", "")):
        names.add(name)
        for key, value in resources:
            if key == "ncpus":
                cpus += amount("ncpus in exec_vnode", value)
            elif key == "ngpus":
                gpus += if_readable(lambda value=value: amount("ngpus in exec_vnode", value), 0.0, notes, "ngpus")  # type: ignore[misc]
            elif key == "mem":
                mem_mb += if_readable(lambda value=value: _size_mb("mem in exec_vnode", value), 0.0, notes, "mem")  # type: ignore[misc]
    return Rates(_bounded("ncpus in exec_vnode", cpus), gpus, float(len(names)), mem_mb)


def _chunks(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The parts of a+b:x=1:y=2: the first word of each, and its pairs."""
    for chunk in text.split("+") if text not in _ABSENT else ():
        first, *properties = chunk.split(":")
        pairs = (pair.partition("=") for pair in properties)
        yield first, [(name, value) for name, _, value in pairs]


class _Hosts(NamedTuple):
    """slots: None where the list has hosts alone, and so says nothing about processors."""

    n_hosts: int
    slots: float | None


def _hosts(text: str) -> _Hosts:
    """Hosts and slots of n1/0*4+n2/0-3+n3/1."""
    names, slots, is_bare = set(), 0.0, False
    for chunk in text.split("+") if text not in _ABSENT else ():
        name, slash, ranges = chunk.partition("/")
        names.add(name)
        is_bare = is_bare or not slash
        for slot_range in ranges.split(",") if slash else ():
            form = _SLOTS.fullmatch(slot_range)
            if not form:
                raise BadRecord("bad_fields", f"exec_host contains {shown(chunk)}; hosts look like n1/0*4 or n1/0-3.")
            slots += float(form[2] or 1) if form[3] is None else max(float(form[3]) - float(form[1]) + 1, 0.0)
    return _Hosts(len(names), None if is_bare or not names else _bounded("slots in exec_host", slots))


class _Asked(NamedTuple):
    nodes: float
    cpus: float
    gpus: float


def _asked_nodes(text: str) -> _Asked:
    """Torque's nodes=2:ppn=4:gpus=1+n7:ppn=2. A chunk begins with a number, or with the name of one node."""
    return _asked(text, cpus="ppn", gpus="gpus")


def _selected(text: str) -> _Asked:
    """OpenPBS's select=2:ncpus=4:ngpus=1+ncpus=2. A chunk without a number is one, without ncpus of one processor."""
    return _asked(text, cpus="ncpus", gpus="ngpus")


def _asked(text: str, *, cpus: str, gpus: str) -> _Asked:
    sums = [0.0, 0.0, 0.0]
    for first, pairs in _chunks(text):
        count = float(first) if first.isascii() and first.isdigit() else 1.0
        of_chunk = dict([*([first.partition("=")[::2]] if "=" in first else []), *pairs])
        amounts = (1.0, amount(cpus, of_chunk.get(cpus, "1")), amount(gpus, of_chunk.get(gpus, "0") or "0"))
        sums = [total + count * each for total, each in zip(sums, amounts, strict=True)]
    return _Asked(*(_bounded("the number of requested resources", total) for total in sums))


def _size_mb(name: str, text: str) -> float:
    """Megabytes of 600mb, 307200kb, 8gb, 4096 (bytes) or 10mw (words of 8 bytes)."""
    form = _SIZE.fullmatch(text)
    if not form:
        raise BadRecord("bad_fields", f"{name} is {shown(text)}; sizes look like 600mb or 8gb.")
    unit = _WORD_BYTES if form[3] in ("w", "W") else 1
    size_mb = float(form[1]) * unit * 1024.0 ** _POWERS[form[2].lower()] / 1024**2
    if size_mb > MOST_MEM_MB:
        raise BadRecord("absurd_number", f"{name} is {shown(text)}, more than any machine has.")
    return size_mb
