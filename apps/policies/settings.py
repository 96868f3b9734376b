"""The settings of a revision (algorithm, metric, window, approach, fallback, tolerance, review, units, rules of
allocations and limits that they ordered): defaults and validation.

Also refuses trees that the chosen algorithm can't compute.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from django.conf import settings as django_settings

from apps.core.derived_state import in_memory
from apps.core.errors import FieldProblem, Invalid
from apps.core.resource_kinds import LONGEST_RESOURCE_KIND, BadKind, kind_name
from apps.engine.algorithms import all_algorithms, compute, get_algorithm, package_of, read_algorithm
from apps.engine.calendar_resets import RESETS, zone_of
from apps.engine.decay_functions import DECAY_FUNCTIONS, LONGEST_DECAY_S, decay_parameter_names
from apps.engine.errors import BadParameter, PackageFailed
from apps.policies.account_limits import read_limits
from apps.policies.allocation_rules import read_rules
from apps.policies.models import Policy
from apps.policies.settings_reader import SettingsReader
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import clean_text
from apps.policies.units import CORE_HOUR, LONGEST_NAME, LONGEST_SYMBOL

RESOURCES = ("cpu_s", "gpu_s", "mem_gb_s", "node_s", "billing")
APPROACHES = ("historical", "active", "predictive")
MOST_WEIGHTS = 100  # of a metric or a unit
_MOST_FACTORS = 1_000
_CLASS_NAMES = ("queue", "partition", "qos")
_MOST_UNITS = 20
_LONGEST_MINIMUM_S = 86_400

DERIVED_STATE = (
    in_memory(
        "_read_stored",
        holds="settings of revisions and snapshots, checked",
        key="their JSON",
        inputs="their JSON, and the registered algorithms and decay functions",
        range="64 of them",
        ends="never: a process loads its packages once",
    ),
)

Json = dict[str, Any]

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
_LISTS = ("units", "rules", "limits")
_RESET, _RESET_ZONE = "reset", "reset_zone"  # of the window; a window without resets has neither

# Computes a tree with the policy's current usage; raises Invalid if a package fails.
Trial = Callable[[Policy, TreeColumns, Mapping[str, Any]], object]


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
    units: list[Json] = field(default_factory=list)  # beside the core-hour
    rules: list[Json] = field(default_factory=list)  # see allocation_rules
    limits: list[Json] = field(default_factory=list)  # see account_limits

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, base: PolicySettings | None = None) -> PolicySettings:
        """Parse settings; omitted parts, and omitted keys of a part, are those of `base` (by default, the defaults).

        If another algorithm is named, omitted parameters are the defaults of that algorithm.
        """
        checked = SettingsReader()
        start = (base or cls()).parts()
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
            "units": _units(checked, values["units"]) if "units" in values else start["units"],
            "rules": read_rules(checked, values["rules"]) if "rules" in values else start["rules"],
            "limits": read_limits(checked, values["limits"]) if "limits" in values else start["limits"],
        }
        if base is not None or "units" in values:  # a document may name the policy's units without declaring them
            _refuse_unknown_units(checked, parts["units"], parts["rules"])
        checked.refuse()
        return cls(**parts)

    @classmethod
    def from_stored(cls, data: Mapping[str, Any]) -> PolicySettings:
        """Load a revision's or snapshot's settings, even if the algorithm or decay function that they name is gone.

        Equal ones are one object, which nobody changes: each request reads those of a few revisions.
        """
        return _read_stored(json.dumps(dict(data)))

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
        """Return all settings, as stored in a revision, which has no empty lists of units, rules and limits."""
        return {part: value for part, value in self.parts().items() if value or part not in _LISTS}

    def parts(self) -> Json:
        """Return all settings, empty lists included, to compare them part by part."""
        return {part.name: deepcopy(getattr(self, part.name)) for part in fields(self)}


# By part: the key that names something which a package provides, or provided to an earlier version.
_NAMED_BY = {"algorithm": "name", "window": "aging"}


def _is_gone(part: str, settings: Mapping[str, Any]) -> bool:
    """Return whether the named algorithm or decay function is unknown here."""
    known = all_algorithms() if part == "algorithm" else DECAY_FUNCTIONS
    return settings.get(_NAMED_BY[part], next(iter(known))) not in known


@lru_cache(maxsize=64)
def _read_stored(text: str) -> PolicySettings:
    data = json.loads(text)
    try:
        return PolicySettings.from_json(data)
    except Invalid:
        kept: dict[str, Any] = {"algorithm": data.get("algorithm", {})}
        if _is_gone("window", data.get("window", {})):
            kept["window"] = {**_DEFAULTS["window"], **data["window"]}
        return replace(PolicySettings.from_json({**data, **{part: {} for part in kept}}), **kept)


def without_unknown_decay(settings: Any) -> tuple[Any, str]:
    """A document's settings without a window whose decay function is unknown, and the function's name, else "".

    Packages could bring decay functions to earlier versions. Without a window the policy's own one stays.
    """
    window = settings.get("window") if isinstance(settings, Mapping) else None
    aging = window.get("aging") if isinstance(window, Mapping) else None
    if not isinstance(aging, str) or aging in DECAY_FUNCTIONS:
        return settings, ""
    return {part: value for part, value in settings.items() if part != "window"}, aging


def _over(checked: SettingsReader, values: Mapping[str, Any], start: Json, part: str) -> Json:
    """Return the given part, with omitted keys from its base."""
    if part not in values:
        return deepcopy(start[part])
    allowed = [*_DEFAULTS[part], *_OPTIONAL.get(part, ())]
    return {**start[part], **checked.mapping(values[part], f"settings.{part}", allowed=allowed)}


def _algorithm(checked: SettingsReader, algorithm: object, start: Json) -> Json:
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


def _metric(checked: SettingsReader, metric: Json) -> Json:
    where = "settings.metric"
    return {
        "weights": _weights(checked, metric["weights"], f"{where}.weights"),
        "class_factors": _class_factors(checked, metric["class_factors"], f"{where}.class_factors"),
        "site_factors": _site_factors(checked, metric["site_factors"], f"{where}.site_factors"),
    }


def _weights(checked: SettingsReader, value: object, where: str) -> Json:
    """Validate the weights of resources, and of kinds such as gpu:h100, in small letters."""
    read: Json = {}
    for text, weight in checked.mapping(value, where).items():
        name = text
        if text not in RESOURCES:
            try:
                name = kind_name(str(text))
            except BadKind:
                known = f"{', '.join(RESOURCES)}, and kinds such as gpu:h100, license/matlab or energy"
                checked.problem(f"{where}.{str(text)[:LONGEST_RESOURCE_KIND]}", f"is unknown; known are {known}")
                continue
        if name in read:
            checked.problem(f"{where}.{text}", "is given twice")
        read[name] = checked.number(weight, f"{where}.{text}", 0, 1e15)
    if len(read) > MOST_WEIGHTS:
        checked.problem(where, f"must have at most {MOST_WEIGHTS} weights")
    if not any(read.values()):
        checked.problem(where, "need at least one weight above 0")
    return read


def _units(checked: SettingsReader, value: object) -> list[Json]:
    """Validate units: each has a name and a symbol of its own, and weighs at least one resource."""
    where, read = "settings.units", []
    if not isinstance(value, list) or len(value) > _MOST_UNITS:
        checked.problem(where, f"must be a list of at most {_MOST_UNITS} objects")
        return []
    taken = {CORE_HOUR.symbol.casefold(), CORE_HOUR.name.casefold()}
    for place, item in ((f"{where}[{i}]", each) for i, each in enumerate(value)):
        unit = checked.mapping(item, place, allowed=["name", "symbol", "weights", "class_factors", "minimum_charge_s"])
        if unit is not item:
            continue
        texts = {"name": (LONGEST_NAME, unit.get("name")), "symbol": (LONGEST_SYMBOL, unit.get("symbol"))}
        names = {key: checked.text(text, f"{place}.{key}", longest) for key, (longest, text) in texts.items()}
        for key, text in names.items():
            if text and text.casefold() in taken:
                checked.problem(f"{place}.{key}", f"is repeated: {text!r} is another unit")
        taken |= {text.casefold() for text in names.values()}
        factors = unit.get("class_factors", [])
        minimum = checked.whole(unit.get("minimum_charge_s", 0), f"{place}.minimum_charge_s", 0, _LONGEST_MINIMUM_S)
        read.append(
            {
                **names,
                "weights": _weights(checked, unit.get("weights"), f"{place}.weights"),
                "class_factors": _class_factors(checked, factors, f"{place}.class_factors"),
                "minimum_charge_s": minimum,
            }
        )
    return read


def _refuse_unknown_units(checked: SettingsReader, units: list[Json], rules: list[Json]) -> None:
    known = [CORE_HOUR.symbol, *(unit["symbol"] for unit in units)]
    for rule in rules:
        if rule["unit"] not in known:
            message = f"{rule['name']!r} needs the unit {rule['unit']!r}, which the policy hasn't: declare it"
            checked.problem("settings.rules", message)


def _class_factors(checked: SettingsReader, value: object, where: str) -> list[Json]:
    return [_class_factor(checked, *each) for each in checked.items(value, where, _MOST_FACTORS)]


def _class_factor(checked: SettingsReader, where: str, item: object) -> Json:
    factor = checked.mapping(item, where, allowed=[*_CLASS_NAMES, "factor"])
    read: Json = {}
    for name in _CLASS_NAMES:
        try:
            read[name] = clean_text(factor.get(name, ""), 256)
        except ValueError as error:
            checked.problem(f"{where}.{name}", str(error))
    read["factor"] = checked.number(factor.get("factor"), f"{where}.factor", 0, 1e6)
    return read


def _site_factors(checked: SettingsReader, value: object, where: str) -> list[Json]:
    """Validate the speeds of sites' cores relative to factor 1; each site once, named as in its usage records."""
    read: list[Json] = []
    for place, item in checked.items(value, where, _MOST_FACTORS):
        factor = checked.mapping(item, place, allowed=["site", "factor"])
        try:
            site = clean_text(factor.get("site", ""), 128)
        except ValueError as error:
            checked.problem(f"{place}.site", str(error))
            continue
        if not site:
            checked.problem(f"{place}.site", "must name a site; sites without a factor have factor 1")
        elif any(other["site"] == site for other in read):
            checked.problem(f"{place}.site", f"is repeated: {site!r} already has a factor")
        read.append({"site": site, "factor": checked.number(factor.get("factor"), f"{place}.factor", 0, 1e6)})
    return read


