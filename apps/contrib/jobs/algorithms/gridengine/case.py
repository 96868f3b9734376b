"""Read a Grid Engine case: jobs, their owners and the share tree; errors name the location."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from apps.contrib.jobs.algorithms.base import (
    CaseField,
    Term,
    Variant,
    read_jobs,
    refuse_unknown_fields,
    refuse_unknown_in_case,
)
from apps.contrib.jobs.algorithms.gridengine.config import (
    AS_SHIPPED,
    DEFAULTS,
    LARGEST,
    MOST_FUNCTIONAL_JOBS,
    PRESETS,
    Config,
    read_config,
    read_object,
)
from apps.contrib.jobs.algorithms.gridengine.owners import Kind, Node, Owner, Owners, read_share_tree
from apps.engine.case_fields import read_integer, read_list, read_number, refuse_repeated, refuse_unknown
from apps.engine.case_text import finite, read_id, shown
from apps.engine.errors import BadCase

State = Literal["pending", "running", "held", "suspended"]
LOWEST_POSIX = -1023
HIGHEST_POSIX = 1024
_MOST_SLOTS = 1_000_000_000
_TOP = ("config", "users", "projects", "departments", "usage_age_s", "sharetree", "hidden_jobs", "jobs")
_OF_JOB = (
    "id",
    "user",
    "project",
    "department",
    "state",
    "posix_priority",
    "override_tickets",
    "job_share",
    "requests",
    "slots",
    "submitted_s_ago",
    "wait_time_s",
    "deadline_in_s",
    "soft_requests",
    "submission_order",
    "tasks",  # settings that affect no number
)
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KkMmGg])")
_TIME = re.compile(r"(\d+):(\d+):(\d+)")
_BYTES = {
    letter: base**power
    for power, pair in enumerate(("Kk", "Mm", "Gg"), 1)
    for letter, base in zip(pair, (1024, 1000), strict=True)
}

_LABELS = {
    "weight_ticket": "Weight of tickets",
    "weight_urgency": "Weight of urgency",
    "weight_priority": "Weight of POSIX priority",
    "weight_waiting_time": "Urgency per second of waiting",
    "weight_deadline": "Urgency of a deadline",
    "weight_tickets_functional": "Functional tickets",
    "weight_tickets_share": "Share-tree tickets",
    "weight_user": "Functional weight of users",
    "weight_project": "Functional weight of projects",
    "weight_department": "Functional weight of departments",
    "weight_job": "Functional weight of job shares",
    "compensation_factor": "Compensation factor",
    "halftime": "Half-life of usage",
    "auto_user_fshare": "Functional shares of automatic users",
    "auto_user_oticket": "Override tickets of automatic users",
    "auto_user_delete_time": "Idle automatic users are deleted after",
}
_UNITS = {"weight_deadline": "s", "halftime": "h", "weight_waiting_time": "1/s", "auto_user_delete_time": "s"}
_AMOUNTS = 'an object of names and numbers, or text such as "cpu=1,mem=0.5"'
_PRESETS = ", ".join(f'"{name}"' for name in PRESETS)

FIELDS = (
    CaseField("config.preset", "Settings left out are those of", f"one of {_PRESETS}", default=AS_SHIPPED),
    *(
        CaseField(f"config.{name}", _LABELS[name], "a number ≥ 0", default=default, unit=_UNITS.get(name, ""))
        for name, default in DEFAULTS.items()
    ),
    CaseField("config.policy_hierarchy", "Policy hierarchy", 'letters of "OFS", or "NONE"', default="OFS"),
    CaseField("config.share_override_tickets", "Override tickets are shared", "true or false", default=True),
    CaseField("config.share_functional_shares", "Functional shares are shared", "true or false", default=True),
    CaseField(
        "config.max_functional_jobs_to_schedule",
        "Pending jobs looked at",
        "an integer ≥ 0",
        default=MOST_FUNCTIONAL_JOBS,
    ),
    CaseField("config.usage_weight_list", "Weights of usage", _AMOUNTS, default={"cpu": 1}),
    CaseField("config.halflife_decay_list", "Half-lives by resource", _AMOUNTS, default="none", unit="min"),
    CaseField("config.urgency", "Urgency of resources", "an object of resources and numbers", default={}),
    CaseField("config.variant", "Reading", f'"{AS_SHIPPED}", or variants joined by +', default=AS_SHIPPED),
    CaseField("users", "Users", "a list with name, fshare, oticket, usage, project_usage and idle_s", default=[]),
    CaseField("projects", "Projects", "a list with name, fshare, oticket and usage", default=[]),
    CaseField("departments", "Departments", "a list with name, fshare and oticket", default=[]),
    CaseField("usage_age_s", "Age of the usage", "a number ≥ 0", default=0, unit="s"),
    CaseField("sharetree", "Share tree", "nested objects with name, shares, type and children; null: none", default={}),
    CaseField("hidden_jobs", "Jobs known by urgency alone", "a list with urg; they widen the range", default=[]),
    CaseField(
        "jobs",
        "Jobs",
        "a list with id, user, project, department, state (pending, running, held, suspended), posix_priority, "
        "override_tickets, job_share, requests, slots, submitted_s_ago or wait_time_s, deadline_in_s",
    ),
)

TERMS = (
    Term("nurg", "Urgency", weight="config.weight_urgency"),
    Term("ntckts", "Tickets", weight="config.weight_ticket"),
    Term("npprior", "POSIX priority", weight="config.weight_priority"),
)

VARIANTS = (
    Variant(AS_SHIPPED, "As Grid Engine 8.1.9 does it", "nothing"),
    Variant(
        "exclude_running",
        "Pending jobs only",
        "running jobs are ignored in the ranges; their values are clipped to 0–1",
    ),
    Variant(
        "default_zero",
        "Zero by default",
        "a policy that doesn't distinguish jobs counts as 0, not 0.5; POSIX priority ranges from −1 to 1",
    ),
    Variant("linear_urgency", "Linear urgency", "urgency is divided by the largest, without subtracting the smallest"),
    Variant("even_split", "Even split", "an owner's functional tickets are divided evenly among the owner's jobs"),
    Variant("exclude_running+default_zero+linear_urgency+even_split", "All variants", "all four variants together"),
)


@dataclass(frozen=True)
class Request:
    """One hard request: its urgency, and whether it is multiplied by the slots."""

    name: str
    value: float
    is_per_slot: bool
    text: str


@dataclass(eq=False, frozen=True)
class Job:
    """One job; an array counts as one.

    Of jobs submitted at the same time the one with the smaller `number` is older.
    """

    id: str
    number: tuple[int, int]
    state: State
    owners: Mapping[Kind, Owner]
    posix_priority: int
    override_tickets: float
    job_share: float
    slots: int
    requests: tuple[Request, ...]
    waited_s: float
    deadline_in_s: float | None

    @property
    def age_key(self) -> tuple[float, tuple[int, int]]:
        """Sort key that puts the older job first."""
        return -self.waited_s, self.number


@dataclass(frozen=True)
class Case:
    """The inputs of one computation. jobs are in the order of their numbers; hidden_urgencies only widen the range.

    registered: unlisted users who have jobs. deleted: automatic users who were idle for too long.
    """

    id: str | int | float | None
    config: Config
    users: Mapping[str, Owner]
    projects: Mapping[str, Owner]
    usage_age_s: float
    root: Node | None
    jobs: tuple[Job, ...]
    hidden_urgencies: tuple[float, ...]
    registered: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def in_state(self, state: State) -> list[Job]:
        return [job for job in self.jobs if job.state == state]


def read_case(case: Mapping[str, Any]) -> Case:
    """Read the case; BadCase with the location of an invalid value."""
    algorithm = case.get("algorithm")
    if isinstance(algorithm, dict):
        refuse_unknown(algorithm, ("name",), "algorithm")
    refuse_unknown_in_case(case, _TOP)
    config = read_config(case)
    owners = Owners(case, config)
    users, projects = owners.listed["user"], owners.listed["project"]
    jobs = _read_all_jobs(case, owners)
    return Case(
        id=read_id(case.get("id")),
        config=config,
        users=users,
        projects=projects,
        usage_age_s=read_number(case, "usage_age_s", "", default=0.0, minimum=0.0, maximum=LARGEST),
        root=read_share_tree(case.get("sharetree"), is_project=projects.keys() - users.keys()),
        jobs=jobs,
        hidden_urgencies=_read_hidden(case),
        registered=tuple(sorted(owners.registered)),
        deleted=tuple(sorted(owners.deleted)),
    )


def _read_all_jobs(case: Mapping[str, Any], owners: Owners) -> tuple[Job, ...]:
    """Jobs in the order of their numbers, so that no result depends on their order in the text."""
    jobs = []
    for index, (job_id, place, entry) in enumerate(read_jobs(case)):
        refuse_unknown_fields(entry, _OF_JOB, place)
        jobs.append(_read_job(job_id, place, entry, owners.of_job(entry, place), index))
    return tuple(sorted(jobs, key=lambda job: job.number))


def _read_job(job_id: str, place: str, entry: Mapping[str, Any], owners: Mapping[Kind, Owner], index: int) -> Job:
    wait_name = "wait_time_s" if entry.get("submitted_s_ago") is None else "submitted_s_ago"
    is_number = job_id.isascii() and job_id.isdigit()
    return Job(
        id=job_id,
        number=(0, int(job_id)) if is_number else (1, index),
        state=_read_state(entry.get("state"), f"{place}.state"),
        owners=owners,
        posix_priority=read_integer(
            entry, "posix_priority", place, default=0, minimum=LOWEST_POSIX, maximum=HIGHEST_POSIX
        ),
        override_tickets=read_number(entry, "override_tickets", place, default=0.0, minimum=0.0, maximum=LARGEST),
        job_share=read_number(entry, "job_share", place, default=0.0, minimum=0.0, maximum=LARGEST),
        slots=read_integer(entry, "slots", place, default=1, minimum=1, maximum=_MOST_SLOTS),
        requests=_read_requests(entry, place),
        waited_s=read_number(entry, wait_name, place, default=0.0, minimum=0.0, maximum=LARGEST),
        deadline_in_s=read_number(entry, "deadline_in_s", place, default=None, minimum=-LARGEST, maximum=LARGEST),
    )


def _read_state(value: object, place: str) -> State:
    for state in get_args(State):
        if value == state or (value is None and state == "pending"):
            return state  # type: ignore[no-any-return]
    raise BadCase(f"unknown state {shown(value)}; allowed are {', '.join(get_args(State))}", place=place)


def _read_requests(entry: Mapping[str, Any], place: str) -> tuple[Request, ...]:
    table = read_object(entry, "requests", place)
    return tuple(_read_request(name, table[name], f"{place}.requests.{name}") for name in table)


def _read_request(name: str, value: object, place: str) -> Request:
    """Read a request.

    Numbers, memory (bytes), times (seconds) and booleans are multiplied by the slots; text counts once.
    """
    number = float(value) if isinstance(value, bool) else finite(value)
    if isinstance(value, str):
        if memory := _MEMORY.fullmatch(value):
            number = float(memory[1]) * _BYTES[memory[2]]
        elif time := _TIME.fullmatch(value):
            number = float(time[1]) * 3600 + float(time[2]) * 60 + float(time[3])
        elif value.upper() in ("TRUE", "FALSE"):
            number = float(value.upper() == "TRUE")
        else:
            return Request(name, 1.0, is_per_slot=False, text=value)
    if number is None or not 0 <= number <= LARGEST:
        raise BadCase(f"{shown(value)} can't be used; a number from 0 to {LARGEST:g} or text is allowed", place=place)
    return Request(name, number, is_per_slot=True, text="")


def _read_hidden(case: Mapping[str, Any]) -> tuple[float, ...]:
    """Urgencies of jobs of which only the urgency is known."""
    urgencies = []
    for index, entry in enumerate(read_list(case, "hidden_jobs")):
        place = f"hidden_jobs[{index}]"
        if not isinstance(entry, dict):
            raise BadCase(f"{shown(entry)} can't be used; an object with urg is allowed", place=place)
        refuse_repeated(entry, place)
        refuse_unknown_fields(entry, ("id", "urg"), place)
        urgencies.append(read_number(entry, "urg", place, minimum=-1e100, maximum=1e100))
    return tuple(urgencies)
