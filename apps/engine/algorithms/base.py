"""What every tree algorithm is made of: declared parameters, prepared trees, shares compared, one result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from apps.engine import codecs, sweep, vectors
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.errors import BadParameter, BadUsage
from apps.engine.operators import Properties
from apps.engine.tree import FairshareTree

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Parameter:
    """One parameter of an algorithm: what it is, what it may be, what it is when left out."""

    name: str
    label: str
    default: Any
    allowed: str  # a phrase for messages and pages
    read: Callable[[object], Any] = field(repr=False)  # the value in its type, or ValueError
    applies: Callable[[Settings], bool] = field(repr=False, default=lambda settings: True)
    condition: str = ""  # when it applies, for messages and pages
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


def integer(name: str, label: str, default: int, minimum: int, maximum: int, **more: Any) -> Parameter:
    """An integer within a range; 1000.0 is one."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        if isinstance(value, float) and not value.is_integer():
            raise ValueError
        if not minimum <= value <= maximum:
            raise ValueError
        return int(value)

    allowed = f"an integer from {minimum} to {maximum}"
    return Parameter(name, label, default, allowed, read, minimum=minimum, maximum=maximum, **more)


def number(name: str, label: str, default: float, minimum: float, maximum: float, **more: Any) -> Parameter:
    """A finite number within a range."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        if not minimum <= value <= maximum:
            raise ValueError
        return float(value)

    allowed = f"a number from {minimum:g} to {maximum:g}"
    return Parameter(name, label, default, allowed, read, minimum=minimum, maximum=maximum, **more)


def choice(name: str, label: str, default: str, choices: tuple[str, ...], **more: Any) -> Parameter:
    """One of a few words."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError
        return value

    return Parameter(name, label, default, " or ".join(map(repr, choices)), read, choices=choices, **more)


def read_settings(algorithm: Algorithm, given: Settings) -> dict[str, Any]:
    """The algorithm's settings with all defaults filled in; BadParameter for what it doesn't take."""
    settings: dict[str, Any] = {"name": algorithm.name}
    refused = set(given) - {"name"} - {parameter.name for parameter in algorithm.parameters}
    if refused:
        known = ", ".join(parameter.name for parameter in algorithm.parameters)
        raise BadParameter(
            f"unknown parameter of {algorithm.name}; allowed are {known}", place=f"algorithm.{min(refused, key=str)}"
        )
    for parameter in algorithm.parameters:
        if not parameter.applies(settings):
            if parameter.name in given:
                raise BadParameter(f"applies {parameter.condition} only", place=f"algorithm.{parameter.name}")
            continue
        value = given.get(parameter.name, parameter.default)
        try:
            settings[parameter.name] = parameter.read(value)
        except BadParameter as problem:
            raise BadParameter(problem.message, place=f"algorithm.{parameter.name}") from None
        except (ValueError, OverflowError):
            raise BadParameter(
                f"{_shown(value)} isn't allowed; {parameter.allowed} is", place=f"algorithm.{parameter.name}"
            ) from None
    return settings


