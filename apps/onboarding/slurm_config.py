"""Convert Slurm's fair-share configuration (`scontrol show config`, `show partition`) to policy settings. Pure
functions.

Each relevant line is listed with the setting it became, or as having no counterpart. Other lines are ignored; a
relevant value that can't be read is rejected with its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid

MOST_BYTES = 4 * 2**20
_MOST_SHOWN = 200
_PAIR = re.compile(r"\s*([A-Za-z]\w*)\s*=\s*(.*?)\s*")
_PARTITION = re.compile(r"PartitionName=(\S+)")
_WEIGHTS = re.compile(r'TRESBillingWeights="?([^\s"]+)"?')
_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,8})(?::(\d{1,8}))?(?::(\d{1,8}))?", re.ASCII)
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})")
_FAIR_TREE_SINCE = (19, 5)
_NOT_SET = frozenset({"", "(null)", "none", "n/a"})
CALC_PERIOD_S, HALF_LIFE_S = 300, 604_800  # Slurm's defaults

Json = dict[str, Any]


@dataclass(frozen=True)
class ConfigLine:
    """A setting of Slurm and its counterpart."""

    name: str
    value: str
    meaning: Annotated[str, "What it became"]
    is_carried: Annotated[bool, "false: a policy has nothing like it"] = True

    def to_json(self) -> Json:
        return {"name": self.name, "value": self.value, "meaning": self.meaning, "is_carried": self.is_carried}


@dataclass(frozen=True)
class SlurmConfig:
    """Result of the conversion. settings: parts of PolicySettings, for `PolicySettings.from_json`."""

    cluster: str
    settings: Json
    lines: tuple[ConfigLine, ...]


@dataclass
class _Read:
    """Read configuration. values: (value, line) by lower-case name. weights: TRESBillingWeights by partition."""

    values: dict[str, tuple[str, int]] = field(default_factory=dict)
    weights: dict[str, str] = field(default_factory=dict)
    lines: list[ConfigLine] = field(default_factory=list)

    def value(self, name: str) -> str:
        """Value of a setting; "" if it is missing or null."""
        found = self.values.get(name.lower(), ("", 0))[0]
        return "" if found.lower() in _NOT_SET else found

    def duration_s(self, name: str, default: int) -> int:
        text = self.value(name)
        if not text:
            return default
        seconds = _seconds(text)
        if seconds is None:
            line = self.values[name.lower()][1]
            message = _("%(value)s is not a time such as 7-00:00:00 or minutes") % {"value": repr(text[:40])}
            raise Invalid(
                f"{name}: {message}.",
                code="bad_slurm_config",
                fields=[FieldProblem(f"line {line}", f"{name} {message}")],
            )
        return seconds

    def note(self, name: str, meaning: str, *, is_carried: bool = True) -> None:
        value = self.values.get(name.lower(), ("", 0))[0]
        self.lines.append(ConfigLine(name, value[:_MOST_SHOWN], meaning, is_carried))


def read_slurm_config(text: str) -> SlurmConfig:
    """Read a text with either or both outputs in any order, or `slurm.conf`.

    Raises:
        Invalid: it is something else, or a time can't be read.
    """
    found = _read(text)
    if "prioritytype" not in found.values:
        message = _("PriorityType is missing: send the whole output of scontrol show config.")
        raise Invalid(message, code="no_slurm_config", fields=[FieldProblem("PriorityType", "is missing")])
    settings = {"algorithm": _algorithm(found), "window": _window(found), "metric": _metric(found)}
    _note_others(found)
    return SlurmConfig(found.value("ClusterName"), settings, tuple(found.lines))


def _read(text: str) -> _Read:
    found = _Read()
    partition = ""
    for number, raw in enumerate(text[:MOST_BYTES].splitlines(), 1):
        line = raw.split("#", 1)[0]
        begins = _PARTITION.search(line)
        if begins:
            partition = begins[1]
        elif not line[:1].isspace():
            partition = ""
        weights = _WEIGHTS.search(line)
        if partition:
            if weights and weights[1].lower() not in _NOT_SET:
                found.weights[partition] = weights[1]
            continue
        pair = _PAIR.fullmatch(line)
        if pair:
            found.values.setdefault(pair[1].lower(), (pair[2].strip("\"'"), number))
    return found


def _seconds(text: str) -> int | None:
    """Seconds of `7-00:00:00`, `1-12:30`, `02:30:00`, `30:15` (minutes and seconds), or minutes alone."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    days, first, second, third = (None if part is None else int(part) for part in match.groups())
    if days is not None:
        return days * 86_400 + (first or 0) * 3600 + (second or 0) * 60 + (third or 0)
    if third is not None:
        return (first or 0) * 3600 + (second or 0) * 60 + third
    return (first or 0) * 60 + (second or 0)


