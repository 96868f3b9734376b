"""What an administrator fills in to mount a policy of another authority, and fields of the other federation forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core.errors import DomainError, Invalid
from apps.dashboard.notices.forms import RefusedForm
from apps.federation.models import Mount
from apps.federation.mounts.services import clean_fingerprint

_MINUTE_S, _HOUR_S = 60, 3600
_NAMES = {"every_s": "every", "max_age_s": "max_age", "fingerprint": "told"}
STALE_ACTIONS = (
    (
        Mount.StaleAction.KEEP.value,
        gettext_lazy("Keep the current version"),
        gettext_lazy("Shares stay as last received; a notice reports it."),
    ),
    (
        Mount.StaleAction.FREEZE.value,
        gettext_lazy("Freeze"),
        gettext_lazy("Shares stay; later versions wait for a decision."),
    ),
    (
        Mount.StaleAction.LOCAL.value,
        gettext_lazy("Compared by local usage only."),
        gettext_lazy("Until contact returns, only local usage counts there."),
    ),
)


def _text(**attributes: str) -> forms.TextInput:
    return forms.TextInput(attrs={"class": "input", "autocomplete": "off", "spellcheck": "false", **attributes})


def _number(label: Any, help_text: Any, unit_step: str = "1") -> forms.FloatField:
    widget = forms.NumberInput(attrs={"class": "input", "step": unit_step, "min": "0"})
    return forms.FloatField(label=label, help_text=help_text, widget=widget)


def text_field(
    label: Any, most: int, help_text: Any = "", *, required: bool = True, **attributes: str
) -> forms.CharField:
    widget = forms.TextInput(
        attrs={"class": "input", "autocomplete": "off", "spellcheck": "false", "autocapitalize": "none", **attributes}
    )
    return forms.CharField(label=label, max_length=most, required=required, help_text=help_text, widget=widget)


def reason_field() -> forms.CharField:
    return text_field(
        gettext_lazy("Reason"),
        1000,
        gettext_lazy("Recorded in the audit log."),
        autocapitalize="sentences",
        spellcheck="true",
    )


def number_field(label: Any, least: float, most: float, help_text: Any = "", *, initial: float | None = None) -> Any:
    widget = forms.NumberInput(attrs={"class": "input", "step": "any", "min": f"{least:g}"})
    return forms.FloatField(
        label=label, min_value=least, max_value=most, help_text=help_text, initial=initial, widget=widget
    )


def as_typed(value: float) -> float | int:
    """7 in place of 7.0, as somebody would type it."""
    return int(value) if value == int(value) else round(value, 4)


class RemoteForm(RefusedForm):
    """A refusal is told at the field that says it, whatever the room calls that."""

    default_field: str | None = None

    def add_refusal(self, error: DomainError) -> None:
        for problem in error.fields:
            where = _NAMES.get(problem.where, problem.where)
            place = where if where in self.fields else self.default_field
            self.add_error(place, ValidationError(problem.message, error.code))
        if not error.fields:
            self.add_error(self.default_field, ValidationError(error.message, error.code))


class AddressForm(RemoteForm):
    """Where it lies. The token is kept sealed between the steps, and is never sent back to the browser."""

    default_field = "url"
    policy = forms.ChoiceField(label=gettext_lazy("Our policy"), widget=forms.Select(attrs={"class": "input"}))
    url = forms.CharField(
        label=gettext_lazy("Document address"),
        max_length=2048,
        widget=_text(inputmode="url", placeholder="https://vo-a.example/vo-a.fairshare"),
    )
    token = forms.CharField(
        label=gettext_lazy("Access token"),
        max_length=512,
        required=False,
        widget=forms.PasswordInput(attrs={"class": "input", "autocomplete": "off"}),
        help_text=gettext_lazy("Stored encrypted; leave empty if none is needed."),
    )
    sealed = forms.CharField(required=False, max_length=4096, widget=forms.HiddenInput)

    def __init__(self, *args: Any, policies: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        policy = self.fields["policy"]
        assert isinstance(policy, forms.ChoiceField)  # noqa: S101 - says so to the type checker
        policy.choices = list(policies)
        self.has_choice = len(policies) > 1
        if not self.has_choice:
            policy.widget = policy.hidden_widget()
            policy.initial = policies[0][0] if policies else ""


class KeyForm(RemoteForm):
    """That somebody compared the key: typed as it was told, or said so. seen: the key of the document on the page."""

    default_field = "told"
    seen = forms.CharField(max_length=64, widget=forms.HiddenInput)
    told = forms.CharField(
        label=gettext_lazy("Fingerprint"),
        required=False,
        max_length=400,
        widget=forms.Textarea(
            attrs={"class": "input fp-in", "rows": "4", "autocomplete": "off", "spellcheck": "false"}
        ),
        help_text=gettext_lazy("From the peer, over a separate channel: phone, letter, in person."),
    )
    compared = forms.BooleanField(
        required=False, label=gettext_lazy("I compared all sixteen groups over a separate channel, and they match.")
    )

    def check(self, fingerprint: str) -> None:
        """Against the key of the document as it lies there now."""
        told = self.cleaned_data["told"]
        if self.cleaned_data["seen"] != fingerprint:
            message = _("The key at this address changed after you saw it. Compare it again.")
            raise Invalid(message, code="key_changed")
        if not told.strip():
            if not self.cleaned_data["compared"]:
                message = _("Enter the fingerprint from the peer, or confirm that you compared it.")
                raise Invalid(message, code="not_compared")
            return
        plain = clean_fingerprint(told)
        if plain != fingerprint:
            odd = next(at for at in range(0, 64, 4) if plain[at : at + 4] != fingerprint[at : at + 4])
            message = _("Group %(n)s differs: the peer gave %(told)s, the document has %(found)s. Don’t mount it.") % {
                "n": odd // 4 + 1,
                "told": plain[odd : odd + 4],
                "found": fingerprint[odd : odd + 4],
            }
            raise Invalid(message, code="key_differs")


class LimitsForm(RemoteForm):
    """What may land by itself, how often it is looked at, and what happens when it can't be."""

    every = _number(
        gettext_lazy("Interval (minutes)"),
        "",
        "any",
    )
    max_age = _number(
        gettext_lazy("Maximum age (hours)"),
        "",
        "any",
    )
    most_points = _number(
        gettext_lazy("Points"), gettext_lazy("A target that moves further is held for review."), "any"
    )
    most_entries = _number(gettext_lazy("Entries"), "")
    most_levels = _number(gettext_lazy("Levels"), "")
    keep_usage = forms.BooleanField(
        required=False,
        label=gettext_lazy("Keep usage of removed entries"),
        help_text=gettext_lazy("Their accounts are mapped to our entry; otherwise that usage counts nowhere."),
    )
    stale_action = forms.ChoiceField(label=gettext_lazy("After that"), choices=[each[:2] for each in STALE_ACTIONS])

    def settings(self) -> dict[str, Any]:
        """As the room takes them: seconds, whole numbers."""
        given = self.cleaned_data
        return {
            "every_s": round(given["every"] * _MINUTE_S),
            "max_age_s": round(given["max_age"] * _HOUR_S),
            "most_points": given["most_points"],
            "most_entries": _whole(given["most_entries"]),
            "most_levels": _whole(given["most_levels"]),
            "keep_usage": given["keep_usage"],
            "stale_action": given["stale_action"],
        }

    @staticmethod
    def initial_of(mount: Mount) -> dict[str, Any]:
        return {
            "every": f"{mount.every_s / _MINUTE_S:g}",
            "max_age": f"{mount.max_age_s / _HOUR_S:g}",
            "most_points": f"{mount.most_points:g}",
            "most_entries": mount.most_entries,
            "most_levels": mount.most_levels,
            "keep_usage": mount.keep_usage,
            "stale_action": mount.stale_action,
        }


