"""Form of one mapping rule, with the reason for adding or changing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.mapping.changes import MOST_MAPPING_RULES
from apps.mapping.rules.rule import LONGEST_SUFFIX, Rule
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.terms import MOST_TERM_DAYS
from apps.web import bounds
from apps.web.changes.share_input import read_shares
from apps.web.shell.forms import (
    RefusableForm,
    choice_field,
    name_field,
    name_input,
    published_reason_field,
    whole_field,
)

KINDS = [
    ("glob", _("Names that match a pattern")),
    ("group", _("Accounts of a group, or of a VO by its FQAN")),
    ("association", _("Slurm users in accounts, found by the account’s name")),
    ("share_tree", _("Grid Engine users in the share tree, found by project and user")),
    ("exact", _("Exactly these names")),
    ("each", _("Every user gets an entry below")),
    ("default", _("All other accounts")),
]


class RuleForm(RefusableForm):
    """A mapping rule: an account matches if all patterns that are not empty match. `entry` is a path."""

    field_names = {  # noqa: RUF012
        "target_uid": "entry",
        "user_pattern": "user",
        "group_pattern": "group",
        "fqan_pattern": "fqan",
        "member_shares": "shares",
        "archive_after_idle_days": "days",
    }
    kind = choice_field(_("Kind"), KINDS)
    source = choice_field(_("Source"), (), required=False)
    namespace = name_field(
        _("Namespace"), bounds.NAMESPACE, _("Sources in a namespace share accounts and rules."), required=False
    )
    user = name_field(
        _("User or DN"),
        bounds.USER,
        _("* matches anything, ? one character. DNs as CN=x,O=y or /O=y/CN=x."),
        required=False,
    )
    group = name_field(_("Group"), bounds.GROUP, _("As the source writes it (Slurm: account)."), required=False)
    fqan = name_field(_("FQAN"), bounds.FQAN, _("Such as /atlas; includes /atlas/Role=production."), required=False)
    entry = name_field(_("Map to"), bounds.ENTRY, _("Path, such as /physics; / is the root."), list="entries")
    suffix = name_field(
        _("Path below it"),
        LONGEST_SUFFIX,
        _("Such as /{group}/{user}; followed as far as these entries exist."),
        required=False,
    )
    shares = forms.CharField(
        label=_("Shares per user"), max_length=bounds.NUMBER, required=False, widget=name_input(inputmode="decimal")
    )
    days = whole_field(
        _("Archive after (idle days)"),
        _("Leave empty to never archive."),
        required=False,
        min_value=1,
        max_value=MOST_TERM_DAYS,
    )
    order = whole_field(
        _("Order"),
        _("Leave empty to add it last of its kind."),
        required=False,
        min_value=1,
        max_value=MOST_MAPPING_RULES,
    )
    reason = published_reason_field(required=False)

    def __init__(self, *args: Any, tree: TreeColumns, sources: Sequence[tuple[str, str]], **more: Any) -> None:
        super().__init__(*args, **more)
        self._tree = tree
        self.offer("source", [("", _("any source")), *sources])

    def clean_entry(self) -> int:
        index = self._tree.index_of_path(str(self.cleaned_data["entry"]).strip())
        if index is None:
            raise forms.ValidationError(_("Unknown entry: enter its path, such as /physics."), code="no_such_entry")
        return index

    def clean_shares(self) -> float:
        shares = read_shares(str(self.cleaned_data["shares"] or "1"))
        if shares == "parent":
            raise forms.ValidationError(_("Enter a number, such as 20 or 0.5."), code="no_number")
        return shares

    @property
    def rule(self) -> Rule:
        cleaned = self.cleaned_data
        is_each = cleaned["kind"] == "each"
        return Rule(
            kind=cleaned["kind"],
            target_uid=self._tree.uuid(cleaned["entry"]),
            namespace=cleaned["namespace"],
            source=cleaned["source"],
            user_pattern=cleaned["user"],
            group_pattern=cleaned["group"],
            fqan_pattern=cleaned["fqan"],
            suffix=cleaned["suffix"],
            member_shares=cleaned["shares"] if is_each else 1.0,
            archive_after_idle_days=cleaned["days"] if is_each else None,
        )

    @property
    def to(self) -> int | None:
        """Index among the rules, from 0; None to add the rule last of its kind."""
        order = self.cleaned_data.get("order")
        return None if order is None else int(order) - 1

    def form_field(self, where: str) -> str:
        return super().form_field(where.rpartition(".")[2])


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
