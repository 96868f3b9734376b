"""Forms to create a token, and to confirm an action with the user's password."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import Token
from apps.accounts.services import DAYS, MOST_TOKEN_DAYS
from apps.core.column_bounds import most_characters
from apps.web import bounds
from apps.web.shell.forms import RefusableForm, name_field, text_input

Choices = Sequence[tuple[str, str]]


def _password() -> forms.CharField:
    widget = forms.PasswordInput(attrs={"class": "input", "autocomplete": "current-password"})
    return forms.CharField(label=_("Password"), max_length=bounds.PASSWORD, strip=False, widget=widget)


class TokenForm(RefusableForm):
    """A new token; `scopes`, `policies` and `sources` are the choices of this user."""

    name = forms.CharField(label=_("Name"), max_length=most_characters(Token, "name"), widget=text_input())
    scopes = forms.MultipleChoiceField(label=_("Scopes"), error_messages={"required": _("Choose at least one scope.")})
    policy = forms.ChoiceField(label=_("Policy"), required=False)
    entry = name_field(
        _("Below the entry"),
        bounds.ENTRY,
        _("Path, such as /physics/theory. Leave empty for the whole tree."),
        required=False,
    )
    source = forms.ChoiceField(label=_("Usage source"), required=False)
    days = forms.IntegerField(
        label=_("Days until expiry"),
        min_value=1,
        max_value=MOST_TOKEN_DAYS,
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
        _keep_password_if(asks_password, self)
        cast("forms.ChoiceField", self.fields["scopes"]).choices = [(scope, scope) for scope in scopes]
        self.offer("policy", [("", _("All")), *policies])
        self.offer("source", [("", _("All")), *sources])

    @property
    def is_bound_to_a_place(self) -> bool:
        """Whether the token is limited to a policy, entry or source, so that the page opens that section."""
        return any(self[name].value() or self[name].errors for name in ("policy", "entry", "source"))

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.cleaned_data.get("entry") and not self.cleaned_data.get("policy"):
            self.add_error("policy", _("An entry belongs to a policy: choose it too."))
        return cleaned


class ConfirmForm(forms.Form):
    """Confirmation of an action with the password, for users who have one at this site."""

    password = _password()
    ticket = forms.CharField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, asks_password: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _keep_password_if(asks_password, self)


def _keep_password_if(asks_password: bool, form: forms.Form) -> None:
    if not asks_password:
        del form.fields["password"]
