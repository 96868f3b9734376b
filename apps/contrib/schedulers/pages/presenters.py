"""Form to connect a scheduler; rows and texts for its state, passes, checks, installation and shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.contrib.schedulers.lag import Lag, Part, current_lag
from apps.contrib.schedulers.models import AgentPass, Scheduler, ShareOrder
from apps.contrib.schedulers.orders import LIMITS, orders_of
from apps.contrib.schedulers.selectors import SchedulerView
from apps.contrib.schedulers.share_difference import ShareDifference
from apps.contrib.schedulers.share_reports import SET
from apps.contrib.schedulers.waiting import FROZEN, Waiting
from apps.core.code_paths import command_name
from apps.policies.models import Policy
from apps.web.shell import presentation
from apps.web.shell.forms import RefusableForm, choice_field, name_field

KNOBS = (
    ("sitefactor", gettext_lazy("Site factor (Slurm)")),
    ("nice", format_lazy("{} (Slurm)", gettext_lazy("Nice value"))),
    ("priority", format_lazy("{} (Slurm, Grid Engine)", gettext_lazy("Priority"))),
    ("override_tickets", gettext_lazy("Override tickets (Grid Engine)")),
)
_HELP = {
    "namespace": gettext_lazy("Same as in the usage sources. Leave empty for any."),
    "partitions": gettext_lazy("Comma-separated. Leave empty for all."),
    "subtree": gettext_lazy("Jobs of other entries are not changed."),
    "weight": gettext_lazy("Value sent for a factor of 1."),
    "step": gettext_lazy("Smaller changes are not sent."),
    "carries": gettext_lazy("Choose shares if the scheduler computes fair share itself."),
    "mode": gettext_lazy("Shadow reads and compares. Canary sends to one partition."),
    "snapshot_age_s": gettext_lazy("Above this limit, the agent freezes."),
    "unmapped_percent": gettext_lazy("Above this limit, the agent freezes."),
    "changed_percent": gettext_lazy("Above this limit, the agent freezes, unless newer priorities explain it."),
}
_LABELS = {
    "name": gettext_lazy("Short name"),
    "namespace": gettext_lazy("User namespace"),
    "partitions": gettext_lazy("Partitions or queues"),
    "subtree": gettext_lazy("Subtree"),
    "weight": gettext_lazy("Weight"),
    "step": gettext_lazy("Step"),
    "canary_partition": gettext_lazy("Canary partition"),
    "every_s": gettext_lazy("Interval (seconds)"),
    "snapshot_age_s": gettext_lazy("Maximum age of priorities (seconds)"),
    "unmapped_percent": gettext_lazy("Maximum unmapped jobs (%)"),
    "changed_percent": gettext_lazy("Maximum changed jobs (%)"),
    "calls_per_s": gettext_lazy("Maximum commands per second"),
}
ABOUT = ("name", "policy", "kind", "reach", "namespace")
SENT = ("carries", "mode", "canary_partition", "knob", "weight", "step", "subtree", "partitions", "every_s")
BOUNDS = tuple(LIMITS)


def _text(name: str, *, required: bool = False) -> forms.CharField:
    return name_field(_LABELS[name], 9_000, _HELP.get(name, ""), required=required)


def _whole(name: str) -> forms.IntegerField:
    widget = forms.NumberInput(attrs={"class": "input", "min": "0"})
    return forms.IntegerField(label=_LABELS[name], help_text=_HELP.get(name, ""), widget=widget)


class SchedulerForm(RefusableForm):
    """Settings of a scheduler. policies: choices for a new scheduler; empty when an existing one is changed."""

    def __init__(self, *args: Any, policies: list[Policy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if policies:
            self.fields["name"] = _text("name", required=True)
            self.fields["policy"] = choice_field(
                gettext_lazy("Policy"), [(policy.slug, policy.name) for policy in policies]
            )
        self.fields["kind"] = choice_field(gettext_lazy("Scheduler"), Scheduler.Kind.choices)
        self.fields["reach"] = choice_field(gettext_lazy("Reached by"), Scheduler.Reach.choices)
        self.fields["namespace"] = _text("namespace")
        self.fields["carries"] = choice_field(
            gettext_lazy("Sends"), Scheduler.Carries.choices, _HELP["carries"], required=False
        )
        self.fields["mode"] = choice_field(gettext_lazy("Mode"), Scheduler.Mode.choices, _HELP["mode"])
        self.fields["canary_partition"] = _text("canary_partition")
        self.fields["knob"] = choice_field(gettext_lazy("Scheduler setting"), KNOBS)
        for name in ("weight", "step"):
            self.fields[name] = _whole(name)
        for name in ("subtree", "partitions"):
            self.fields[name] = _text(name, required=name == "subtree")
        for name in ("every_s", *BOUNDS):
            self.fields[name] = _whole(name)

    def settings(self) -> dict[str, Any]:
        """Settings in the form of the scheduler services."""
        typed = dict(self.cleaned_data)
        typed.pop("name", None)
        typed.pop("policy", None)
        typed["carries"] = typed["carries"] or Scheduler.Carries.PRIORITIES
        names = [partition.strip() for partition in typed["partitions"].split(",") if partition.strip()]
        typed["partitions"] = names or None
        typed["limits"] = {name: typed.pop(name) for name in BOUNDS}
        return typed

    def form_field(self, where: str) -> str:
        return where.removeprefix("limits.")


def initial_of(scheduler: Scheduler) -> dict[str, Any]:
    orders = orders_of(scheduler)
    partitions = ", ".join(orders["partitions"] or [])
    return {**orders, **orders["limits"], "partitions": partitions, "namespace": scheduler.namespace}


def default_values() -> dict[str, Any]:
    """Initial values for a new scheduler, in shadow mode so that nothing is sent to it."""
    blank = Scheduler(knob="sitefactor", mode=Scheduler.Mode.SHADOW)
    return {name: getattr(blank, name) for name in (*SENT, *BOUNDS, "kind", "reach") if hasattr(blank, name)} | {
        "subtree": "/",
        "partitions": "",
    }


STATES: dict[str, tuple[str, Any]] = {
    "off": ("", gettext_lazy("off")),
    "new": ("", gettext_lazy("waits for the agent")),
    "silent": ("bad", gettext_lazy("silent")),
    "frozen": ("warn", gettext_lazy("frozen")),
    "resetting": ("warn", gettext_lazy("resetting its values")),
    "reset": ("", gettext_lazy("values reset")),
    "paused": ("", gettext_lazy("paused")),
    "failing": ("warn", gettext_lazy("refused")),
    "running": ("ok", gettext_lazy("running")),
}
ERRORS = {
    "job_gone": gettext_lazy("not there"),
    "denied": gettext_lazy("denied: the agent needs operator rights"),
    "timeout": gettext_lazy("took too long"),
    "refused": gettext_lazy("refused"),
    "unreadable": gettext_lazy("can’t be read"),
}
TERMS = {
    "age": gettext_lazy("Age"),
    "assoc": gettext_lazy("Association"),
    "fairshare": gettext_lazy("The scheduler’s own fair share"),
    "jobsize": gettext_lazy("Job size"),
    "partition": gettext_lazy("Partition"),
    "qos": gettext_lazy("QOS"),
    "site": gettext_lazy("This policy’s fair share"),
    "nice": gettext_lazy("Nice value"),
}
SEVERITIES: dict[str, tuple[str, str, Any]] = {
    "error": ("bad", "alert-octagon", gettext_lazy("error")),
    "warning": ("warn", "alert-triangle", gettext_lazy("warning")),
    "ok": ("ok", "circle-check", gettext_lazy("in order")),
}
CHECKS: dict[str, Any] = {
    "operator": gettext_lazy("Right to set priorities"),
    "operator_right": gettext_lazy("Right to set priorities"),
    "double_counting": gettext_lazy("The scheduler’s own fair share"),
    "priority_type": gettext_lazy("Kind of priority"),
    "fairshare_weight": gettext_lazy("Weight of fair share"),
    "site_factor_plugin": gettext_lazy("Plug-in for the site factor"),
    "names_unmapped": gettext_lazy("Mapping of accounts"),
    "nice_floor": gettext_lazy("Room for nice values"),
    "clock": gettext_lazy("Clocks"),
    "usage_lost": gettext_lazy("Usage that the scheduler charges"),
    "version": gettext_lazy("Version"),
}


@dataclass(frozen=True, slots=True)
class CheckLine:
    """A finding of the agent about the scheduler's settings. remedy: the line to change; empty if there is none."""

    code: str
    label: str
    shade: str
    icon: str
    severity: str
    found: str
    remedy: str


