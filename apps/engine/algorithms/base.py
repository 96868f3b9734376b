"""The interface of tree algorithms: what each declares, and the result that all of them return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import numpy as np

from apps.engine import codecs
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.errors import BadParameter
from apps.engine.operators import Properties
from apps.engine.parameters import Parameter, Settings
from apps.engine.tree import FairshareTree

Kind = Literal["levels", "ratio", "number"]


@dataclass(frozen=True)
class Explanation:
    """How levels combine into a rank, and which columns of the result have the numbers of each level.

    kind:
        `levels`: siblings are compared by one component; between two entries the first level that differs decides.
        `ratio`: one number for the whole path, F = 2^(−R / damping_factor) with R = used / due at each level; R of
        the root is 1. The decisive level is the one with the largest change of log2 F, up for a
        good rank and down for another.
        `number`: one number for the whole path, which can't be attributed to single levels.

    component: the column that siblings are compared by; "" for the priority, or the scalar where there is a
    resolution. used, due: columns of UE and S, for `ratio`. own_ratio, exponent: columns of r_l and k where an
    entry's own ratio is raised to a power; "" where it isn't. only_adds: below the first level R never falls, because
    an entry's own usage is added to the usage that it inherits from the level above.
    """

    kind: Kind
    component: str = ""
    used: str = ""
    due: str = ""
    own_ratio: str = ""
    exponent: str = ""
    only_adds: bool = False

    def __post_init__(self) -> None:
        if self.kind == "ratio" and not (self.used and self.due):
            raise BadParameter("an explanation by ratio names the columns used and due", place="explanation")


LEVELS = Explanation("levels")
NUMBER = Explanation("number")


class Algorithm(Protocol):
    """A tree algorithm: computes an order from target and actual shares, and carries its own labels and references."""

    name: str
    label: str
    formula: str
    component: str  # description of a priority at one level
    reference: str
    parameters: tuple[Parameter, ...]
    fields: tuple[str, ...]  # result columns of each entry, in order; `vector` or `value` among them
    takes_inherit: bool

    def properties(self, settings: Settings) -> Properties:
        """Properties that hold with these settings."""

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Priorities, ranks and factors of one tree; settings are complete, as `read_settings` returns them."""


class Column(NamedTuple):
    """An additional column of an algorithm, (n,): may be infinite, never NaN. exists: entries that have a value."""

    values: FloatArray
    exists: BoolArray | None = None


@dataclass(frozen=True, eq=False)
class PriorityResult:
    """Everything computed for one tree; arrays (n,) over its entries, never NaN.

    usage: total of the entry and its subtree, in the scope in which the entry is compared; group_usage: in the scope in
    which its children are compared. target, actual, priority, target_global: 0 where `competes` is false (the root, and
    entries whose shares are *inherit*); both targets of the root are 1 in a tree without such entries. priority: higher
    is sooner among siblings, 0 on target. scalar: int64 component of the vector, −1 without one. rank: int64, 0 for
    none. factor: 0..1, 0 for none. has_rank, has_factor: the entries that have one. is_ranked: the leaves that count in
    `n_ranked`. depth: levels of the ranked leaves' vectors. columns: additional columns of the algorithm, by the
    scheduler's names.
    """

    settings: Settings
    tree: FairshareTree
    usage: FloatArray
    group_usage: FloatArray
    target: FloatArray
    actual: FloatArray
    priority: FloatArray
    target_global: FloatArray
    competes: BoolArray
    scalar: IntArray
    rank: IntArray
    factor: FloatArray
    has_rank: BoolArray
    has_factor: BoolArray
    is_ranked: BoolArray
    n_ranked: int
    depth: int
    columns: Mapping[str, Column] = field(default_factory=dict)

    @property
    def deviation(self) -> FloatArray:
        """target − actual in points (percent), (n,)."""
        return (self.target - self.actual) * 100.0

    @property
    def resolution(self) -> int | None:
        resolution = self.settings.get("resolution")
        return None if resolution is None else int(resolution)

    def components(self, entry: int) -> list[float | int]:
        """The entry's vector root→entry, unpadded: scalars, or unrounded deviations where the algorithm has none."""
        contest, entry_of, seat, _ = self.tree.competition
        path = entry_of[codecs.lineage(contest, int(seat[entry]))]
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
    """Build the result from numbers of the competing entries: rank = 1 + leaves ahead, factor by rank or by key."""
    has_rank = prepared.has_leaf
    ahead = prepared.spread(ahead)
    factor = codecs.factor_from_ahead(ahead, prepared.n_ranked) if key_factor is None else prepared.spread(key_factor)
    rank = np.add(ahead, 1, out=ahead)
    if not has_rank.all():
        rank = np.where(has_rank, rank, 0)
        factor = np.where(has_rank, factor, 0.0)
    components = Components(compared.actual, priority, scalar)
    ranking = Ranking(rank, factor, has_rank, has_rank, prepared.tree.is_ranked, prepared.n_ranked)
    return build_result(prepared, compared, settings, components, ranking)


