"""The form of a decision on a change set, and the local times that it takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.core import clock
from apps.core.local_time import NoSuchTime, instant_of
from apps.web.shell import presentation
from apps.web.shell.forms import RefusableForm

_MAX_TEXT, MAX_TIME = 4_000, 40


class LocalTimeField(forms.CharField):
    """A date and time in the site's time zone, as an instant; None for text that is none."""

    def clean(self, value: Any) -> Any:
        try:
            return read_local(str(value or "").strip()[:MAX_TIME])
        except NoSuchTime as error:
            raise forms.ValidationError(skipped_text(error), code="nonexistent_time") from None


class DecisionForm(RefusableForm):
    """A decision on a change set: the button that was pressed, the comment or reason, and the time to publish at."""

    step = forms.CharField(required=False)
    text = forms.CharField(required=False)
    effective_at = LocalTimeField(required=False)

    def clean_text(self) -> str:
        return str(self.cleaned_data["text"])[:_MAX_TEXT]

    def clean(self) -> None:
        cleaned = self.cleaned_data
        step = cleaned.get("step")
        if step == "request-changes" and not cleaned.get("text"):
            self.errors.pop("effective_at", None)
            self.add_error("text", forms.ValidationError(_("Enter a reason."), code="text_missing"))
        elif step == "schedule" and cleaned.get("effective_at") is None and "effective_at" not in self.errors:
            message = _("Enter a date and time, such as 2027-01-01 08:00.")
            self.add_error("effective_at", forms.ValidationError(message, code="no_time"))


def read_local(typed: str) -> datetime | None:
    """The instant of a date and time in the site's time zone; None for text that is none.

    Raises:
        NoSuchTime: clocks skip it.
    """
    try:
        naive = datetime.fromisoformat(typed)
    except ValueError:
        return None
    if naive.tzinfo is not None:
        return naive.astimezone(UTC)
    try:
        return instant_of(naive, timezone.get_current_timezone())
    except OverflowError:
        return None


def skipped_text(error: NoSuchTime) -> str:
    """Message that names the two local times around the hour that clocks skip."""
    before, after = (presentation.clock_time(at, clock.now()) for at in (error.before, error.after))
    return _("Clocks skip that time: choose %(before)s or %(after)s.") % {"before": before, "after": after}
