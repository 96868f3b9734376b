"""The settings of a revision (algorithm, metric, window, approach, fallback, tolerance, review): defaults and
validation.

Also refuses trees that the chosen algorithm can't compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.core.errors import FieldProblem, Invalid
from apps.engine.algorithms import all_algorithms, compute, get_algorithm, package_of, read_algorithm
from apps.engine.decay_functions import DECAY_FUNCTIONS, decay_parameter_names
from apps.engine.errors import BadParameter, PackageFailed
from apps.engine.parameters import Parameter
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import clean_text

RESOURCES = ("cpu_s", "gpu_s", "mem_gb_s", "node_s", "billing")
APPROACHES = ("historical", "active", "predictive")
_LONGEST_S = 200 * 365 * 86_400
_MOST_FACTORS = 1_000
_CLASS_NAMES = ("queue", "partition", "qos")

Json = dict[str, Any]


@dataclass(frozen=True)
class PolicySettings:
    """Complete settings; each part is a JSON object that has all its keys."""

    algorithm: Json = field(default_factory=lambda: deepcopy(_DEFAULTS["algorithm"]))
    metric: Json = field(default_factory=lambda: deepcopy(_DEFAULTS["metric"]))
    window: Json = field(default_factory=lambda: deepcopy(_DEFAULTS["window"]))
    approach: Json = field(default_factory=lambda: deepcopy(_DEFAULTS["approach"]))
    fallback_factor: float = 0.5
    tolerance: Json = field(default_factory=lambda: deepcopy(_DEFAULTS["tolerance"]))
    review: Json = field(default_factory=lambda: deepcopy(_DEFAULTS["review"]))

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, base: PolicySettings | None = None) -> PolicySettings:
        """Parse settings; omitted parts, and omitted keys of a part, are those of `base` (by default, the defaults).

        If another algorithm is named, omitted parameters are the defaults of that algorithm.
        """
        checked = _Reader()
        start = (base or cls()).to_json()
        values = checked.mapping(data, "settings", allowed=[part.name for part in fields(cls)])
        parts: dict[str, Any] = {
            "algorithm": _algorithm(checked, values.get("algorithm", {}), start["algorithm"]),
            "metric": _metric(checked, _over(checked, values, start, "metric")),
            "window": _window(checked, values["window"], start["window"]) if "window" in values else start["window"],
            "approach": _approach(checked, _over(checked, values, start, "approach")),
            "fallback_factor": checked.number(
                values.get("fallback_factor", start["fallback_factor"]), "settings.fallback_factor", 0, 1
            ),
            "tolerance": _tolerance(checked, _over(checked, values, start, "tolerance")),
            "review": _review(checked, _over(checked, values, start, "review")),
        }
        checked.refuse()
        return cls(**parts)

    @classmethod
    def from_stored(cls, data: Mapping[str, Any]) -> PolicySettings:
        """Load a revision's or snapshot's settings, even if the algorithm or decay function that they name is gone."""
        try:
            return cls.from_json(data)
        except Invalid:
            kept: dict[str, Any] = {"algorithm": deepcopy(dict(data.get("algorithm", {})))}
            if _is_gone("window", data.get("window", {})):
                kept["window"] = {**_DEFAULTS["window"], **deepcopy(data["window"])}
            return replace(cls.from_json({**data, **{part: {} for part in kept}}), **kept)

    @classmethod
    def from_operation(cls, values: Mapping[str, Any], *, base: PolicySettings) -> PolicySettings:
        """Apply a stored operation to `base`, even if either names an algorithm or a decay function that is gone."""
        try:
            return cls.from_json(values, base=base)
        except Invalid:
            gone: dict[str, Any] = {}
            for part, name in _NAMED_BY.items():
                before, wanted = getattr(base, part), values.get(part, getattr(base, part))
                if isinstance(wanted, Mapping) and _is_gone(part, {name: before[name], **wanted}):
                    gone[part] = deepcopy({**before, **wanted} if part == "window" else dict(wanted))
            if not gone:
                raise
        rest = {part: value for part, value in values.items() if part not in gone}
        usual: dict[str, Any] = {part: deepcopy(_DEFAULTS[part]) for part in gone}
        known = replace(base, **usual)
        return replace(cls.from_json(rest, base=known), **gone)

    def to_json(self) -> Json:
        """Return all settings, as stored in a revision."""
        return {part.name: deepcopy(getattr(self, part.name)) for part in fields(self)}


# By part: the key that names something which a package provides, or provided to an earlier version.
_NAMED_BY = {"algorithm": "name", "window": "aging"}


def _is_gone(part: str, settings: Mapping[str, Any]) -> bool:
    """Return whether the named algorithm or decay function is unknown here."""
    known = all_algorithms() if part == "algorithm" else DECAY_FUNCTIONS
    return settings.get(_NAMED_BY[part], next(iter(known))) not in known


def without_unknown_decay(settings: Any) -> tuple[Any, str]:
    """A document's settings without a window whose decay function is unknown, and the function's name, else "".

    Packages could bring decay functions to earlier versions. Without a window the policy's own one stays.
    """
    window = settings.get("window") if isinstance(settings, Mapping) else None
    aging = window.get("aging") if isinstance(window, Mapping) else None
    if not isinstance(aging, str) or aging in DECAY_FUNCTIONS:
        return settings, ""
    return {part: value for part, value in settings.items() if part != "window"}, aging


_DEFAULTS: dict[str, Json] = {
    "algorithm": {"name": "aequus", "operator": "relative", "resolution": 10_000, "factor_from": "rank"},
    "metric": {"weights": {"cpu_s": 1.0}, "class_factors": [], "site_factors": []},
    "window": {
        "length_s": 7_776_000,
        "aging": "exponential",
        "half_life_s": 604_800,
        "granularity_s": 3_600,
        "factor": 0.5,
    },
    "approach": {"local": "historical", "global": "historical"},
    "tolerance": {"relative": 0.1, "points": 0.5},
    "review": {"points": None, "users": None},
}


# Keys that are optional, by part.
_OPTIONAL = {"tolerance": ("leaves",)}


class _Reader:
    """Validates values and collects all problems, so that one error reports them together."""

    def __init__(self) -> None:
        self.problems: list[FieldProblem] = []

    def problem(self, where: str, message: str) -> None:
        self.problems.append(FieldProblem(where, message))

    def mapping(self, value: object, where: str, *, allowed: list[str] | None = None) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            self.problem(where, "must be an object")
            return {}
        for key in value:
            if allowed is not None and key not in allowed:
                self.problem(f"{where}.{key}", f"is unknown; known are {', '.join(allowed)}")
        return value

    def number(self, value: object, where: str, least: float, most: float) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)  # rejects NaN, too
        self.problem(where, f"must be a number from {least:g} to {most:g}")
        return least

    def whole(self, value: object, where: str, least: int, most: int) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.problem(where, f"must be a whole number from {least} to {most}")
        return least

    def choice(self, value: object, where: str, allowed: tuple[str, ...]) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        self.problem(where, f"must be one of {', '.join(allowed)}")
        return allowed[0]

    def parameter(self, value: object, where: str, parameter: Parameter) -> Any:
        try:
            return parameter.read(value)
        except (ValueError, OverflowError):
            self.problem(where, f"must be {parameter.allowed}")
            return parameter.default

    def refuse(self) -> None:
        if self.problems:
            first = self.problems[0]
            raise Invalid(f"{first.where} {first.message}.", code="bad_settings", fields=self.problems)


def _over(checked: _Reader, values: Mapping[str, Any], start: Json, part: str) -> Json:
    """Return the given part, with omitted keys from its base."""
    if part not in values:
        return deepcopy(start[part])
    allowed = [*_DEFAULTS[part], *_OPTIONAL.get(part, ())]
    return {**start[part], **checked.mapping(values[part], f"settings.{part}", allowed=allowed)}


def _algorithm(checked: _Reader, algorithm: object, start: Json) -> Json:
    """Validate the algorithm's parameters by its own registry entry."""
    asked = checked.mapping(algorithm, "settings.algorithm")
    try:
        name = asked.get("name", start["name"])
        if not isinstance(name, str) or name != start["name"]:
            return read_algorithm({**asked, "name": name})
        wanted = {**start, **asked}
        parameters = get_algorithm(name).parameters
        applying = {p.name for p in parameters if p.applies(wanted)}
        leftover = {p.name for p in parameters if p.name not in asked and p.name not in applying}
        if {p.name for p in parameters if p.name in applying and not p.is_optional} <= asked.keys():
            # All required parameters are given, so omitted optional ones get their defaults, not those of the base.
            leftover |= {p.name for p in parameters if p.is_optional} - asked.keys()
        return read_algorithm({key: value for key, value in wanted.items() if key not in leftover})
    except BadParameter as error:
        checked.problem(f"settings.{error.place or 'algorithm'}", error.message)
        return start