def check_lines(scheduler: Scheduler) -> list[CheckLine]:
    """Errors first, then warnings."""
    order = list(SEVERITIES)
    checks = sorted(scheduler.checks or (), key=lambda check: order.index(check["severity"]))
    return [_check_line(check) for check in checks]


def _check_line(check: Mapping[str, str]) -> CheckLine:
    code = check["code"]
    shade, icon, severity = SEVERITIES[check["severity"]]
    label = CHECKS.get(code, code.replace("_", " "))
    return CheckLine(code, str(label), shade, icon, str(severity), check["found"], check["remedy"])


@dataclass(frozen=True)
class SchedulerLine:
    """One scheduler: its state, the age of its values with the slowest part, its last pass, and its problem."""

    view: SchedulerView
    key: str
    badge: str
    state: str
    age: str
    slowest: str
    last: str
    jobs: str
    problem: str

    @property
    def is_unheard(self) -> bool:
        """Whether no agent has ever reported."""
        return self.view.last is None


def line_of(view: SchedulerView) -> SchedulerLine:
    lag = current_lag(view.scheduler, view.last, view.at)
    badge, words = STATES[view.state]
    return SchedulerLine(
        view=view,
        key=view.state,
        badge=badge,
        state=str(words),
        age="" if lag is None else presentation.age(lag.total_s),
        slowest="" if lag is None else lag_text(lag),
        last=_("never") if view.age_s is None else _("%(age)s ago") % {"age": presentation.age(view.age_s)},
        jobs=jobs_text(view.last) if view.last else "",
        problem=_problem(view),
    )


