"""Convert Slurm's fair-share configuration to policy settings: `scontrol show config`, `scontrol show partition`,
`sacctmgr show qos`. Pure functions.

Each relevant line is listed with the setting it became, or as having no counterpart. Other lines are ignored; a
relevant value that can't be read is rejected with its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

from django.conf import settings
from django.utils.translation import gettext as _

from agent.site_commands import CONFIG, PARTITIONS, text_of
from apps.core.errors import FieldProblem, Invalid
from apps.core.typed_numbers import read_whole
from apps.engine.calendar_resets import RESETS
from apps.policies.formats.escaped_lines import logical_lines, plain_line
from apps.priorities.slurm_qos import COMMAND as QOS_COMMAND
from apps.priorities.slurm_qos import class_factors, is_cut_off, read_usage_factors
from apps.usage.parsers.slurm_billing import MAX_TRES, MAX_TRES_GRES, BillingWeights, read_weights

MOST_SLURM_CONFIG_BYTES = 4 * 2**20
_LONGEST_SHOWN_VALUE = 200
_MOST_TIME_DIGITS = 12  # of seconds since 1970
_PAIR = re.compile(r"\s*+([A-Za-z]\w*+)\s*+=\s*+(.*)")
_VALUE = re.compile(r'"([^"]*)"|(\S*)')
_PARTITION = re.compile(r'\s*+PartitionName\s*+=\s*+"?([^\s"]++)"?(.*)', re.IGNORECASE)
_WEIGHTS = re.compile(r'\bTRESBillingWeights\s*=\s*(?:"([^"]*)"|(\S+))', re.IGNORECASE)
_INCLUDE = re.compile(r"include\s+(\S+)\s*", re.IGNORECASE)
_DEFAULT = "DEFAULT"  # in slurm.conf, a partition whose values are those of the partitions below it
_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,8})(?::(\d{1,8}))?(?::(\d{1,8}))?", re.ASCII)
_IN_WORDS = re.compile(r"(\d{1,8})\s*(sec|min|hour|day)[a-z]*", re.ASCII | re.IGNORECASE)
_UNITS_S = {"sec": 1, "min": 60, "hour": 3600, "day": 86_400}
_NOT_ONE_OPTION = re.compile(r"(?<!\w)[^\WA-Za-z]*+[A-Za-z]\w*+\s*+=")
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})")
_FAIR_TREE_SINCE = (19, 5)
_NOT_SET = frozenset({"", "(null)", "none", "n/a"})
CALC_PERIOD_S, HALF_LIFE_S = 300, 604_800  # Slurm's defaults
CHARGES_RUNNING: Mapping[str, str] = {"local": "active", "global": "active"}

Json = dict[str, Any]

_OTHERS: Mapping[str, Callable[[], str]] = {
    "PriorityWeightFairShare": lambda: _("Stays in Slurm: it weights the factor within a job’s priority."),
    "PrioritySiteFactorPlugin": lambda: _("Stays in Slurm."),
}
_RELEVANT = frozenset(
    {
        "clustername",
        "prioritytype",
        "priorityflags",
        "prioritydecayhalflife",
        "prioritycalcperiod",
        "priorityusageresetperiod",
        "fairsharedampeningfactor",
        "accountingstorageenforce",
        *map(str.lower, _OTHERS),
    }
)


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
    """Result of the conversion. settings: parts of PolicySettings, for `PolicySettings.from_json`.

    billing_weights: of a usage source, which computes billing exactly with them; see BillingWeights.
    """

    cluster: str
    settings: Json
    billing_weights: Json
    lines: tuple[ConfigLine, ...]


@dataclass
class _Read:
    """Read configuration. values: (value, line) by lower-case name. weights: TRESBillingWeights by partition, if it has
    some. usage_factors: by QOS; None if unknown. included: files that slurm.conf includes, with the line.
    """

    values: dict[str, tuple[str, int]] = field(default_factory=dict)
    has_partitions: bool = False
    weights: dict[str, str] = field(default_factory=dict)
    usage_factors: dict[str, float] | None = None
    included: list[tuple[str, int]] = field(default_factory=list)
    lines: list[ConfigLine] = field(default_factory=list)

    def value(self, name: str) -> str:
        """Value of a setting; "" if it is missing or null."""
        text = self.values.get(name.lower(), ("", 0))[0]
        return "" if text.lower() in _NOT_SET else text

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
        self.lines.append(ConfigLine(name, value[:_LONGEST_SHOWN_VALUE], meaning, is_carried))

    def missing(self, name: str, meaning: str, command: str) -> None:
        """List a setting that isn't known, with the command that prints it."""
        remedy = _("%(meaning)s, because it is not known: add the output of %(command)s.")
        text = remedy % {"meaning": meaning, "command": command}
        self.lines.append(ConfigLine(name, "?", text, is_carried=False))


