"""Forms for members of an entry: a membership rule, and an account to attach."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from apps.accounts.account_keys import AccountKey
from apps.core.errors import problem_sentence
from apps.policies.tree.terms import LONGEST_TERM_PATTERN, MOST_TERM_DAYS, MembershipRule, read_members
from apps.web import bounds
from apps.web.changes.claim_form import ClaimForm
from apps.web.changes.share_input import read_shares
from apps.web.shell import presentation
from apps.web.shell.forms import RefusableForm, name_field, name_input, published_reason_field, select, whole_field


class RuleForm(RefusableForm):
    """A membership rule: an account matches if all conditions that are not empty match."""

    source = forms.ChoiceField(label=gettext_lazy("Source"), required=False)
    group = name_field(
        gettext_lazy("Group"),
        LONGEST_TERM_PATTERN,
        gettext_lazy("* matches anything, ? one character. DNs as CN=x,O=y or /O=y/CN=x."),
        required=False,
    )
    fqan = name_field(
        gettext_lazy("FQAN"),
        LONGEST_TERM_PATTERN,
        gettext_lazy("Such as /atlas; includes /atlas/Role=production."),
        required=False,
    )
    people = name_field(
        gettext_lazy("Sign-in group"),
        LONGEST_TERM_PATTERN,
        gettext_lazy("Such as oidc:physics or ldap:cn=hpc: its users get entries by name."),
        required=False,
    )
    shares = forms.CharField(
        label=gettext_lazy("Shares per user"),
        max_length=bounds.NUMBER,
        initial="1",
        widget=name_input(inputmode="decimal"),
    )
    days = whole_field(
        gettext_lazy("Archive after (idle days)"),
        gettext_lazy("Leave empty to never archive."),
        required=False,
        min_value=1,
        max_value=MOST_TERM_DAYS,
    )
    kind = forms.CharField(
        label=gettext_lazy("Kind"), max_length=bounds.ENTRY_KIND, initial="user", widget=name_input()
    )
    reason = published_reason_field(required=False)

    def __init__(self, *args: Any, sources: Sequence[tuple[str, str]] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.offer("source", [("", gettext_lazy("any source")), *sources])

    def clean_shares(self) -> float:
        shares = read_shares(str(self.cleaned_data["shares"]))
        if shares == "parent":
            raise forms.ValidationError(gettext_lazy("Enter a number, such as 20 or 0.5."), code="number")
        return shares

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if not self.errors:
            try:
                self._rule = read_members(self._stated())[0]
            except ValueError as error:
                sentence = problem_sentence(str(error).removeprefix("rule 0: "))
                self.add_error(None, forms.ValidationError(sentence, code="no_rule"))
        return cleaned

    @property
    def rule(self) -> MembershipRule:
        return self._rule

    @property
    def stated(self) -> str:
        """The values as text; the page posts it back, so that changed values are previewed before they are saved."""
        return json.dumps(self._stated(), sort_keys=True)

    @property
    def is_previewed(self) -> bool:
        return self.data.get("previewed") == self.stated

    def _stated(self) -> dict[str, Any]:
        texts = {name: self.cleaned_data.get(name) or "" for name in ("source", "group", "fqan", "people")}
        days, kind = self.cleaned_data.get("days"), self.cleaned_data.get("kind") or "user"
        return {**texts, "shares": self.cleaned_data["shares"], "kind": kind, "archive_after_days": days}


def seen_tag(rules: Sequence[MembershipRule]) -> str:
    """Tag of the rules that a page shows; a POST with another tag is rejected, so that no change is overwritten."""
    return sha256(repr([rule.to_json() for rule in rules]).encode()).hexdigest()[:16]


class AttachForm(ClaimForm):
    """An account, named as its usage source names it, and the entry to attach it to."""

    group_name = name_field(
        gettext_lazy("Group"),
        bounds.GROUP,
        gettext_lazy("As the source writes it (Slurm: account)."),
        required=False,
    )
    entry = forms.UUIDField(label=gettext_lazy("Entry"), widget=select())
    reason = published_reason_field()

    @property
    def account(self) -> AccountKey:
        return AccountKey(
            self.cleaned_data["namespace"], self.cleaned_data["user_name"], self.cleaned_data["group_name"]
        )


def initial_of(rule: MembershipRule | None) -> dict[str, Any]:
    if rule is None:
        return {}
    stated = rule.to_json()
    return {**stated, "days": stated["archive_after_days"], "shares": presentation.shares(rule.shares)}
