"""Resources of a PBS job, from the most exact field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from apps.usage.parsers.field_checks import BadRecord, amount, shown
from apps.usage.parsers.row_lines import Notes

_SIZE = re.compile(r"(\d{1,18})([kmgtpKMGTP]?)([bwBW]?)", re.ASCII)
_WORD_BYTES = 8
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SLOTS = re.compile(r"(\d+)(?:\*(\d+)|-(\d+))?", re.ASCII)


class Allocation(NamedTuple):
    cpus: float
    gpus: float
    nodes: float
    mem_mb: float


def allocation(fields: Mapping[str, str], notes: Notes) -> Allocation:
    """exec_vnode is what was given; else exec_host counts slots, or what was asked for must do."""
    vnodes = _vnodes(fields.get("exec_vnode", ""))
    hosts, slots = _hosts(fields.get("exec_host", ""))
    nodes, ppn, gpn = _asked_nodes(fields.get("Resource_List.nodes", ""))
    cpus = (
        vnodes.cpus
        or slots
        or _of(fields, "total_execution_slots")
        or nodes * ppn
        or _of(fields, "Resource_List.ncpus", "resources_used.ncpus", "Resource_List.procs")
    )
    if not cpus:
        notes["processors_unknown"] += 1
    mem_mb = vnodes.mem_mb
    if not mem_mb:
        asked = next((fields[name] for name in ("Resource_List.mem", "resources_used.mem") if name in fields), "")
        mem_mb = _size_mb("mem", asked) if asked else 0.0
    return Allocation(
        cpus=cpus or 1.0,
        gpus=vnodes.gpus or _of(fields, "Resource_List.ngpus", "Resource_List.gpus") or nodes * gpn,
        nodes=float(hosts) or vnodes.nodes or _of(fields, "Resource_List.nodect") or nodes,
        mem_mb=mem_mb,
    )


def _of(fields: Mapping[str, str], *names: str) -> float:
    for name in names:
        if fields.get(name):
            return amount(name, fields[name])
    return 0.0


def _vnodes(text: str) -> Allocation:
    """(n1:ncpus=4:mem=8gb)+(n2:ncpus=1:ngpus=1+n3:ncpus=1), summed."""
    cpus = gpus = mem_mb = 0.0
    names = set()
    for chunk in text.replace("(", "").replace(")", "").split("+") if text else ():
        name, *resources = chunk.split(":")
        names.add(name)
        for resource in resources:
            key, _, value = resource.partition("=")
            if key == "ncpus":
                cpus += amount("ncpus in exec_vnode", value)
            elif key == "ngpus":
                gpus += amount("ngpus in exec_vnode", value)
            elif key == "mem":
                mem_mb += _size_mb("mem in exec_vnode", value)
    return Allocation(cpus, gpus, float(len(names)), mem_mb)


def _hosts(text: str) -> tuple[int, float]:
    """n1/0*4+n2/0-3+n3/1: how many hosts, how many slots."""
    names, slots = set(), 0.0
    for chunk in text.split("+") if text else ():
        name, _, places = chunk.partition("/")
        names.add(name)
        for place in places.split(",") if places else ("0",):
            form = _SLOTS.fullmatch(place)
            if not form:
                raise BadRecord("bad_fields", f"exec_host holds {shown(chunk)}; hosts look like n1/0*4 or n1/0-3.")
            slots += float(form[2] or 1) if form[3] is None else max(float(form[3]) - float(form[1]) + 1, 0.0)
    return len(names), slots


def _asked_nodes(text: str) -> tuple[float, float, float]:
    """Torque's nodes=2:ppn=4:gpus=1+1:ppn=2 as (nodes, processors a node, devices a node) on average."""
    nodes = cpus = gpus = 0.0
    for chunk in text.split("+") if text else ():
        first, *properties = chunk.split(":")
        count = amount("Resource_List.nodes", first) if first[:1].isdigit() else 1.0
        given = dict(one.partition("=")[::2] for one in properties)
        nodes += count
        cpus += count * (amount("ppn", given["ppn"]) if "ppn" in given else 1.0)
        gpus += count * (amount("gpus", given["gpus"]) if given.get("gpus") else 0.0)
    return (nodes, cpus / nodes, gpus / nodes) if nodes else (0.0, 0.0, 0.0)


def _size_mb(name: str, text: str) -> float:
    """600mb, 307200kb, 8gb, 4096 (bytes), 10mw (words of 8 bytes)."""
    form = _SIZE.fullmatch(text)
    if not form:
        raise BadRecord("bad_fields", f"{name} is {shown(text)}; sizes look like 600mb or 8gb.")
    unit = _WORD_BYTES if form[3] in ("w", "W") else 1
    return float(form[1]) * unit * 1024.0 ** _POWERS[form[2].lower()] / 1024**2
