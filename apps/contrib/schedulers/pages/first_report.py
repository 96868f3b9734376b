"""What the page says while a new scheduler waits for its agent's first report, and what that report shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.actor import Actor
from apps.contrib.schedulers.agent_tokens import last_asked_at
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.pages.overview import SchedulerOverview, load_overview
from apps.contrib.schedulers.pages.overview import headline as state_headline
from apps.contrib.schedulers.pages.presenters import error_text, frozen_text
from apps.contrib.schedulers.selectors import SchedulerView
from apps.priorities.sentences import numbers
from apps.web.shell import presentation

FIRST, COMMAND, TURN_ON = 1, 2, 3  # steps


@dataclass(frozen=True, slots=True)
class FirstReport:
    """key: waiting, asked, off; ready, blocked, on; or the state of a scheduler that needs attention.

    step: of the three, now. waits: whether the page asks again.
    """

    key: str
    heading: str
    text: str
    step: int
    waits: bool


def first_report(view: SchedulerView, *, at: datetime, actor: Actor) -> FirstReport:
    """For managers of the scheduler's policy."""
    if view.scheduler.mode == Scheduler.Mode.OFF:
        return FirstReport("off", _("It is off"), _("Choose another mode in its settings."), COMMAND, waits=True)
    if view.last is None:
        return _before(view.scheduler, at)
    return _after(load_overview(view, at=at, actor=actor))


def _before(scheduler: Scheduler, at: datetime) -> FirstReport:
    heading = _("Waiting for the first report")
    asked_at = last_asked_at(scheduler)
    if asked_at is None:
        return FirstReport("waiting", heading, _("It comes within a minute after the command."), COMMAND, waits=True)
    values = {"age": presentation.age(max((at - asked_at).total_seconds(), 0.0))}
    text = _("The agent reached this site %(age)s ago. If no report follows, its log says why.")
    return FirstReport("asked", heading, text % values, COMMAND, waits=True)


def _after(overview: SchedulerOverview) -> FirstReport:
    view, last = overview.view, overview.view.last
    state = view.state
    if state not in ("running", "failing"):
        text = "" if last is None else frozen_text(last) or " ".join(error_text(last))
        return FirstReport(state, str(state_headline(overview)), text, TURN_ON, waits=True)
    if view.scheduler.mode == Scheduler.Mode.ON:
        return FirstReport("on", _("It is on"), str(state_headline(overview)), TURN_ON, waits=False)
    wrong = [check for check in view.scheduler.checks or () if check["severity"] == "error"]
    if wrong:
        text = ngettext(
            "%(n)s line of the scheduler’s configuration has to change first.",
            "%(n)s lines of the scheduler’s configuration have to change first.",
            len(wrong),
        )
        values = {"n": numbers.count(len(wrong))}
        return FirstReport("blocked", read_text(overview), text % values, TURN_ON, waits=True)
    return FirstReport("ready", read_text(overview), _unmapped_text(overview), TURN_ON, waits=False)


def read_text(overview: SchedulerOverview) -> str:
    """Such as “48 jobs read, 34 would move”; shares of an agent of shares."""
    if overview.is_of_shares or overview.is_of_limits:
        return str(state_headline(overview))
    last, switched = overview.view.last, overview.switched
    n = 0 if last is None else last.pending
    read = ngettext("%(n)s job read", "%(n)s jobs read", n) % {"n": numbers.count(n)}
    if switched is None or switched.n_moved is None:
        return _("%(read)s. Their order can’t be computed ahead") % {"read": read} if n else read
    values = {"read": read, "moved": numbers.count(switched.n_moved)}
    return _("%(read)s, %(moved)s would move") % values


def _unmapped_text(overview: SchedulerOverview) -> str:
    last = overview.view.last
    if last is None or not last.unmapped:
        return _("No running job is touched.")
    text = ngettext(
        "%(n)s job belongs to no entry of the policy: it gets the middle value.",
        "%(n)s jobs belong to no entry of the policy: they get the middle value.",
        last.unmapped,
    )
    return text % {"n": numbers.count(last.unmapped)}