def _metric(checked: _Reader, metric: Json) -> Json:
    weights = checked.mapping(metric["weights"], "settings.metric.weights", allowed=list(RESOURCES))
    read = {
        name: checked.number(weight, f"settings.metric.weights.{name}", 0, 1e15) for name, weight in weights.items()
    }
    if not any(read.values()):
        checked.problem("settings.metric.weights", "need at least one weight above 0")
    return {
        "weights": read,
        "class_factors": [_class_factor(checked, *each) for each in _factors(checked, metric, "class_factors")],
        "site_factors": _site_factors(checked, metric),
    }


def _factors(checked: _Reader, metric: Json, name: str) -> list[tuple[str, object]]:
    """Return each item of a list with its location in the input."""
    where, items = f"settings.metric.{name}", metric[name]
    if not isinstance(items, list) or len(items) > _MOST_FACTORS:
        checked.problem(where, f"must be a list of at most {_MOST_FACTORS} objects")
        return []
    return [(f"{where}[{i}]", each) for i, each in enumerate(items)]


def _class_factor(checked: _Reader, where: str, item: object) -> Json:
    factor = checked.mapping(item, where, allowed=[*_CLASS_NAMES, "factor"])
    read: Json = {}
    for name in _CLASS_NAMES:
        try:
            read[name] = clean_text(factor.get(name, ""), 256)
        except ValueError as error:
            checked.problem(f"{where}.{name}", str(error))
    read["factor"] = checked.number(factor.get("factor"), f"{where}.factor", 0, 1e6)
    return read


