"""What a Flux job holds, by its resource set R: nodes, cores and GPUs, counted without listing them.

R of version 1 (RFC 20): execution.R_lite lists ranks with the cores and GPUs that each of them has, as idsets (RFC 22)
such as 0-3,7. A node is a rank. Entries may have ranks in common; what these have together counts once. A property such
as h100@gpu names the kind of the GPUs of its ranks.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import orjson

from apps.core.resource_kinds import GPU, BadKind, Kinds, kind_of_device, make_kinds
from apps.usage.parsers.base import MOST_RATE
from apps.usage.parsers.field_values import BadRecord, note_ignored, shown
from apps.usage.parsers.lines import Notes

_IDSET = re.compile(r"\[?(\d{1,10}(?:-\d{1,10})?(?:,\d{1,10}(?:-\d{1,10})?)*)\]?", re.ASCII)
_OF_GPUS = "@gpu"
_MOST_RANGES = 100_000
_MOST_VISITED = 10 * _MOST_RANGES  # entries and their ranges, where entries have ranks in common

Ranges = list[tuple[int, int]]  # first and last id, in order, none in common


class Held(NamedTuple):
    nodes: float
    cores: float
    gpus: float
    kinds: Kinds


class _Entry(NamedTuple):
    """Ranks that have the same ids of cores and GPUs."""

    ranks: Ranges
    cores: Ranges
    gpus: Ranges


def held_of(value: Any, notes: Notes) -> Held:
    """What R allots.

    Raises:
        BadRecord: R is of another version, or can't be read.
    """
    resources = _loaded(value)
    if resources.get("version") != 1:
        version = shown(str(resources.get("version")))
        raise BadRecord("unknown_version", f"R is of version {version}: version 1 is read.")
    execution = resources.get("execution")
    listed = execution.get("R_lite") if isinstance(execution, dict) else None
    if not isinstance(execution, dict) or not isinstance(listed, list):
        raise BadRecord("bad_fields", "R has no list execution.R_lite: the job's resources aren't known.")
    entries = _without_overlap([_entry(each) for each in listed])
    held = Held(
        nodes=float(sum(count(entry.ranks) for entry in entries)),
        cores=float(sum(count(entry.ranks) * count(entry.cores) for entry in entries)),
        gpus=float(sum(count(entry.ranks) * count(entry.gpus) for entry in entries)),
        kinds=_kinds(execution.get("properties"), entries, notes),
    )
    if max(held.nodes, held.cores, held.gpus) > MOST_RATE:
        raise BadRecord("absurd_number", f"R has {held.cores:.0f} cores; at most {MOST_RATE:.0f} are accepted.")
    return held


def ranges_of(name: str, text: Any) -> Ranges:
    """An idset such as 0-3,7 or [0-3,7]; empty for none.

    Raises:
        BadRecord: it is none, or its ids are out of order.
    """
    if text in ("", "[]", None):
        return []
    form = _IDSET.fullmatch(text) if isinstance(text, str) else None
    if form is None:
        raise BadRecord("bad_fields", f"{name} of R is {shown(str(text))}; sets of ids look like 0-3,7.")
    ranges, last = [], -1
    for part in form[1].split(","):
        first_text, _, last_text = part.partition("-")
        first, last_of_part = int(first_text), int(last_text or first_text)
        if first <= last or last_of_part < first:
            raise BadRecord("bad_fields", f"{name} of R is {shown(text)}, whose ids are out of order.")
        ranges.append((first, last_of_part))
        last = last_of_part
    return ranges


def count(ranges: Ranges) -> int:
    return sum(last - first + 1 for first, last in ranges)


def _loaded(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = orjson.loads(value.encode("utf-8", "replace"))
        except orjson.JSONDecodeError as error:
            raise BadRecord("bad_json", f"R is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise BadRecord("not_an_object", "R is a JSON object.")
    return value


def _entry(value: Any) -> _Entry:
    children = value.get("children") if isinstance(value, dict) else None
    if not isinstance(children, dict):
        raise BadRecord("bad_fields", "An entry of R_lite has no children: the job's resources aren't known.")
    ranks = ranges_of("rank", value.get("rank"))
    return _Entry(ranks, ranges_of("core", children.get("core")), ranges_of("gpu", children.get("gpu")))


def _without_overlap(entries: Sequence[_Entry]) -> list[_Entry]:
    """Entries that have no rank in common and together allot what these do."""
    if sum(len(entry.ranks) for entry in entries) > _MOST_RANGES:
        raise BadRecord("absurd_number", f"R has more than {_MOST_RANGES} ranges of ranks.")
    ranges = sorted((first, last) for entry in entries for first, last in entry.ranks)
    if all(one[1] < other[0] for one, other in pairwise(ranges)):
        return list(entries)
    begun: dict[int, list[int]] = {}  # places of the entries that begin or end at a rank
    for place, entry in enumerate(entries):
        for edge in (edge for first, last in entry.ranks for edge in (first, last + 1)):
            begun.setdefault(edge, []).append(place)
    split: dict[frozenset[int], _Entry] = {}
    here: set[int] = set()
    n_visited = 0
    for begin, end in pairwise(sorted(begun)):
        for place in begun[begin]:
            here ^= {place}
        together = frozenset(here)
        n_visited += len(together)
        if together and together not in split:
            chosen = [entries[place] for place in together]
            n_visited += sum(len(entry.cores) + len(entry.gpus) for entry in chosen)
            if n_visited <= _MOST_VISITED:
                cores = _union(each for entry in chosen for each in entry.cores)
                split[together] = _Entry([], cores, _union(each for entry in chosen for each in entry.gpus))
        if n_visited > _MOST_VISITED:
            raise BadRecord("absurd_number", "R names the same ranks in too many entries.")
        if together:
            split[together].ranks.append((begin, end - 1))
    return list(split.values())


def _union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: Ranges = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _kinds(properties: Any, entries: Sequence[_Entry], notes: Notes) -> Kinds:
    """GPUs by the property of their ranks; where several name the same GPUs, none is sure."""
    if not isinstance(properties, dict):
        return ()
    gpus = _Gpus(entries)
    amounts, named = [], 0
    for name, ranks in properties.items():
        if not name.endswith(_OF_GPUS):
            continue
        try:
            of_property = ranges_of("a property", ranks)
            kind = kind_of_device(GPU, name.removesuffix(_OF_GPUS))
        except (BadRecord, BadKind):
            note_ignored(notes, "properties")
            continue
        n = sum(gpus.below(last + 1) - gpus.below(first) for first, last in of_property)
        amounts.append((kind, float(n)))
        named += n
    if named > gpus.n:
        note_ignored(notes, "properties")
        return ()
    kinds, bad = make_kinds(amounts)
    for name in bad:
        note_ignored(notes, name)
    return kinds


class _Gpus:
    """How many GPUs are on the ranks below one. n: on all."""

    def __init__(self, entries: Sequence[_Entry]) -> None:
        """entries: without a rank in common."""
        sizes = [count(entry.gpus) for entry in entries]
        spans = [(*ranks, size) for entry, size in zip(entries, sizes, strict=True) for ranks in entry.ranks]
        self._spans = sorted(spans)  # first and last rank, GPUs on each
        self._firsts = [first for first, _last, _size in self._spans]
        self._before = list(accumulate(((last - first + 1) * size for first, last, size in self._spans), initial=0))
        self.n = self._before[-1]

    def below(self, rank: int) -> int:
        at = bisect_left(self._firsts, rank) - 1
        if at < 0:
            return 0
        first, last, size = self._spans[at]
        return self._before[at] + (min(rank, last + 1) - first) * size
