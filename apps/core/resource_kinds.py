"""Kinds of resources, such as `gpu:h100`, `gres/shard`, `license/matlab` or `energy`: names, and amounts of a record
by kind.

A kind of GPU counts beside the sum of all GPUs, which it is a part of. Other kinds are resources of their own. While a
job runs it holds its amount of a kind, per second. `energy` is different: it is what the job used in total, in joules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

LONGEST_RESOURCE_KIND = 64
MOST_KINDS_OF_RECORD = 16
MOST_OF_KIND = 2.0**31  # held at a time; of a total, per second
MOST_TOTAL = 2.0**43  # joules, 2.4 GWh: up to here an hour's share is exact to the quantum of 2⁻¹⁰
ENERGY = "energy"
TOTALS = frozenset((ENERGY,))
GPU = "gpu:"
_SUMS = {GPU: "gpu_s"}  # of the kinds that begin so, the resource that has their sum
_GRES = "gres/"
_NAME = re.compile(r"[a-z][a-z0-9_.-]*[:/](?:[a-z0-9_.+-]+[:/])*[a-z0-9_.+-]+(?:@[a-z0-9_.-]+)?")  # @: a licence server
_UNUSUAL = re.compile(r"[\s,;=\"'()\[\]]+")

Kinds: TypeAlias = tuple[tuple[str, float], ...]  # each kind once, in the order of names, without amounts of 0
NO_KINDS: Kinds = ()


class BadKind(ValueError):
    """A name or an amount of a kind that can't be stored; the message says why."""


def kind_name(text: str) -> str:
    """The name of a kind, in small letters: `gpu:` and a type, else what Slurm calls it, such as `gres/fpga:u280`.

    Raises:
        BadKind: it is too long, or has a letter that no name has.
    """
    name = text.strip().lower()
    name = name.removeprefix(_GRES) if name.startswith(_GRES + GPU) else name
    if len(name) > LONGEST_RESOURCE_KIND:
        raise BadKind(f"{name[:20]}… has more than {LONGEST_RESOURCE_KIND} characters")
    if name == _GRES + "gpu" or (name != ENERGY and not _NAME.fullmatch(name)):
        raise BadKind(f"{text[:40]!r} is no name of a kind, such as gpu:h100 or license/matlab")
    return name


def kind_of_device(family: str, text: str) -> str:
    """The kind of a device by its maker's name: `gpu:` and "NVIDIA A100-SXM4-80GB" make `gpu:nvidia_a100-sxm4-80gb`.

    Raises:
        BadKind: as `kind_name`.
    """
    return kind_name(family + _UNUSUAL.sub("_", text.strip()).strip("_"))


def sum_of(kind: str) -> str:
    """The resource that a kind is a part of, such as gpu_s; "" for a resource of its own."""
    return next((resource for prefix, resource in _SUMS.items() if kind.startswith(prefix)), "")


def make_kinds(amounts: Iterable[tuple[str, float]]) -> tuple[Kinds, tuple[str, ...]]:
    """The kinds of a record from names and amounts, of which equal ones are added; and those that can't be stored."""
    total: dict[str, float] = {}
    bad: list[str] = []
    for text, amount in amounts:
        try:
            name = kind_name(text)
            total[name] = checked_amount(name, total.get(name, 0.0) + amount)
        except BadKind:
            bad.append(text[:LONGEST_RESOURCE_KIND])
    names = sorted(name for name, amount in total.items() if amount > 0)
    bad += names[MOST_KINDS_OF_RECORD:]
    return tuple((name, total[name]) for name in names[:MOST_KINDS_OF_RECORD]), tuple(bad)


def checked_amount(name: str, amount: float) -> float:
    """An amount that can be stored.

    Raises:
        BadKind: it is below 0, too large or no number.
    """
    most = MOST_TOTAL if name in TOTALS else MOST_OF_KIND
    if not 0 <= amount <= most:  # NaN too
        raise BadKind(f"{name} is {amount:g}, not from 0 to {most:g}")
    return float(amount)


def gpus_of(kinds: Kinds) -> float:
    """The sum of the GPUs by kind."""
    return math.fsum(amount for name, amount in kinds if name.startswith(GPU))


def read_kinds(value: Any) -> Kinds:
    """The kinds of a record from an object of names and amounts, as of REST.

    Raises:
        BadKind: the object, a name or an amount is none that can be stored.
    """
    if not isinstance(value, Mapping):
        raise BadKind('it is an object such as {"gpu:h100": 2}')
    if len(value) > MOST_KINDS_OF_RECORD:
        raise BadKind(f"it has more than {MOST_KINDS_OF_RECORD} kinds")
    total: dict[str, float] = {}
    for text, amount in value.items():
        name = kind_name(text)
        if name in total:
            raise BadKind(f"{name} is given twice")
        if type(amount) not in (int, float):
            raise BadKind(f"{name} is no number")
        total[name] = checked_amount(name, amount)
    return tuple(sorted((name, amount) for name, amount in total.items() if amount))


def kinds_json(kinds: Kinds) -> bytes:
    """As stored: an object; nothing for none."""
    return orjson.dumps(dict(kinds)) if kinds else b""


def kinds_from_json(text: str) -> Kinds:
    """Of stored text; "" is none."""
    return kinds_of_object(orjson.loads(text) if text else None)


def kinds_of_object(stored: Mapping[str, float] | None) -> Kinds:
    """Of a stored object; None is none."""
    return tuple(sorted((name, float(amount)) for name, amount in (stored or {}).items()))


def rates_of(kinds: Kinds, duration_s: float) -> Iterable[tuple[str, float]]:
    """Each kind with its rate per second over a run; a total is spread evenly, and lost where the run took no time."""
    for name, amount in kinds:
        if name not in TOTALS:
            yield name, amount
        elif duration_s > 0:
            yield name, amount / duration_s


class KindColumn:
    """Collects the distinct kinds of rows. distinct: the first is none."""

    def __init__(self) -> None:
        self.distinct: list[Kinds] = [NO_KINDS]
        self._places: dict[Kinds, int] = {NO_KINDS: 0}

    def place_of(self, kinds: Kinds) -> int:
        place = self._places.setdefault(kinds, len(self.distinct))
        if place == len(self.distinct):
            self.distinct.append(kinds)
        return place


def distinct_kinds(values: Sequence[Kinds]) -> tuple[list[Kinds], list[int]]:
    """The distinct values, of which the first is no kind, and the place of each."""
    column = KindColumn()
    index = [column.place_of(value) for value in values]
    return column.distinct, index