def _site_factors(checked: _Reader, metric: Json) -> list[Json]:
    """Validate the speeds of sites' cores relative to factor 1; each site once, named as in its usage records."""
    read: list[Json] = []
    for where, item in _factors(checked, metric, "site_factors"):
        factor = checked.mapping(item, where, allowed=["site", "factor"])
        try:
            site = clean_text(factor.get("site", ""), 128)
        except ValueError as error:
            checked.problem(f"{where}.site", str(error))
            continue
        if not site:
            checked.problem(f"{where}.site", "must name a site; sites without a factor have factor 1")
        elif any(other["site"] == site for other in read):
            checked.problem(f"{where}.site", f"is repeated: {site!r} already has a factor")
        read.append({"site": site, "factor": checked.number(factor.get("factor"), f"{where}.factor", 0, 1e6)})
    return read


def _window(checked: _Reader, value: object, start: Json) -> Json:
    """Validate the common window parameters and those of the chosen decay function, whose defaults fill in."""
    of_functions = set(decay_parameter_names())
    where, common = "settings.window", _DEFAULTS["window"]
    asked = checked.mapping(value, where, allowed=sorted({*common, *of_functions}))
    window = {**start, **asked}
    length = window["length_s"]
    read: Json = {
        "length_s": None if length is None else checked.whole(length, f"{where}.length_s", 1, _LONGEST_S),
        "aging": checked.choice(window["aging"], f"{where}.aging", tuple(DECAY_FUNCTIONS)),
        "half_life_s": checked.whole(window["half_life_s"], f"{where}.half_life_s", 1, _LONGEST_S),
        "granularity_s": checked.whole(window["granularity_s"], f"{where}.granularity_s", 1, _LONGEST_S),
        "factor": checked.number(window["factor"], f"{where}.factor", 0, 1),
    }
    if read["aging"] == "linear" and read["length_s"] is None:
        checked.problem(f"{where}.length_s", "is needed by linear aging, which reaches 0 at the window's end")
    function = DECAY_FUNCTIONS[read["aging"]]
    own = {parameter.name: parameter for parameter in function.parameters if parameter.name not in read}
    for name in sorted((of_functions - set(common) - set(own)) & set(asked)):
        checked.problem(f"{where}.{name}", f"is not a parameter of aging {function.name!r}")
    for name, parameter in own.items():
        read[name] = checked.parameter(window.get(name, parameter.default), f"{where}.{name}", parameter)
    return read


