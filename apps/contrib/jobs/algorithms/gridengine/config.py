"""The scheduler's configuration in a case; omitted settings have the installed defaults of 8.1.9."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from apps.engine.case_fields import read_integer, read_number, read_table, refuse_unknown
from apps.engine.case_text import finite, shown
from apps.engine.errors import BadCase

LARGEST = 1e15  # bound of shares, tickets and weights: far beyond 32 bits, and products of three stay finite
LARGEST_USAGE = 1e300
AMENDMENTS = ("exclude_running", "default_zero", "linear_urgency", "even_split")
AS_SHIPPED = "8.1.9"
OF_2011 = "6.2"
PLACE = "config"
Policy = Literal["O", "F", "S"]
POLICIES: tuple[Policy, ...] = ("O", "F", "S")
DEFAULTS = {
    "weight_ticket": 0.5,
    "weight_urgency": 0.5,
    "weight_priority": 0.0,
    "weight_waiting_time": 0.278,
    "weight_deadline": 3600000.0,
    "weight_tickets_functional": 0.0,
    "weight_tickets_share": 0.0,
    "weight_user": 0.25,
    "weight_project": 0.25,
    "weight_department": 0.25,
    "weight_job": 0.25,
    "compensation_factor": 5.0,
    "halftime": 168.0,
    "auto_user_fshare": 0.0,
    "auto_user_oticket": 0.0,
    "auto_user_delete_time": 86400.0,
}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    AS_SHIPPED: DEFAULTS,
    OF_2011: DEFAULTS
    | {"weight_urgency": 0.1, "weight_ticket": 0.01, "weight_priority": 1.0, "weight_waiting_time": 0.0}
    | {"urgency": {"slots": 1000.0}},
}
MOST_FUNCTIONAL_JOBS = 200
OTHER_NAMES = (
    "preset",
    "policy_hierarchy",
    "share_override_tickets",
    "share_functional_shares",
    "max_functional_jobs_to_schedule",
    "usage_weight_list",
    "halflife_decay_list",
    "urgency",
    "variant",
)
# Names of sched_conf and sge_conf that decide when and where jobs run, not their priorities.
WITHOUT_EFFECT = (
    "algorithm",
    "auto_user_default_project",
    "default_duration",
    "enforce_user",
    "flush_finish_sec",
    "flush_submit_sec",
    "job_load_adjustments",
    "load_adjustment_decay_time",
    "load_formula",
    "max_pending_tasks_per_job",
    "max_reservation",
    "maxujobs",
    "params",
    "queue_sort_method",
    "report_pjob_tickets",
    "reprioritize_interval",
    "schedd_job_info",
    "schedule_interval",
)
_MOST_COUNTED_TICKET_JOBS = 1_000_000_000
_PAIR = re.compile(r"\s*([^=,:\s]+)\s*=\s*([^=,:\s]+)\s*")


@dataclass(frozen=True)
class Config:
    """The settings of `qconf -ssconf` that affect priorities; halftime_h in hours, half_lives_min in minutes."""

    weight_ticket: float
    weight_urgency: float
    weight_priority: float
    weight_waiting_time: float
    weight_deadline: float
    functional_tickets: float
    share_tree_tickets: float
    category_weights: Mapping[str, float]  # of user, project, department and job, as given
    compensation_factor: float
    halftime_h: float
    half_lives_min: Mapping[str, float]
    usage_weights: Mapping[str, float]
    hierarchy: tuple[Policy, ...]
    share_override_tickets: bool
    share_functional_shares: bool
    max_functional_jobs: int
    auto_user_fshare: float
    auto_user_oticket: float
    auto_user_delete_time_s: float  # 0: never
    urgency: Mapping[str, float]
    amendments: frozenset[str]

    @property
    def policies(self) -> tuple[tuple[Policy, bool], ...]:
        """The three policies in the order of computation, and whether each passes its tickets on."""
        rest = tuple(policy for policy in POLICIES if policy not in self.hierarchy)
        return tuple((policy, policy in self.hierarchy) for policy in self.hierarchy + rest)


def read_config(case: Mapping[str, Any]) -> Config:
    """Read the `config` of a case; BadCase with the location of an invalid value."""
    section = read_table(case, PLACE)
    refuse_unknown(section, (*DEFAULTS, *OTHER_NAMES), PLACE, without_effect=WITHOUT_EFFECT)
    preset = _read_preset(section.get("preset"))
    number = {
        name: read_number(section, name, PLACE, default=preset[name], minimum=0.0, maximum=LARGEST) for name in DEFAULTS
    }
    return Config(
        weight_ticket=number["weight_ticket"],
        weight_urgency=number["weight_urgency"],
        weight_priority=number["weight_priority"],
        weight_waiting_time=number["weight_waiting_time"],
        weight_deadline=number["weight_deadline"],
        functional_tickets=number["weight_tickets_functional"],
        share_tree_tickets=number["weight_tickets_share"],
        category_weights={kind: number[f"weight_{kind}"] for kind in ("user", "project", "department", "job")},
        compensation_factor=number["compensation_factor"],
        halftime_h=number["halftime"],
        half_lives_min=_read_amounts(section, "halflife_decay_list", {}, minimum=-LARGEST),
        usage_weights=_read_amounts(section, "usage_weight_list", {"cpu": 1.0}, minimum=0.0),
        hierarchy=_read_hierarchy(section.get("policy_hierarchy")),
        share_override_tickets=_read_flag(section, "share_override_tickets"),
        share_functional_shares=_read_flag(section, "share_functional_shares"),
        max_functional_jobs=read_integer(
            section,
            "max_functional_jobs_to_schedule",
            PLACE,
            default=MOST_FUNCTIONAL_JOBS,
            minimum=0,
            maximum=_MOST_COUNTED_TICKET_JOBS,
        ),
        auto_user_fshare=number["auto_user_fshare"],
        auto_user_oticket=number["auto_user_oticket"],
        auto_user_delete_time_s=number["auto_user_delete_time"],
        urgency=_read_urgency(section, preset.get("urgency", {})),
        amendments=read_variant(section.get("variant")),
    )


def _read_preset(value: object) -> Mapping[str, Any]:
    """Defaults of omitted settings: as installed by 8.1.9, or by 6.2."""
    preset = PRESETS.get(AS_SHIPPED if value is None else value) if isinstance(value, str | None) else None
    if preset is None:
        allowed = ", ".join(f'"{name}"' for name in PRESETS)
        raise BadCase(f"unknown preset {shown(value)}; allowed are {allowed}", place=f"{PLACE}.preset")
    return preset


def read_variant(value: object) -> frozenset[str]:
    """The amendments that `variant` joins with `+`; none for 8.1.9."""
    if value is None or value == AS_SHIPPED:
        return frozenset()
    names = [part.strip() for part in value.split("+")] if isinstance(value, str) else []
    if not names or len(set(names)) != len(names) or not set(names) <= set(AMENDMENTS):
        allowed = f'"{AS_SHIPPED}", or {", ".join(AMENDMENTS)}, several joined by +'
        raise BadCase(f"unknown variant {shown(value)}; allowed are {allowed}", place=f"{PLACE}.variant")
    return frozenset(names)


def _read_hierarchy(value: object) -> tuple[Policy, ...]:
    if value is None:
        return POLICIES
    text = value.upper() if isinstance(value, str) else "?"
    letters = tuple(policy for letter in text for policy in POLICIES if policy == letter)
    if text == "NONE":
        return ()
    if len(letters) != len(text) or len(set(letters)) != len(letters):
        what = 'letters of "OFS", each at most once, or "NONE" are allowed'
        raise BadCase(f"{shown(value)} can't be used; {what}", place=f"{PLACE}.policy_hierarchy")
    return letters


def _read_flag(section: Mapping[str, Any], name: str) -> bool:
    """Read true and false, and the words that `qconf` prints for them."""
    value = section.get(name)
    words = {None: True, True: True, False: False, "TRUE": True, "FALSE": False}
    key = value.upper() if isinstance(value, str) else value
    if not isinstance(value, bool | str | None) or key not in words:
        raise BadCase(f"{shown(value)} can't be used; true or false is allowed", place=f"{PLACE}.{name}")
    return words[key]


def _read_urgency(section: Mapping[str, Any], default: Mapping[str, float]) -> Mapping[str, float]:
    """Urgency by resource, which may be negative; a resource that isn't named has none."""
    if section.get("urgency") is None:
        return default
    table = read_object(section, "urgency", PLACE)
    return _read_numbers(table, f"{PLACE}.urgency", minimum=-LARGEST)


