"""What pages and messages say about a Grid Engine case: its fields, its terms and its variants."""

from __future__ import annotations

from apps.engine.jobs.base import CaseField, Term, Variant
from apps.engine.jobs.gridengine.inputs.config import AS_SHIPPED, DEFAULTS, MOST_FUNCTIONAL_JOBS, PRESETS

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
    CaseField("config.variant", "Reading", f'"{AS_SHIPPED}", or amendments joined by +', default=AS_SHIPPED),
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
    Variant("exclude_running", "Ranges of pending jobs alone", "running jobs widen no range; theirs are kept in 0..1"),
    Variant("default_zero", "Zero by default", "a policy that tells nobody apart counts 0, not 0.5; POSIX −1..1"),
    Variant("linear_urgency", "Linear urgency", "urgency is divided by the largest; the smallest has no say"),
    Variant("even_split", "Even split", "an owner's functional tickets are divided evenly by all the owner's jobs"),
    Variant("exclude_running+default_zero+linear_urgency+even_split", "All amendments", "the four amendments together"),
)
