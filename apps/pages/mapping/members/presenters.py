"""Members of an entry: forms for membership rules, attached accounts and claims, and their rows and texts."""

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
from apps.core.errors import problem_sentence
from apps.core.typed_numbers import read_whole
from apps.mapping.attachments import key_of
from apps.policies.tree.terms import MembershipRule, read_members
from apps.priorities.selectors.members import MemberAccount, MembersPage, MembersPreview, RuleEvent
from apps.web.claim_form import ClaimForm
from apps.web.share_input import read_shares
from apps.web.shell import lines, presentation
from apps.web.shell.forms import RefusableForm, name_field, name_input, published_reason_field, select, whole_field


class RuleForm(RefusableForm):
    """A membership rule: an account matches if all conditions that are not empty match."""

    source = forms.ChoiceField(label=gettext_lazy("Source"), required=False)
    group = name_field(
        gettext_lazy("Group"),
        512,
        gettext_lazy("* matches anything, ? one character. DNs as CN=x,O=y or /O=y/CN=x."),
        required=False,
    )
    fqan = name_field(
        gettext_lazy("FQAN"), 512, gettext_lazy("Such as /atlas; includes /atlas/Role=production."), required=False
    )
    people = name_field(
        gettext_lazy("Sign-in group"),
        512,
        gettext_lazy("Such as oidc:physics or ldap:cn=hpc: its users become children by name."),
        required=False,
    )
    shares = forms.CharField(
        label=gettext_lazy("Shares per user"), max_length=40, initial="1", widget=name_input(inputmode="decimal")
    )
    days = whole_field(
        gettext_lazy("Archive after (idle days)"),
        gettext_lazy("Leave empty to never archive."),
        required=False,
        min_value=1,
        max_value=36_500,
    )
    kind = forms.CharField(label=gettext_lazy("Kind"), max_length=32, initial="user", widget=name_input())
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
        given = {name: self.cleaned_data.get(name) or "" for name in ("source", "group", "fqan", "people")}
        days, kind = self.cleaned_data.get("days"), self.cleaned_data.get("kind") or "user"
        return {**given, "shares": self.cleaned_data["shares"], "kind": kind, "archive_after_days": days}


def seen_tag(rules: Sequence[MembershipRule]) -> str:
    """Tag of the rules that a page shows; a POST with another tag is rejected, so that no change is overwritten."""
    return sha256(repr([rule.to_json() for rule in rules]).encode()).hexdigest()[:16]


class AttachForm(ClaimForm):
    """An account, named as its usage source names it, and the entry to attach it to."""

    group_name = name_field(
        gettext_lazy("Group"),
        256,
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


def draw(page: MembersPage) -> dict[str, Any]:
    """Context of the page of members and of the card on the entry's page."""
    slug, tree = page.view.policy.slug, page.view.tree
    tolerance = lines.tolerance_of(page.view.settings)
    drawn = lines.draw_lines(
        [line.entry for line in page.members], lines.LineContext(policy_slug=slug, tolerance=tolerance, width=120)
    )
    by_uid = {line.entry.uid: [_account(one) for one in line.accounts] for line in page.members}
    entries = {one.pk: tree.index_of_uid(one.entry_uid) for one in page.attached}
    return {
        "page": page,
        "entry": page.entry,
        "policy": slug,
        "uid": page.entry.uid,
        "entry_url": lines.entry_url(slug, page.entry.uid, page.entry.name),
        "rules": [
            {"words": rule_text(rule), "reach": reach_text(None if reach is None else tree.path(reach))}
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
                "path": _("an archived entry") if (i := entries[one.pk]) is None else tree.path(i),
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


def rule_text(rule: MembershipRule) -> str:
    """A rule as a sentence: “Accounts of group nbis-*, source hpc2n: each gets 1 share as user, archived after …”."""
    conditions = []
    if rule.group:
        conditions.append(_("group %(group)s") % {"group": rule.group})
    if rule.fqan:
        conditions.append(f"FQAN {rule.fqan}")
    if rule.source:
        conditions.append(_("source %(name)s") % {"name": rule.source})
    if rule.people:
        conditions.append(_("people %(people)s") % {"people": rule.people})
    shares = presentation.shares(rule.shares)
    words = _("Accounts of %(who)s: each gets %(shares)s as %(kind)s") % {
        "who": ", ".join(conditions),
        "kind": rule.kind,
        "shares": ngettext("%(n)s share", "%(n)s shares", 1 if rule.shares == 1 else 2) % {"n": shares},
    }
    if rule.archive_after_days is None:
        return words
    archived = ngettext(
        "%(rule)s, archived after %(n)s idle day", "%(rule)s, archived after %(n)s idle days", rule.archive_after_days
    )
    return archived % {"rule": words, "n": rule.archive_after_days}


def reach_text(path: str | None) -> str:
    """Sentence on the accounts that a rule can match. path: of the entry below which they are; None for all."""
    if path is None:
        return _("Matches accounts of the whole policy.")
    return _("Matches accounts below %(path)s, and unmapped accounts.") % {"path": path}


def _added_text(found: MembersPreview) -> str:
    """Which users a rule would add, the first ones by name."""
    words = {"n": presentation.count(found.n_joined), "names": ", ".join(found.names)}
    if not found.names:
        return ngettext("Would add %(n)s user now.", "Would add %(n)s users now.", found.n_joined) % words
    rest = found.n_joined - len(found.names)
    if rest > 0:
        words["names"] = _("%(names)s and %(n)s more") % {"names": words["names"], "n": rest}
    return (
        ngettext("Would add %(n)s user now: %(names)s.", "Would add %(n)s users now: %(names)s.", found.n_joined)
        % words
    )


def preview_text(found: MembersPreview) -> str:
    """Preview of a rule: “Would add 12 users now: a, b and 10 more. 3 users would be restored. 40 known …”."""
    if not found.n_joined and not found.n_back:
        parts = [_("Would add no user.")]
    else:
        parts = [_added_text(found)]
        if found.n_back:
            back = ngettext("%(n)s user would be restored.", "%(n)s users would be restored.", found.n_back)
            parts.append(back % {"n": presentation.count(found.n_back)})
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
    """The rules with `rule` at index `asked`, or with `rule` added if `asked` is no such index."""
    index = read_whole(asked, 3)
    if index is None or index >= len(rules):
        return [*rules, rule]
    return [rule if at == index else other for at, other in enumerate(rules)]


def name_of(key: AccountKey) -> str:
    """Name of an account, such as hpc2n:hlarsson, with its group if that differs."""
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
