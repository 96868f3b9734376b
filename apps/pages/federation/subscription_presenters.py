"""The state and the hours of a subscription to usage of another site, in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.federation.conditions import Condition, condition_of, is_held
from apps.federation.models import Subscription
from apps.federation.staleness import is_stale
from apps.federation.usage_feeds.quarantine import ReportedHour, ReportedUsage
from apps.federation.usage_feeds.usage_ingest import unknown_entries
from apps.pages.federation import presenters as federation_presenters
from apps.pages.federation.grid_presenters import METER
from apps.priorities.sentences import numbers
from apps.web.shell import presentation
from apps.web.shell.presentation import KeyedText, StatusBadge, joined
from apps.web.texts.conditions import STANDINGS

_MOST_UIDS = 5


@dataclass(frozen=True, slots=True)
class HourLine:
    hour: ReportedHour
    meter: str


@dataclass(frozen=True, slots=True)
class Summary:
    """State of a subscription: its badge, the headline of its page, and the consequence for usage."""

    condition: Condition
    standing: StatusBadge
    sentence: KeyedText
    follows: KeyedText


def site_name(row: Subscription) -> str:
    return row.source.site or row.issuer


def summary(row: Subscription, usage: ReportedUsage, path: str, now: datetime) -> Summary:
    condition = condition_of(row, is_held=is_held(row), at=now)
    words = {"site": site_name(row), "path": path, "age": ""}
    if row.good_at is not None:
        words["age"] = presentation.age(presentation.seconds_between(row.good_at, now))
    keyed_text = _contacted(row, usage, condition) if row.good_at is not None else _never_contacted(condition)
    sentence = KeyedText(keyed_text.key, keyed_text.text % words)
    return Summary(condition, STANDINGS[condition], sentence, _follows(row, usage, condition, now))


def _contacted(row: Subscription, usage: ReportedUsage, condition: Condition) -> KeyedText:
    """Headline after at least one successful fetch, with placeholders %(site)s, %(path)s and %(age)s."""
    if condition is Condition.HELD and not _has_held_usage(row, usage):
        text = _("%(site)s reported usage of %(path)s %(age)s ago, and declares more cores than approved")
        return KeyedText("declares_more", text)
    text = {
        Condition.FRESH: _("%(site)s reported usage of %(path)s %(age)s ago"),
        Condition.HELD: _("%(site)s reported usage of %(path)s %(age)s ago; some of it is held"),
        Condition.LATE: _("%(site)s reported usage of %(path)s %(age)s ago"),
        Condition.STALE: _("No contact with %(site)s for %(age)s"),
        Condition.EXPIRED: _("Usage of %(path)s from %(site)s has expired"),
        **_set_by_action(),
    }[condition]
    return KeyedText(condition, text)


def _never_contacted(condition: Condition) -> KeyedText:
    if condition is Condition.LATE:
        return KeyedText("never_heard_late", _("No contact with %(site)s yet"))
    if condition in _set_by_action():
        return KeyedText(condition, _set_by_action()[condition])
    return KeyedText("never_heard", _("No contact with %(site)s yet"))


def _set_by_action() -> dict[Condition, str]:
    return {
        Condition.PAUSED: _("Usage of %(site)s is paused"),
        Condition.FROZEN: _("Usage of %(site)s is frozen"),
        Condition.BLOCKED: _("%(site)s is blocked: an administrator must decide"),
    }


def _follows(row: Subscription, usage: ReportedUsage, condition: Condition, now: datetime) -> KeyedText:
    if condition is Condition.EXPIRED:
        until = presentation.clock_time(row.expires_at, now) if row.expires_at is not None else ""
        ended = KeyedText(condition, _("It was valid until %(time)s, and nothing newer arrived.") % {"time": until})
        return joined(
            [
                ended,
                _too_old(row)
                if is_stale(row, now)
                else KeyedText("counts", _("Earlier usage keeps counting, and decays.")),
            ]
        )
    if condition is Condition.STALE:
        return _too_old(row)
    if condition is Condition.LATE:
        return federation_presenters.late_text(row, _meanwhile(row))
    if condition is Condition.HELD and not _has_held_usage(row, usage):
        text = _("All of it counts so far; approve them if you know that the site has them.")
        return KeyedText("all_counts", text)
    if condition is Condition.HELD and usage.doubted_from is not None:
        since = presentation.clock_time(usage.doubted_from, now)
        text = _(
            "Its usage from %(since)s on doesn’t count. Ask the site whether it counts threads, or cores "
            "twice. Once it corrects that hour, all usage is read again automatically."
        )
        return KeyedText("doubted", text % {"since": since})
    text = {
        Condition.BLOCKED: _(
            "Its key changed or its history was forked: it isn’t fetched until an administrator decides."
        ),
        Condition.PAUSED: _("Paused: it isn’t fetched until you resume it."),
        Condition.FROZEN: _("New usage counts only after you unfreeze it."),
        Condition.NEW: _("The first fetch is due; no usage counts yet."),
        Condition.HELD: _(
            "Usage above its capacity doesn’t count; the rest does. Approve more cores if the site has them, "
            "or ask it to correct its report."
        ),
    }.get(condition, "")
    return KeyedText(condition if text else "", text)


def _too_old(row: Subscription) -> KeyedText:
    if row.state != Subscription.State.FROZEN or row.stale_action == Subscription.StaleAction.FREEZE:
        return _meanwhile(row)
    frozen = KeyedText("frozen_too", _("New usage counts only after you unfreeze it."))
    return joined([_meanwhile(row), frozen])


def _meanwhile(row: Subscription) -> KeyedText:
    """Effect of the stale action that this site chose."""
    text = {
        Subscription.StaleAction.KEEP: _("Earlier usage keeps counting, and decays."),
        Subscription.StaleAction.FREEZE: _("New usage counts only after you unfreeze it."),
        Subscription.StaleAction.LOCAL: _("Until contact returns, only local usage counts there."),
    }[Subscription.StaleAction(row.stale_action)]
    return KeyedText(f"meanwhile.{row.stale_action}", text)


def _has_held_usage(row: Subscription, usage: ReportedUsage) -> bool:
    """Whether some usage is held, rather than only a larger capacity declared."""
    return bool(usage.n_held) or row.running_held


def unknown_text(row: Subscription) -> str:
    """Which reported entries the policy doesn't have; empty for none."""
    uids = unknown_entries(row)
    text = ngettext(
        "%(n)s entry that it reports is unknown here, and its usage counts nowhere: %(uids)s",
        "%(n)s entries that it reports are unknown here, and their usage counts nowhere: %(uids)s",
        len(uids),
    )
    shown = ", ".join(map(str, uids[:_MOST_UIDS])) + (" …" if len(uids) > _MOST_UIDS else "")
    return text % {"n": numbers.count(len(uids)), "uids": shown} if uids else ""


