"""What a tree algorithm is, what it declares of its explanation, and the shape of result of all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import numpy as np

from apps.engine import codecs
from apps.engine.algorithms import inputs
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.errors import BadParameter
from apps.engine.operators import Properties
from apps.engine.parameters import Parameter, Settings
from apps.engine.tree import FairshareTree

Kind = Literal["levels", "ratio", "number"]


@dataclass(frozen=True)
class Explanation:
    """How levels combine, and in which columns of the result the numbers of each level are.

    kind:
        `levels`: siblings are compared by one component; between two entries the first level that differs decides.
        `ratio`: one number of the whole path, F = 2^(−R / damping_factor) with R = used / due at each level; R of
        the root is 1. The decisive level is the one with the largest change of log2 F.
        `number`: one number of the whole path; single levels have no part of their own.

    component: the column that siblings are compared by; "" for the priority, or the scalar where there is a
    resolution. used, due: columns of UE and S, for `ratio`. own_ratio, exponent: columns of r_l and k where an
    entry's own ratio is raised to a power; "" where it isn't.
    """

    kind: Kind
    component: str = ""
    used: str = ""
    due: str = ""
    own_ratio: str = ""
    exponent: str = ""

    def __post_init__(self) -> None:
        if self.kind == "ratio" and not (self.used and self.due):
            raise BadParameter("an explanation by ratio names the columns used and due", place="explanation")


LEVELS = Explanation("levels")
NUMBER = Explanation("number")


# --- Algorithm and result ---------------------------------------------------------------------------------------------
class Algorithm(Protocol):
    """One way from target and actual to an order, in one file; everything said about it is said here."""

    name: str
    label: str
    formula: str
    component: str  # in words: what a priority of this algorithm is, level by level
    reference: str
    parameters: tuple[Parameter, ...]
    fields: tuple[str, ...]  # result columns of each entry, in order; `vector` or `value` among them
    takes_inherit: bool

    def properties(self, settings: Settings) -> Properties:
        """What holds with these settings."""

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Priorities, ranks and factors of one tree; settings come filled in by `read_settings`."""


class Column(NamedTuple):
    """Numbers of an algorithm's own, (n,): infinite perhaps, never NaN. exists: where there is one, None for all."""

    values: FloatArray
    exists: BoolArray | None = None


