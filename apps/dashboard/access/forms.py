"""What a person fills in to give a role, to change it and to end it."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.core.errors import DomainError, Stale
from apps.policies.access.authority import FOREVER
from apps.policies.access.delegation import LONGEST_REASON
from apps.policies.models import Grant

_NAMES = {"username": "person", "entry_uid": "entry", "expires_at": "ends_on"}


def _text(**attributes: str) -> forms.TextInput:
    return forms.TextInput(attrs={"class": "input", "autocomplete": "off", "spellcheck": "false", **attributes})


class TermsForm(forms.Form):
    """Role, rights, reason and end: what a grant says besides for whom and where."""

    role = forms.ChoiceField(label=_("Role"), choices=Grant.Role.choices)
    singly = forms.BooleanField(label=_("Choose single rights"), required=False)
    verbs = forms.MultipleChoiceField(label=_("Rights"), choices=Grant.Verb.choices, required=False)
    reason = forms.CharField(
        label=_("Reason"), max_length=LONGEST_REASON, help_text=_("Recorded in the audit log."), widget=_text()
    )
    ends_on = forms.DateField(
        label=_("Expires after"),
        required=False,
        widget=forms.DateInput(attrs={"class": "input", "type": "date"}, format="%Y-%m-%d"),
    )
    no_end = forms.BooleanField(label=_("Never expires"), required=False)

    is_stale = False

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.cleaned_data.get("singly") and not self.cleaned_data.get("verbs"):
            self.add_error(
                "verbs", ValidationError(_("Choose at least one right, or use those of the role."), code="no_verbs")
            )
        if (
            not self.cleaned_data.get("ends_on")
            and not self.cleaned_data.get("no_end")
            and "ends_on" not in self.errors
        ):
            self.add_error(
                "ends_on",
                ValidationError(_("Enter an end date, or choose that it never expires."), code="no_end_chosen"),
            )
        return cleaned

    @property
    def chosen_verbs(self) -> list[str] | None:
        return list(self.cleaned_data["verbs"]) if self.cleaned_data["singly"] else None

    def ends_at(self, limit: datetime = FOREVER) -> datetime | None:
        """The end of that day here; on the last day of one's own right, its very end."""
        if self.cleaned_data["no_end"]:
            return None
        ends = end_of_day(self.cleaned_data["ends_on"])
        on_last_day = limit != FOREVER and timezone.localtime(limit).date() == self.cleaned_data["ends_on"]
        return min(ends, limit) if on_last_day else ends

    def add_refusal(self, error: DomainError) -> None:
        """What the room refused, at the fields it names."""
        self.is_stale = isinstance(error, Stale)
        for problem in error.fields:
            where = _NAMES.get(problem.where, problem.where)
            self.add_error(where if where in self.fields else None, _coded(problem.message, error.code))
        if not error.fields:
            self.add_error(None, _coded(error.message, error.code))


class GiveForm(TermsForm):
    """For whom, and where."""

    person = forms.CharField(
        label=_("Person"),
        required=False,
        max_length=150,
        widget=_text(autocapitalize="none", list="people"),
    )
    people = forms.CharField(
        label=_("or a sign-in group"),
        required=False,
        max_length=4_000,
        help_text=_("Such as oidc:physics, ldap:cn=hpc,ou=groups or header:staff; * means all signed-in users."),
        widget=_text(autocapitalize="none", list="groups"),
    )
    entry = forms.CharField(
        label=_("At this entry and below"),
        max_length=8192,
        help_text=_("Path, such as /physics/theory; / is the root."),
        widget=_text(autocapitalize="none", list="places"),
    )
    field_order = ("person", "people", "entry", "role", "singly", "verbs", "reason", "ends_on", "no_end")


class EndForm(forms.Form):
    """Why it ends, and what becomes of that which rests on it."""

    reason = forms.CharField(label=_("Why"), required=False, max_length=LONGEST_REASON, widget=_text())
    given_on = forms.ChoiceField(choices=[("end", "end"), ("keep", "keep")], required=False)


def _coded(message: str, code: str) -> ValidationError:
    return ValidationError(message, code=code)


def end_of_day(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day + timedelta(days=1), time.min)) - timedelta(seconds=1)
