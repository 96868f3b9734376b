"""What a person fills in to make a token, and to confirm with their password."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.accounts.services import DAYS, MOST_DAYS
from apps.core.errors import DomainError

Choices = Sequence[tuple[str, str]]


def _text(**attributes: str) -> forms.TextInput:
    return forms.TextInput(attrs={"class": "input", **attributes})


def _password() -> forms.CharField:
    widget = forms.PasswordInput(attrs={"class": "input", "autocomplete": "current-password"})
    return forms.CharField(label=_("Password"), max_length=4096, strip=False, widget=widget)


class TokenForm(forms.Form):
    """A new token; the lists are what this person may choose from."""

    name = forms.CharField(label=_("Name"), max_length=128, widget=_text(autocomplete="off"))
    scopes = forms.MultipleChoiceField(label=_("Scopes"), error_messages={"required": _("Choose at least one scope.")})
    policy = forms.ChoiceField(label=_("Policy"), required=False)
    entry = forms.CharField(
        label=_("Below the entry"),
        required=False,
        max_length=8192,
        help_text=_("Path, such as /physics/theory. Leave empty for the whole tree."),
        widget=_text(autocomplete="off", spellcheck="false", autocapitalize="none"),
    )
    source = forms.ChoiceField(label=_("Usage source"), required=False)
    days = forms.IntegerField(
        label=_("Days until expiry"),
        min_value=1,
        max_value=MOST_DAYS,
        initial=DAYS,
        help_text=_("90 by default, at most 365."),
        widget=forms.NumberInput(attrs={"class": "input", "inputmode": "numeric"}),
    )
    password = _password()
    ticket = forms.CharField(widget=forms.HiddenInput)

    def __init__(
        self,
        *args: Any,
        scopes: Iterable[str],
        policies: Choices,
        sources: Choices,
        asks_password: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        _ask_or_not(self, asks_password)
        self._choices("scopes").choices = [(scope, scope) for scope in scopes]
        self._choices("policy").choices = [("", _("All")), *policies]
        self._choices("source").choices = [("", _("All")), *sources]
        for name in ("policy", "source"):
            self.fields[name].widget.attrs["class"] = "input"

    @property
    def is_bound_to_a_place(self) -> bool:
        """Whether the part that narrows the token should stand open."""
        return any(self[name].value() or self[name].errors for name in ("policy", "entry", "source"))

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.cleaned_data.get("entry") and not self.cleaned_data.get("policy"):
            self.add_error("policy", _("An entry belongs to a policy: choose it too."))
        return cleaned

    def add_refusal(self, error: DomainError) -> None:
        """What a room refused, at the fields it names."""
        for problem in error.fields:
            self.add_error(problem.where if problem.where in self.fields else None, problem.message)
        if not error.fields:
            self.add_error(None, error.message)

    def _choices(self, name: str) -> forms.ChoiceField:
        return cast("forms.ChoiceField", self.fields[name])


class ConfirmForm(forms.Form):
    """A decision that needs the password again, from those who have one here."""

    password = _password()
    ticket = forms.CharField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, asks_password: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _ask_or_not(self, asks_password)


def _ask_or_not(form: forms.Form, asks_password: bool) -> None:
    if not asks_password:
        del form.fields["password"]