def _shown(value: object) -> str:
    """The value as somebody typed it, cut where it is absurdly long."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value) if not isinstance(value, dict | list) else f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]}…"


class Algorithm(Protocol):
    """One way from target and actual to an order, in one file; everything said about it is said here."""

    name: str
    label: str
    formula: str
    reference: str
    parameters: tuple[Parameter, ...]

    def properties(self, settings: Settings) -> Properties:
        """What holds with these settings."""

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Priorities, ranks and factors of one tree; settings come filled in by `read_settings`."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a tree alone decides, computed once for a revision. All arrays follow the competing tree.

    target, target_global: (m,). ends: (m,) ranked leaves that sit there. depth: levels of the ranked leaves' vectors.
    """

    tree: FairshareTree
    contest: FairshareTree
    entry: IntArray
    seat: IntArray
    is_whole: bool
    target: FloatArray
    target_global: FloatArray
    ends: IntArray
    n_ranked: int
    depth: int

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values of competing entries, handed to every entry by its seat."""
        return values if self.is_whole else values[self.seat]


_prepared: WeakKeyDictionary[FairshareTree, Prepared] = WeakKeyDictionary()


def prepare(tree: FairshareTree) -> Prepared:
    """Targets, seats and depth of a tree; remembered for as long as the tree lives."""
    if tree not in _prepared:
        contest, entry, seat, is_whole = tree.competition
        target = sweep.normalise_siblings(contest, contest.shares)
        ends = np.bincount(seat[tree.is_ranked], minlength=contest.n_entries)
        deepest = int(np.flatnonzero(ends).max(initial=0))
        _prepared[tree] = Prepared(
            tree=tree,
            contest=contest,
            entry=entry,
            seat=seat,
            is_whole=is_whole,
            target=target,
            target_global=sweep.product_down(contest, target),
            ends=ends,
            n_ranked=int(ends.sum()),
            depth=int(np.searchsorted(contest.level_offsets, deepest, side="right")) - 1,
        )
    return _prepared[tree]


@dataclass(frozen=True, eq=False)
class Compared:
    """Usage summed and normalised. usage: (n,) totals of all entries; actual: (m,) of the competing ones."""

    usage: FloatArray
    actual: FloatArray


def compare_usage(prepared: Prepared, usage: npt.ArrayLike, scope_of_entry: npt.ArrayLike | None) -> Compared:
    """Sum usage upward per scope and normalise it among siblings, each group with the scope of its parent.

    usage: the entries' own, (n,), or (scopes, n) with scope_of_entry (n,): the scope by which an entry's *children* are
    compared. The usage given back is an entry's total in the scope it is compared by.
    """
    tree = prepared.tree
    own = np.asarray(usage, dtype=np.float64)
    _check_usage(tree, own)
    own, scale = sweep.shrink_huge(own)
    if own.ndim == 1:
        total, child_sum = sweep.sum_up(tree, own)
    else:
        scope = _read_scope(tree, scope_of_entry, len(own))
        totals = np.stack([sweep.sum_up(tree, row)[0] for row in own])
        above = np.maximum(prepared.contest.parent, 0)
        scope_of_group = scope[prepared.entry[above]]  # of each competing entry: how its group is compared
        total = totals[scope_of_group[prepared.seat], np.arange(tree.n_entries)]
        child_sum = None
    contest_total = total if prepared.is_whole else total[prepared.entry]
    if child_sum is None or not prepared.is_whole:
        child_sum = sweep.sibling_sum(prepared.contest, contest_total)
    actual = sweep.divide_by_group(prepared.contest, contest_total, child_sum)
    actual[0] = 1.0 if contest_total[0] > 0 else 0.0
    if scale != 1.0:
        total = np.minimum(total, np.finfo(np.float64).max / scale) * scale
    return Compared(usage=total, actual=actual)


def _check_usage(tree: FairshareTree, own: FloatArray) -> None:
    if own.ndim not in (1, 2) or own.shape[-1] != tree.n_entries or len(own) == 0:
        raise BadUsage(f"usage of shape {own.shape} doesn't fit a tree of {tree.n_entries} entries")
    low, high = float(own.min()), float(own.max())
    if not (low >= 0 and math.isfinite(high)):
        at = int(np.argmax((~((own >= 0) & np.isfinite(own))).reshape(-1, tree.n_entries).any(axis=0)))
        raise BadUsage("usage must be a finite number ≥ 0", place=tree.path(at), row=at)
    if tree.is_reserve.any():
        used = tree.is_reserve & (own.reshape(-1, tree.n_entries) > 0).any(axis=0)
        if used.any():
            at = int(np.argmax(used))
            raise BadUsage("a reserve can't have usage", place=tree.path(at), row=at)


def _read_scope(tree: FairshareTree, scope_of_entry: npt.ArrayLike | None, n_scopes: int) -> IntArray:
    if scope_of_entry is None:
        return np.zeros(tree.n_entries, dtype=np.int64)
    scope = np.asarray(scope_of_entry, dtype=np.int64)
    if scope.shape != (tree.n_entries,) or int(scope.min()) < 0 or int(scope.max()) >= n_scopes:
        raise BadUsage(f"scope_of_entry must name one of {n_scopes} scopes for each of {tree.n_entries} entries")
    return scope


@dataclass(frozen=True, eq=False)
class PriorityResult:
    """Everything computed for one tree; arrays (n,) over its entries, never NaN.

    usage: total of the entry and all below, in the scope it is compared by. target, actual, priority, target_global:
    0 where `competes` is false (the root, and entries whose shares are *inherit*). scalar: int64 component of the
    vector, −1 without one (`gridwide` has none: its component is the priority). rank: int64, 0 for none. factor:
    0..1, 0 for none. has_rank: leaves and non-empty groups. is_ranked: the leaves that count in `n_ranked`.
    depth: levels of the ranked leaves' vectors.
    """

    settings: Settings
    tree: FairshareTree
    usage: FloatArray
    target: FloatArray
    actual: FloatArray
    priority: FloatArray
    target_global: FloatArray
    competes: BoolArray
    scalar: IntArray
    rank: IntArray
    factor: FloatArray
    has_rank: BoolArray
    is_ranked: BoolArray
    n_ranked: int
    depth: int

    @property
    def deviation(self) -> FloatArray:
        """target − actual in points (percent), (n,)."""
        return (self.target - self.actual) * 100.0

    @property
    def resolution(self) -> int | None:
        found = self.settings.get("resolution")
        return None if found is None else int(found)

    def components(self, entry: int) -> list[float | int]:
        """The entry's vector root→entry, unpadded: scalars, or unrounded deviations where the algorithm has none."""
        contest, entry_of, seat, _ = self.tree.competition
        path = entry_of[vectors.lineage(contest, int(seat[entry]))]
        values: list[float | int] = (self.priority if self.resolution is None else self.scalar)[path].tolist()
        return values

    def vector(self, entry: int) -> list[int]:
        """The entry's vector root→entry as integers, unpadded; empty for an algorithm without resolution."""
        return [] if self.resolution is None else [int(value) for value in self.components(entry)]

    def grid_value(self, entry: int) -> int | None:
        """The base-200 number of the deviations root→entry, for an algorithm without resolution.

        None where the entry is deeper than every ranked leaf.
        """
        if self.resolution is not None:
            return None
        deviations = self.components(entry)
        return codecs.grid_value(deviations, self.depth) if len(deviations) <= self.depth else None