def read_slurm_config(text: str) -> SlurmConfig:
    """Read a text with some or all of the outputs in any order, or `slurm.conf`. What is missing is listed with the
    command that prints it.

    Raises:
        Invalid: it is something else, or a time can't be read.
    """
    config = _read(text)
    if "prioritytype" not in config.values:
        message = _("PriorityType is missing: send the whole output of scontrol show config.")
        if config.included:
            message += " " + _("It also has what %(files)s says.") % {
                "files": ", ".join(name for name, _line in config.included)[:_LONGEST_SHOWN_VALUE]
            }
        raise Invalid(message, code="no_slurm_config", fields=[FieldProblem("PriorityType", "is missing")])
    settings = {"algorithm": _algorithm(config), "window": _window(config), "metric": _metric(config)}
    # Slurm charges running jobs in each period.
    period_s = config.duration_s("PriorityCalcPeriod", CALC_PERIOD_S)
    meaning = _("Running jobs count as far as they have run: Slurm charges them every %(s)s s.") % {"s": period_s}
    config.lines.append(ConfigLine(_("Running jobs"), "active", meaning))
    settings["approach"] = dict(CHARGES_RUNNING)
    _note_others(config)
    _note_included(config)
    # The flag that changes the sum of weights; MAX_TRES_GRES comes before MAX_TRES.
    flags = _flags(config)
    billing_weights = BillingWeights(
        config.weights, next((flag for flag in (MAX_TRES_GRES, MAX_TRES) if flag in flags), "")
    ).to_json()
    return SlurmConfig(config.value("ClusterName"), settings, billing_weights, tuple(config.lines))


def _read(text: str) -> _Read:
    """Read lines as Slurm does: keys in any letter case, the last of equal ones counts, one option per line."""
    config = _Read(usage_factors=read_usage_factors(text[:MOST_SLURM_CONFIG_BYTES]))
    partition, is_block, default = "", False, ""
    for number, raw in logical_lines(text[:MOST_SLURM_CONFIG_BYTES]):
        line = plain_line(raw)
        begins = _PARTITION.match(line)
        if begins:
            # scontrol prints the name alone, and the options below it; slurm.conf has all in one line.
            partition, is_block = begins[1], "=" not in begins[2]
            config.has_partitions = True
            if partition.upper() == _DEFAULT:
                partition = _DEFAULT
            elif default:
                config.weights[partition] = default
        elif not line[:1].isspace():
            partition = ""
        weights = _WEIGHTS.search(line) if partition and (begins or is_block) else None
        if weights:
            value = next(part for part in weights.groups() if part is not None)
            if value.lower() not in _NOT_SET:
                _check_weights(value, number)
                if partition == _DEFAULT:
                    default = value
                else:
                    config.weights[partition] = value
        pair = _PAIR.fullmatch(line)
        if begins or (partition and is_block and not (pair and pair[1].lower() in _RELEVANT)):
            continue
        if included := _INCLUDE.fullmatch(line):
            config.included.append((included[1], number))
        elif pair:
            config.values[pair[1].lower()] = _one_value(pair[1], pair[2].rstrip(), number), number
    return config


def _one_value(name: str, text: str, line: int) -> str:
    """Return the value of an option; raise Invalid if another option follows it, for which Slurm refuses the file."""
    match = _VALUE.match(text)
    if match is None or name.lower() not in _RELEVANT:
        return text.strip("\"'")
    rest = text[match.end() :]
    if _NOT_ONE_OPTION.search(rest):
        message = _("%(name)s is followed by another option: write each in a line of its own, as Slurm reads them")
        raise Invalid(
            f"{message % {'name': name}}.",
            code="bad_slurm_config",
            fields=[FieldProblem(f"line {line}", message % {"name": name})],
        )
    return match[1] if match[1] is not None else text.strip("\"'")


