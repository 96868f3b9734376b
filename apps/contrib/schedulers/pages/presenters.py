"""Rows and texts for a scheduler's state, passes, checks, installation and shares."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agent import install
from apps.contrib.schedulers.going_back import LineToRestore, is_line, lines_to_restore, where_seen
from apps.contrib.schedulers.lag import Lag, Part, current_lag
from apps.contrib.schedulers.models import AgentPass, Scheduler
from apps.contrib.schedulers.selectors import SchedulerView
from apps.contrib.schedulers.waiting import FROZEN
from apps.core.code_paths import command_name
from apps.priorities.sentences import numbers
from apps.web.shell import presentation

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
    "priority_tier": gettext_lazy("Partitions that go first"),
    "names_unmapped": gettext_lazy("Mapping of accounts"),
    "nice_floor": gettext_lazy("Room for nice values"),
    "clock": gettext_lazy("Clocks"),
    "real_priority": gettext_lazy("Usage in HTCondor’s real priorities"),
    "group_quotas": gettext_lazy("Quotas of accounting groups"),
    "usage_lost": gettext_lazy("Usage that the scheduler charges"),
    "version": gettext_lazy("Version"),
}

_PARTS: dict[Part, Any] = {
    "snapshot": gettext_lazy("slowest: the snapshot was %(age)s old"),
    "pass": gettext_lazy("slowest: the agent’s pass took %(age)s"),
    "wait": gettext_lazy("slowest: %(age)s since the last pass"),
}

_RESTORED = {True: ("ok", "circle-check"), False: ("warn", "alert-triangle")}


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
    """Errors first, then warnings. After a reset, a line that is as it was before is in order."""
    order = list(SEVERITIES)
    checks = (
        [_of_reset(check) for check in scheduler.checks or ()] if scheduler.is_reset_requested else scheduler.checks
    )
    return [_check_line(check) for check in sorted(checks or (), key=lambda check: order.index(check["severity"]))]


def _of_reset(check: Mapping[str, str]) -> Mapping[str, str]:
    """Without what switching on demands: lines of the configuration are then in their own list."""
    return {**check, "severity": "ok", "remedy": ""} if is_line(check) else check


@dataclass(frozen=True, slots=True)
class RestoredLine:
    """A line to write again. shade, icon: whether it is written, or still to write."""

    line: LineToRestore
    shade: str
    icon: str
    source: str


def restored_lines(scheduler: Scheduler) -> list[RestoredLine]:
    """None for a scheduler that sends nothing and is configured as before: it has nothing to go back from."""
    lines = lines_to_restore(scheduler)
    is_on = scheduler.mode in (Scheduler.Mode.CANARY, Scheduler.Mode.ON) or scheduler.is_reset_requested
    if not is_on and not any(line.needs_writing for line in lines):
        return []
    return [RestoredLine(line, *_RESTORED[line.is_known and line.is_back], where_seen(line)) for line in lines]


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


def lag_text(lag: Lag) -> str:
    """The slowest part of a lag and its time."""
    return str(_PARTS[lag.slowest]) % {"age": presentation.age(lag.slowest_s)}


def jobs_text(agent_pass: AgentPass) -> str:
    """Numbers of a pass, such as “40 of 5,120 jobs changed”; in shadow mode how many it read."""
    if agent_pass.mode == Scheduler.Mode.SHADOW:
        text = ngettext("nothing sent, %(n)s job read", "nothing sent, %(n)s jobs read", agent_pass.pending)
        return text % {"n": numbers.count(agent_pass.pending)}
    values = {"n": numbers.count(agent_pass.sent), "of": numbers.count(agent_pass.pending)}
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
        f"{numbers.count(each['count'])} × {ERRORS.get(each['code'], each['code'])}"
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
        return text % {"n": numbers.count(len(new))}
    if not bad:
        text = ngettext("%(n)s scheduler, nothing to do", "%(n)s schedulers, nothing to do", len(lines))
        return text % {"n": numbers.count(len(lines))}
    text = ngettext("%(n)s scheduler needs attention", "%(n)s schedulers need attention", len(bad))
    return text % {"n": numbers.count(len(bad))}


def connecting_command(site: str, scheduler: Scheduler, token: str) -> str:
    """What to run once on the scheduler's host; on this host where its commands are here."""
    if scheduler.reach == Scheduler.Reach.COMMANDS:
        return f"{command_name('agent')} run {scheduler.name}"
    address, program = shlex.quote(site), shlex.quote(f"{site}/fairshare-agent.pyz")  # [::1] is a pattern of the shell
    return (
        f"curl -fsSO {program} &&\n"
        f"echo {token} | sudo python3 fairshare-agent.pyz install --server {address} --scheduler {scheduler.name}"
    )


def reset_command(scheduler: Scheduler) -> str:
    """What resets the scheduler's values on its host while this site can't be reached."""
    user = install.USERS[scheduler.kind]
    return f"systemctl stop fairshare-agent && runuser -u {user} -- python3 {install.PROGRAM} reset-values"