def _approach(checked: _Reader, approach: Json) -> Json:
    where = "settings.approach"
    return {scope: checked.choice(approach[scope], f"{where}.{scope}", APPROACHES) for scope in ("local", "global")}


def _tolerance(checked: _Reader, tolerance: Json) -> Json:
    read = _band(checked, tolerance, "settings.tolerance")
    if tolerance.get("leaves") is None:
        return read
    where = "settings.tolerance.leaves"
    leaves = checked.mapping(tolerance["leaves"], where, allowed=["relative", "points"])
    return {**read, "leaves": _band(checked, {**read, **leaves}, where)}


def _band(checked: _Reader, band: Json, where: str) -> Json:
    return {
        "relative": checked.number(band["relative"], f"{where}.relative", 0, 10),
        "points": checked.number(band["points"], f"{where}.points", 0, 100),
    }


def tolerance_at(tolerance: Mapping[str, Any], is_leaf: bool) -> Mapping[str, Any]:
    """Return `relative` and `points` for one entry: leaves may have their own."""
    return (is_leaf and tolerance.get("leaves")) or tolerance


def tolerances_of(tolerance: Mapping[str, Any], is_leaf: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[np.float64]]:
    """Return `relative` and `points` for many entries, as arrays in the shape of `is_leaf`."""
    leaves = tolerance_at(tolerance, is_leaf=True)
    return {name: np.where(is_leaf, leaves[name], tolerance[name]) for name in ("relative", "points")}


def _review(checked: _Reader, review: Json) -> Json:
    """Validate the size from which a change needs a second person; null means never."""
    points, users = review["points"], review["users"]
    where = "settings.review"
    return {
        "points": None if points is None else checked.number(points, f"{where}.points", 0, 100),
        "users": None if users is None else checked.whole(users, f"{where}.users", 0, 1_000_000),
    }


# Computes a tree with the policy's current usage; raises Invalid if a package fails.
Trial = Callable[[Policy, TreeColumns, Mapping[str, Any]], object]
_trials: list[Trial] = []


def register_trial(trial: Trial) -> None:
    """Register the trial computation of the room above, which knows usage; replaces an earlier one."""
    _trials[:] = [trial]


def refuse_unsuitable_tree(tree: TreeColumns, algorithm: Mapping[str, Any], policy: Policy | None = None) -> None:
    """Raise Invalid for a tree that an algorithm can't compute.

    Code `no_inherit`: the tree has inherited shares, which the algorithm doesn't support. Code `package_failed`: the
    algorithm or its operator is from a package and fails on this tree; with `policy`, also tried with its current
    usage.
    """
    if tree.inherit.any():
        refuse_inherited(tree, algorithm)
    if not package_of(algorithm):
        return
    leaf = tree.engine_tree().is_ranked
    with refusing_failed_packages():
        for used in (np.zeros(len(tree)), np.where(leaf, 1.0 + np.arange(len(tree)) % 7, 0.0)):
            compute(tree.engine_tree(), used, algorithm=algorithm)
    if policy is not None:
        for trial in _trials:
            trial(policy, tree, algorithm)


@contextmanager
def refusing_failed_packages() -> Iterator[None]:
    """Turn a failure in a package's code into Invalid, code `package_failed`, with the name of the package."""
    try:
        yield
    except PackageFailed as error:
        raise Invalid(
            f"{error.message}.", code=PackageFailed.code, fields=[FieldProblem(error.place, error.message)]
        ) from error


def refuse_inherited(tree: TreeColumns, algorithm: Mapping[str, Any]) -> None:
    """Raise Invalid (`no_inherit`) for an algorithm that doesn't support inherited shares; the tree must have some."""
    try:
        chosen = get_algorithm(str(algorithm["name"]))
    except BadParameter as error:
        raise Invalid(f"{error.message}.", code="bad_settings") from None
    if chosen.takes_inherit:
        return
    inheriting = np.flatnonzero(tree.inherit)
    first = tree.path(int(inheriting[0]))
    others = f" and {len(inheriting) - 1:,} more" if len(inheriting) > 1 else ""
    message = f"inherits its shares{others}, and {chosen.name} has no inherited shares: give numbers, or choose another"
    raise Invalid(
        f"{first} {message} algorithm.", code="no_inherit", fields=[FieldProblem(first, f"{message} algorithm")]
    )