def _read_numbers(table: Mapping[str, Any], place: str, *, minimum: float) -> dict[str, float]:
    return {name: read_number(table, name, place, default=0.0, minimum=minimum, maximum=LARGEST) for name in table}


def read_object(section: Mapping[str, Any], name: str, place: str) -> dict[str, Any]:
    """An object within an object, empty if absent; `place` is the full location of the result."""
    try:
        return read_table(section, name)
    except BadCase as problem:
        raise BadCase(problem.message, place=f"{place}.{problem.place}") from None


def _read_amounts(
    section: Mapping[str, Any], name: str, default: dict[str, float], *, minimum: float
) -> dict[str, float]:
    """`cpu=1.0,mem=0.5` as printed by `qconf` (`none`: nothing), or an object of names and numbers."""
    value = section.get(name)
    place = f"{PLACE}.{name}"
    if value is None:
        return default
    if isinstance(value, dict):
        return _read_numbers(read_object(section, name, PLACE), place, minimum=minimum)
    pairs = _pairs(value) if isinstance(value, str) else None
    if pairs is None or not all(minimum <= amount <= LARGEST for amount in pairs.values()):
        what = 'an object of names and numbers, "cpu=1,mem=0.5" or "none" is allowed'
        raise BadCase(f"{shown(value)} can't be used; {what}", place=place)
    return pairs


def _pairs(text: str) -> dict[str, float] | None:
    """The pairs of a list in qconf's notation; None if it is no such list."""
    if text.strip().upper() == "NONE":
        return {}
    amounts: dict[str, float] = {}
    for part in re.split("[,:]", text):
        pair = _PAIR.fullmatch(part)
        amount = _amount(pair[2]) if pair else None
        if pair is None or amount is None or pair[1] in amounts:
            return None
        amounts[pair[1]] = amount
    return amounts


def _amount(text: str) -> float | None:
    try:
        return finite(float(text))
    except ValueError:
        return None
