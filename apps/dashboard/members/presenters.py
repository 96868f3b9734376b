"""Members: forms for rules, attached accounts and claims; and members, rules and what rules did, in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.accounts.account_ids import AccountKey
from apps.accounts.selectors import display_name
from apps.core.typed_numbers import read_whole
from apps.dashboard.entry import read_shares
from apps.dashboard.shell import lines, presentation
from apps.mapping.attachments import key_of
from apps.policies.tree.terms import MembershipRule, read_members
from apps.priorities.selectors.members import MemberAccount, MembersPage, MembersPreview, RuleEvent

# --- Forms ------------------------------------------------------------------------------------------------------------
_MOST_REASON = 2_000


def text_input(**attributes: str) -> forms.TextInput:
    return forms.TextInput(
        attrs={"class": "input", "autocomplete": "off", "autocapitalize": "none", "spellcheck": "false", **attributes}
    )


def reason_field(**more: Any) -> forms.CharField:
    return forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=_MOST_REASON,
        widget=text_input(),
        help_text=gettext_lazy("Shown in the history to those affected."),
        error_messages={"required": gettext_lazy("Enter a reason: it is shown in the history to those affected.")},
        **more,
    )


class RuleForm(forms.Form):
    """One rule for members; every condition that isn't empty must hold."""

    source = forms.ChoiceField(label=gettext_lazy("Source"), required=False)
    group = forms.CharField(
        label=gettext_lazy("Group"),
        required=False,
        max_length=512,
        widget=text_input(),
        help_text=gettext_lazy("* matches anything, ? one character. DNs as CN=x,O=y or /O=y/CN=x."),
    )
    fqan = forms.CharField(
        label=gettext_lazy("FQAN"),
        required=False,
        max_length=512,
        widget=text_input(),
        help_text=gettext_lazy("Such as /atlas; includes /atlas/Role=production."),
    )
    people = forms.CharField(
        label=gettext_lazy("Sign-in group"),
        required=False,
        max_length=512,
        widget=text_input(),
        help_text=gettext_lazy("Such as oidc:physics or ldap:cn=hpc: its users become children by name."),
    )
    shares = forms.CharField(
        label=gettext_lazy("Shares of each"), max_length=40, initial="1", widget=text_input(inputmode="decimal")
    )
    days = forms.IntegerField(
        label=gettext_lazy("Archived after idle days"),
        required=False,
        min_value=1,
        max_value=36_500,
        widget=forms.NumberInput(attrs={"class": "input", "autocomplete": "off"}),
        help_text=gettext_lazy("Leave empty for never."),
    )
    kind = forms.CharField(label=gettext_lazy("Kind"), max_length=32, initial="user", widget=text_input())
    reason = reason_field(required=False)

    def __init__(self, *args: Any, sources: Sequence[tuple[str, str]] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        field = self.fields["source"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        field.choices = [("", gettext_lazy("any source")), *sources]
        field.widget.attrs["class"] = "input"

    def clean_shares(self) -> float:
        shares = read_shares(str(self.cleaned_data["shares"]))
        if shares == "parent":
            raise forms.ValidationError(gettext_lazy("Enter a number, such as 1 or 0.5."), code="number")
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
    def rule(self) -> MembershipRule:
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


def seen_tag(rules: Sequence[MembershipRule]) -> str:
    """Names the rules that somebody saw, so that nobody's change is lost."""
    return sha256(repr([rule.to_json() for rule in rules]).encode()).hexdigest()[:16]


class AttachForm(forms.Form):
    """An account by what its source calls it."""

    namespace = forms.CharField(label=gettext_lazy("Cluster"), max_length=128, widget=text_input())
    user_name = forms.CharField(label=gettext_lazy("Account"), max_length=256, widget=text_input())
    group_name = forms.CharField(
        label=gettext_lazy("Group"),
        required=False,
        max_length=256,
        widget=text_input(),
        help_text=gettext_lazy("As the cluster writes it; leave empty if it has none."),
    )
    entry = forms.UUIDField(label=gettext_lazy("Entry"), widget=forms.Select(attrs={"class": "input"}))
    reason = reason_field()

    @property
    def account(self) -> AccountKey:
        return AccountKey(
            self.cleaned_data["namespace"], self.cleaned_data["user_name"], self.cleaned_data["group_name"]
        )


class ClaimForm(forms.Form):
    """An account that somebody says is theirs."""

    namespace = forms.CharField(label=gettext_lazy("Cluster"), max_length=128, widget=text_input())
    user_name = forms.CharField(label=gettext_lazy("Account"), max_length=256, widget=text_input())


# --- In words ---------------------------------------------------------------------------------------------------------
def draw(page: MembersPage) -> dict[str, Any]:
    """What the page of members and the card on the entry's page show."""
    slug, tree = page.view.policy.slug, page.view.tree
    tolerance = lines.tolerance_of(page.view.settings)
    drawn = lines.draw_lines(
        [line.entry for line in page.members], lines.LineContext(policy_slug=slug, tolerance=tolerance, width=120)
    )
    by_uid = {line.entry.uid: [_account(one) for one in line.accounts] for line in page.members}
    places = {one.pk: tree.index_of_uid(one.entry_uid) for one in page.attached}
    return {
        "page": page,
        "entry": page.entry,
        "policy": slug,
        "uid": page.entry.uid,
        "entry_url": lines.entry_url(slug, page.entry.uid, page.entry.name),
        "rules": [
            {"words": rule_words(rule), "reach": reach_words(None if reach is None else tree.path(reach))}
            for rule, reach in zip(page.rules, page.reaches, strict=True)
        ],
        "members": [(line, by_uid.get(line.entry.uid, [])) for line in drawn],
        "waiting": [_account(one) for one in page.waiting],
        "n_more_waiting": max(page.n_waiting - len(page.waiting), 0),
        "lately": [_event(event, slug) for event in page.lately],
        "attached": [
            {
                "id": one.pk,
                "name": name_of(key_of(one.account)),
                "reason": one.reason,
                "author": display_name(one.author_name),
                "at": one.created_at,
                "path": _("an archived entry") if (i := places[one.pk]) is None else tree.path(i),
            }
            for one in page.attached
        ],
        "claims": [
            {
                "id": one.claim.pk,
                "who": one.claim.user.username,
                "at": one.claim.created_at,
                "names": [name_of(key_of(account)) for account in one.accounts],
            }
            for one in page.claims
        ],
    }


def rule_words(rule: MembershipRule) -> str:
    """ "Accounts of group nbis-* from hpc2n become users with 1 share, archived after 180 idle days"."""
    conditions = []
    if rule.group:
        conditions.append(_("group %(group)s") % {"group": rule.group})
    if rule.fqan:
        conditions.append(f"FQAN {rule.fqan}")
    if rule.source:
        conditions.append(_("source %(name)s") % {"name": rule.source})
    if rule.people:
        conditions.append(_("users of %(people)s") % {"people": rule.people})
    shares = presentation.shares(rule.shares)
    words = _("%(who)s: each gets %(shares)s as %(kind)s") % {
        "who": ", ".join(conditions),
        "kind": rule.kind,
        "shares": ngettext("%(n)s share", "%(n)s shares", 1 if rule.shares == 1 else 2) % {"n": shares},
    }
    words = words[:1].upper() + words[1:]
    if rule.archive_after_days is None:
        return words
    idle = ngettext("archived after %(n)s idle day", "archived after %(n)s idle days", rule.archive_after_days)
    return f"{words}, {idle % {'n': rule.archive_after_days}}"


def reach_words(path: str | None) -> str:
    """From where a rule takes accounts. path: of its reach, None for the whole policy."""
    if path is None:
        return _("Matches accounts of the whole policy.")
    return _("Matches accounts below %(path)s, and unmapped accounts.") % {"path": path}


def preview_words(found: MembersPreview) -> str:
    """ "Would add 12 users now: a, b, …; 3 come back. 2 accounts that count elsewhere now would count here"."""
    if not found.n_joined and not found.n_back:
        parts = [_("Would add no user.")]
    else:
        added = ngettext("Would add %(n)s user now", "Would add %(n)s users now", found.n_joined)
        first = added % {"n": presentation.count(found.n_joined)}
        if found.names:
            rest = found.n_joined - len(found.names)
            named = ", ".join(found.names) + (_(" and %(n)s more") % {"n": rest} if rest > 0 else "")
            first += f": {named}"
        if found.n_back:
            back = ngettext("%(n)s restored", "%(n)s restored", found.n_back)
            first += f"; {back % {'n': presentation.count(found.n_back)}}"
        parts = [first + "."]
    matched = ngettext("%(n)s known account matches.", "%(n)s known accounts match.", found.n_matched)
    parts.append(matched % {"n": presentation.count(found.n_matched)})
    if found.n_taken:
        taken = ngettext(
            "%(n)s of them counts at another entry and would move here.",
            "%(n)s of them count at other entries and would move here.",
            found.n_taken,
        )
        parts.append(taken % {"n": presentation.count(found.n_taken)})
    return " ".join(parts)


def initial_of(rule: MembershipRule | None) -> dict[str, Any]:
    if rule is None:
        return {}
    stated = rule.to_json()
    return {**stated, "days": stated["archive_after_days"], "shares": presentation.shares(rule.shares)}


def with_rule(rules: Sequence[MembershipRule], asked: str, rule: MembershipRule) -> list[MembershipRule]:
    """The rules with one changed, or one more."""
    place = read_whole(asked, 3)
    if place is None or place >= len(rules):
        return [*rules, rule]
    return [rule if at == place else other for at, other in enumerate(rules)]


def name_of(key: AccountKey) -> str:
    """hpc2n:hlarsson, with its group where that says more."""
    name = key.user_name or key.dn or key.group_name
    where = f"{key.namespace}:{name}" if key.namespace else name
    return f"{where} ({key.group_name})" if key.group_name and key.group_name != name else where


def _account(account: MemberAccount) -> dict[str, str]:
    return {"name": name_of(account.key), "person": account.person}


def _event(event: RuleEvent, slug: str) -> dict[str, Any]:
    words = {"joined": _("joined"), "back": _("Restored"), "idle": _("Archived")}
    icons = {"joined": "user-plus", "back": "arrow-back-up", "idle": "archive"}
    return {
        "name": event.name,
        "key": event.what,
        "what": words[event.what],
        "icon": icons[event.what],
        "at": event.at,
        "revision": event.revision,
        "url": lines.entry_url(slug, event.uid, event.name) if event.is_here else "",
    }