class PlaceForm(LimitsForm):
    """Where it is mounted, within which limits, and why."""

    default_field = "entry"
    entry = forms.CharField(
        label=gettext_lazy("Our entry"),
        max_length=8192,
        widget=_text(placeholder="/vo-a", list="places"),
        help_text=gettext_lazy("The document replaces everything below it."),
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=2000,
        widget=_text(),
        help_text=gettext_lazy("Recorded in the audit log."),
    )

    def keeping_usage(self) -> PlaceForm:
        """The same answers, with the offer to keep usage taken."""
        return PlaceForm({**{name: self.data[name] for name in self.data}, "keep_usage": "on"})


class SettingsForm(LimitsForm):
    """The same of a mount that exists."""

    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=2000, widget=_text(id="id_settings_reason"))


class DeedForm(RemoteForm):
    """One thing to do about it, and why."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=2000,
        required=False,
        widget=_text(),
        help_text=gettext_lazy("Recorded in the audit log."),
    )


class ReasonForm(DeedForm):
    """What changes something says why."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].required = True


class TrustForm(RemoteForm):
    """Another key of the other side."""

    default_field = "told"
    told = forms.CharField(
        label=gettext_lazy("Fingerprint"),
        max_length=400,
        widget=forms.Textarea(
            attrs={"class": "input fp-in", "rows": "4", "autocomplete": "off", "spellcheck": "false"}
        ),
        help_text=gettext_lazy("From the peer, over a separate channel: phone, letter, in person."),
    )
    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=2000, widget=_text(id="id_trust_reason"))


class UnmountForm(RemoteForm):
    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=2000, widget=_text(id="id_unmount_reason"))
    sure = forms.BooleanField(label=gettext_lazy("Maintained by this site from now on."))


def first_limits() -> dict[str, Any]:
    """What a new mount begins with."""
    return LimitsForm.initial_of(Mount())


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value
