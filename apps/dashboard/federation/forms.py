"""What somebody says when a policy of another authority is mounted, and what is kept to afterwards."""

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
from apps.federation.mounts.mounting import clean_fingerprint

_MINUTE_S, _HOUR_S = 60, 3600
_NAMES = {"every_s": "every", "max_age_s": "max_age", "fingerprint": "told"}
STALE_ACTIONS = (
    (
        Mount.StaleAction.KEEP.value,
        gettext_lazy("Keep what is in force"),
        gettext_lazy("Shares stay as they were told last, however old; a notice says so."),
    ),
    (
        Mount.StaleAction.FREEZE.value,
        gettext_lazy("Freeze it"),
        gettext_lazy("Shares stay, and what comes later isn’t put in force until somebody decides."),
    ),
    (
        Mount.StaleAction.LOCAL.value,
        gettext_lazy("Compare by this site’s usage alone"),
        gettext_lazy("Shares stay, and usage of other sites doesn’t count there until it is heard again."),
    ),
)


def _text(**attributes: str) -> forms.TextInput:
    return forms.TextInput(attrs={"class": "input", "autocomplete": "off", "spellcheck": "false", **attributes})


def _number(label: Any, help_text: Any, unit_step: str = "1") -> forms.FloatField:
    widget = forms.NumberInput(attrs={"class": "input", "step": unit_step, "min": "0"})
    return forms.FloatField(label=label, help_text=help_text, widget=widget)


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
    policy = forms.ChoiceField(label=gettext_lazy("Policy of ours"), widget=forms.Select(attrs={"class": "input"}))
    url = forms.CharField(
        label=gettext_lazy("Address of their document"), max_length=2048,
        widget=_text(inputmode="url", placeholder="https://vo-a.example/vo-a.fairshare"),
        help_text=gettext_lazy("As they told you. It is fetched once now, to be looked at; nothing is kept yet."),
    )  # fmt: skip
    token = forms.CharField(
        label=gettext_lazy("Their token for us"), max_length=512, required=False,
        widget=forms.PasswordInput(attrs={"class": "input", "autocomplete": "off"}),
        help_text=gettext_lazy("Only if they gave you one. It is kept sealed."),
    )  # fmt: skip
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
        label=gettext_lazy("What they told you"), required=False, max_length=400,
        widget=forms.Textarea(
            attrs={"class": "input fp-in", "rows": "4", "autocomplete": "off", "spellcheck": "false"}
        ),
        help_text=gettext_lazy("Type or paste it: blanks and capitals don’t matter."),
    )  # fmt: skip
    compared = forms.BooleanField(
        required=False, label=gettext_lazy("I compared all sixteen groups by another way, and they are the same.")
    )

    def check(self, fingerprint: str) -> None:
        """Against the key of the document as it lies there now."""
        told = self.cleaned_data["told"]
        if self.cleaned_data["seen"] != fingerprint:
            message = _("The key that the address answers with has changed since you saw it. Compare it again.")
            raise Invalid(message, code="key_changed")
        if not told.strip():
            if not self.cleaned_data["compared"]:
                message = _("Type the fingerprint that they told you, or tick that you compared it.")
                raise Invalid(message, code="not_compared")
            return
        plain = clean_fingerprint(told)
        if plain != fingerprint:
            odd = next(at for at in range(0, 64, 4) if plain[at : at + 4] != fingerprint[at : at + 4])
            message = _("Group %(n)s differs: you were told %(told)s, the document has %(found)s. Don’t mount it.") % {
                "n": odd // 4 + 1, "told": plain[odd : odd + 4], "found": fingerprint[odd : odd + 4],
            }  # fmt: skip
            raise Invalid(message, code="key_differs")


class LimitsForm(RemoteForm):
    """What may land by itself, how often it is looked at, and what happens when it can't be."""

    every = _number(gettext_lazy("Look every (minutes)"), gettext_lazy("Unchanged, it costs one small request."), "any")
    max_age = _number(
        gettext_lazy("May be old (hours)"), gettext_lazy("Since the last good look; then what you choose."), "any"
    )
    most_points = _number(
        gettext_lazy("Points"), gettext_lazy("A target that moves further is held for review."), "any"
    )
    most_entries = _number(gettext_lazy("Entries"), gettext_lazy("That come, go or change at once."))
    most_levels = _number(gettext_lazy("Levels"), gettext_lazy("A deeper document is refused."))
    stale_action = forms.ChoiceField(
        label=gettext_lazy("When it is older than that"), choices=[each[:2] for each in STALE_ACTIONS]
    )

    def settings(self) -> dict[str, Any]:
        """As the room takes them: seconds, whole numbers."""
        given = self.cleaned_data
        return {
            "every_s": round(given["every"] * _MINUTE_S), "max_age_s": round(given["max_age"] * _HOUR_S),
            "most_points": given["most_points"], "most_entries": _whole(given["most_entries"]),
            "most_levels": _whole(given["most_levels"]), "stale_action": given["stale_action"],
        }  # fmt: skip

    @staticmethod
    def initial_of(mount: Mount) -> dict[str, Any]:
        return {
            "every": f"{mount.every_s / _MINUTE_S:g}", "max_age": f"{mount.max_age_s / _HOUR_S:g}",
            "most_points": f"{mount.most_points:g}", "most_entries": mount.most_entries,
            "most_levels": mount.most_levels, "stale_action": mount.stale_action,
        }  # fmt: skip


class PlaceForm(LimitsForm):
    """Where it is mounted, within which limits, and why."""

    default_field = "entry"
    entry = forms.CharField(
        label=gettext_lazy("Entry of ours"), max_length=8192, widget=_text(placeholder="/vo-a", list="places"),
        help_text=gettext_lazy("It keeps its own share; everything below it becomes what the document says."),
    )  # fmt: skip
    reason = forms.CharField(
        label=gettext_lazy("Reason"), max_length=2000, widget=_text(),
        help_text=gettext_lazy("For the audit log and the history of the policy."),
    )  # fmt: skip


class SettingsForm(LimitsForm):
    """The same of a mount that exists."""

    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=2000, widget=_text(id="id_settings_reason"))


class DeedForm(RemoteForm):
    """One thing to do about it, and why."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"), max_length=2000, required=False, widget=_text(),
        help_text=gettext_lazy("For the audit log."),
    )  # fmt: skip


class ReasonForm(DeedForm):
    """What changes something says why."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].required = True


class TrustForm(RemoteForm):
    """Another key of the other side."""

    default_field = "told"
    told = forms.CharField(
        label=gettext_lazy("Fingerprint of their new key"), max_length=400,
        widget=forms.Textarea(
            attrs={"class": "input fp-in", "rows": "4", "autocomplete": "off", "spellcheck": "false"}
        ),
        help_text=gettext_lazy("As they told you by another way: phone, letter, in person."),
    )  # fmt: skip
    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=2000, widget=_text(id="id_trust_reason"))


class UnmountForm(RemoteForm):
    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=2000, widget=_text(id="id_unmount_reason"))
    sure = forms.BooleanField(label=gettext_lazy("From now on this site maintains what lies below."))


def first_limits() -> dict[str, Any]:
    """What a new mount begins with."""
    return LimitsForm.initial_of(Mount())


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value
