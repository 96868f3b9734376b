"""Forms to mount a policy of another site and to change, trust or remove a mount."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core.errors import Invalid
from apps.dashboard.shell.forms import (
    RefusableForm,
    choice_field,
    name_input,
    number_field,
    reason_field,
    text_area,
    text_input,
)
from apps.federation.models import Mount
from apps.federation.mounts.services import clean_fingerprint

_MINUTE_S, _HOUR_S = 60, 3600
MAX_REASON = 2_000
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
        gettext_lazy("Use local usage only"),
        gettext_lazy("Until contact returns, only local usage counts there."),
    ),
)


def typed_number(value: float) -> float | int:
    """A number as a person would type it: 7 rather than 7.0, and at most four decimals."""
    return int(value) if value == int(value) else round(value, 4)


def fingerprint_field(max_length: int, help_text: Any = "", *, required: bool = True) -> forms.CharField:
    return forms.CharField(
        label=gettext_lazy("Fingerprint"),
        required=required,
        max_length=max_length,
        widget=text_area("fp-in"),
        help_text=help_text,
    )


class MountForm(RefusableForm):
    """Base of the forms about a mount."""

    field_names = {"every_s": "every", "max_age_s": "max_age"}  # noqa: RUF012


class AddressForm(MountForm):
    """Address of the document. The token travels encrypted between the steps and never returns to the browser."""

    default_field = "url"
    policy = choice_field(gettext_lazy("Our policy"))
    url = forms.CharField(
        label=gettext_lazy("Document address"),
        max_length=2048,
        widget=name_input(inputmode="url", placeholder="https://vo-a.example/vo-a.fairshare"),
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
        self.offer("policy", list(policies))
        self.has_choice = len(policies) > 1
        if not self.has_choice:
            policy = self.fields["policy"]
            policy.widget = policy.hidden_widget()
            policy.initial = policies[0][0] if policies else ""


_FROM_PEER = gettext_lazy("From the peer, over a separate channel: phone, letter, in person.")


class KeyForm(MountForm):
    """Confirmation of the document's key: its fingerprint typed, or ticked as compared.

    seen: fingerprint of the key that the page showed.
    """

    default_field = "fingerprint"
    seen = forms.CharField(max_length=64, widget=forms.HiddenInput)
    fingerprint = fingerprint_field(400, _FROM_PEER, required=False)
    compared = forms.BooleanField(
        required=False, label=gettext_lazy("I compared all sixteen groups over a separate channel, and they match.")
    )

    def check(self, fingerprint: str) -> None:
        """Raise Invalid unless the confirmed key has `fingerprint`, that of the document fetched just now."""
        typed = self.cleaned_data["fingerprint"]
        if self.cleaned_data["seen"] != fingerprint:
            message = _("The key at this address changed after you saw it. Compare it again.")
            raise Invalid(message, code="key_changed")
        if not typed.strip():
            if not self.cleaned_data["compared"]:
                message = _("Enter the fingerprint from the peer, or confirm that you compared it.")
                raise Invalid(message, code="not_compared")
            return
        plain = clean_fingerprint(typed)
        if plain != fingerprint:
            wrong = next(at for at in range(0, 64, 4) if plain[at : at + 4] != fingerprint[at : at + 4])
            message = _("Group %(n)s differs: the peer gave %(given)s, the document has %(found)s. Don’t mount it.") % {
                "n": wrong // 4 + 1,
                "given": plain[wrong : wrong + 4],
                "found": fingerprint[wrong : wrong + 4],
            }
            raise Invalid(message, code="key_differs")


class LimitsForm(MountForm):
    """Fetch interval, limits up to which a version is applied without review, and the action when fetches fail."""

    every = number_field(gettext_lazy("Interval (minutes)"))
    max_age = number_field(gettext_lazy("Maximum age (hours)"))
    most_points = number_field(gettext_lazy("Points"), gettext_lazy("A target that moves further is held for review."))
    most_entries = number_field(gettext_lazy("Entries"), step="1")
    most_levels = number_field(gettext_lazy("Levels"), step="1")
    keep_usage = forms.BooleanField(
        required=False,
        label=gettext_lazy("Keep usage of removed entries"),
        help_text=gettext_lazy("Their accounts are mapped to our entry; otherwise that usage counts nowhere."),
    )
    stale_action = forms.ChoiceField(label=gettext_lazy("If older"), choices=[each[:2] for each in STALE_ACTIONS])

    def settings(self) -> dict[str, Any]:
        """Settings in the units of the federation services: seconds and whole numbers."""
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


class EntryForm(LimitsForm):
    """Entry at which the document is mounted, limits, and reason."""

    default_field = "entry"
    entry = forms.CharField(
        label=gettext_lazy("Our entry"),
        max_length=8192,
        widget=name_input(placeholder="/vo-a", list="places"),
        help_text=gettext_lazy("The document replaces everything below it."),
    )
    reason = reason_field(MAX_REASON)

    def keeping_usage(self) -> EntryForm:
        """A copy of this form with `keep_usage` ticked."""
        return EntryForm({**{name: self.data[name] for name in self.data}, "keep_usage": "on"})


def plain_reason(action: str) -> forms.CharField:
    """Reason without help text; its id differs between the forms of a page."""
    widget = text_input(id=f"id_{action}_reason")
    return forms.CharField(label=gettext_lazy("Reason"), max_length=MAX_REASON, widget=widget)


class SettingsForm(LimitsForm):
    """Limits of an existing mount, and the reason for changing them."""

    reason = plain_reason("settings")


class ActionForm(RefusableForm):
    """Optional reason of an action that changes nothing, such as fetching now."""

    reason = reason_field(MAX_REASON, required=False)


class ReasonForm(ActionForm):
    """Reason of an action that changes something."""

    reason = reason_field(MAX_REASON)


class TrustForm(RefusableForm):
    """Fingerprint of a new key of the peer, to be trusted from now on."""

    default_field = "fingerprint"
    fingerprint = fingerprint_field(400, _FROM_PEER)
    reason = plain_reason("trust")


class UnmountForm(MountForm):
    reason = plain_reason("unmount")
    sure = forms.BooleanField(label=gettext_lazy("Maintained by this site from now on."))


def default_limits() -> dict[str, Any]:
    """Initial values for a new mount."""
    return LimitsForm.initial_of(Mount())


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value
