"""What an administrator fills in to tell others of a subtree, or of its usage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.core.errors import DomainError

Choices = Sequence[tuple[str, str]]
_HOUR_S, _DAY_S = 3_600, 86_400


def text(label: Any, most: int, help_text: Any = "", *, required: bool = True, **attributes: str) -> forms.CharField:
    widget = forms.TextInput(
        attrs={"class": "input", "autocomplete": "off", "spellcheck": "false", "autocapitalize": "none", **attributes}
    )
    return forms.CharField(label=label, max_length=most, required=required, help_text=help_text, widget=widget)


def reason_field() -> forms.CharField:
    return text(_("Reason"), 1000, _("Recorded in the audit log."), autocapitalize="sentences", spellcheck="true")


def number(label: Any, least: float, most: float, help_text: Any = "", *, initial: float | None = None) -> Any:
    widget = forms.NumberInput(attrs={"class": "input", "step": "any", "min": f"{least:g}"})
    return forms.FloatField(
        label=label, min_value=least, max_value=most, help_text=help_text, initial=initial, widget=widget
    )


def whole(value: float) -> float | int:
    """7 in place of 7.0, as somebody would type it."""
    return int(value) if value == int(value) else round(value, 4)


class ToldForm(forms.Form):
    """What publications and feeds have in common; where it is, is settled when it is made."""

    where: Iterable[str] = ("policy", "entry")
    expires_unit_s: int  # in which its field counts

    def __init__(self, *args: Any, policies: Choices, is_new: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_new = is_new
        if not is_new:
            return
        choices = forms.ChoiceField(
            label=_("Policy"), choices=list(policies), widget=forms.Select(attrs={"class": "input"})
        )
        entry = text(_("Entry"), 8192, _("Path, such as /vo-a; it is published with everything below it."))
        self.fields = {"policy": choices, "entry": entry, **self.fields}

    def given(self) -> dict[str, Any]:
        """What was filled in, as the services take it."""
        cleaned = self.cleaned_data
        return {
            "name": cleaned["name"],
            "expires_after_s": round(cleaned["expires"] * self.expires_unit_s),
            "is_open": cleaned["is_open"],
        }

    def add_refusal(self, error: DomainError) -> None:
        known = {"expires_after_s": "expires", "keeps_days": "keeps", "capacity_cores": "capacity"}
        for problem in error.fields:
            where = known.get(problem.where, problem.where)
            place = where if where in self.fields else None
            self.add_error(place, forms.ValidationError(problem.message, error.code))
        if not error.fields:
            place = "name" if error.code == "name_taken" else None
            self.add_error(place, forms.ValidationError(error.message, error.code))


class PublicationForm(ToldForm):
    """A subtree, as a series of documents."""

    expires_unit_s = _DAY_S
    name = text(_("Name"), 128, _("Used in addresses and documents: vo-a. Peers know the publication by this name."))
    expires = number(
        _("Documents expire after (days)"), 0.05, 366, _("A peer without a fetch for that long is late."), initial=7
    )
    is_open = forms.BooleanField(label=_("Anyone may fetch it, without a token"), required=False)


class FeedForm(ToldForm):
    """Its usage on this site's own sources."""

    expires_unit_s = _HOUR_S
    name = text(_("Name"), 128, _("Used in addresses and documents: north-vo-a."))
    capacity = number(
        _("Capacity (cores)"), 1e-3, 1e9, _("Cores available for it here; peers ignore usage above this.")
    )
    keeps = number(_("Days published"), 1, 3_660, _("Older hours are not published."), initial=400)
    expires = number(_("Documents expire after (hours)"), 1, 8_784, initial=24)
    sends_running = forms.BooleanField(label=_("Publish running jobs, too"), required=False, initial=True)
    is_open = forms.BooleanField(label=_("Anyone may fetch it, without a token"), required=False)

    def given(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        return {
            **super().given(),
            "capacity_cores": cleaned["capacity"],
            "keeps_days": int(cleaned["keeps"]),
            "sends_running": cleaned["sends_running"],
        }


class ReasonForm(forms.Form):
    """Why, where that is all there is to say."""

    reason = reason_field()
