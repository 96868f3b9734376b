"""Read and check a scenario; errors name the invalid field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from apps.contrib.lab.simulation.streams import HOUR_S, Site, Stream, read_streams
from apps.engine.algorithms import read_algorithm
from apps.engine.algorithms.aequus import puts_zero_shares_last
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.case_fields import read_flag, read_integer, read_number, read_table, refuse_unknown
from apps.engine.case_text import RepeatedKeys, finite, read_id, shown
from apps.engine.cases import Policy, read_policy
from apps.engine.decay import Window
from apps.engine.decay_functions import decay_parameter_names
from apps.engine.errors import BadCase, EngineError
from apps.engine.operators import get_operator, installed_operators
from apps.engine.parameters import Settings

APPROACHES = ("historical", "active", "predictive")
DISPATCHES = ("priority", "sam")
BOOKED_AT = ("start", "end", "submit")
FRONTS = ("lifo", "fifo")
SCOPES = ("local", "global")
MOST_SCENARIO_SITES = 10_000
MOST_SITE_ENTRIES = 5_000_000  # sites × entries
MOST_REFRESHES = 5_000_000
MOST_RECOMPUTES = 500_000
MOST_DECISION_STEPS = 1_000_000_000  # jobs × entries, proportional to the work of all decisions
MOST_REPORTS = 10_000
MOST_KEPT_SAMPLES = 20_000_000  # entries × half hours
INCREMENTAL = ("aequus", "gridwide")
DEFAULT_PRIORITY_REFRESH_S = 60.0
LONGEST_H = 1_000_000.0
ALL_TRIED = 2**62
AGING_STEP_S = 300.0  # interval at which weights are recomputed; in between, new usage has weight 1


@dataclass(frozen=True)
class Noise:
    """Defects of usage data: its delay, the part of jobs that is lost, and the steps in which shares are known."""

    delay_s: float = 0.0
    loss: float = 0.0
    resolution: int = 0  # 0: exact


@dataclass(frozen=True)
class Sam:
    """SAM's queue with a front and a back, instead of priorities."""

    booked_at: str
    front: str


@dataclass(frozen=True, eq=False)
class PastUsage:
    """Hourly usage before the start, (m,). hour: of its beginning, from the start, negative. site: −1 for elsewhere."""

    entry: IntArray
    site: IntArray
    hour: IntArray
    amount: FloatArray


class Resize(NamedTuple):
    """From this instant on, the site with this index has so many processors."""

    at_s: float
    site: int
    cpus: int


@dataclass(frozen=True, eq=False)
class Scenario:
    """Everything a simulation needs. scope_is_global: (n,) whether an entry's children are compared by global usage.

    algorithm: complete settings, None under `sam`. priority_refresh_s: 0 if priorities are computed at every start.
    past: None if nothing ran before. origin_s: the start in seconds since 1970. aging_step_s: between renewals of the
    weights of usage by its age. most_tried: pending jobs of all entries that one backfill looks at. resizes: when sites
    get another number of processors, in order of time; running jobs continue.
    """

    id: str | int | float | None
    seed: int
    end_s: float
    sites: tuple[Site, ...]
    policy: Policy
    scope_is_global: BoolArray
    algorithm: Settings | None
    local_approach: int
    global_approach: int
    global_refresh_s: float
    window: Window
    noise: Noise
    priority_refresh_s: float
    backfill: bool
    sam: Sam | None
    streams: tuple[Stream, ...]
    report_h: tuple[int | float, ...]
    past: PastUsage | None = None
    origin_s: float = 0.0
    aging_step_s: float = AGING_STEP_S
    most_tried: int = ALL_TRIED
    resizes: tuple[Resize, ...] = ()


def read_scenario(case: object, *, seed: int | None, traces: Mapping[str, str]) -> Scenario:
    """Read one scenario; EngineError with the invalid field and the allowed values."""
    if isinstance(case, BadCase):
        raise case
    if not isinstance(case, dict):
        raise BadCase("a scenario is an object with sites, policy and workload")
    if isinstance(case, RepeatedKeys):
        raise BadCase("given twice", place=case.repeated)
    scenario_id = read_id(case.get("id"))
    hours = read_number(case, "hours", "", minimum=1e-3, maximum=LONGEST_H)
    sites = _read_sites(case.get("sites"))
    policy = read_policy(case)
    if len(sites) * policy.tree.n_entries > MOST_SITE_ENTRIES:
        raise BadCase(
            f"{len(sites)} sites with {policy.tree.n_entries} entries; at most {MOST_SITE_ENTRIES:,} of both together",
            place="sites",
        )
    sam = _read_sam(case)
    algorithm = None if sam else _read_algorithm(case)
    usage = read_table(case, "usage")
    refuse_unknown(usage, ("local", "global", "global_refresh_s", "window"), "usage")
    scenario = Scenario(
        id=scenario_id,
        seed=_read_seed(case, seed),
        end_s=hours * HOUR_S,
        sites=sites,
        policy=policy,
        scope_is_global=_read_scopes(case, policy),
        algorithm=algorithm,
        local_approach=_read_word(usage, "local", APPROACHES, "active", "usage."),
        global_approach=_read_word(usage, "global", APPROACHES, "active", "usage."),
        global_refresh_s=read_number(usage, "global_refresh_s", "usage", default=60.0, minimum=1.0),
        window=_read_window(usage.get("window")),
        noise=_read_noise(case),
        priority_refresh_s=_read_priority_refresh(case, algorithm),
        backfill=read_flag(case, "backfill"),
        sam=sam,
        streams=read_streams(case.get("workload"), end_s=hours * HOUR_S, sites=sites, policy=policy, traces=traces),
        report_h=_read_reports(case.get("report_h"), case["hours"]),
    )
    refuse_endless(scenario)
    return scenario