@dataclass(frozen=True, eq=False)
class PriorityResult:
    """Everything computed for one tree; arrays (n,) over its entries, never NaN.

    usage: total of the entry and all below, in the scope it is compared by; group_usage: in the scope its children are
    compared by. target, actual, priority, target_global: 0 where `competes` is false (the root, and entries whose
    shares are *inherit*). priority: higher is sooner among siblings, 0 on target. scalar: int64 component of the
    vector, −1 without one. rank: int64, 0 for none. factor: 0..1, 0 for none. has_rank, has_factor: the entries that
    have one. is_ranked: the leaves that count in `n_ranked`. depth: levels of the ranked leaves' vectors. columns:
    what the algorithm has of its own, by the name its scheduler uses.
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
        found = self.settings.get("resolution")
        return None if found is None else int(found)

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
    """Hand what the competing entries got to every entry; rank = 1 + leaves ahead, factor by rank or by key."""
    tree = prepared.tree
    has_rank = prepared.has_leaf
    ahead = prepared.spread(ahead)
    factor = codecs.factor_from_ahead(ahead, prepared.n_ranked) if key_factor is None else prepared.spread(key_factor)
    rank = np.add(ahead, 1, out=ahead)
    if not has_rank.all():
        rank = np.where(has_rank, rank, 0)
        factor = np.where(has_rank, factor, 0.0)
    return finish(
        prepared,
        compared,
        settings,
        actual=compared.actual,
        priority=priority,
        rank=rank,
        factor=factor,
        has_rank=has_rank,
        has_factor=has_rank,
        is_ranked=tree.is_ranked,
        n_ranked=prepared.n_ranked,
        scalar=scalar,
    )


def finish(
    prepared: Prepared,
    compared: Compared,
    settings: Settings,
    *,
    actual: FloatArray,
    priority: FloatArray,
    rank: IntArray,
    factor: FloatArray,
    has_rank: BoolArray,
    has_factor: BoolArray,
    is_ranked: BoolArray,
    n_ranked: int,
    scalar: IntArray | None = None,
    columns: Mapping[str, Column] | None = None,
) -> PriorityResult:
    """The result of a tree. actual, priority, scalar: (m,) of the competing entries; all others (n,) of the tree's."""
    tree = prepared.tree
    competes = ~tree.inherits
    competes[0] = False

    def shown(values: FloatArray) -> FloatArray:
        spread: FloatArray = prepared.spread(values)
        return spread if prepared.is_whole else np.where(competes, spread, 0.0)

    if scalar is None:
        scalar = np.full(prepared.contest.n_entries, -1, dtype=np.int64)
    component: IntArray = prepared.spread(scalar)
    if not prepared.is_whole:
        component = np.where(competes, component, -1)
    return PriorityResult(
        settings=settings,
        tree=tree,
        usage=compared.usage,
        group_usage=compared.group_usage,
        target=shown(prepared.target),
        actual=shown(actual),
        priority=shown(priority),
        target_global=shown(prepared.target_global),
        competes=competes,
        scalar=component,
        rank=rank,
        factor=factor,
        has_rank=has_rank,
        has_factor=has_factor,
        is_ranked=is_ranked,
        n_ranked=n_ranked,
        depth=prepared.depth,
        columns=columns or {},
    )


# --- Slurm's share trees without Fair Tree ----------------------------------------------------------------------------
SSHARE_FIELDS = ("norm_shares", "norm_usage", "effective_usage", "level_fs", "rank", "factor")


def _read_damping(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    if not math.isfinite(float(value)) or value < 1 or not float(value).is_integer():
        raise ValueError
    return int(value)


DAMPING_FACTOR = Parameter("damping_factor", "Damping factor", 1, "an integer ≥ 1", _read_damping, minimum=1)


def norm_usage(prepared: Prepared, compared: Compared) -> FloatArray:
    """Part of all usage that each entry has, (n,) 0..1."""
    return inputs.norm_usage(prepared.tree, compared.total, compared.group_total, prepared.fairshare_parent)


def assemble_sshare(
    prepared: Prepared,
    compared: Compared,
    settings: Settings,
    *,
    norm_usage: FloatArray,
    effective: FloatArray,
    columns: Mapping[str, Column] | None = None,
) -> PriorityResult:
    """Factors of every entry but a reserve, ranks of users, columns as `sshare` names them.

    norm_usage: (n,) of all entries. effective: (m,) effective usage of the competing ones. columns: further ones.
    """
    tree, above = prepared.tree, prepared.fairshare_parent
    shares = prepared.spread(prepared.target_global)
    effective_of_all = inputs.effective_of_all(effective, norm_usage, prepared.seat, above, tree.inherits)
    factor = inputs.factor(effective_of_all, shares, settings["damping_factor"])
    is_user, has_factor = inputs.users_of(tree), ~tree.is_reserve
    named = {
        "norm_shares": Column(shares),
        "norm_usage": Column(norm_usage),
        "effective_usage": Column(effective_of_all),
        "level_fs": Column(np.zeros(tree.n_entries), np.zeros(tree.n_entries, dtype=np.bool_)),
        **(columns or {}),
    }
    return finish(
        prepared,
        compared,
        settings,
        actual=compared.actual,
        priority=inputs.priority(effective, prepared.target_global),
        rank=inputs.ranks(factor, is_user),
        factor=np.where(has_factor, factor, 0.0),
        has_rank=is_user,
        has_factor=has_factor,
        is_ranked=is_user,
        n_ranked=int(is_user.sum()),
        columns=named,
    )