_PARTS: dict[Part, Any] = {
    "snapshot": gettext_lazy("slowest: the snapshot was %(age)s old"),
    "pass": gettext_lazy("slowest: the agent’s pass took %(age)s"),
    "wait": gettext_lazy("slowest: %(age)s since the last pass"),
}


def lag_text(lag: Lag) -> str:
    """The slowest part of a lag and its time."""
    return str(_PARTS[lag.slowest]) % {"age": presentation.age(lag.slowest_s)}


def jobs_text(agent_pass: AgentPass) -> str:
    """Numbers of a pass, such as “40 of 5,120 jobs changed”; in shadow mode how many it read."""
    if agent_pass.mode == Scheduler.Mode.SHADOW:
        text = ngettext("nothing sent, %(n)s job read", "nothing sent, %(n)s jobs read", agent_pass.pending)
        return text % {"n": presentation.count(agent_pass.pending)}
    values = {"n": presentation.count(agent_pass.sent), "of": presentation.count(agent_pass.pending)}
    return ngettext("%(n)s of %(of)s job changed", "%(n)s of %(of)s jobs changed", agent_pass.pending) % values


def _problem(view: SchedulerView) -> str:
    last = view.last
    if last is None or view.state not in ("frozen", "failing", "silent"):
        return ""
    return frozen_text(last) or "; ".join(error_text(last))


def frozen_text(agent_pass: AgentPass) -> str:
    """Why a pass sent nothing, with the agent's detail; empty if it wasn't frozen."""
    if not agent_pass.frozen_code:
        return ""
    return f"{FROZEN[agent_pass.frozen_code]} {agent_pass.frozen_detail}".strip()


def error_text(agent_pass: AgentPass) -> list[str]:
    """Errors of a pass with their counts and details."""
    return [
        f"{presentation.count(each['count'])} × {ERRORS.get(each['code'], each['code'])}"
        + (f": {each['detail']}" if each["detail"] else "")
        for each in agent_pass.errors
    ]


@dataclass(frozen=True)
class PassLine:
    agent_pass: AgentPass
    jobs: str
    problems: Sequence[str]
    took_s: float


def pass_line(agent_pass: AgentPass) -> PassLine:
    frozen = [frozen_text(agent_pass)] if agent_pass.frozen_code else []
    took_s = max((agent_pass.ended_at - agent_pass.started_at).total_seconds(), 0.0)
    return PassLine(agent_pass, jobs_text(agent_pass), [*frozen, *error_text(agent_pass)], took_s)


def headline(lines: Sequence[SchedulerLine]) -> str:
    bad = [line for line in lines if line.badge in ("bad", "warn")]
    if not lines:
        return _("Schedulers")
    new = [line for line in lines if line.view.state == "new"]
    if not bad and new:
        text = ngettext("%(n)s scheduler waits for its agent", "%(n)s schedulers wait for their agents", len(new))
        return text % {"n": presentation.count(len(new))}
    if not bad:
        text = ngettext("%(n)s scheduler, nothing to do", "%(n)s schedulers, nothing to do", len(lines))
        return text % {"n": presentation.count(len(lines))}
    text = ngettext("%(n)s scheduler needs attention", "%(n)s schedulers need attention", len(bad))
    return text % {"n": presentation.count(len(bad))}


OUTCOMES = {
    "missing": gettext_lazy("not there"),
    "changed_meanwhile": gettext_lazy("changed meanwhile"),
    "denied": gettext_lazy("denied: the agent needs operator rights"),
    "timeout": gettext_lazy("took too long"),
    "refused": gettext_lazy("refused"),
    "unreadable": gettext_lazy("can’t be read"),
}
ORDERS = {
    "open": ("", gettext_lazy("waits for the agent")),
    "done": ("ok", gettext_lazy("done")),
    "failed": ("warn", gettext_lazy("in part")),
    "cancelled": ("", gettext_lazy("Cancelled")),
}


