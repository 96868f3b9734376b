"""Usage of another site: the forms that subscribe to it, and how it stands in words, with fetches and hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.core.errors import DomainError, Invalid
from apps.dashboard.federation import presenters as federation_lines
from apps.dashboard.federation.forms import as_typed, number_field, reason_field, text_field
from apps.dashboard.federation.grid_presenters import METER
from apps.dashboard.federation.presenters import STANDINGS
from apps.dashboard.shell import presentation
from apps.dashboard.shell.presentation import KeyedText, StatusBadge, joined
from apps.federation.models import Fetch, Subscription
from apps.federation.mounts.services import clean_fingerprint
from apps.federation.staleness import Condition, condition_of, is_held, is_stale
from apps.federation.usage_feeds.quarantine import ReportedHour, ReportedUsage

_MINUTE_S, _HOUR_S = 60, 3_600
# --- Forms ------------------------------------------------------------------------------------------------------------
STALE_ACTIONS = (
    (
        Subscription.StaleAction.KEEP,
        gettext_lazy("Keep reported usage"),
        gettext_lazy("Earlier usage keeps counting, and decays."),
    ),
    (
        Subscription.StaleAction.FREEZE,
        gettext_lazy("Freeze"),
        gettext_lazy("New usage counts only after you unfreeze it."),
    ),
    (
        Subscription.StaleAction.LOCAL,
        gettext_lazy("Compared by local usage only."),
        gettext_lazy("Until contact returns, only local usage counts there."),
    ),
)
_IN_UNITS = {"every": ("every_s", _MINUTE_S), "max_age": ("max_age_s", _HOUR_S)}


def _token(help_text: Any) -> forms.CharField:
    widget = forms.PasswordInput(attrs={"class": "input mono", "autocomplete": "off"}, render_value=True)
    return forms.CharField(
        label=gettext_lazy("Access token"), max_length=512, required=False, widget=widget, help_text=help_text
    )


def _rhythm() -> dict[str, forms.Field]:
    return {
        "every": number_field(gettext_lazy("Interval (minutes)"), 0.2, 43_200, initial=5),
        "max_age": number_field(
            gettext_lazy("Maximum age (hours)"),
            0.02,
            8_784,
            "",
            initial=24,
        ),
        "stale_action": forms.ChoiceField(
            label=gettext_lazy("After that"),
            choices=[(value, label) for value, label, _text in STALE_ACTIONS],
            initial=Subscription.StaleAction.KEEP,
        ),
    }


def rhythm_of(cleaned: dict[str, Any]) -> dict[str, Any]:
    """In seconds, as the services take it."""
    found = {setting: round(cleaned[name] * unit) for name, (setting, unit) in _IN_UNITS.items()}
    return {**found, "stale_action": cleaned["stale_action"]}


class _Refusable(forms.Form):
    def add_refusal(self, error: DomainError) -> None:
        known = {setting: name for name, (setting, _unit) in _IN_UNITS.items()} | {"capacity_cores": "capacity"}
        for problem in error.fields:
            where = known.get(problem.where, problem.where)
            place = where if where in self.fields else None
            self.add_error(place, forms.ValidationError(problem.message, error.code))
        if not error.fields:
            self.add_error(None, forms.ValidationError(error.message, error.code))


class AddressForm(_Refusable):
    """Where the feed lies, and whose usage it is in our tree."""

    entry = forms.ChoiceField(
        label=gettext_lazy("Entry"), help_text=gettext_lazy("One of our mounts, or a subtree that this site publishes.")
    )
    url = text_field(
        gettext_lazy("Feed address"),
        2_048,
        gettext_lazy("As https://east.example/api/v1/feeds/vo-a"),
        inputmode="url",
    )
    token = _token(gettext_lazy("Stored encrypted; leave empty if none is needed."))

    def __init__(self, *args: Any, places: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = forms.ChoiceField(
            label=gettext_lazy("Entry"),
            choices=list(places),
            widget=forms.Select(attrs={"class": "input"}),
            help_text=gettext_lazy("One of our mounts, or a subtree that this site publishes."),
        )
        self.fields["entry"] = field
        self.has_places = bool(places)

    @property
    def place(self) -> tuple[str, str]:
        """Policy and path."""
        policy, _colon, path = str(self.cleaned_data["entry"]).partition(":")
        return policy, path


class TermsForm(_Refusable):
    """The key as it was told by another way, what is agreed, and why."""

    fingerprint = forms.CharField(
        label=gettext_lazy("Fingerprint"),
        max_length=200,
        widget=forms.Textarea(
            attrs={"class": "input fp-in", "rows": "4", "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    capacity = number_field(
        gettext_lazy("Capacity (cores)"),
        1e-3,
        1e9,
        gettext_lazy("Held hours exceed a site’s capacity and don’t count."),
    )
    reason = reason_field()

    def __init__(self, *args: Any, shown: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.shown = shown
        last = self.fields.pop("reason")
        self.fields |= _rhythm()
        self.fields["reason"] = last

    def clean_fingerprint(self) -> str:
        try:
            told = clean_fingerprint(self.cleaned_data["fingerprint"])
        except Invalid as error:
            raise forms.ValidationError(error.fields[0].message, "no_fingerprint") from error
        if told != self.shown:
            raise forms.ValidationError(
                gettext_lazy(
                    "They differ: another server may answer at this address. Don’t continue; ask the other site again."
                ),
                "key_differs",
            )
        return told


class SettingsForm(_Refusable):
    """Rhythm, age and what then; a token in place of the present one."""

    token = _token(gettext_lazy("Leave empty to keep the present one."))
    reason = reason_field()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        token, last = self.fields.pop("token"), self.fields.pop("reason")
        self.fields |= _rhythm()
        self.fields |= {"token": token, "reason": last}


def settings_of(row: Subscription) -> dict[str, Any]:
    """As the form shows them."""
    found = {name: as_typed(getattr(row, setting) / unit) for name, (setting, unit) in _IN_UNITS.items()}
    return {**found, "stale_action": row.stale_action}


# --- In words ---------------------------------------------------------------------------------------------------------
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
    hour: ReportedHour
    told: str
    possible: str
    meter: str
    is_held: bool


@dataclass(frozen=True, slots=True)
class Story:
    """How it stands: its badge, the sentence that the page begins with, and what follows from it."""

    condition: Condition
    standing: StatusBadge
    sentence: KeyedText
    follows: KeyedText


def site_name(row: Subscription) -> str:
    return row.source.site or row.issuer


def story(row: Subscription, told: ReportedUsage, path: str, now: datetime) -> Story:
    condition = condition_of(row, is_held=is_held(row), at=now)
    words = {"site": site_name(row), "path": path, "age": ""}
    if row.good_at is not None:
        words["age"] = presentation.age(presentation.seconds_between(row.good_at, now))
    found = _heard(row, told, condition) if row.good_at is not None else _never_heard(condition)
    sentence = KeyedText(found.key, found.text % words)
    return Story(condition, STANDINGS[condition], sentence, _follows(row, told, condition, now))


def _heard(row: Subscription, told: ReportedUsage, condition: Condition) -> KeyedText:
    """Once it has been, as words with %(site)s, %(path)s and %(age)s."""
    if condition is Condition.HELD and not _holds(row, told):
        text_field = _("%(site)s reported usage of %(path)s %(age)s ago, and declares more cores than approved")
        return KeyedText("declares_more", text_field)
    text_field = {
        Condition.FRESH: _("%(site)s reported usage of %(path)s %(age)s ago"),
        Condition.HELD: _("%(site)s reported usage of %(path)s %(age)s ago; some of it is held"),
        Condition.LATE: _("%(site)s reported usage of %(path)s %(age)s ago"),
        Condition.STALE: _("No contact with %(site)s for %(age)s"),
        Condition.EXPIRED: _("Usage of %(path)s from %(site)s has expired"),
        **_chosen(),
    }[condition]
    return KeyedText(condition, text_field)


def _never_heard(condition: Condition) -> KeyedText:
    if condition is Condition.LATE:
        return KeyedText("never_heard_late", _("No contact with %(site)s yet"))
    if condition in _chosen():
        return KeyedText(condition, _chosen()[condition])
    return KeyedText("never_heard", _("No contact with %(site)s yet"))


def _chosen() -> dict[Condition, str]:
    return {
        Condition.PAUSED: _("Usage of %(site)s is paused"),
        Condition.FROZEN: _("Usage of %(site)s is frozen"),
        Condition.BLOCKED: _("%(site)s is blocked: an administrator must decide"),
    }


def _follows(row: Subscription, told: ReportedUsage, condition: Condition, now: datetime) -> KeyedText:
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
        return federation_lines.late_words(row, _meanwhile(row))
    if condition is Condition.HELD and not _holds(row, told):
        text_field = _("All of it counts so far; approve them if you know that the site has them.")
        return KeyedText("all_counts", text_field)
    if condition is Condition.HELD and told.doubted_from is not None:
        since = presentation.clock_time(told.doubted_from, now)
        text_field = _(
            "Its usage from %(since)s on doesn’t count. Ask the site whether it counts threads, or cores "
            "twice. Once it corrects that hour, all usage is read again automatically."
        )
        return KeyedText("doubted", text_field % {"since": since})
    text_field = {
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
    return KeyedText(condition if text_field else "", text_field)


def _too_old(row: Subscription) -> KeyedText:
    if row.state != Subscription.State.FROZEN or row.stale_action == Subscription.StaleAction.FREEZE:
        return _meanwhile(row)
    frozen = KeyedText("frozen_too", _("New usage counts only after you unfreeze it."))
    return joined([_meanwhile(row), frozen])


def _meanwhile(row: Subscription) -> KeyedText:
    """What this site chose to do when it isn't heard."""
    text_field = {
        Subscription.StaleAction.KEEP: _("Earlier usage keeps counting, and decays."),
        Subscription.StaleAction.FREEZE: _("New usage counts only after you unfreeze it."),
        Subscription.StaleAction.LOCAL: _("Until contact returns, only local usage counts there."),
    }[Subscription.StaleAction(row.stale_action)]
    return KeyedText(f"meanwhile.{row.stale_action}", text_field)