def _check_weights(text: str, line: int) -> None:
    try:
        read_weights(text)
    except ValueError as error:
        message = f"TRESBillingWeights: {error}"
        raise Invalid(f"{message}.", code="bad_slurm_config", fields=[FieldProblem(f"line {line}", message)]) from error


def _seconds(text: str) -> int | None:
    """Seconds of `7-00:00:00`, `14-0`, `1-12:30`, `02:30:00`, `30:15` (minutes and seconds), minutes alone, or a number
    with its unit; Slurm rounds up to whole minutes."""
    in_words = _IN_WORDS.fullmatch(text)
    match = _DURATION.fullmatch(text)
    if in_words:
        seconds = int(in_words[1]) * _UNITS_S[in_words[2].lower()]
    elif match is None:
        return None
    else:
        days, first, second, third = (None if part is None else int(part) for part in match.groups())
        if days is not None or third is not None:
            seconds = (days or 0) * 86_400 + (first or 0) * 3600 + (second or 0) * 60 + (third or 0)
        else:
            seconds = (first or 0) * 60 + (second or 0)
    return -(-seconds // 60) * 60


def _algorithm(config: _Read) -> Json:
    kind = config.value("PriorityType").lower()
    flags = _flags(config)
    if kind != "priority/multifactor":
        config.note(
            "PriorityType", _("Slurm computes no fair share here: Fair Tree, its default, is chosen."), is_carried=False
        )
        return {"name": "slurm-fair-tree"}
    config.note("PriorityType", _("Fair share is one of several factors."))
    if "DEPTH_OBLIVIOUS" in flags:
        config.note("PriorityFlags", _("Depth-oblivious algorithm."))
        return _damped(config, "slurm-depth-oblivious")
    if "NO_FAIR_TREE" in flags or ("FAIR_TREE" not in flags and _is_before_fair_tree(config)):
        config.note("PriorityFlags", _("Classic algorithm."))
        return _damped(config, "slurm-classic")
    config.note("PriorityFlags", _("Fair Tree, Slurm’s default since 19.05."))
    if config.value("FairShareDampeningFactor") not in ("", "1"):
        config.note("FairShareDampeningFactor", _("Has no effect under Fair Tree, here and in Slurm."))
    return {"name": "slurm-fair-tree"}


def _flags(config: _Read) -> set[str]:
    return {flag.strip().upper() for flag in config.value("PriorityFlags").split(",")} - {""}


def _is_before_fair_tree(config: _Read) -> bool:
    version = _VERSION.match(config.value("SLURM_VERSION"))
    return version is not None and (int(version[1]), int(version[2])) < _FAIR_TREE_SINCE


def _damped(config: _Read, name: str) -> Json:
    text = config.value("FairShareDampeningFactor") or "1"
    factor = int(text) if text.isascii() and text.isdigit() and 0 < int(text[:9]) <= 65_535 else 1
    config.note("FairShareDampeningFactor", _("Damping factor %(n)s.") % {"n": factor})
    return {"name": name, "damping_factor": factor}


def _window(config: _Read) -> Json:
    half_life_s = config.duration_s("PriorityDecayHalfLife", HALF_LIFE_S)
    period_s = config.duration_s("PriorityCalcPeriod", CALC_PERIOD_S)
    reset = _reset(config)
    if not half_life_s:
        config.note("PriorityDecayHalfLife", _("Usage does not decay; the window has no end."))
        return {"aging": "none", "length_s": None, **reset}
    config.note("PriorityDecayHalfLife", _("Decay function Slurm, with 0.693 for ln 2; the window has no end."))
    config.note("PriorityCalcPeriod", _("Each job is charged by its own times, period by period, as Slurm does it."))
    window: Json = {"aging": "slurm", "length_s": None, "half_life_s": half_life_s, "calc_period_s": period_s}
    return {**window, "phase_s": _phase_s(config, period_s), **reset}


def _reset(config: _Read) -> Json:
    """The calendar that sets usage to zero; empty for none, and for NOW, which does it once when Slurm starts."""
    period = config.value("PriorityUsageResetPeriod").lower()
    if not period:
        return {}
    if period not in RESETS:
        meaning = _("Not carried over: usage is set to zero once, when Slurm reads its configuration.")
        config.note("PriorityUsageResetPeriod", meaning, is_carried=False)
        return {}
    zone = settings.TIME_ZONE
    meaning = _("Usage is set to zero at the calendar’s midnights in the site’s time zone, %(zone)s.") % {"zone": zone}
    config.note("PriorityUsageResetPeriod", meaning)
    return {"reset": period, "reset_zone": zone}


def _phase_s(config: _Read, period_s: int) -> int:
    """When a period starts: a second after the controller, from 1 to a whole period. 0 if that isn't known.

    The controller's time has no zone, so periods must divide the quarter hours by which zones differ.
    """
    if not period_s:
        return 0
    text, boot_s, command = config.value("BOOT_TIME"), 0.0, text_of(CONFIG)
    since_1970 = read_whole(text, _MOST_TIME_DIGITS)
    if since_1970 is not None:
        boot_s = float(since_1970)
    elif 900 % period_s:
        command = f"SLURM_TIME_FORMAT=%s {command}"
    else:
        with suppress(ValueError):
            boot_s = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    if not boot_s:
        config.missing("BOOT_TIME", _("Periods start at whole multiples of PriorityCalcPeriod"), command)
        return 0
    config.note("BOOT_TIME", _("A period starts there. A restart of slurmctld moves usage by less than one period."))
    return int(boot_s) % period_s + 1


def _metric(config: _Read) -> Json:
    """The metric. Slurm always records billing; AccountingStorageTRES only adds resources.

    Without weights Slurm's billing is the number of CPUs. Unknown factors of QOS leave those of the policy.
    """
    meaning = _("Billing is computed exactly where a log is imported with this configuration; Slurm’s records cut it.")
    for partition, weights in sorted(config.weights.items()):
        config.lines.append(ConfigLine(f"TRESBillingWeights ({partition})", weights[:_LONGEST_SHOWN_VALUE], meaning))
    if config.weights:
        config.note("AccountingStorageTRES", _("Usage counts billing units."))
    elif config.has_partitions:
        config.note("AccountingStorageTRES", _("Usage counts CPU seconds: no partition has TRESBillingWeights."))
    else:
        config.missing("TRESBillingWeights", _("Usage counts CPU seconds"), text_of(PARTITIONS))
    metric: Json = {"weights": {"billing" if config.weights else "cpu_s": 1.0}}
    if config.usage_factors is None:
        config.missing("UsageFactor", _("Each QOS counts once"), QOS_COMMAND)
        return metric
    for name, factor in sorted(config.usage_factors.items()):
        if is_cut_off(name):
            config.missing(f"UsageFactor ({name})", _("This QOS counts once"), QOS_COMMAND)
        elif factor != 1.0:
            meaning = _("Usage of this QOS counts %(factor)s times.") % {"factor": f"{factor:g}"}
            config.lines.append(ConfigLine(f"UsageFactor ({name})"[:_LONGEST_SHOWN_VALUE], f"{factor:g}", meaning))
    return {**metric, "class_factors": class_factors(config.usage_factors)}


def _note_included(config: _Read) -> None:
    for name, line in config.included:
        meaning = _("Not read (line %(line)s): send the output of scontrol show config, which has its values.")
        config.lines.append(
            ConfigLine("Include", name[:_LONGEST_SHOWN_VALUE], meaning % {"line": line}, is_carried=False)
        )


def _note_others(config: _Read) -> None:
    enforced = {word.strip().lower() for word in config.value("AccountingStorageEnforce").split(",")}
    if "accountingstorageenforce" in config.values and not enforced & {"limits", "safe", "all"}:
        lost = _("Without limits Slurm loses the last minutes of each job; here they count.")
        config.note("AccountingStorageEnforce", lost, is_carried=False)
    for name, meaning in _OTHERS.items():
        if config.value(name) not in ("", "0"):
            config.note(name, meaning(), is_carried=False)
