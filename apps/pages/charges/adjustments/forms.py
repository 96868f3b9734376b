"""The form of a usage adjustment."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any
from uuid import UUID

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy

from apps.core.typed_numbers import AmbiguousNumber, read_number
from apps.policies import settings
from apps.priorities.sentences.numbers import HOUR_UNITS
from apps.web import bounds
from apps.web.shell.forms import (
    RefusableForm,
    choice_field,
    date_input,
    published_reason_field,
    text_input,
)

RESOURCES = [(resource, HOUR_UNITS[resource].name) for resource in settings.RESOURCES]
_HOURS = [("", gettext_lazy("whole day")), *((str(hour), f"{hour:02}:00") for hour in range(24))]
_MOST_H = 1e14


class AdjustmentForm(RefusableForm):
    """An amount in hours of a resource, above 0; `direction`: credit it to the entry or charge it."""

    direction = forms.ChoiceField(
        label=gettext_lazy("Direction"),
        choices=[("back", gettext_lazy("Credit")), ("add", gettext_lazy("Charge"))],
        initial="back",
        widget=forms.RadioSelect,
    )
    amount = forms.CharField(
        label=gettext_lazy("Amount"), max_length=bounds.NUMBER, widget=text_input(inputmode="decimal")
    )
    resource = choice_field(gettext_lazy("Unit"), RESOURCES, initial="cpu_s")
    day = forms.DateField(label=gettext_lazy("Date"), widget=date_input())
    hour = choice_field(gettext_lazy("Hour"), _HOURS, required=False)
    note = forms.CharField(label=gettext_lazy("Note"), required=False, max_length=bounds.NOTE, widget=text_input())
    reason = published_reason_field(required=False)

    def clean_amount(self) -> float:
        try:
            amount = read_number(str(self.cleaned_data["amount"]))
        except AmbiguousNumber as error:
            raise forms.ValidationError(str(error), code="number") from None
        except ValueError:
            amount = 0.0
        if not 0 < amount <= _MOST_H:
            raise forms.ValidationError(gettext_lazy("Enter a number above 0, such as 20 or 0.5."), code="number")
        return amount

    @property
    def amount_s(self) -> float:
        sign = -1.0 if self.cleaned_data["direction"] == "back" else 1.0
        return sign * float(self.cleaned_data["amount"]) * 3600.0

    def used_at(self, now: datetime) -> datetime:
        """The chosen hour in the page's time zone; noon for a whole day, or `now` if that is earlier today."""
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
        """The values as text; the page posts it back, so that changed values are previewed before publishing."""
        names = ("direction", "amount", "resource", "day", "hour")
        return "|".join(str(self.cleaned_data.get(name, "")) for name in names)

    @property
    def is_previewed(self) -> bool:
        return self.data.get("previewed") == self.stated