def _holds(row: Subscription, told: ReportedUsage) -> bool:
    """Something doesn't count, and not only would a larger capacity be declared."""
    return bool(told.n_held) or row.running_held


def look_lines(rows: Sequence[Fetch]) -> list[LookLine]:
    return [_look(row) for row in rows]


def hour_lines(told: ReportedUsage) -> list[HourLine]:
    return [_hour(hour) for hour in told.hours]


def capacity_words(row: Subscription, told: ReportedUsage) -> KeyedText:
    """What somebody may agree to, and why."""
    found, agreed = [], cores(row.capacity_cores)
    if row.reported_capacity_cores is not None and row.reported_capacity_cores > row.capacity_cores:
        words = {"told": cores(row.reported_capacity_cores), "agreed": agreed}
        text_field = _("It now declares %(told)s; %(agreed)s are approved, and more is ignored.") % words
        found.append(KeyedText("declares_more", text_field))
    elif told.doubted_from is not None:
        return KeyedText("doubted", _doubt_words(told, agreed))
    elif told.n_held:
        text_field = ngettext(
            "%(n)s hour exceeds %(agreed)s, and doesn’t count.",
            "%(n)s hours exceed %(agreed)s, and don’t count.",
            told.n_held,
        )
        found.append(KeyedText("held_hours", text_field % {"n": presentation.count(told.n_held), "agreed": agreed}))
    if row.running_held:
        text_field = _("Its running jobs exceed %(agreed)s, and don’t count.") % {"agreed": agreed}
        found.append(KeyedText("running_held", text_field))
    return joined(found)


