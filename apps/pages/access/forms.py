"""Forms to assign, change and end a role."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.policies.access.authority import FOREVER
from apps.policies.access.delegation import LONGEST_GRANT_REASON
from apps.policies.models import Grant
from apps.web import bounds
from apps.web.shell.forms import RefusableForm, date_input, name_field, reason_field, text_input


class TermsForm(RefusableForm):
    """Role, rights, reason and expiry of a grant."""

    field_names = {"username": "person", "entry_uid": "entry", "expires_at": "ends_on"}  # noqa: RUF012

    role = forms.ChoiceField(label=_("Role"), choices=Grant.Role.choices)
    singly = forms.BooleanField(label=_("Advanced: choose single rights"), required=False)
    verbs = forms.MultipleChoiceField(label=_("Rights"), choices=Grant.Verb.choices, required=False)
    reason = reason_field(LONGEST_GRANT_REASON)
    ends_on = forms.DateField(label=_("Expires"), required=False, widget=date_input())
    no_end = forms.BooleanField(label=_("Never expires"), required=False)

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.cleaned_data.get("singly") and not self.cleaned_data.get("verbs"):
            self.add_error("verbs", ValidationError(_("Choose at least one right."), code="no_verbs"))
        if (
            not self.cleaned_data.get("ends_on")
            and not self.cleaned_data.get("no_end")
            and "ends_on" not in self.errors
        ):
            self.add_error(
                "ends_on",
                ValidationError(_("Enter a date, such as 2027-03-31."), code="no_end_chosen"),
            )
        return cleaned

    @property
    def chosen_verbs(self) -> list[str] | None:
        return list(self.cleaned_data["verbs"]) if self.cleaned_data["singly"] else None

    def ends_at(self, limit: datetime) -> datetime | None:
        """Expiry: the end of the chosen local day, but no later than `limit` on the day of `limit`; None for never."""
        if self.cleaned_data["no_end"]:
            return None
        ends = end_of_day(self.cleaned_data["ends_on"])
        on_last_day = limit != FOREVER and timezone.localtime(limit).date() == self.cleaned_data["ends_on"]
        return min(ends, limit) if on_last_day else ends


class GrantForm(TermsForm):
    """A new grant: its terms, the person or sign-in group that receives it, and the entry."""

    person = name_field(_("Person"), bounds.PERSON, required=False, list="people")
    people = name_field(
        _("Sign-in group"),
        bounds.PEOPLE,
        _("Instead of a person: oidc:physics, ldap:cn=hpc,ou=groups, header:staff; * means all signed-in users."),
        required=False,
        list="groups",
    )
    entry = name_field(_("Entry"), bounds.ENTRY, _("Path, such as /physics; / is the root."), list="places")
    field_order = ("person", "people", "entry", "role", "singly", "verbs", "reason", "ends_on", "no_end")


class EndForm(RefusableForm):
    """Reason for ending a grant; `given_on`: whether the grants that depend on it end too or are kept."""

    reason = forms.CharField(label=_("Reason"), required=False, max_length=LONGEST_GRANT_REASON, widget=text_input())
    given_on = forms.ChoiceField(choices=[("end", "end"), ("keep", "keep")], required=False)


def end_of_day(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day + timedelta(days=1), time.min)) - timedelta(seconds=1)