def assemble(
    prepared: Prepared,
    compared: Compared,
    settings: Settings,
    *,
    priority: FloatArray,
    scalar: IntArray | None,
    ahead: IntArray,
    key_factor: FloatArray | None,
) -> PriorityResult:
    """Hand what the competing entries got to every entry; rank = 1 + leaves ahead, factor by rank or by key."""
    tree = prepared.tree
    competes = ~tree.inherits
    competes[0] = False
    has_rank = ~tree.is_reserve & (tree.is_ranked | (tree.child_count > 0))
    has_rank[0] = prepared.n_ranked > 0
    ahead = prepared.spread(ahead)
    factor = codecs.factor_from_ahead(ahead, prepared.n_ranked) if key_factor is None else prepared.spread(key_factor)
    rank = np.add(ahead, 1, out=ahead)
    if not has_rank.all():
        rank = np.where(has_rank, rank, 0)
        factor = np.where(has_rank, factor, 0.0)

    def shown(values: FloatArray) -> FloatArray:
        spread: FloatArray = prepared.spread(values)
        return spread if prepared.is_whole else np.where(competes, spread, 0.0)

    if scalar is None:
        scalar = np.full(prepared.contest.n_entries, -1, dtype=np.int64)
    component: IntArray = prepared.spread(scalar)
    if not prepared.is_whole:
        component = np.where(competes, component, -1)
    return PriorityResult(
        settings=settings, tree=tree, usage=compared.usage, target=shown(prepared.target),
        actual=shown(compared.actual), priority=shown(priority), target_global=shown(prepared.target_global),
        competes=competes, scalar=component, rank=rank, factor=factor, has_rank=has_rank, is_ranked=tree.is_ranked,
        n_ranked=prepared.n_ranked, depth=prepared.depth,
    )  # fmt: skip