def _window(checked: SettingsReader, value: object, start: Json) -> Json:
    """Validate the common window parameters and those of the chosen decay function, whose defaults fill in."""
    of_functions = set(decay_parameter_names())
    where, common = "settings.window", _DEFAULTS["window"]
    asked = checked.mapping(value, where, allowed=sorted({*common, *of_functions, _RESET, _RESET_ZONE}))
    window = {**start, **asked}
    length = window["length_s"]
    read: Json = {
        "length_s": None if length is None else checked.whole(length, f"{where}.length_s", 1, LONGEST_DECAY_S),
        "aging": checked.choice(window["aging"], f"{where}.aging", tuple(DECAY_FUNCTIONS)),
        "half_life_s": checked.whole(window["half_life_s"], f"{where}.half_life_s", 1, LONGEST_DECAY_S),
        "granularity_s": checked.whole(window["granularity_s"], f"{where}.granularity_s", 1, LONGEST_DECAY_S),
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
    return {**read, **_resets(checked, window, where)}


def _resets(checked: SettingsReader, window: Json, where: str) -> Json:
    """When the calendar sets usage to zero, and the zone of its midnights, by default the site's; empty for never."""
    if window.get(_RESET) is None:
        return {}
    zone = window.get(_RESET_ZONE) or django_settings.TIME_ZONE
    try:
        zone_of(str(zone))
    except BadParameter as error:
        checked.problem(f"{where}.{_RESET_ZONE}", f"is {error.message}")
    return {_RESET: checked.choice(window[_RESET], f"{where}.{_RESET}", RESETS), _RESET_ZONE: str(zone)}


def _approach(checked: SettingsReader, approach: Json) -> Json:
    where = "settings.approach"
    return {scope: checked.choice(approach[scope], f"{where}.{scope}", APPROACHES) for scope in ("local", "global")}


def _tolerance(checked: SettingsReader, tolerance: Json) -> Json:
    read = _band(checked, tolerance, "settings.tolerance")
    if tolerance.get("leaves") is None:
        return read
    where = "settings.tolerance.leaves"
    leaves = checked.mapping(tolerance["leaves"], where, allowed=["relative", "points"])
    return {**read, "leaves": _band(checked, {**read, **leaves}, where)}


def _band(checked: SettingsReader, band: Json, where: str) -> Json:
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


def _review(checked: SettingsReader, review: Json) -> Json:
    """Validate the size from which a change needs a second person; null means never."""
    points, users = review["points"], review["users"]
    where = "settings.review"
    return {
        "points": None if points is None else checked.number(points, f"{where}.points", 0, 100),
        "users": None if users is None else checked.whole(users, f"{where}.users", 0, 1_000_000),
    }


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