def _read_sites(rows: object) -> tuple[Site, ...]:
    if not isinstance(rows, list) or not rows:
        what = "are missing" if rows is None or rows == [] else f"{shown(rows)} can't be used"
        raise BadCase(f'{what}; a list such as [{{"name": "R1", "cpus": 100}}] is allowed', place="sites")
    if len(rows) > MOST_SCENARIO_SITES:
        raise BadCase(f"{len(rows)} are too many; at most {MOST_SCENARIO_SITES:,} are allowed", place="sites")
    sites: dict[str, Site] = {}
    for number, site in enumerate(rows):
        place = f"sites[{number}]"
        if not isinstance(site, dict):
            raise BadCase(f"{shown(site)} can't be used; an object with name and cpus is allowed", place=place)
        name = site.get("name")
        if not isinstance(name, str) or not name:
            what = "is missing" if name is None else f"{shown(name)} can't be used"
            raise BadCase(f"{what}; text that isn't empty is allowed", place=f"{place}.name")
        if name in sites:
            raise BadCase(f"two sites are called {shown(name)}", place=f"{place}.name")
        if site.get("cpus") is None:
            raise BadCase("is missing; an integer ≥ 1 is allowed", place=f"{place}.cpus")
        sites[name] = Site(name, read_integer(site, "cpus", place, default=1, minimum=1, maximum=10_000_000))
    return tuple(sites.values())


def _read_seed(case: Mapping[str, Any], seed: int | None) -> int:
    value = case.get("seed", 1) if seed is None else seed
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise BadCase(f"{shown(value)} can't be used; an integer from 0 to 2^63 − 1 is allowed", place="seed")
    return value


def _read_word(section: Mapping[str, Any], name: str, allowed: tuple[str, ...], default: str, above: str = "") -> int:
    """Index of the word among those allowed."""
    value = section.get(name, default)
    if not isinstance(value, str) or value not in allowed:
        raise BadCase(f"{shown(value)} can't be used; {' or '.join(allowed)} is allowed", place=f"{above}{name}")
    return allowed.index(value)


def _read_sam(case: Mapping[str, Any]) -> Sam | None:
    if DISPATCHES[_read_word(case, "dispatch", DISPATCHES, "priority")] != "sam":
        return None
    return Sam(
        booked_at=BOOKED_AT[_read_word(case, "booked_at", BOOKED_AT, "start")],
        front=FRONTS[_read_word(case, "front", FRONTS, "lifo")],
    )


def _read_algorithm(case: Mapping[str, Any]) -> Settings:
    algorithm = read_table(case, "algorithm", is_required=True)
    return read_algorithm(algorithm)


def _read_scopes(case: Mapping[str, Any], policy: Policy) -> BoolArray:
    """(n,) whether each entry's children are compared by global usage: by its `scope`, or its parent's, or local."""
    own: dict[str, object] = {}
    waiting: list[tuple[str, Mapping[str, Any]]] = [("", case["policy"])]
    while waiting:
        path, entry = waiting.pop()
        own[path] = entry.get("scope")
        waiting += [(f"{path}/{child['name']}", child) for child in entry.get("children", [])]
    is_global = np.zeros(policy.tree.n_entries, dtype=np.bool_)
    for row, path in enumerate(policy.paths):
        scope = own[path]
        if scope is None:
            is_global[row] = row > 0 and is_global[policy.tree.parent[row]]
        elif isinstance(scope, str) and scope in SCOPES:
            is_global[row] = scope == "global"
        else:
            raise BadCase(f"{shown(scope)} can't be used; local or global is allowed", place=f"policy{path}.scope")
    return is_global


def _read_window(section: object) -> Window:
    if section is None:
        return Window()
    if not isinstance(section, dict):
        raise BadCase(f'{shown(section)} can\'t be used; an object such as {{"aging": "none"}}', place="usage.window")
    refuse_unknown(section, {"aging", "length_s", *decay_parameter_names()}, "usage.window")
    values: dict[str, Any] = {}
    for name, value in section.items():
        is_word = isinstance(value, str) or value is None
        if not is_word and finite(value) is None:
            raise BadCase(f"{shown(value)} can't be used; a finite number is allowed", place=f"usage.window.{name}")
        values[name] = value
    try:
        return Window.of(**values)
    except EngineError as problem:
        raise BadCase(problem.message, place=f"usage.window.{problem.place}".rstrip(".")) from None
    except TypeError:
        raise BadCase("has a word where a number belongs", place="usage.window") from None


