"""Priority operators F(target, actual) → −1..1, and their registry with the properties of each.

Source: Rodrigo, Östberg, Elmroth, *Priority Operators for Fairshare Scheduling*, equations 5–12, table 1 and §4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated

import numpy as np

from apps.engine import operator_trial
from apps.engine.arrays import CHUNK, BoolArray, FloatArray
from apps.engine.errors import BadParameter, PackageFailed
from apps.engine.installed import Installed, load_installed, rejection_note, require_name, require_texts

# Without it, rounding of decimal usage would break exact balance and ties.
ON_TARGET_TOLERANCE = 1e-12
# Smallest priority of an entry that isn't on target, where the formula gives less (relative-N).
SMALLEST = float(np.finfo(np.float64).tiny)
PAPER = "Rodrigo, Östberg, Elmroth: Priority Operators for Fairshare Scheduling"
ENTRY_POINT_GROUP = "fairshare.operators"
_NEWTON_STEPS = 16
_FAMILY_NAME = re.compile(r"(relative|sigmoid)-([1-9][0-9]{0,8})", re.ASCII)
DEFAULT_K = 0.5
MOST_N = 1000  # beyond this, nearly all priorities are the same double
NAMES = ("absolute", "relative", "relative-N", "sigmoid", "sigmoid-N", "slurm", "combined")


@dataclass(frozen=True)
class Properties:
    """Declared properties, which tests check and pages show.

    The last four hold for nearly all operators; pages show them only where they don't.
    """

    isolation: Annotated[bool, "Depends on the entry's own sibling group alone"]
    proportional_redistribution: Annotated[bool, "Unused share goes to active siblings in proportion to their shares"]
    scale_invariance: Annotated[bool, "Shares and usage of a group may be multiplied without changing a priority"]
    boundaries: Annotated[bool, "Target 0 gives the lowest, actual 0 the highest priority"]
    order_in_groups: Annotated[bool, "What cousins use never turns the order inside a group"] = True
    monotone: Annotated[bool, "More shares never lower a priority, more usage never raises it"] = True
    order_independent: Annotated[bool, "The order in which siblings are listed decides nothing"] = True
    sign: Annotated[bool, "Above 0 below target, below 0 above it, where all usage is at the leaves"] = True


@dataclass(frozen=True)
class Operator:
    """One operator; `off_target` is its formula where target ≠ actual.

    off_target(t, s): float64 arrays in 0..1 → −1..1. inverse(p, t): the s with F(t, s) = p for t > 0, by the formula
    alone; outside 0..1 if no real state has this priority. resolves: a sentence about where it distinguishes entries
    best. schedulers: which schedulers compute alike, and by which source; where paper and manual differ, both.
    """

    name: str
    label: str
    formula: str
    reference: str
    properties: Properties
    off_target: Callable[[FloatArray, FloatArray], FloatArray] = field(repr=False)
    inverse: Callable[[FloatArray, FloatArray], FloatArray] | None = field(repr=False, default=None)
    range: tuple[float, float] = (-1.0, 1.0)
    parameters: Mapping[str, float] = field(default_factory=dict)
    resolves: str = ""
    schedulers: str = ""

    def __call__(self, target: FloatArray, actual: FloatArray) -> FloatArray:
        """Priorities of entries with these targets and actuals; exactly 0 on target, never NaN."""
        priority = np.empty(len(target))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            for begin in range(0, len(target), CHUNK):
                t, s = target[begin : begin + CHUNK], actual[begin : begin + CHUNK]
                priority[begin : begin + CHUNK] = np.where(on_target(t, s), 0.0, self.off_target(t, s))
        return priority

    def state(self, priority: FloatArray, target: FloatArray) -> FloatArray:
        """The actual share in 0..1 with the priority nearest to this one, for targets > 0; requires the inverse."""
        if self.inverse is None:
            raise BadParameter(f"{self.name} has no inverse", place="operator")
        with np.errstate(divide="ignore", over="ignore"):
            state: FloatArray = np.clip(self.inverse(priority, target), 0.0, 1.0)
        return state


_RELATIVE_FAMILY = Properties(True, True, True, True)
_WITH_ABSOLUTE = Properties(True, False, True, False)


def on_target(target: FloatArray, actual: FloatArray) -> BoolArray:
    """|t − s| ≤ 1e-12 · max(t, s): counts as t = s; 0 = 0 is on target, too."""
    is_balanced: BoolArray = np.abs(target - actual) <= ON_TARGET_TOLERANCE * np.maximum(target, actual)
    return is_balanced


def relative_gap(target: FloatArray, actual: FloatArray) -> FloatArray:
    """(t − s)/t below target and −(s − t)/s above it: both are (t − s)/max(t, s)."""
    gap: FloatArray = (target - actual) / np.maximum(target, actual)
    return gap


def _odd_power(value: FloatArray, exponent: float) -> FloatArray:
    """sign(x) · |x|^exponent."""
    power: FloatArray = np.copysign(np.abs(value) ** exponent, value)
    return power


def _relative_power(target: FloatArray, actual: FloatArray, exponent: float) -> FloatArray:
    """sign(gap) · |gap|^exponent, at least `SMALLEST` in size, because only an entry on target has 0 (eq. 2)."""
    gap = relative_gap(target, actual)
    power: FloatArray = np.copysign(np.maximum(np.abs(gap) ** exponent, SMALLEST), gap)
    return power


def _state_of_gap(gap: FloatArray, target: FloatArray) -> FloatArray:
    """The s ≥ 0 with this relative gap; infinite for −1."""
    with np.errstate(divide="ignore"):
        above = target / np.maximum(1.0 + gap, 0.0)
    state: FloatArray = np.where(gap >= 0, target * (1.0 - gap), above)
    return state


def _absolute() -> Operator:
    return Operator(
        name="absolute",
        label="Absolute",
        formula="t − s",
        reference=f"{PAPER}, eq. 5",
        properties=_WITH_ABSOLUTE,
        off_target=lambda t, s: t - s,
        inverse=lambda p, t: t - p,
        resolves="Equally precise everywhere, but never reaches the highest priorities of small targets.",
        schedulers="The paper (section 6) names LSF. The manuals of Maui and Moab describe it: target − usage.",
    )


def _relative() -> Operator:
    return Operator(
        name="relative",
        label="Relative",
        formula="(t − s)/t for s < t, −(s − t)/s for s > t",
        reference=f"{PAPER}, eq. 6",
        properties=_RELATIVE_FAMILY,
        off_target=relative_gap,
        inverse=_state_of_gap,
        resolves="Equally fine at every priority.",
        schedulers="The paper (section 6) names Maui. The manual of LSF divides shares by usage and job slots; by "
        "usage alone siblings are ordered alike.",
    )


def _relative_n(n: float) -> Operator:
    return Operator(
        name=f"relative-{n:.0f}",
        label=f"Relative exponential, n = {n:.0f}",
        formula="((t − s)/t)^n for s < t, −((s − t)/s)^n for s > t",
        reference=f"{PAPER}, eq. 7",
        properties=_RELATIVE_FAMILY,
        off_target=lambda t, s: _relative_power(t, s, n),
        inverse=lambda p, t: _state_of_gap(_odd_power(p, 1.0 / n), t),
        parameters={"n": n},
        resolves="Finest under target, coarse around balance.",
    )


def _sine(gap: FloatArray) -> FloatArray:
    sine: FloatArray = np.sin(np.pi / 2 * gap)
    return sine


def _gap_of_sine(sine: FloatArray) -> FloatArray:
    gap: FloatArray = np.arcsin(np.clip(sine, -1.0, 1.0)) * (2 / np.pi)
    return gap


def _sigmoid() -> Operator:
    return Operator(
        name="sigmoid",
        label="Sigmoid",
        formula="sin(π/2 · (t − s)/t) for s < t, −sin(π/2 · (s − t)/s) for s > t",
        reference=f"{PAPER}, eq. 8",
        properties=_RELATIVE_FAMILY,
        off_target=lambda t, s: _sine(relative_gap(t, s)),
        inverse=lambda p, t: _state_of_gap(_gap_of_sine(p), t),
        resolves="Finer than relative around balance, coarser far from it.",
    )


def _sigmoid_n(n: float) -> Operator:
    return Operator(
        name=f"sigmoid-{n:.0f}",
        label=f"Sigmoid exponential, n = {n:.0f}",
        formula="sin(π/2 · (t − s)/t)^(1/n) for s < t, −sin(π/2 · (s − t)/s)^(1/n) for s > t",
        reference=f"{PAPER}, eq. 9",
        properties=_RELATIVE_FAMILY,
        off_target=lambda t, s: _odd_power(_sine(relative_gap(t, s)), 1.0 / n),
        inverse=lambda p, t: _state_of_gap(_gap_of_sine(_odd_power(p, n)), t),
        parameters={"n": n},
        resolves="Finest around balance and over target, coarse where little was used.",
    )


def _slurm() -> Operator:
    def inverse(p: FloatArray, t: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            state: FloatArray = t * (1.0 - np.log2(np.maximum(p + 1.0, 0.0)))
        return state

    return Operator(
        name="slurm",
        label="Slurm",
        formula="2^(1 − s/t) − 1",
        reference=f"{PAPER}, eq. 12",
        properties=_RELATIVE_FAMILY,
        off_target=lambda t, s: np.exp2(1.0 - s / t) - 1.0,
        inverse=inverse,
        resolves="Finer than relative far under target, coarser around balance.",
        schedulers="Slurm's classic factor is 2^(−s/t), so that siblings are ordered alike.",
    )


def _combined(k: float) -> Operator:
    def off_target(t: FloatArray, s: FloatArray) -> FloatArray:
        mixed: FloatArray = k * (t - s) + (1.0 - k) * _odd_power(relative_gap(t, s), 2.0)
        return mixed

    def inverse(p: FloatArray, t: FloatArray) -> FloatArray:
        """Below target the root of a quadratic in t − s."""
        if k == 0:
            return _state_of_gap(_odd_power(p, 0.5), t)
        p, t = np.broadcast_arrays(p, t)
        under = np.maximum(p, 0.0)
        below = t - 2.0 * under / (k + np.sqrt(k * k + 4.0 * (1.0 - k) * under / (t * t)))
        state: FloatArray = np.where(p > 0, below, t)
        is_over = p < 0
        if is_over.any():
            state[is_over] = above_target(-p[is_over], t[is_over])
        return state

    def above_target(over: FloatArray, t: FloatArray) -> FloatArray:
        """The s with the priority −over, over > 0, by Newton's steps, halved if they leave the bracket.

        Each part of the mixture alone bounds s from above: k·(s − t) ≤ over and (1 − k)·(1 − t/s)² ≤ over.
        """
        low, high = t, t + over / k
        if k < 1:
            high = np.minimum(high, t / np.maximum(1.0 - np.sqrt(over / (1.0 - k)), t / (t + over / k)))
        state = high
        for _ in range(_NEWTON_STEPS):
            excess = -off_target(t, state) - over
            low, high = np.where(excess < 0, state, low), np.where(excess < 0, high, state)
            step = state - excess / (k + 2.0 * (1.0 - k) * (1.0 - t / state) * t / state**2)
            state = np.where((step >= low) & (step <= high), step, (low + high) / 2.0)
        return state

    return Operator(
        name="combined",
        label=f"Combined, k = {k:g}",
        formula="k · absolute + (1 − k) · relative-2",
        reference=f"{PAPER}, eq. 10",
        properties=_RELATIVE_FAMILY if k == 0 else _WITH_ABSOLUTE,
        off_target=off_target,
        inverse=inverse,
        parameters={"k": k},
        resolves="Fine under target, coarse around balance, the more so the larger k is.",
    )


_PLAIN: Mapping[str, Callable[[], Operator]] = {
    "absolute": _absolute,
    "relative": _relative,
    "sigmoid": _sigmoid,
    "slurm": _slurm,
}
_FAMILIES: Mapping[str, Callable[[float], Operator]] = {"relative": _relative_n, "sigmoid": _sigmoid_n}
_packages: dict[str, str] = {}  # package of each operator, for errors


def get_operator(name: str, *, k: float = DEFAULT_K) -> Operator:
    """The operator of this name (`relative-3`, `combined` with k, …); BadParameter if there is none."""
    if name == "combined":
        return _combined(k)
    if name in _PLAIN:
        return _PLAIN[name]()
    family = _FAMILY_NAME.fullmatch(name)
    if family and int(family[2]) > MOST_N:
        raise BadParameter(
            f"{name!r} can't tell entries apart: N is an integer from 2 to {MOST_N}, because doubles can't tell more",
            place="operator",
        )
    if family and int(family[2]) >= 2:
        return _FAMILIES[family[1]](float(family[2]))
    brought = operators_of_packages()
    if name in brought.objects:
        return brought.objects[name]
    allowed, why = ", ".join((*NAMES, *brought.objects)), rejection_note(brought, name)
    raise BadParameter(
        f"unknown operator {name!r}; allowed are {allowed} (N an integer, 2 to {MOST_N}){why}", place="operator"
    )


def installed_operators() -> Mapping[str, Operator]:
    """Operators of other packages, by name."""
    return operators_of_packages().objects


@cache
def operators_of_packages() -> Installed[Operator]:
    """Operators of other packages (entry points `fairshare.operators`) that passed their checks, and those rejected."""
    installed = load_installed(ENTRY_POINT_GROUP, _check_operator, is_taken=_is_taken)
    _packages.update(installed.package)
    return installed


def _is_taken(name: str) -> bool:
    return name in NAMES or _FAMILY_NAME.fullmatch(name) is not None


def _check_operator(name: str, candidate: object) -> Operator:
    """The operator with guarded results; raises ValueError if it is incomplete or violates the definition on a grid."""
    if type(candidate) is not Operator:
        raise ValueError(f"it must be an Operator, not a {type(candidate).__name__}")
    require_name(candidate, name)
    require_texts(candidate, ("label", "formula", "reference"))
    if not isinstance(candidate.properties, Properties):
        raise ValueError("its properties must be Properties")
    operator = replace(candidate, off_target=_guarded(candidate))
    try:
        broken = operator_trial.check_definition(operator).broken
        is_alone = operator_trial.is_entry_by_entry(operator)
    except PackageFailed as error:
        raise ValueError(f"it can't be applied: {error.reason}") from error
    if broken:
        raise ValueError(broken)
    if not is_alone:
        raise ValueError("its priority of an entry must not change with the other entries")
    return operator


def _guarded(operator: Operator) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Wrap its formula: read-only arrays in, and numbers from −1 to 1 out, otherwise PackageFailed."""

    def off_target(t: FloatArray, s: FloatArray) -> FloatArray:
        shown = [values.view() for values in (t, s)]
        for values in shown:
            values.flags.writeable = False
        try:
            priority = np.asarray(operator.off_target(*shown), dtype=np.float64)
        except Exception as error:  # packages may raise anything
            raise _failed(operator.name, f"{type(error).__name__}: {error}") from error
        if priority.shape != t.shape:
            raise _failed(operator.name, f"it gave an array of shape {priority.shape} for {len(t)} entries")
        wrong = ~(np.abs(priority) <= 1.0) & ~on_target(t, s)  # also rejects NaN
        if wrong.any():
            at = int(np.argmax(wrong))
            raise _failed(
                operator.name,
                f"its priority must be a number from −1 to 1, not {priority[at]} for t = {t[at]}, s = {s[at]}",
            )
        return priority

    return off_target


def _failed(name: str, reason: str) -> PackageFailed:
    return PackageFailed(_packages.get(name, ""), "operator", name, reason)


def all_operators() -> tuple[Operator, ...]:
    """One of each operator for pages and docs; families with n = 2 and 3."""
    families = {"relative-N": ("relative-2", "relative-3"), "sigmoid-N": ("sigmoid-2", "sigmoid-3")}
    names = [name for listed in NAMES for name in families.get(listed, (listed,))]
    return (*map(get_operator, names), *installed_operators().values())
