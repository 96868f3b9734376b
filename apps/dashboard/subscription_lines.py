"""A site whose usage is taken, as its page shows it: how it stands in one sentence, its looks, and its hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.dashboard import presentation
from apps.dashboard.grid_lines import METER, STATES, state_words
from apps.federation.grid_sites import state_of
from apps.federation.models import Fetch, Subscription
from apps.federation.told_hours import ToldHour, ToldUsage
from apps.policies.settings import PolicySettings
from apps.priorities.metric import site_factor

LOOKS = 30
_OUTCOMES = {
    Fetch.Outcome.SAME: ("", "off"),
    Fetch.Outcome.LANDED: ("ok", "ok"),
    Fetch.Outcome.HELD: ("warn", "warn"),
    Fetch.Outcome.FROZEN: ("remote", "off"),
    Fetch.Outcome.REFUSED: ("bad", "bad"),
    Fetch.Outcome.UNREACHABLE: ("warn", "warn"),
}


@dataclass(frozen=True, slots=True)
class LookLine:
    fetch: Fetch
    badge: str
    dot: str
    outcome: str
    took: str
    size: str


@dataclass(frozen=True, slots=True)
class HourLine:
    hour: ToldHour
    told: str
    possible: str
    meter: str
    is_held: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """badge, dot and word of the state; the sentence that the page begins with, and what follows from it."""

    state: str
    badge: str
    dot: str
    word: str
    sentence: str
    follows: str


def site_name(row: Subscription) -> str:
    return row.source.site or row.issuer


def standing(row: Subscription, path: str, now: datetime) -> Standing:
    state = state_of(row, now)
    badge, dot = STATES[state]
    words = {"site": site_name(row), "path": path, "age": ""}
    if row.good_at is not None:
        words["age"] = presentation.age(presentation.seconds_between(row.good_at, now))
    sentence = {
        "fresh": _("%(site)s told its usage of %(path)s %(age)s ago"),
        "stale": _("%(site)s hasn’t been heard for %(age)s"),
        "waiting": _("%(site)s hasn’t been heard yet"),
        "paused": _("Usage of %(site)s is paused"),
        "frozen": _("Usage of %(site)s is frozen"),
        "blocked": _("%(site)s is blocked: somebody has to look"),
    }[state]
    return Standing(state, badge, dot, state_words(state), sentence % words, _follows(row, state))


def _follows(row: Subscription, state: str) -> str:
    if state == "blocked":
        return _("Its key or its line isn’t the one that is trusted. What was told before goes on counting.")
    if state == "paused":
        return _("It isn’t asked until somebody resumes it; what was told before goes on counting.")
    if state == "frozen":
        return _("It is asked and looked at; nothing new counts until somebody thaws it.")
    if state == "waiting":
        return _("The first look is due; nothing of it counts yet.")
    if state == "stale":
        return {
            Subscription.StaleAction.KEEP: _("What was told before goes on counting, and ages."),
            Subscription.StaleAction.FREEZE: _("Nothing new counts until somebody has looked and thaws it."),
            Subscription.StaleAction.LOCAL: _(
                "The entry is compared by this site’s usage alone until it is heard again."
            ),
        }[Subscription.StaleAction(row.stale_action)]
    return ""


def look_lines(rows: Sequence[Fetch]) -> list[LookLine]:
    return [_look(row) for row in rows]


def hour_lines(told: ToldUsage) -> list[HourLine]:
    return [_hour(hour) for hour in told.hours]


def capacity_words(row: Subscription, told: ToldUsage) -> str:
    """What somebody may agree to, and why."""
    if row.told_capacity_cores is not None and row.told_capacity_cores > row.capacity_cores:
        words = {"told": cores(row.told_capacity_cores), "agreed": cores(row.capacity_cores)}
        return _("It declares %(told)s now; %(agreed)s are agreed, and more isn’t believed.") % words
    if told.n_held:
        return ngettext(
            "%(n)s hour comes to more than %(agreed)s can run, and isn’t counted.",
            "%(n)s hours come to more than %(agreed)s can run, and aren’t counted.",
            told.n_held,
        ) % {"n": presentation.count(told.n_held), "agreed": cores(row.capacity_cores)}
    return ""


def cores(value: float) -> str:
    n = presentation.count(round(value)) if value >= 10 or value == int(value) else f"{value:.3g}"
    return ngettext("%(n)s core", "%(n)s cores", 1 if value == 1 else 2) % {"n": n}


def suggested_cores(row: Subscription) -> float:
    """As declared now, if that is more than is agreed."""
    return max(row.told_capacity_cores or 0.0, row.capacity_cores)


def speed(settings: PolicySettings, site: str) -> str:
    return f"{site_factor(site, settings.metric['site_factors']):g}"


def subscription_url(row: Subscription) -> str:
    return reverse("dashboard:federation-subscription", args=[row.pk])


def _look(row: Fetch) -> LookLine:
    badge, dot = _OUTCOMES[Fetch.Outcome(row.outcome)]
    words = {
        Fetch.Outcome.SAME: _("nothing new"),
        Fetch.Outcome.LANDED: _("counted"),
        Fetch.Outcome.HELD: _("held"),
        Fetch.Outcome.FROZEN: _("not counted"),
        Fetch.Outcome.REFUSED: _("refused"),
        Fetch.Outcome.UNREACHABLE: _("no answer"),
    }[Fetch.Outcome(row.outcome)]
    took = f"{row.duration_s:.1f}" if row.duration_s < 10 else f"{row.duration_s:.0f}"
    kb = row.n_bytes / 1024
    size = "" if not row.n_bytes else _("%(n)s kB") % {"n": presentation.count(round(kb)) if kb >= 1 else "<1"}
    return LookLine(row, badge, dot, words, f"{took}{presentation.NBSP}s", size)


def _hour(hour: ToldHour) -> HourLine:
    part = hour.told_s / hour.possible_s if hour.possible_s else 0.0
    return HourLine(
        hour=hour, told=presentation.core_hours(hour.told_s), possible=presentation.core_hours(hour.possible_s),
        meter=f"{min(max(part * METER * 0.65, 1.5), METER):.1f}", is_held=hour.held_s is not None,
    )  # fmt: skip