# --- Algorithm --------------------------------------------------------------------------------------------------------
def _algorithm(found: _Read) -> Json:
    kind = found.value("PriorityType").lower()
    flags = {flag.strip().upper() for flag in found.value("PriorityFlags").split(",")} - {""}
    if kind != "priority/multifactor":
        found.note(
            "PriorityType", _("Slurm computes no fair share here: Fair Tree, its default, is chosen."), is_carried=False
        )
        return {"name": "slurm-fair-tree"}
    found.note("PriorityType", _("Fair share is one of several factors."))
    if "DEPTH_OBLIVIOUS" in flags:
        found.note("PriorityFlags", _("Depth-oblivious algorithm."))
        return _damped(found, "slurm-depth-oblivious")
    if "NO_FAIR_TREE" in flags or ("FAIR_TREE" not in flags and _is_before_fair_tree(found)):
        found.note("PriorityFlags", _("Classic algorithm."))
        return _damped(found, "slurm-classic")
    found.note("PriorityFlags", _("Fair Tree, Slurm’s default since 19.05."))
    if found.value("FairShareDampeningFactor") not in ("", "1"):
        found.note("FairShareDampeningFactor", _("Has no effect under Fair Tree, here and in Slurm."))
    return {"name": "slurm-fair-tree"}


def _is_before_fair_tree(found: _Read) -> bool:
    version = _VERSION.match(found.value("SLURM_VERSION"))
    return version is not None and (int(version[1]), int(version[2])) < _FAIR_TREE_SINCE


def _damped(found: _Read, name: str) -> Json:
    text = found.value("FairShareDampeningFactor") or "1"
    factor = int(text) if text.isascii() and text.isdigit() and 0 < int(text[:9]) <= 65_535 else 1
    found.note("FairShareDampeningFactor", _("Damping factor %(n)s.") % {"n": factor})
    return {"name": name, "damping_factor": factor}


# --- Decay ------------------------------------------------------------------------------------------------------------
def _window(found: _Read) -> Json:
    half_life_s = found.duration_s("PriorityDecayHalfLife", HALF_LIFE_S)
    period_s = found.duration_s("PriorityCalcPeriod", CALC_PERIOD_S)
    resets = found.value("PriorityUsageResetPeriod")
    if resets:
        meaning = _("No counterpart: usage is not set to zero at fixed dates. A window length comes nearest.")
        found.note("PriorityUsageResetPeriod", meaning, is_carried=False)
    if not half_life_s:
        found.note("PriorityDecayHalfLife", _("Usage does not decay; the window has no end."))
        return {"aging": "none", "length_s": None}
    found.note("PriorityDecayHalfLife", _("Decay function Slurm, with 0.693 for ln 2; the window has no end."))
    meaning = _("Usage decays from the start of its period, as Slurm charges it, not from the end of its hour.")
    found.note("PriorityCalcPeriod", meaning)
    return {"aging": "slurm", "length_s": None, "half_life_s": half_life_s, "calc_period_s": period_s}


# --- Metric -----------------------------------------------------------------------------------------------------------
def _metric(found: _Read) -> Json:
    """The metric. Slurm always records billing; AccountingStorageTRES only adds resources."""
    for partition, weights in sorted(found.weights.items()):
        name = f"TRESBillingWeights ({partition})"
        found.lines.append(
            ConfigLine(name, weights[:_MOST_SHOWN], _("In the billing that each job’s AllocTRES records."))
        )
    if found.weights:
        found.note("AccountingStorageTRES", _("Usage counts billing units."))
        return _counting("billing")
    found.note("AccountingStorageTRES", _("Usage counts CPU seconds: no partition has TRESBillingWeights."))
    return _counting("cpu_s")


def _counting(resource: str) -> Json:
    return {"weights": {resource: 1.0}}


# --- Settings without a counterpart -----------------------------------------------------------------------------------
def _note_others(found: _Read) -> None:
    enforced = {word.strip().lower() for word in found.value("AccountingStorageEnforce").split(",")}
    if "accountingstorageenforce" in found.values and not enforced & {"limits", "safe", "all"}:
        lost = _("Without limits Slurm loses the last minutes of each job; here they count.")
        found.note("AccountingStorageEnforce", lost, is_carried=False)
    for name, meaning in _OTHERS.items():
        if found.value(name) not in ("", "0"):
            found.note(name, meaning(), is_carried=False)


_OTHERS: Mapping[str, Callable[[], str]] = {
    "PriorityWeightFairShare": lambda: _("Stays in Slurm: it weights the factor within a job’s priority."),
    "PrioritySiteFactorPlugin": lambda: _("Stays in Slurm."),
}
