"""A correction of usage: how much of what, as if used when, and why."""

from __future__ import annotations

from datetime import datetime, time
from math import isfinite
from typing import Any
from uuid import UUID

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.dashboard.members.forms import reason_field, text_input

RESOURCES = (
    ("cpu_s", _("core-hours")),
    ("gpu_s", _("GPU-hours")),
    ("mem_gb_s", _("GB-hours")),
    ("node_s", _("node-hours")),
    ("billing", _("billing-hours")),
)
_HOURS = [("", _("hour of any resource")), *((str(hour), f"{hour:02}:00") for hour in range(24))]
_MOST_H = 1e14


class AdjustmentForm(forms.Form):
    """Amounts are hours of a resource, above zero; the direction says whether they are given back or added."""

    direction = forms.ChoiceField(
        label=_("Direction"),
        choices=[("back", _("Credit")), ("add", _("Charge"))],
        initial="back",
        widget=forms.RadioSelect,
    )
    amount = forms.CharField(label=_("Amount"), max_length=40, widget=text_input(inputmode="decimal"))
    resource = forms.ChoiceField(
        label=_("Of"), choices=RESOURCES, initial="cpu_s", widget=forms.Select(attrs={"class": "input"})
    )
    day = forms.DateField(
        label=_("Date of the usage"),
        widget=forms.DateInput(attrs={"class": "input", "type": "date"}, format="%Y-%m-%d"),
    )
    hour = forms.ChoiceField(
        label=_("At"), required=False, choices=_HOURS, widget=forms.Select(attrs={"class": "input"})
    )
    note = forms.CharField(
        label=_("Note"),
        required=False,
        max_length=512,
        widget=text_input(),
        help_text=_("What happened, in a few words; shown with the adjustment."),
    )
    reason = reason_field(required=False)

    def clean_amount(self) -> float:
        plain = str(self.cleaned_data["amount"]).strip().replace("\u00a0", "").replace(" ", "")
        if plain.count(",") == 1 and "." not in plain:
            plain = plain.replace(",", ".")
        try:
            amount = float(plain) if plain.isascii() and "_" not in plain else float("nan")
        except ValueError:
            amount = float("nan")
        if not isfinite(amount) or not 0 < amount <= _MOST_H:
            raise forms.ValidationError(_("Write a number of hours above zero, such as 120 or 0.5."), code="number")
        return amount

    @property
    def amount_s(self) -> float:
        sign = -1.0 if self.cleaned_data["direction"] == "back" else 1.0
        return sign * float(self.cleaned_data["amount"]) * 3600.0

    def used_at(self, now: datetime) -> datetime:
        """The hour that was chosen, in the zone of the page; of a whole day its noon, or now if that is to come."""
        day, hour = self.cleaned_data["day"], self.cleaned_data["hour"]
        at = timezone.make_aware(datetime.combine(day, time(int(hour) if hour else 12)))
        is_today = timezone.localtime(now).date() == day
        return min(at, now) if not hour and is_today else at

    def operation(self, entry: UUID, now: datetime) -> dict[str, Any]:
        return {
            "op": "adjust_usage",
            "entry": str(entry),
            "resource": self.cleaned_data["resource"],
            "amount_s": self.amount_s,
            "at": self.used_at(now).isoformat(),
            "note": self.cleaned_data["note"].strip(),
        }

    @property
    def stated(self) -> str:
        """What was previewed: something else is previewed first."""
        names = ("direction", "amount", "resource", "day", "hour")
        return "|".join(str(self.cleaned_data.get(name, "")) for name in names)

    @property
    def is_previewed(self) -> bool:
        return self.data.get("previewed") == self.stated