def _read_noise(case: Mapping[str, Any]) -> Noise:
    noise = read_table(case, "noise")
    refuse_unknown(noise, ("usage_delay_s", "loss", "resolution"), "noise")
    return Noise(
        delay_s=read_number(noise, "usage_delay_s", "noise", default=0.0, minimum=0.0, maximum=LONGEST_H * HOUR_S),
        loss=read_number(noise, "loss", "noise", default=0.0, minimum=0.0, maximum=1.0),
        resolution=read_integer(noise, "resolution", "noise", default=0, minimum=2, maximum=2**31),
    )


def _read_priority_refresh(case: Mapping[str, Any], algorithm: Settings | None) -> float:
    if algorithm is None:
        return 0.0
    default = 0.0 if is_incremental(algorithm) else DEFAULT_PRIORITY_REFRESH_S
    refresh_s = float(read_number(case, "priority_refresh_s", "", default=default, minimum=0.0))
    if refresh_s == 0.0 and not is_incremental(algorithm):
        raise BadCase(
            f"0 (at every start) is for {' and '.join(INCREMENTAL)} with their own operators; "
            f"{algorithm['name']} is recomputed at intervals of 1 s or more",
            place="priority_refresh_s",
        )
    if 0.0 < refresh_s < 1.0:
        raise BadCase(f"{refresh_s!r} can't be used; 0 or a number ≥ 1 is allowed", place="priority_refresh_s")
    return refresh_s


def is_incremental(algorithm: Settings) -> bool:
    """Whether the event loop can compare entries by this algorithm itself."""
    name = algorithm["name"]
    if name == "aequus":
        is_own = algorithm["operator"] not in installed_operators() and not puts_zero_shares_last(algorithm)
        return is_own and get_operator(algorithm["operator"]).name == algorithm["operator"]
    return bool(name == "gridwide")


def _read_reports(report_h: object, hours: int | float) -> tuple[int | float, ...]:
    if report_h is None:
        return (hours,)
    if not isinstance(report_h, list) or len(report_h) > MOST_REPORTS:
        raise BadCase(f"must be a list of at most {MOST_REPORTS:,} hours", place="report_h")
    for number, hour in enumerate(report_h):
        at_h = finite(hour)
        if at_h is None or not 0 <= at_h <= hours:
            raise BadCase(
                f"{shown(hour)} can't be used; an hour from 0 to {hours:g} is allowed", place=f"report_h[{number}]"
            )
    return tuple(report_h)


def refuse_endless(scenario: Scenario) -> None:
    """Reject scenarios whose work would exceed the bounds."""
    jobs = sum(stream.expected_jobs for stream in scenario.streams)
    refreshes = scenario.end_s / scenario.global_refresh_s
    if scenario.scope_is_global.any() and refreshes > MOST_REFRESHES:
        raise BadCase(f"{refreshes:.3g} refreshes; at most {MOST_REFRESHES:,}", place="usage.global_refresh_s")
    if scenario.priority_refresh_s > 0:
        recomputes = scenario.end_s / scenario.priority_refresh_s * len(scenario.sites)
        if recomputes > MOST_RECOMPUTES:
            raise BadCase(
                f"{recomputes:.3g} recomputes at {len(scenario.sites)} sites; at most {MOST_RECOMPUTES:,}",
                place="priority_refresh_s",
            )
    steps = (jobs + refreshes) * scenario.policy.tree.n_entries
    if steps > MOST_DECISION_STEPS and decision_steps(scenario, jobs) > MOST_DECISION_STEPS:
        raise BadCase(
            f"{jobs:.3g} jobs and {refreshes:.3g} refreshes with {scenario.policy.tree.n_entries} entries are "
            f"{steps:.3g} steps; at most {MOST_DECISION_STEPS:,}",
            place="hours",
        )
    kept = (2 * scenario.end_s / HOUR_S + len(scenario.report_h)) * scenario.policy.tree.n_entries
    if kept > MOST_KEPT_SAMPLES:
        raise BadCase(
            f"shares of {scenario.policy.tree.n_entries} entries every half hour are {kept:.3g} numbers; "
            f"at most {MOST_KEPT_SAMPLES:,}",
            place="hours",
        )
    for stream in scenario.streams:
        if stream.priority is not None and scenario.sam is None:
            raise BadCase('is of a priority group, which "dispatch": "sam" has', place=f"{stream.place}.priority")


def decision_steps(scenario: Scenario, jobs: float) -> float:
    """About the entries that are looked at: at each start those beside the chosen one on each level, or every one
    where priorities are recomputed; at each refresh all of them.
    """
    tree = scenario.policy.tree
    refreshes = scenario.end_s / scenario.global_refresh_s if scenario.scope_is_global.any() else 0.0
    width = np.zeros(tree.n_entries, dtype=np.int64)
    for level in tree.levels:
        width[level.lo : level.hi] = np.repeat(width[level.parents] + level.counts, level.counts)
    widest = tree.n_entries if scenario.priority_refresh_s > 0 or scenario.sam else int(width.max(initial=0))
    return float(jobs * widest + refreshes * tree.n_entries)