@dataclass(frozen=True, eq=False)
class Components:
    """Numbers of the competing entries, (m,): actual share, priority, and scalar of the vector if there is one."""

    actual: FloatArray
    priority: FloatArray
    scalar: IntArray | None = None


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranks and factors of all entries, (n,), as in `PriorityResult`. is_ranked: the `n_ranked` leaves that count."""

    rank: IntArray
    factor: FloatArray
    has_rank: BoolArray
    has_factor: BoolArray
    is_ranked: BoolArray
    n_ranked: int


def rank_by_walk(ahead: IntArray, is_ranked: BoolArray, n_ranked: int) -> Ranking:
    """Ranking of a walk, from the ranked leaves strictly ahead of each entry: rank = 1 + ahead, factor = (N − ahead)/N.

    Sources: Slurm: Fair Tree Fairshare Algorithm; flux-accounting: weighted tree.
    """
    rank = ahead + 1
    factor = (n_ranked - ahead) / max(n_ranked, 1)
    return Ranking(
        rank=np.where(is_ranked, rank, 0),
        factor=np.where(is_ranked, factor, 0.0),
        has_rank=is_ranked,
        has_factor=is_ranked,
        is_ranked=is_ranked,
        n_ranked=n_ranked,
    )


def build_result(
    prepared: Prepared,
    compared: Compared,
    settings: Settings,
    components: Components,
    ranking: Ranking,
    columns: Mapping[str, Column] | None = None,
) -> PriorityResult:
    """Build the result of a tree: numbers of competing entries are spread to all entries."""
    tree = prepared.tree
    competes = ~tree.inherits
    competes[0] = False

    def spread(values: FloatArray) -> FloatArray:
        of_all: FloatArray = prepared.spread(values)
        return of_all if prepared.is_whole else np.where(competes, of_all, 0.0)

    scalar = components.scalar
    if scalar is None:
        scalar = np.full(prepared.contest.n_entries, -1, dtype=np.int64)
    scalar_of_all: IntArray = prepared.spread(scalar)
    if not prepared.is_whole:
        scalar_of_all = np.where(competes, scalar_of_all, -1)
    return PriorityResult(
        settings=settings,
        tree=tree,
        usage=compared.usage,
        group_usage=compared.group_usage,
        target=spread(prepared.target),
        actual=spread(components.actual),
        priority=spread(components.priority),
        target_global=spread(prepared.target_global),
        competes=competes,
        scalar=scalar_of_all,
        rank=ranking.rank,
        factor=ranking.factor,
        has_rank=ranking.has_rank,
        has_factor=ranking.has_factor,
        is_ranked=ranking.is_ranked,
        n_ranked=ranking.n_ranked,
        depth=prepared.depth,
        columns=columns or {},
    )
