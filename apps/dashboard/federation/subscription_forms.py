"""Taking another site's usage: first where it lies, then its key, what it has, and how often it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.core.errors import DomainError, Invalid
from apps.dashboard.publications.forms import number, reason_field, text, whole
from apps.federation.models import Subscription
from apps.federation.mounts.services import clean_fingerprint

_MINUTE_S, _HOUR_S = 60, 3_600
STALE_ACTIONS = (
    (Subscription.StaleAction.KEEP, _("Keep reported usage"), _("Its last hours keep counting, and decay as usual.")),
    (Subscription.StaleAction.FREEZE, _("Freeze"), _("New usage counts only after you unfreeze it.")),
    (
        Subscription.StaleAction.LOCAL,
        _("Use local usage only"),
        _("For the whole entry, until contact returns."),
    ),
)
_IN_UNITS = {"every": ("every_s", _MINUTE_S), "max_age": ("max_age_s", _HOUR_S)}


def _token(help_text: Any) -> forms.CharField:
    widget = forms.PasswordInput(attrs={"class": "input mono", "autocomplete": "off"}, render_value=True)
    return forms.CharField(label=_("Access token"), max_length=512, required=False, widget=widget, help_text=help_text)


def _rhythm() -> dict[str, forms.Field]:
    return {
        "every": number(_("Interval (minutes)"), 0.2, 43_200, initial=5),
        "max_age": number(_("Maximum age (hours)"), 0.02, 8_784, _("Unconfirmed for longer, it is stale."), initial=24),
        "stale_action": forms.ChoiceField(
            label=_("After that"),
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
        label=_("Entry"), help_text=_("One of our mounts, or a subtree that this site publishes.")
    )
    url = text(_("Address of the feed"), 2_048, _("As https://east.example/api/v1/feeds/vo-a"), inputmode="url")
    token = _token(_("From the other site. Stored encrypted; leave empty if none is needed."))

    def __init__(self, *args: Any, places: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = forms.ChoiceField(
            label=_("Entry"),
            choices=list(places),
            widget=forms.Select(attrs={"class": "input"}),
            help_text=_("One of our mounts, or a subtree that this site publishes."),
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
        label=_("Fingerprint from the peer"),
        max_length=200,
        widget=forms.Textarea(
            attrs={"class": "input fp-in", "rows": "4", "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    capacity = number(_("Capacity (cores)"), 1e-3, 1e9, _("Hours above it are held, and don’t count."))
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
                _("They differ: another server may answer at this address. Don’t continue; ask the other site again."),
                "key_differs",
            )
        return told


class SettingsForm(_Refusable):
    """Rhythm, age and what then; a token in place of the present one."""

    token = _token(_("Leave empty to keep the present one."))
    reason = reason_field()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        token, last = self.fields.pop("token"), self.fields.pop("reason")
        self.fields |= _rhythm()
        self.fields |= {"token": token, "reason": last}


def settings_of(row: Subscription) -> dict[str, Any]:
    """As the form shows them."""
    found = {name: whole(getattr(row, setting) / unit) for name, (setting, unit) in _IN_UNITS.items()}
    return {**found, "stale_action": row.stale_action}
