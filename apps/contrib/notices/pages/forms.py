"""Forms for the rules of notices, the user's mail settings, and webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.contrib.notices.kind import Kind
from apps.contrib.notices.kinds import KINDS
from apps.contrib.notices.models import Preference, Webhook
from apps.core.column_bounds import most_characters
from apps.web import bounds
from apps.web.shell.forms import NumberField, RefusableForm, choice_field, name_field, select


class RuleForm(RefusableForm):
    """Whether a rule is on, and the limits of its kind of notice."""

    is_on = forms.BooleanField(label=_("Active"), required=False)
    version = forms.IntegerField(widget=forms.HiddenInput, min_value=0)

    def __init__(self, *args: Any, kind: Kind, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        for term in kind.terms:
            widget = forms.NumberInput(
                attrs={
                    "class": "input",
                    "min": f"{term.lowest:g}",
                    "max": f"{term.highest:g}",
                    "step": "1" if term.is_whole else "any",
                }
            )
            self.fields[f"terms_{term.name}"] = NumberField(label=term.title, widget=widget)

    def form_field(self, where: str) -> str:
        return where.replace(".", "_")

    def terms(self) -> dict[str, float]:
        return {term.name: self.cleaned_data[f"terms_{term.name}"] for term in self.kind.terms}

    @staticmethod
    def initial_of(is_on: bool, terms: Mapping[str, float], version: int) -> dict[str, Any]:
        numbers = {f"terms_{name}": f"{value:g}" for name, value in terms.items()}
        return {"is_on": is_on, "version": version, **numbers}


class ScopeForm(RefusableForm):
    """Kind of a new rule, and the policy that it watches."""

    kind = choice_field(_("Kind"))
    policy = choice_field(_("Policy"))

    def __init__(self, *args: Any, policies: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.offer("kind", [(each.name, str(each.title)) for each in list_kinds() if each.watches == "policy"])
        self.offer("policy", policies)


def list_kinds() -> list[Kind]:
    """Kinds of notices, sorted by title."""
    return sorted(KINDS, key=lambda each: str(each.title).casefold())


def _kind_choices() -> list[tuple[str, str]]:
    return [(each.name, str(each.title)) for each in list_kinds()]


class MailForm(RefusableForm):
    """Interval, hour and kinds of notices for mail to the user."""

    interval = choice_field(_("Frequency"), Preference.Interval.choices)
    hour = forms.TypedChoiceField(
        label=_("Hour"), coerce=int, choices=[(hour, f"{hour:02}:00") for hour in range(24)], widget=select()
    )
    kinds = forms.MultipleChoiceField(label=_("About"), required=False, widget=forms.CheckboxSelectMultiple)
    statements = forms.BooleanField(label=_("Monthly statement"), required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        cast("forms.MultipleChoiceField", self.fields["kinds"]).choices = _kind_choices()

    def muted(self) -> list[str]:
        return [kind.name for kind in KINDS if kind.name not in self.cleaned_data["kinds"]]


class WebhookForm(RefusableForm):
    """Address of a webhook, and the part of a policy and the kinds of notices that it receives."""

    name = name_field(_("Name"), most_characters(Webhook, "name"))
    url = name_field(
        _("Address"),
        bounds.URL,
        _("https, port 443 or 8443; other ports only if the operator lists them in FAIRSHARE_OUTBOUND_ALLOW."),
        inputmode="url",
        placeholder="https://hooks.example.org/fairshare",
    )
    policy = choice_field(_("Policy"), required=False)
    entry = name_field(
        _("Entry"),
        bounds.ENTRY,
        _("Includes everything below. Leave empty for the whole policy."),
        required=False,
        placeholder="/atlas",
    )
    kinds = forms.MultipleChoiceField(
        label=_("About"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Select none to receive all."),
    )
    version = forms.IntegerField(widget=forms.HiddenInput, min_value=0, required=False)

    def __init__(self, *args: Any, policies: list[tuple[str, str]], is_admin: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.offer("policy", [*([("", _("The whole site"))] if is_admin else []), *policies])
        cast("forms.MultipleChoiceField", self.fields["kinds"]).choices = _kind_choices()
