"""One mapping rule, as somebody writes it; and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.core.errors import DomainError
from apps.dashboard.entry import read_shares
from apps.dashboard.members.presenters import reason_field, text_input
from apps.mapping.rules.rule import LONGEST_SUFFIX, Rule
from apps.policies.tree.columns import TreeColumns

KINDS = [
    ("glob", _("Names that match a pattern")),
    ("group", _("Accounts of a group, or of a VO by its FQAN")),
    ("association", _("Slurm users in accounts, found by the account’s name")),
    ("exact", _("Exactly these names")),
    ("each", _("Every user becomes a child of the entry")),
    ("default", _("All other accounts")),
]
# Where the fields of a rule stand in the form.
_FIELDS = {
    "target_uid": "entry",
    "user_pattern": "user",
    "group_pattern": "group",
    "fqan_pattern": "fqan",
    "member_shares": "shares",
    "archive_after_idle_days": "days",
}


class RuleForm(forms.Form):
    """All that isn't empty must hold. The entry is named by its path."""

    kind = forms.ChoiceField(label=_("Kind"), choices=KINDS, widget=forms.Select(attrs={"class": "input"}))
    source = forms.ChoiceField(
        label=_("Source"),
        required=False,
        widget=forms.Select(attrs={"class": "input"}),
        help_text=_("Sources of one namespace share accounts and rules."),
    )
    namespace = forms.CharField(
        label=_("Namespace"),
        required=False,
        max_length=128,
        widget=text_input(),
    )
    user = forms.CharField(
        label=_("User or DN"),
        required=False,
        max_length=256,
        widget=text_input(),
        help_text=_("* matches anything, ? one character. DNs as CN=x,O=y or /O=y/CN=x."),
    )
    group = forms.CharField(
        label=_("Group"),
        required=False,
        max_length=256,
        widget=text_input(),
        help_text=_("As the source writes it (Slurm: account)."),
    )
    fqan = forms.CharField(
        label=_("FQAN"),
        required=False,
        max_length=512,
        widget=text_input(),
        help_text=_("Such as /atlas; includes /atlas/Role=production."),
    )
    entry = forms.CharField(
        label=_("Map to"),
        max_length=9_000,
        widget=text_input(list="entries"),
        help_text=_("Path, such as /physics; / is the root."),
    )
    suffix = forms.CharField(
        label=_("And from there to"),
        required=False,
        max_length=LONGEST_SUFFIX,
        widget=text_input(),
        help_text=_("Such as /{group}/{user}: as deep as such entries exist."),
    )
    shares = forms.CharField(
        label=_("Shares of each"),
        max_length=40,
        required=False,
        widget=text_input(inputmode="decimal"),
    )
    days = forms.IntegerField(
        label=_("Archived after idle days"),
        required=False,
        min_value=1,
        max_value=36_500,
        widget=forms.NumberInput(attrs={"class": "input", "autocomplete": "off"}),
        help_text=_("Leave empty for never."),
    )
    order = forms.IntegerField(
        label=_("Order"),
        required=False,
        min_value=1,
        max_value=10_000,
        widget=forms.NumberInput(attrs={"class": "input", "autocomplete": "off"}),
        help_text=_("Leave empty to add it last of its kind."),
    )
    reason = reason_field(required=False)

    def __init__(self, *args: Any, tree: TreeColumns, sources: Sequence[tuple[str, str]], **more: Any) -> None:
        super().__init__(*args, **more)
        self._tree = tree
        field = self.fields["source"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        field.choices = [("", _("any source")), *sources]

    def clean_entry(self) -> int:
        found = self._tree.index_of_path(str(self.cleaned_data["entry"]).strip())
        if found is None:
            raise forms.ValidationError(_("Unknown entry: enter its path, such as /physics."), code="no_such_entry")
        return found

    def clean_shares(self) -> float:
        shares = read_shares(str(self.cleaned_data["shares"] or "1"))
        if shares == "parent":
            raise forms.ValidationError(_("Enter a number, such as 1 or 0.5."), code="no_number")
        return shares

    @property
    def rule(self) -> Rule:
        given = self.cleaned_data
        is_each = given["kind"] == "each"
        return Rule(
            kind=given["kind"],
            target_uid=self._tree.uuid(given["entry"]),
            namespace=given["namespace"],
            source=given["source"],
            user_pattern=given["user"],
            group_pattern=given["group"],
            fqan_pattern=given["fqan"],
            suffix=given["suffix"],
            member_shares=given["shares"] if is_each else 1.0,
            archive_after_idle_days=given["days"] if is_each else None,
        )

    @property
    def to(self) -> int | None:
        """The place among the rules, from 0."""
        order = self.cleaned_data.get("order")
        return None if order is None else int(order) - 1

    def add_refusal(self, error: DomainError) -> None:
        """At the field where it was refused."""
        for problem in error.fields:
            name = problem.where.rpartition(".")[2]
            name = _FIELDS.get(name, name)
            where = name if name in self.fields else None
            self.add_error(where, forms.ValidationError(problem.message, code=error.code))
        if not error.fields:
            self.add_error(None, forms.ValidationError(error.message, code=error.code))


def initial_of(rule: Rule, tree: TreeColumns, at: int) -> dict[str, Any]:
    entry = tree.index_of_uid(rule.target_uid)
    return {
        "kind": rule.kind,
        "source": rule.source,
        "namespace": rule.namespace,
        "user": rule.user_pattern,
        "group": rule.group_pattern,
        "fqan": rule.fqan_pattern,
        "suffix": rule.suffix,
        "order": at + 1,
        "entry": "" if entry is None else tree.path(entry),
        "shares": f"{rule.member_shares:.10g}",
        "days": rule.archive_after_idle_days,
    }