@dataclass(frozen=True)
class ShareOrderLine:
    """One order of shares: number of shares that were set, and the problems of the others."""

    order: ShareOrder
    badge: str
    state: str
    n_set: int
    problems: Sequence[str]


def share_order_line(order: ShareOrder) -> ShareOrderLine:
    badge, words = ORDERS[order.state]
    problems = [_line_problem(line) for line in order.lines if line["outcome"] in OUTCOMES]
    n_set = sum(line["outcome"] in SET for line in order.lines)
    return ShareOrderLine(order, badge, str(words), n_set, problems[:20])


def _line_problem(line: Mapping[str, str]) -> str:
    who = f"{line['group']} {line['user']}".rstrip()
    words = {"who": who, "problem": OUTCOMES[line["outcome"]], "detail": line["detail"]}
    return (_("%(who)s: %(problem)s. %(detail)s") if line["detail"] else _("%(who)s: %(problem)s")) % words


def shares_headline(scheduler: Scheduler, difference: ShareDifference | None) -> str:
    if difference is None:
        return _("Shares of %(name)s") % {"name": scheduler.name}
    if not difference.changes:
        return _("%(name)s has the policy’s shares") % {"name": scheduler.name}
    n = len(difference.changes)
    text = ngettext("%(n)s share of %(name)s differs", "%(n)s shares of %(name)s differ", n)
    return text % {"n": presentation.count(n), "name": scheduler.name}


_UNIT = Path(settings.BASE_DIR, "docs/examples/slurm/fairshare-agent.service")
_USERS = {Scheduler.Kind.SLURM.value: "slurm", Scheduler.Kind.GRIDENGINE.value: "sgeadmin"}


def installing(site: str, scheduler: Scheduler) -> dict[str, str]:
    """Commands to install the agent of one scheduler, and the unit of the documentation with its names."""
    user, program = _USERS[scheduler.kind], "/opt/fairshare/fairshare-agent.pyz"
    unit = _UNIT.read_text(encoding="utf-8")
    for example, own in (
        ("User=slurm", f"User={user}"),
        ("https://fairshare.example.org", site),
        ("--scheduler head", f"--scheduler {scheduler.name}"),
    ):
        unit = unit.replace(example, own)
    policy = scheduler.policy.slug
    return {
        "token": f"{command_name('create_token')} --user ADMIN --scope schedulers --scope priorities:read "
        f"--policy {policy}",
        "install": "install -d /opt/fairshare /etc/fairshare\n"
        f"curl -fsS -o {program} '{site}/fairshare-agent.pyz'\n"
        f"install -m 0600 -o {user} /dev/null /etc/fairshare/agent.token\n"
        "cat > /etc/fairshare/agent.token",
        "unit": unit.rstrip(),
        "reset_values": f"systemctl stop fairshare-agent && runuser -u {user} -- python3 {program} reset-values",
    }


_WIDTH = 160


@dataclass(frozen=True)
class TermLine:
    name: str
    label: str
    value: float
    percent: float | None
    width: float
    is_fairshare: bool


@dataclass(frozen=True)
class AheadLine:
    path: str
    jobs: int
    cpus: float
    width: float


def term_lines(waiting: Waiting) -> list[TermLine]:
    return [
        TermLine(
            name=part.name,
            label=str(TERMS[part.name]),
            value=part.value,
            percent=part.share,
            width=round((part.share or 0.0) * _WIDTH, 1),
            is_fairshare=part.is_fairshare,
        )
        for part in waiting.terms
    ]


def ahead_lines(waiting: Waiting) -> list[AheadLine]:
    most = max((group.jobs for group in waiting.groups), default=1)
    return [
        AheadLine(group.path, group.jobs, group.cpus, round(group.jobs / most * _WIDTH, 1)) for group in waiting.groups
    ]


def verdict(waiting: Waiting) -> str:
    """The sentence on the jobs ahead, and one on whether fair share decides the job's position."""
    return f"{waiting.ahead_text} {_fair_share_text(waiting)}".strip()


def _fair_share_text(waiting: Waiting) -> str:
    """Empty where the sentence on the jobs ahead says it already."""
    if not waiting.reason.is_order:
        return _("Fair share doesn’t decide: the scheduler waits for something else.")
    if waiting.by_fairshare is None:
        return _("The scheduler doesn’t split this priority, so the effect of fair share is unknown.")
    if not waiting.by_fairshare and not waiting.kept_behind:
        return _("Fair share changes nothing here: without it the order would be the same.")
    if not waiting.kept_behind:
        return ""
    text = ngettext(
        "Fair share keeps %(n)s job behind it.", "Fair share keeps %(n)s jobs behind it.", waiting.kept_behind
    )
    return text % {"n": presentation.count(waiting.kept_behind)}
