"""Forms to mount a policy of another site or subscribe to its usage, and to change, trust or remove that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core.errors import Invalid
from apps.federation.documents.wire_usage import LEAST_DOCUMENT_CORES, MOST_DOCUMENT_CORES
from apps.federation.models import Mount, Remote, Subscription
from apps.federation.mounts.services import clean_fingerprint
from apps.web import bounds
from apps.web.shell.forms import (
    NumberField,
    RefusableForm,
    choice_field,
    name_field,
    name_input,
    number_field,
    reason_field,
    text_area,
    text_input,
)

_MINUTE_S, _HOUR_S = 60, 3600
_IN_UNITS = {"every": ("every_s", _MINUTE_S), "max_age": ("max_age_s", _HOUR_S)}
_CAPACITY_FIELD = {"capacity_cores": "capacity"}
_FROM_PEER = gettext_lazy("From the peer, over a separate channel: phone, letter, in person.")
_NEW_TOKEN = gettext_lazy("Stored encrypted; leave empty if none is needed.")
_LOCAL_ONLY = gettext_lazy("Until contact returns, only local usage counts there.")
StaleChoices = tuple[tuple[str, Any, Any], ...]  # value, label and consequence


def typed_number(value: float) -> float | int:
    """A number as a person would type it: 7 rather than 7.0, and at most four decimals."""
    return int(value) if value == int(value) else round(value, 4)


def fingerprint_field(help_text: Any = "", *, required: bool = True) -> forms.CharField:
    return forms.CharField(
        label=gettext_lazy("Fingerprint"),
        required=required,
        max_length=bounds.FINGERPRINT,
        widget=text_area("fp-in"),
        help_text=help_text,
    )


def token_field(help_text: Any, *, keeps_text: bool = False) -> forms.CharField:
    """Token that the other site issued. keeps_text: whether a page that shows the form again has it."""
    widget = forms.PasswordInput(attrs={"class": "input mono", "autocomplete": "off"}, render_value=keeps_text)
    return forms.CharField(
        label=gettext_lazy("Access token"),
        max_length=bounds.BEARER_TOKEN,
        required=False,
        widget=widget,
        help_text=help_text,
    )


def plain_reason(action: str) -> forms.CharField:
    """Reason without help text; its id differs between the forms of a page."""
    widget = text_input(id=f"id_{action}_reason")
    return forms.CharField(label=gettext_lazy("Reason"), max_length=bounds.REASON, widget=widget)


def check_fingerprint(typed: str, shown: str) -> None:
    """Compare a fingerprint that the peer gave with that of the document.

    Raises:
        Invalid: it is none (code no_fingerprint), or another one (code key_differs); the message names the first group
        that differs.
    """
    plain = clean_fingerprint(typed)
    if plain != shown:
        wrong = next(at for at in range(0, 64, 4) if plain[at : at + 4] != shown[at : at + 4])
        message = _("Group %(n)s differs: the peer gave %(given)s, the document has %(found)s. Don’t trust it.") % {
            "n": wrong // 4 + 1,
            "given": plain[wrong : wrong + 4],
            "found": shown[wrong : wrong + 4],
        }
        raise Invalid(message, code="key_differs")


class FetchSettingsForm(RefusableForm):
    """Fetch interval, maximum age of what was received, and the action beyond that age.

    stale_choices: what the actions mean for this kind of content.
    """

    field_names = {setting: name for name, (setting, _unit) in _IN_UNITS.items()} | _CAPACITY_FIELD
    stale_choices: ClassVar[StaleChoices]
    every = number_field(gettext_lazy("Interval (minutes)"))
    max_age = number_field(gettext_lazy("Maximum age (hours)"))
    stale_action = forms.ChoiceField(label=gettext_lazy("If older"), choices=Remote.StaleAction.choices)

    def settings(self) -> dict[str, Any]:
        """Settings in the units of the federation services: seconds."""
        cleaned = self.cleaned_data
        in_seconds = {setting: round(cleaned[name] * unit) for name, (setting, unit) in _IN_UNITS.items()}
        return {**in_seconds, "stale_action": cleaned["stale_action"]}

    @staticmethod
    def initial_of(remote: Mount | Subscription) -> dict[str, Any]:
        in_units = {name: typed_number(getattr(remote, setting) / unit) for name, (setting, unit) in _IN_UNITS.items()}
        return {**in_units, "stale_action": remote.stale_action}


class MountAddressForm(RefusableForm):
    """Address of the document. The token travels encrypted between the steps and never returns to the browser."""

    default_field = "url"
    policy = choice_field(gettext_lazy("Our policy"))
    url = forms.CharField(
        label=gettext_lazy("Document address"),
        max_length=bounds.URL,
        widget=name_input(inputmode="url", placeholder="https://vo-a.example/vo-a.fairshare"),
    )
    token = token_field(_NEW_TOKEN)
    sealed = forms.CharField(required=False, max_length=bounds.SEALED, widget=forms.HiddenInput)

    def __init__(self, *args: Any, policies: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.offer("policy", list(policies))
        self.has_choice = len(policies) > 1
        if not self.has_choice:
            policy = self.fields["policy"]
            policy.widget = policy.hidden_widget()
            policy.initial = policies[0][0] if policies else ""


class KeyForm(RefusableForm):
    """Confirmation of the document's key: its fingerprint typed, or ticked as compared.

    seen: fingerprint of the key that the page showed.
    """

    default_field = "fingerprint"
    seen = forms.CharField(max_length=bounds.DIGEST, widget=forms.HiddenInput)
    fingerprint = fingerprint_field(_FROM_PEER, required=False)
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
        check_fingerprint(typed, fingerprint)


class LimitsForm(FetchSettingsForm):
    """Fetch settings of a mount, and limits up to which a version is applied without review."""

    stale_choices = (
        (
            Remote.StaleAction.KEEP.value,
            gettext_lazy("Keep the current version"),
            gettext_lazy("Shares stay as last received; a notice reports it."),
        ),
        (
            Remote.StaleAction.FREEZE.value,
            gettext_lazy("Freeze"),
            gettext_lazy("Shares stay; later versions wait for a decision."),
        ),
        (Remote.StaleAction.LOCAL.value, gettext_lazy("Use local usage only"), _LOCAL_ONLY),
    )
    most_points = number_field(
        gettext_lazy("Percentage points"), gettext_lazy("A target that moves further is held for review.")
    )
    most_entries = number_field(gettext_lazy("Entries"), step="1")
    most_levels = number_field(gettext_lazy("Levels"), step="1")
    keep_usage = forms.BooleanField(
        required=False,
        label=gettext_lazy("Keep usage of removed entries"),
        help_text=gettext_lazy("Their accounts are mapped to our entry; otherwise that usage counts nowhere."),
    )

    def settings(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        return {
            **super().settings(),
            "most_points": cleaned["most_points"],
            "most_entries": _whole(cleaned["most_entries"]),
            "most_levels": _whole(cleaned["most_levels"]),
            "keep_usage": cleaned["keep_usage"],
        }

    @staticmethod
    def initial_of(remote: Mount | Subscription) -> dict[str, Any]:
        assert isinstance(remote, Mount)  # noqa: S101 - the form of a mount
        return {
            **FetchSettingsForm.initial_of(remote),
            "most_points": typed_number(remote.most_points),
            "most_entries": remote.most_entries,
            "most_levels": remote.most_levels,
            "keep_usage": remote.keep_usage,
        }


class EntryForm(LimitsForm):
    """Entry at which the document is mounted, limits, and reason."""

    default_field = "entry"
    entry = forms.CharField(
        label=gettext_lazy("Our entry"),
        max_length=bounds.ENTRY,
        widget=name_input(placeholder="/vo-a", list="places"),
        help_text=gettext_lazy("The document replaces everything below it."),
    )
    reason = reason_field(bounds.REASON)

    def keeping_usage(self) -> EntryForm:
        """A copy of this form with `keep_usage` ticked."""
        return EntryForm({**{name: self.data[name] for name in self.data}, "keep_usage": "on"})


class MountSettingsForm(LimitsForm):
    """Limits of an existing mount, and the reason for changing them."""

    reason = plain_reason("settings")


class UsageSettingsForm(FetchSettingsForm):
    """Fetch settings of a subscription."""

    stale_choices = (
        (
            Remote.StaleAction.KEEP.value,
            gettext_lazy("Keep reported usage"),
            gettext_lazy("Earlier usage keeps counting, and decays."),
        ),
        (
            Remote.StaleAction.FREEZE.value,
            gettext_lazy("Freeze"),
            gettext_lazy("New usage counts only after you unfreeze it."),
        ),
        (Remote.StaleAction.LOCAL.value, gettext_lazy("Use local usage only"), _LOCAL_ONLY),
    )


def _capacity_field(help_text: Any = "") -> NumberField:
    return number_field(
        gettext_lazy("Capacity (cores)"), help_text, min_value=LEAST_DOCUMENT_CORES, max_value=MOST_DOCUMENT_CORES
    )


class FeedAddressForm(RefusableForm):
    """Address of the feed, and the entry of our tree whose usage it reports."""

    entry = choice_field(
        gettext_lazy("Entry"), (), gettext_lazy("One of our mounts, or a subtree that this site publishes.")
    )
    url = name_field(
        gettext_lazy("Feed address"),
        bounds.URL,
        gettext_lazy("Example: https://east.example/api/v1/feeds/vo-a"),
        inputmode="url",
    )
    token = token_field(_NEW_TOKEN, keeps_text=True)

    def __init__(self, *args: Any, entries: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.offer("entry", list(entries))
        self.has_entries = bool(entries)

    @property
    def policy_and_path(self) -> tuple[str, str]:
        policy, _colon, path = str(self.cleaned_data["entry"]).partition(":")
        return policy, path


class TermsForm(UsageSettingsForm):
    """Fingerprint that the peer gave over a separate channel, approved capacity, fetch settings and reason.

    shown: fingerprint of the key at the address.
    """

    fingerprint = fingerprint_field()
    capacity = _capacity_field(gettext_lazy("Held hours exceed a site’s capacity and don’t count."))
    reason = reason_field(bounds.REASON)
    field_order = ("fingerprint", "capacity", "every", "max_age", "stale_action", "reason")

    def __init__(self, *args: Any, shown: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.shown = shown

    def clean_fingerprint(self) -> str:
        typed: str = self.cleaned_data["fingerprint"]
        try:
            check_fingerprint(typed, self.shown)
        except Invalid as error:
            code = error.code if error.code == "key_differs" else "no_fingerprint"
            raise forms.ValidationError(error.message, code) from error
        return clean_fingerprint(typed)


class SubscriptionSettingsForm(UsageSettingsForm):
    """Fetch settings of a subscription, and a token that replaces the stored one."""

    token = token_field(gettext_lazy("Leave empty to keep the present one."), keeps_text=True)
    reason = plain_reason("settings")


class CapacityForm(RefusableForm):
    """The number of cores that a site may report, and the reason for changing it."""

    field_names = _CAPACITY_FIELD
    capacity = _capacity_field()
    reason = plain_reason("capacity")


class ActionForm(RefusableForm):
    """Optional reason of an action that changes nothing, such as fetching now."""

    reason = reason_field(bounds.REASON, required=False)


class ReasonForm(ActionForm):
    """Reason of an action that changes something."""

    reason = reason_field(bounds.REASON)


class TrustForm(RefusableForm):
    """Fingerprint of a new key of the peer, to be trusted from now on."""

    default_field = "fingerprint"
    fingerprint = fingerprint_field(_FROM_PEER)
    reason = plain_reason("trust")


class UnmountForm(RefusableForm):
    reason = plain_reason("unmount")
    sure = forms.BooleanField(label=gettext_lazy("Maintained by this site from now on."))


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value
