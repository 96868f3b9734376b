"""A site whose usage is taken, as its page shows it: how it stands in one sentence, its looks, and its hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.dashboard.federation import presenters as federation_lines
from apps.dashboard.federation.presenters import STANDINGS
from apps.dashboard.grid.presenters import METER
from apps.dashboard.shell import presentation
from apps.dashboard.shell.keyed import Keyed, Standing, joined
from apps.federation.fallback.conditions import Condition, condition_of, is_held
from apps.federation.fallback.stale import is_stale
from apps.federation.models import Fetch, Subscription
from apps.federation.usage_feeds.told_hours import ToldHour, ToldUsage
from apps.policies.settings import PolicySettings
from apps.priorities.metering.metric import site_factor

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
class Story:
    """How it stands: its badge, the sentence that the page begins with, and what follows from it."""

    condition: Condition
    standing: Standing
    sentence: Keyed
    follows: Keyed


def site_name(row: Subscription) -> str:
    return row.source.site or row.issuer


def story(row: Subscription, told: ToldUsage, path: str, now: datetime) -> Story:
    condition = condition_of(row, is_held=is_held(row), at=now)
    words = {"site": site_name(row), "path": path, "age": ""}
    if row.good_at is not None:
        words["age"] = presentation.age(presentation.seconds_between(row.good_at, now))
    found = _heard(row, told, condition) if row.good_at is not None else _never_heard(condition)
    sentence = Keyed(found.key, found.text % words)
    return Story(condition, STANDINGS[condition], sentence, _follows(row, told, condition, now))


def _heard(row: Subscription, told: ToldUsage, condition: Condition) -> Keyed:
    """Once it has been, as words with %(site)s, %(path)s and %(age)s."""
    if condition is Condition.HELD and not _holds(row, told):
        text = _("%(site)s told its usage of %(path)s %(age)s ago, and declares more cores than are agreed")
        return Keyed("declares_more", text)
    text = {
        Condition.FRESH: _("%(site)s told its usage of %(path)s %(age)s ago"),
        Condition.HELD: _("%(site)s told its usage of %(path)s %(age)s ago, and some of it is held"),
        Condition.LATE: _("%(site)s told its usage of %(path)s %(age)s ago, and is late"),
        Condition.STALE: _("%(site)s hasn’t been heard for %(age)s"),
        Condition.EXPIRED: _("What %(site)s told of %(path)s has expired"),
        **_chosen(),
    }[condition]
    return Keyed(condition, text)


def _never_heard(condition: Condition) -> Keyed:
    if condition is Condition.LATE:
        return Keyed("never_heard_late", _("%(site)s hasn’t been heard yet, and is late"))
    if condition in _chosen():
        return Keyed(condition, _chosen()[condition])
    return Keyed("never_heard", _("%(site)s hasn’t been heard yet"))


def _chosen() -> dict[Condition, str]:
    return {
        Condition.PAUSED: _("Usage of %(site)s is paused"),
        Condition.FROZEN: _("Usage of %(site)s is frozen"),
        Condition.BLOCKED: _("%(site)s is blocked: somebody has to look"),
    }


def _follows(row: Subscription, told: ToldUsage, condition: Condition, now: datetime) -> Keyed:
    if condition is Condition.EXPIRED:
        until = presentation.clock_time(row.expires_at, now) if row.expires_at is not None else ""
        ended = Keyed(condition, _("It was good until %(time)s, and nothing newer came.") % {"time": until})
        return joined([ended, _too_old(row) if is_stale(row, now) else Keyed("counts", _("It still counts."))])
    if condition is Condition.STALE:
        return _too_old(row)
    if condition is Condition.LATE:
        return federation_lines.late_words(row, _meanwhile(row))
    if condition is Condition.HELD and not _holds(row, told):
        text = _("All of it counts so far; agree to them if you know that it has them.")
        return Keyed("all_counts", text)
    if condition is Condition.HELD and told.doubted_from is not None:
        since = presentation.clock_time(told.doubted_from, now)
        text = _(
            "Nothing that it tells from %(since)s on counts. Ask it what it counts: it may add up threads, or cores "
            "twice. Once it has corrected that hour, all is read anew by itself."
        )
        return Keyed("doubted", text % {"since": since})
    text = {
        Condition.BLOCKED: _(
            "Its key or its line isn’t the one that is trusted. What was told before goes on counting."
        ),
        Condition.PAUSED: _("It isn’t asked until somebody resumes it; what was told before goes on counting."),
        Condition.FROZEN: _("It is asked and looked at; nothing new counts until somebody thaws it."),
        Condition.NEW: _("The first look is due; nothing of it counts yet."),
        Condition.HELD: _(
            "What is more than it has doesn’t count, and the rest does. Agree to more cores if it has them, or ask it "
            "to correct what it told."
        ),
    }.get(condition, "")
    return Keyed(condition if text else "", text)


def _too_old(row: Subscription) -> Keyed:
    if row.state != Subscription.State.FROZEN or row.stale_action == Subscription.StaleAction.FREEZE:
        return _meanwhile(row)
    frozen = Keyed("frozen_too", _("It is frozen, too: nothing new counts until somebody thaws it."))
    return joined([_meanwhile(row), frozen])


def _meanwhile(row: Subscription) -> Keyed:
    """What this site chose to do when it isn't heard."""
    text = {
        Subscription.StaleAction.KEEP: _("What was told before goes on counting, and ages."),
        Subscription.StaleAction.FREEZE: _("Nothing new counts until somebody has looked and thaws it."),
        Subscription.StaleAction.LOCAL: _("The entry is compared by this site’s usage alone until it is heard again."),
    }[Subscription.StaleAction(row.stale_action)]
    return Keyed(f"meanwhile.{row.stale_action}", text)


