"""What somebody fills in about notices: limits of a rule, when to be written to, and where webhooks go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.core.errors import DomainError, Stale
from apps.notices.kinds import kinds
from apps.notices.kinds.base import Kind
from apps.notices.models import Preference


def _text(**attributes: str) -> forms.TextInput:
    return forms.TextInput(attrs={"class": "input", "autocomplete": "off", "spellcheck": "false", **attributes})


def _select() -> forms.Select:
    return forms.Select(attrs={"class": "input"})


class RefusedForm(forms.Form):
    """Tells what the room refused at the fields it names."""

    is_stale = False

    def add_refusal(self, error: DomainError) -> None:
        self.is_stale = isinstance(error, Stale)
        for problem in error.fields:
            where = problem.where.replace(".", "_")
            place = where if where in self.fields else None
            self.add_error(place, forms.ValidationError(problem.message, error.code))
        if not error.fields:
            self.add_error(None, forms.ValidationError(error.message, error.code))


class RuleForm(RefusedForm):
    """On or off, and the limits of one kind."""

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
            label = f"{term.label} ({term.unit})"
            self.fields[f"terms_{term.name}"] = forms.FloatField(label=label, widget=widget)

    def terms(self) -> dict[str, float]:
        return {term.name: self.cleaned_data[f"terms_{term.name}"] for term in self.kind.terms}

    @staticmethod
    def initial_of(is_on: bool, terms: Mapping[str, float], version: int) -> dict[str, Any]:
        numbers = {f"terms_{name}": f"{value:g}" for name, value in terms.items()}
        return {"is_on": is_on, "version": version, **numbers}


class PlaceForm(forms.Form):
    """Where a new rule shall hold."""

    kind = forms.ChoiceField(label=_("Kind"), widget=_select())
    policy = forms.ChoiceField(label=_("Policy"), required=False, widget=_select())
    entry = forms.CharField(
        label=_("Below the entry"),
        required=False,
        max_length=8192,
        widget=_text(placeholder="/atlas"),
        help_text=_("Leave empty for the whole policy."),
    )
    source = forms.ChoiceField(label=_("or usage source"), required=False, widget=_select())

    def __init__(
        self, *args: Any, policies: list[tuple[str, str]], sources: list[tuple[str, str]], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        watched = ("policy", "source") if sources else ("policy",)
        self._fields("kind", [(each.name, each.title) for each in kinds().values() if each.watches in watched])
        self._fields("policy", [("", "–"), *policies])
        if sources:
            self._fields("source", [("", "–"), *sources])
        else:
            del self.fields["source"]

    def _fields(self, name: str, choices: list[tuple[str, Any]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - says so to the type checker
        field.choices = choices


def _kind_choices() -> list[tuple[str, str]]:
    """As people read them: by title."""
    return sorted(((each.name, str(each.title)) for each in kinds().values()), key=lambda choice: choice[1].casefold())


class MailForm(RefusedForm):
    """How often, at which hour, and about what not."""

    interval = forms.ChoiceField(label=_("Send me mail"), choices=Preference.Interval.choices, widget=_select())
    hour = forms.TypedChoiceField(
        label=_("At"), coerce=int, choices=[(hour, f"{hour:02}:00") for hour in range(24)], widget=_select()
    )
    kinds = forms.MultipleChoiceField(
        label=_("About"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    statements = forms.BooleanField(label=_("Monthly statement by mail"), required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["kinds"]
        assert isinstance(field, forms.MultipleChoiceField)  # noqa: S101 - says so to the type checker
        field.choices = _kind_choices()

    def muted(self) -> list[str]:
        return [name for name in kinds() if name not in self.cleaned_data["kinds"]]


class WebhookForm(RefusedForm):
    """Where it goes, what for, and about which part."""

    name = forms.CharField(label=_("Name"), max_length=128, widget=_text())
    url = forms.CharField(
        label=_("Address"),
        max_length=2048,
        widget=_text(inputmode="url", placeholder="https://hooks.example.org/fairshare"),
        help_text=_(
            "https, port 443 or 8443; other ports only if the operator lists them in FAIRSHARE_OUTBOUND_ALLOW."
        ),
    )
    policy = forms.ChoiceField(label=_("Policy"), required=False, widget=_select())
    entry = forms.CharField(
        label=_("Below the entry"),
        required=False,
        max_length=8192,
        widget=_text(placeholder="/atlas"),
        help_text=_("Leave empty for the whole policy."),
    )
    kinds = forms.MultipleChoiceField(
        label=_("About"), required=False, widget=forms.CheckboxSelectMultiple, help_text=_("Leave empty for all.")
    )
    version = forms.IntegerField(widget=forms.HiddenInput, min_value=0, required=False)

    def __init__(self, *args: Any, policies: list[tuple[str, str]], is_admin: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        policy, about = self.fields["policy"], self.fields["kinds"]
        assert isinstance(policy, forms.ChoiceField)  # noqa: S101 - says so to the type checker
        assert isinstance(about, forms.MultipleChoiceField)  # noqa: S101 - says so to the type checker
        policy.choices = [*([("", _("The whole site"))] if is_admin else []), *policies]
        about.choices = _kind_choices()
