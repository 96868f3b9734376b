"""Who becomes a member of an entry by rule; accounts attached by hand; what is mine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.accounts.names.account_ids import AccountKey
from apps.dashboard.entry import read_shares
from apps.policies.tree.terms import Members, read_members

_MOST_REASON = 2_000


def text_input(**attributes: str) -> forms.TextInput:
    return forms.TextInput(
        attrs={"class": "input", "autocomplete": "off", "autocapitalize": "none", "spellcheck": "false", **attributes}
    )


def reason_field(**more: Any) -> forms.CharField:
    return forms.CharField(
        label=_("Reason"),
        max_length=_MOST_REASON,
        widget=text_input(),
        help_text=_("Shown in the history to those affected."),
        error_messages={"required": _("Enter a reason: it is shown in the history to those affected.")},
        **more,
    )


class RuleForm(forms.Form):
    """One rule for members; every condition that isn't empty must hold."""

    source = forms.ChoiceField(label=_("Accounts of the source"), required=False)
    group = forms.CharField(
        label=_("Group of the account"),
        required=False,
        max_length=512,
        widget=text_input(),
        help_text=_("Such as nbis-*: * matches anything, ? one character."),
    )
    fqan = forms.CharField(
        label=_("FQAN of the account"),
        required=False,
        max_length=512,
        widget=text_input(),
        help_text=_("Such as /atlas; includes everything below it."),
    )
    people = forms.CharField(
        label=_("Sign-in group"),
        required=False,
        max_length=512,
        widget=text_input(),
        help_text=_("Such as oidc:physics or ldap:cn=hpc: its users become children by name."),
    )
    shares = forms.CharField(
        label=_("Shares of each"), max_length=40, initial="1", widget=text_input(inputmode="decimal")
    )
    days = forms.IntegerField(
        label=_("Archived after idle days"),
        required=False,
        min_value=1,
        max_value=36_500,
        widget=forms.NumberInput(attrs={"class": "input", "autocomplete": "off"}),
        help_text=_("Without usage and jobs; restored with their next job. Leave empty for never."),
    )
    kind = forms.CharField(label=_("Kind"), max_length=32, initial="user", widget=text_input())
    reason = reason_field(required=False)

    def __init__(self, *args: Any, sources: Sequence[tuple[str, str]] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        field = self.fields["source"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        field.choices = [("", _("any source")), *sources]
        field.widget.attrs["class"] = "input"

    def clean_shares(self) -> float:
        shares = read_shares(str(self.cleaned_data["shares"]))
        if shares == "parent":
            raise forms.ValidationError(_("Enter a number, such as 1 or 0.5."), code="number")
        return shares

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if not self.errors:
            try:
                self._rule = read_members(self._stated())[0]
            except ValueError as error:
                message = str(error).removeprefix("rule 0: ")
                said = message[:1].upper() + message[1:] + "."
                self.add_error(None, forms.ValidationError(said, code="no_rule"))
        return cleaned

    @property
    def rule(self) -> Members:
        return self._rule

    @property
    def stated(self) -> str:
        """What was previewed: something else is previewed first."""
        return json.dumps(self._stated(), sort_keys=True)

    @property
    def is_previewed(self) -> bool:
        return self.data.get("previewed") == self.stated

    def _stated(self) -> dict[str, Any]:
        given = {name: self.cleaned_data.get(name) or "" for name in ("source", "group", "fqan", "people")}
        days, kind = self.cleaned_data.get("days"), self.cleaned_data.get("kind") or "user"
        return {**given, "shares": self.cleaned_data["shares"], "kind": kind, "archive_after_days": days}


def seen_tag(rules: Sequence[Members]) -> str:
    """Names the rules that somebody saw, so that nobody's change is lost."""
    return sha256(repr([rule.to_json() for rule in rules]).encode()).hexdigest()[:16]


class AttachForm(forms.Form):
    """An account by what its source calls it."""

    namespace = forms.CharField(label=_("Cluster"), max_length=128, widget=text_input())
    user_name = forms.CharField(label=_("Account"), max_length=256, widget=text_input())
    group_name = forms.CharField(
        label=_("Its group"),
        required=False,
        max_length=256,
        widget=text_input(),
        help_text=_("As the cluster writes it; leave empty if it has none."),
    )
    entry = forms.UUIDField(label=_("Entry"), widget=forms.Select(attrs={"class": "input"}))
    reason = reason_field()

    @property
    def account(self) -> AccountKey:
        return AccountKey(
            self.cleaned_data["namespace"], self.cleaned_data["user_name"], self.cleaned_data["group_name"]
        )


class ClaimForm(forms.Form):
    """An account that somebody says is theirs."""

    namespace = forms.CharField(label=_("Cluster"), max_length=128, widget=text_input())
    user_name = forms.CharField(label=_("Account name there"), max_length=256, widget=text_input())