def _doubt_words(told: ReportedUsage, agreed: str) -> str:
    """One hour is so far beyond that the others can't be right either."""
    text_field = ngettext(
        "One hour far exceeds %(agreed)s. Usage after it is ignored: %(n)s hour doesn’t count.",
        "One hour far exceeds %(agreed)s. Usage after it is ignored: %(n)s hours don’t count.",
        told.n_held,
    )
    return text_field % {"n": presentation.count(told.n_held), "agreed": agreed}


def cores(value: float) -> str:
    n = presentation.count(round(value)) if value >= 10 or value == int(value) else f"{value:.3g}"
    return ngettext("%(n)s core", "%(n)s cores", 1 if value == 1 else 2) % {"n": n}


def suggested_cores(row: Subscription) -> float:
    """As declared now, if that is more than is agreed."""
    return max(row.reported_capacity_cores or 0.0, row.capacity_cores)


def subscription_url(row: Subscription) -> str:
    return reverse("dashboard:federation-subscription", args=[row.pk])


def _look(row: Fetch) -> LookLine:
    badge, dot = _OUTCOMES[Fetch.Outcome(row.outcome)]
    words = {
        Fetch.Outcome.SAME: _("Unchanged"),
        Fetch.Outcome.LANDED: _("Counted"),
        Fetch.Outcome.HELD: _("held"),
        Fetch.Outcome.FROZEN: _("Not counted"),
        Fetch.Outcome.REFUSED: _("refused"),
        Fetch.Outcome.UNREACHABLE: _("No answer"),
    }[Fetch.Outcome(row.outcome)]
    kb = row.n_bytes / 1024
    size = "" if not row.n_bytes else _("%(n)s kB") % {"n": presentation.count(round(kb)) if kb >= 1 else "<1"}
    return LookLine(row, badge, dot, words, federation_lines.took(row.duration_s), size)


def _hour(hour: ReportedHour) -> HourLine:
    part = hour.reported_s / hour.possible_s if hour.possible_s else 0.0
    return HourLine(
        hour=hour,
        told=presentation.core_hours(hour.reported_s),
        possible=presentation.core_hours(hour.possible_s),
        meter=f"{min(max(part * METER * 0.65, 1.5), METER):.1f}",
        is_held=hour.held_s is not None,
    )