def hour_lines(usage: ReportedUsage) -> list[HourLine]:
    return [_hour(hour) for hour in usage.hours]


def capacity_text(row: Subscription, usage: ReportedUsage) -> KeyedText:
    """Why the approved capacity may have to be raised; empty if nothing exceeds it."""
    texts, agreed = [], presentation.cores_text(row.capacity_cores)
    if row.reported_capacity_cores is not None and row.reported_capacity_cores > row.capacity_cores:
        words = {"reported": presentation.cores_text(row.reported_capacity_cores), "agreed": agreed}
        text = _("It now declares %(reported)s; %(agreed)s are approved, and the rest is ignored.") % words
        texts.append(KeyedText("declares_more", text))
    elif usage.doubted_from is not None:
        return KeyedText("doubted", _doubt_text(usage, agreed))
    elif usage.n_held:
        text = ngettext(
            "%(n)s hour exceeds %(agreed)s, and doesn’t count.",
            "%(n)s hours exceed %(agreed)s, and don’t count.",
            usage.n_held,
        )
        texts.append(KeyedText("held_hours", text % {"n": numbers.count(usage.n_held), "agreed": agreed}))
    if row.running_held:
        text = _("Its running jobs exceed %(agreed)s, and don’t count.") % {"agreed": agreed}
        texts.append(KeyedText("running_held", text))
    return joined(texts)


def _doubt_text(usage: ReportedUsage, agreed: str) -> str:
    """One hour exceeds the capacity so far that the hours after it are not trusted either."""
    text = ngettext(
        "One hour far exceeds %(agreed)s. Usage after it is ignored: %(n)s hour doesn’t count.",
        "One hour far exceeds %(agreed)s. Usage after it is ignored: %(n)s hours don’t count.",
        usage.n_held,
    )
    return text % {"n": numbers.count(usage.n_held), "agreed": agreed}


def suggested_cores(row: Subscription) -> float:
    """The larger of the declared and the approved capacity."""
    return max(row.reported_capacity_cores or 0.0, row.capacity_cores)


def subscription_url(row: Subscription) -> str:
    return reverse("pages:federation-subscription", args=[row.pk])


def _hour(hour: ReportedHour) -> HourLine:
    part = hour.reported_s / hour.possible_s if hour.possible_s else 0.0
    return HourLine(hour, f"{min(max(part * METER * 0.65, 1.5), METER):.1f}")