def _holds(row: Subscription, told: ToldUsage) -> bool:
    """Something doesn't count, and not only would a larger capacity be declared."""
    return bool(told.n_held) or row.running_held


def look_lines(rows: Sequence[Fetch]) -> list[LookLine]:
    return [_look(row) for row in rows]


def hour_lines(told: ToldUsage) -> list[HourLine]:
    return [_hour(hour) for hour in told.hours]


def capacity_words(row: Subscription, told: ToldUsage) -> Keyed:
    """What somebody may agree to, and why."""
    found, agreed = [], cores(row.capacity_cores)
    if row.told_capacity_cores is not None and row.told_capacity_cores > row.capacity_cores:
        words = {"told": cores(row.told_capacity_cores), "agreed": agreed}
        text = _("It declares %(told)s now; %(agreed)s are agreed, and more isn’t believed.") % words
        found.append(Keyed("declares_more", text))
    elif told.doubted_from is not None:
        return Keyed("doubted", _doubt_words(told, agreed))
    elif told.n_held:
        text = ngettext(
            "%(n)s hour comes to more than %(agreed)s can run, and isn’t counted.",
            "%(n)s hours come to more than %(agreed)s can run, and aren’t counted.",
            told.n_held,
        )
        found.append(Keyed("held_hours", text % {"n": presentation.count(told.n_held), "agreed": agreed}))
    if row.running_held:
        text = _("What runs there now is more than %(agreed)s, and isn’t counted.") % {"agreed": agreed}
        found.append(Keyed("running_held", text))
    return joined(found)


def _doubt_words(told: ToldUsage, agreed: str) -> str:
    """One hour is so far beyond that the others can't be right either."""
    text = ngettext(
        "One hour comes to far more than %(agreed)s can run. From then on nothing is believed: %(n)s hour isn’t "
        "counted.",
        "One hour comes to far more than %(agreed)s can run. From then on nothing is believed: %(n)s hours aren’t "
        "counted.",
        told.n_held,
    )
    return text % {"n": presentation.count(told.n_held), "agreed": agreed}


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
    kb = row.n_bytes / 1024
    size = "" if not row.n_bytes else _("%(n)s kB") % {"n": presentation.count(round(kb)) if kb >= 1 else "<1"}
    return LookLine(row, badge, dot, words, federation_lines.took(row.duration_s), size)


def _hour(hour: ToldHour) -> HourLine:
    part = hour.told_s / hour.possible_s if hour.possible_s else 0.0
    return HourLine(
        hour=hour, told=presentation.core_hours(hour.told_s), possible=presentation.core_hours(hour.possible_s),
        meter=f"{min(max(part * METER * 0.65, 1.5), METER):.1f}", is_held=hour.held_s is not None,
    )  # fmt: skip
