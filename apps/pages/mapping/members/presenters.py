"""Members of an entry as rows and texts: rules, accounts, claims, and what a rule would match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.account_keys import AccountKey
from apps.accounts.selectors import display_name
from apps.core.typed_numbers import read_whole
from apps.mapping.attachments import key_of
from apps.policies.tree.terms import MembershipRule
from apps.priorities.selectors.members import MemberAccount, MembersPage, MembersPreview, RuleEvent
from apps.priorities.sentences import numbers
from apps.web.shell import lines, presentation


def draw(page: MembersPage) -> dict[str, Any]:
    """Context of the page of members and of the card on the entry's page."""
    slug, tree = page.view.policy.slug, page.view.tree
    tolerance = lines.tolerance_of(page.view.settings)
    drawn = lines.draw_lines(
        [line.entry for line in page.members], lines.LineContext(policy_slug=slug, tolerance=tolerance, width=120)
    )
    by_uid = {line.entry.uid: [_account(account) for account in line.accounts] for line in page.members}
    entries = {attachment.pk: tree.index_of_uid(attachment.entry_uid) for attachment in page.attached}
    return {
        "page": page,
        "entry": page.entry,
        "policy": slug,
        "uid": page.entry.uid,
        "rules": [
            {"words": rule_text(rule), "reach": reach_text(None if reach is None else tree.path(reach))}
            for rule, reach in zip(page.rules, page.reaches, strict=True)
        ],
        "members": [(line, by_uid.get(line.entry.uid, [])) for line in drawn],
        "waiting": [_account(account) for account in page.waiting],
        "n_more_waiting": max(page.n_waiting - len(page.waiting), 0),
        "lately": [_event(event, slug) for event in page.lately],
        "attached": [
            {
                "id": attachment.pk,
                "name": name_of(key_of(attachment.account)),
                "reason": attachment.reason,
                "author": display_name(attachment.author_name),
                "at": attachment.created_at,
                "path": _("an archived entry") if (i := entries[attachment.pk]) is None else tree.path(i),
            }
            for attachment in page.attached
        ],
        "claims": [
            {
                "id": claim.claim.pk,
                "who": claim.claim.user.username,
                "at": claim.claim.created_at,
                "names": [name_of(key_of(account)) for account in claim.accounts],
            }
            for claim in page.claims
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


def _added_text(preview: MembersPreview) -> str:
    """Which users a rule would add, the first ones by name."""
    words = {"n": numbers.count(preview.n_joined), "names": ", ".join(preview.names)}
    if not preview.names:
        return ngettext("Would add %(n)s user now.", "Would add %(n)s users now.", preview.n_joined) % words
    rest = preview.n_joined - len(preview.names)
    if rest > 0:
        words["names"] = _("%(names)s and %(n)s more") % {"names": words["names"], "n": rest}
    return (
        ngettext("Would add %(n)s user now: %(names)s.", "Would add %(n)s users now: %(names)s.", preview.n_joined)
        % words
    )


def preview_text(preview: MembersPreview) -> str:
    """Preview of a rule: “Would add 12 users now: a, b and 10 more. 3 users would be restored. 40 known …”."""
    if not preview.n_joined and not preview.n_back:
        parts = [_("Would add no user.")]
    else:
        parts = [_added_text(preview)]
        if preview.n_back:
            back = ngettext("%(n)s user would be restored.", "%(n)s users would be restored.", preview.n_back)
            parts.append(back % {"n": numbers.count(preview.n_back)})
    matched = ngettext("%(n)s known account matches.", "%(n)s known accounts match.", preview.n_matched)
    parts.append(matched % {"n": numbers.count(preview.n_matched)})
    if preview.n_taken:
        taken = ngettext(
            "%(n)s of them counts at another entry and would move here.",
            "%(n)s of them count at other entries and would move here.",
            preview.n_taken,
        )
        parts.append(taken % {"n": numbers.count(preview.n_taken)})
    return " ".join(parts)


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
