"""The operator's answer on one scheduler: does it follow, how old is what it has, and what would change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.accounts.actor import Actor
from apps.contrib.schedulers.agreement import pairs_in_order
from apps.contrib.schedulers.lag import (
    Lag,
    PassLag,
    current_lag,
    last_bad_pass,
    list_pass_lags,
    longest,
)
from apps.contrib.schedulers.models import LimitListing, Scheduler
from apps.contrib.schedulers.pages.presenters import error_text, frozen_text, lag_text
from apps.contrib.schedulers.selectors import SchedulerView, difference_of, newest_tau
from apps.contrib.schedulers.switched_queue import SwitchedQueue, open_switched_queue
from apps.priorities.sentences import numbers
from apps.web.shell import presentation
from apps.web.shell.presentation import KeyedText

MOST_SWITCHED_JOBS = 10
_STANDSTILLS: dict[str, Any] = {
    "off": gettext_lazy("Off: nothing is sent"),
    "new": gettext_lazy("No agent has reported yet"),
    "silent": gettext_lazy("No agent has reported yet"),
    "frozen": gettext_lazy("Frozen: the scheduler keeps its last values"),
    "resetting": gettext_lazy("The agent resets the values that it set"),
    "reset": gettext_lazy("Values reset: nothing is sent until you resume"),
    "paused": gettext_lazy("Paused: the scheduler keeps its last values"),
}


@dataclass(frozen=True, slots=True)
class Kpi:
    """A number of the head with its label and what belongs to it; key for tests. shade: warn or bad."""

    key: str
    label: str
    value: str
    note: str = ""
    shade: str = ""


@dataclass(frozen=True)
class SchedulerOverview:
    """n_differing: shares, or values of jobs, that differ; n_compared: of how many; None: unknown.

    pairs_in_order: of 100 pairs of users, those that its own order has in this order, too.
    """

    view: SchedulerView
    lag: Lag | None
    passes: Sequence[PassLag]
    switched: SwitchedQueue | None
    n_differing: int | None
    n_compared: int
    last_bad: Any
    pairs_in_order: int | None

    @property
    def is_sending(self) -> bool:
        return self.view.scheduler.mode in (Scheduler.Mode.ON, Scheduler.Mode.CANARY)

    @property
    def is_of_shares(self) -> bool:
        return self.view.scheduler.carries == Scheduler.Carries.SHARES

    @property
    def is_of_limits(self) -> bool:
        return self.view.scheduler.carries == Scheduler.Carries.LIMITS


def load_overview(view: SchedulerView, *, at: datetime, actor: Actor) -> SchedulerOverview:
    """The overview of a scheduler whose policy the actor manages."""
    scheduler = view.scheduler
    switched, n_differing, n_compared = None, None, 0
    if scheduler.carries == Scheduler.Carries.SHARES:
        difference = difference_of(scheduler)
        if difference is not None:
            n_differing, n_compared = len(difference.changes), len(difference.wanted)
    elif scheduler.carries == Scheduler.Carries.PRIORITIES:
        switched = open_switched_queue(scheduler, at=at, actor=actor, limit=MOST_SWITCHED_JOBS)
        if switched is not None and switched.n_valued:
            n_differing, n_compared = switched.n_differing, switched.n_valued
    tau = newest_tau(scheduler, at)
    return SchedulerOverview(
        view=view,
        lag=current_lag(scheduler, view.last, at),
        passes=list_pass_lags(scheduler, at),
        switched=switched,
        n_differing=n_differing,
        n_compared=n_compared,
        last_bad=last_bad_pass(scheduler),
        pairs_in_order=None if tau is None else pairs_in_order(tau),
    )


def headline(overview: SchedulerOverview) -> KeyedText:
    """Whether the scheduler follows, and what would change; the key is its state, with what follows a hyphen."""
    state, last = overview.view.state, overview.view.last
    if state == "silent" and last is not None:
        age = presentation.age(overview.view.age_s or 0.0)
        return KeyedText(state, _("No report for %(age)s: the scheduler keeps its last values") % {"age": age})
    if state == "failing" and last is not None:
        text = ngettext(
            "%(n)s value was refused in the last pass", "%(n)s values were refused in the last pass", last.failed
        )
        return KeyedText(state, text % {"n": numbers.count(last.failed)})
    if state != "running":
        return KeyedText(state, str(_STANDSTILLS[state]))
    if overview.is_of_limits:
        return _limits_headline(overview.view.scheduler)
    if overview.is_of_shares:
        return _shares_headline(overview)
    return _sending_headline(overview) if overview.is_sending else _shadow_headline(overview.switched)


def _shadow_headline(switched: SwitchedQueue | None) -> KeyedText:
    if switched is None or switched.n_moved is None:
        return KeyedText("running-shadow", _("On time, in shadow mode"))
    if not switched.n_jobs:
        return KeyedText("running-idle", _("On time. No job is waiting"))
    if not switched.n_moved:
        return KeyedText("running-same", _("On time. If turned on, no job would move"))
    text = ngettext(
        "On time. If turned on, %(n)s of %(of)s job would move",
        "On time. If turned on, %(n)s of %(of)s jobs would move",
        switched.n_jobs,
    )
    values = {"n": numbers.count(switched.n_moved), "of": numbers.count(switched.n_jobs)}
    return KeyedText("running-moves", text % values)


def _sending_headline(overview: SchedulerOverview) -> KeyedText:
    if overview.n_differing is None:
        return KeyedText("running-on", _("On time"))
    if not overview.n_differing:
        return KeyedText("running-set", _("On time. Every waiting job has its value"))
    values = {"n": numbers.count(overview.n_differing), "of": numbers.count(overview.n_compared)}
    if overview.switched is not None and overview.switched.n_moved == 0:
        text = ngettext(
            "On time, in order. %(n)s of %(of)s waiting job has an older value",
            "On time, in order. %(n)s of %(of)s waiting jobs have older values",
            overview.n_compared,
        )
        return KeyedText("running-in-order", text % values)
    text = ngettext(
        "On time. %(n)s of %(of)s waiting job has another value",
        "On time. %(n)s of %(of)s waiting jobs have another value",
        overview.n_compared,
    )
    return KeyedText("running-differs", text % values)


def _limits_headline(scheduler: Scheduler) -> KeyedText:
    listing = LimitListing.objects.filter(scheduler=scheduler).first()
    n = sum(each["code"] == "set" for each in (listing.accounts if listing else []))
    if not n:
        return KeyedText("running-unlimited", _("On time. No account is limited"))
    text = ngettext("On time. %(n)s account is limited", "On time. %(n)s accounts are limited", n)
    return KeyedText("running-limited", text % {"n": numbers.count(n)})


def _shares_headline(overview: SchedulerOverview) -> KeyedText:
    n = overview.n_differing
    if n is None:
        return KeyedText("running-unlisted", _("On time. The agent has listed no shares yet"))
    if not n:
        return KeyedText("running-set", _("On time. The scheduler has the policy’s shares"))
    text = ngettext("On time. %(n)s share differs from the policy", "On time. %(n)s shares differ from the policy", n)
    return KeyedText("running-differs", text % {"n": numbers.count(n)})


def kpis(overview: SchedulerOverview, now: datetime) -> list[Kpi]:
    """The numbers of the head, in the order in which an operator asks for them."""
    lag, most, view = overview.lag, longest(overview.passes), overview.view
    limit_s = view.scheduler.snapshot_age_s
    shown = []
    if lag is not None:
        shade = "warn" if view.is_silent else ""
        shown.append(Kpi("lag", _("Age of its values"), presentation.age(lag.total_s), lag_text(lag), shade))
    else:
        shown.append(Kpi("lag", _("Age of its values"), "–", _("nothing read yet")))
    if most is not None and most.lag_s is not None:
        values = {"at": presentation.clock_time(most.ended_at, now), "limit": presentation.duration(limit_s)}
        note = _("in 24 h, at %(at)s; limit %(limit)s") % values
        shade = "warn" if most.lag_s > limit_s else ""
        shown.append(Kpi("longest", _("Longest lag of a pass"), presentation.age(most.lag_s), note, shade))
    if overview.n_differing is not None:
        of = numbers.count(overview.n_compared)
        note = (_("of %(n)s shares") if overview.is_of_shares else _("of %(n)s waiting jobs")) % {"n": of}
        shown.append(Kpi("differing", _("Values that differ"), numbers.count(overview.n_differing), note))
    if overview.switched is not None and overview.switched.n_moved is not None:
        of = numbers.count(overview.switched.n_jobs)
        moved = numbers.count(overview.switched.n_moved)
        shown.append(Kpi("moved", _("Would change place"), moved, _("of %(n)s waiting jobs") % {"n": of}))
    if view.last is not None:
        shown.append(_last_failure(overview, now))
    return shown


def _last_failure(overview: SchedulerOverview, now: datetime) -> Kpi:
    bad = overview.last_bad
    if bad is None:
        return Kpi("failure", _("Last failed pass"), _("none"), _("in 14 days"))
    why = frozen_text(bad) if bad.frozen_code else "; ".join(error_text(bad)) or _("values were refused")
    shade = "bad" if bad.pk == overview.view.last.pk else ""  # type: ignore[union-attr]
    return Kpi("failure", _("Last failed pass"), presentation.clock_time(bad.ended_at, now), why[:200], shade)


def passes_title(passes: Sequence[PassLag]) -> str:
    """Title of the folded list: how many passes of a day, and how many of them failed."""
    n, n_bad = len(passes), sum(each.is_bad for each in passes)
    values = {"n": numbers.count(n), "bad": numbers.count(n_bad)}
    if not n:
        return _("Passes: none in 24 h")
    return (_("Passes: %(n)s in 24 h, %(bad)s failed") if n_bad else _("Passes: %(n)s in 24 h, none failed")) % values
