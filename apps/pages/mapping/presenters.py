"""Accounts, mapping rules, previews of changes and versions of the mapping as texts and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.accounts.account_keys import AccountKey
from apps.mapping.attachments import key_of, list_attachments
from apps.mapping.changes import Plan
from apps.mapping.moves import Move
from apps.mapping.permissions import MapRights
from apps.mapping.rules.problems import problem_text
from apps.mapping.rules.resolver import UNMAPPED, reach_of
from apps.mapping.rules.rule import Rule
from apps.mapping.selectors import MappingPage, OtherCaseRow, RuleRow, UnmappedRow
from apps.mapping.suggestions import Suggestion
from apps.mapping.versions import VersionRow
from apps.pages.mapping.members.presenters import reach_text
from apps.priorities.sentences import numbers
from apps.web.shell import lines, presentation

MOST_MEMBER_MOVES = 50
MOST_ATTACHED = 100
KINDS = {
    "exact": gettext_lazy("exact"),
    "glob": gettext_lazy("pattern"),
    "group": gettext_lazy("Group"),
    "association": gettext_lazy("Association"),
    "share_tree": gettext_lazy("Share tree"),
    "each": gettext_lazy("each"),
    "default": gettext_lazy("default"),
}
WHY = {
    "same_name": gettext_lazy("the entry has the same name"),
    "same_name_folded": gettext_lazy("same name except case, accents or dots"),
    "without_realm": gettext_lazy("same name before the @"),
    "common_name": gettext_lazy("name in the certificate"),
    "initial_and_surname": gettext_lazy("initial and surname of the certificate"),
    "group_name": gettext_lazy("its group has the same name"),
    "group_name_folded": gettext_lazy("same name except case, accents or dots"),
    "fqan_group": gettext_lazy("its group has the same name"),
    "fqan_vo": gettext_lazy("the VO of its FQAN has the same name"),
    "project_name": gettext_lazy("its project has the same name"),
}


@dataclass(frozen=True)
class AccountLabel:
    name: str
    details: str


@dataclass(frozen=True)
class EntryLabel:
    """Text and URL of an entry, or a text for no entry (`is_none`)."""

    text: str
    url: str = ""
    is_none: bool = False


def account_text(key: AccountKey) -> AccountLabel:
    name = key.user_name or key.dn or key.group_name
    details = [key.namespace]
    if key.group_name and key.group_name != name:
        details.append(_("group %(group)s") % {"group": key.group_name})
    if key.dn and key.dn != name:
        details.append(key.dn)
    if key.fqan:
        details.append(f"FQAN {key.fqan}")
    if key.project:
        details.append(_("project %(name)s") % {"name": key.project})
    return AccountLabel(name, ", ".join(details))


def entry_text(rights: MapRights, entry: int) -> EntryLabel:
    """Text of an entry's index; a placeholder if it is UNMAPPED or the actor does not see it."""
    if entry == UNMAPPED:
        return EntryLabel(_("unmapped"), is_none=True)
    if not rights.sees.may_see(entry):
        return EntryLabel(_("outside your rights"), is_none=True)
    if entry == 0:
        return EntryLabel(_("a new entry below the whole policy"))
    tree = rights.tree
    return EntryLabel(tree.path(entry), lines.entry_url(rights.policy.slug, tree.uuid(entry), tree.name[entry]))


def rule_text(rule: Rule, sources: Mapping[str, str]) -> str:
    """Accounts that a rule matches, in words."""
    parts = []
    if rule.user_pattern and rule.user_pattern != "*":
        parts.append(_("user %(pattern)s") % {"pattern": rule.user_pattern})
    if rule.group_pattern:
        parts.append(_("group %(group)s") % {"group": rule.group_pattern})
    if rule.fqan_pattern:
        parts.append(f"FQAN {rule.fqan_pattern}")
    if not parts or rule.kind == "default":
        parts = [_("All other accounts") if rule.kind == "default" else _("all accounts")]
    if rule.source:
        parts.append(_("of %(name)s") % {"name": sources.get(rule.source, rule.source)})
    elif rule.namespace:
        parts.append(_("of the namespace %(namespace)s") % {"namespace": rule.namespace})
    return " · ".join(parts)


def suffix_text(rule: Rule) -> str:
    """Path below the rule's entry to which accounts map, and how users become children there."""
    if rule.kind == "share_tree":
        return _("{project} / {user}, else its leaf default")
    parts = ("{account}", *rule.parts) if rule.kind == "association" else rule.parts
    path = " / ".join(parts)
    if rule.kind != "each":
        return path
    shares = presentation.shares(rule.member_shares)
    words = [path, _("each user an entry of %(shares)s shares") % {"shares": shares}]
    if rule.archive_after_idle_days is not None:
        n = rule.archive_after_idle_days
        words.append(ngettext("archived after %(n)s idle day", "archived after %(n)s idle days", n) % {"n": n})
    return ", ".join(words)


def priority_of(page: MappingPage, line: RuleRow) -> int:
    """The row at which the rule is tried: after manual mappings, and unless it is exact after membership rules."""
    return line.at + 1 + bool(page.n_attached) + (bool(page.n_by_members) and line.tier > 0)


def rule_line(page: MappingPage, line: RuleRow, sources: Mapping[str, str]) -> dict[str, Any]:
    common: dict[str, Any] = {"at": line.at, "priority": priority_of(page, line), "is_read": line.rule is not None}
    if line.rule is None:
        return common
    place = EntryLabel(_("an archived entry: skipped"), is_none=True)
    if line.target is not None:
        whole = EntryLabel(page.rights.tree.name[0], reverse("pages:policy", args=[page.rights.policy.slug]))
        place = whole if line.target == 0 else entry_text(page.rights, line.target)
    reach = None if line.target is None else reach_of(page.rights.tree, line.rule, line.target)
    return {
        **common,
        "kind": KINDS[line.rule.kind],
        "is_each": line.rule.kind == "each",
        "reach": "" if reach is None else reach_text(entry_text(page.rights, reach).text),
        "words": rule_text(line.rule, sources),
        "place": place,
        "below": suffix_text(line.rule),
        # `place` shows no_entry
        "problems": [problem_text(problem) for problem in line.problems if problem.code != "no_entry"],
        "n_accounts": numbers.count(line.n_accounts),
        "core_h": presentation.hours(line.core_s),
        "may_edit": line.may_edit,
        "up": line.may_edit and not line.is_first,
        "down": line.may_edit and not line.is_last,
    }


def unmapped_line(page: MappingPage, line: UnmappedRow, most_core_s: float) -> dict[str, Any]:
    guesses = [guess_text(page.rights, suggestion) for suggestion in line.suggestions]
    return {
        "account": line.account,
        "words": account_text(line.key),
        "jobs": numbers.count(round(line.usage.jobs)),
        "core_h": presentation.hours(line.usage.core_s),
        "core_s": line.usage.core_s,
        "bar": round(1 + 69 * line.usage.core_s / most_core_s, 1) if most_core_s and line.usage.core_s else 0,
        "last_at": line.usage.last_at,
        "guess": guesses[0] if guesses else None,
        "others": guesses[1:],
    }


def other_case_line(page: MappingPage, line: OtherCaseRow) -> dict[str, Any]:
    return {
        "account": line.account,
        "words": account_text(line.key),
        "core_h": presentation.hours(line.usage.core_s),
        "counts_at": entry_text(page.rights, line.counts_at),
        "likely": entry_text(page.rights, line.likely),
        "uid": page.rights.tree.uuid(line.likely),
    }


def guess_text(rights: MapRights, guess: Suggestion) -> dict[str, Any]:
    why = str(WHY.get(guess.why, ""))
    if guess.why == "neighbours":
        why = _("%(n)s of %(of)d accounts of its group map there") % {"n": guess.n, "of": guess.n_of}
    return {
        "uid": rights.tree.uuid(guess.entry),
        "key": guess.why,
        "place": entry_text(rights, guess.entry),
        "why": why,
        "sure": _("%(percent)d %% confidence") % {"percent": min(round(guess.sure * 100), 99)},
    }


def head_text(page: MappingPage) -> tuple[str, str]:
    """Headline on unmapped accounts, and their usage of the last 30 days."""
    n = page.n_unmapped
    if not n:
        verdict = _("All accounts are mapped") if page.is_whole else _("No unmapped accounts visible to you")
        return verdict, _("Jobs run under account names; rules map accounts to entries.")
    verdict = ngettext("%(n)s unmapped account", "%(n)s unmapped accounts", n) % {"n": numbers.count(n)}
    words = {"hours": presentation.hours(page.unmapped_core_s)}
    if page.total_core_s is None:
        return verdict, _("%(hours)s raw core-hours of the last 30 days are not charged to any entry.") % words
    words["part"] = numbers.percent(page.unmapped_core_s / page.total_core_s if page.total_core_s else 0.0)
    text = _("%(hours)s raw core-hours (%(part)s) of the last 30 days are not charged to any entry.")
    return verdict, text % words


def attached_context(page: MappingPage) -> dict[str, Any]:
    rights = page.rights
    rows = list_attachments(rights, limit=MOST_ATTACHED + 1)
    attached = []
    for row in rows[:MOST_ATTACHED]:
        entry = rights.tree.index_of_uid(row.entry_uid)
        archived = EntryLabel(_("an archived entry: skipped"), is_none=True)
        attached.append(
            {
                "account": row.account_id,
                "words": account_text(key_of(row.account)),
                "place": archived if entry is None else entry_text(rights, entry),
                "row": row,
                "may_detach": rights.may_map(entry or 0),
            }
        )
    return {"attached": attached, "has_more_attached": len(rows) > MOST_ATTACHED}


def plan_context(plan: Plan) -> dict[str, Any]:
    """Context of the preview: the accounts that a change would move, and their usage."""
    moves, rights, n_others = plan.readable, plan.rights, plan.n_of_others
    n = len(moves)
    if n_others is None or (n_others and not n):
        verdict = _("Accounts outside your rights would move.")
    elif not n:
        verdict = _("No change")
    else:
        text = ngettext(
            "%(n)s account would move, with %(hours)s core-hours of the last 30 days.",
            "%(n)s accounts would move, with %(hours)s core-hours of the last 30 days.",
            n,
        )
        verdict = text % {"n": numbers.count(n), "hours": presentation.hours(plan.core_s)}
    return {
        "n": n,
        "core_s": plan.core_s,
        "verdict": verdict,
        "refusal": plan.refusal,
        "version": plan.version,
        "flows": _flows(rights, moves),
        "moves": [
            {
                "words": account_text(move.key),
                "before": entry_text(rights, move.before),
                "after": entry_text(rights, move.after),
                "core_h": presentation.hours(move.usage.core_s),
            }
            for move in moves[:MOST_MEMBER_MOVES]
        ],
        "n_more": numbers.count(n - MOST_MEMBER_MOVES) if n > MOST_MEMBER_MOVES else "",
        "n_others": n_others or 0,
        "n_dropped": sum(move.after == UNMAPPED for move in moves),
    }


def _flows(rights: MapRights, moves: Sequence[Move]) -> list[dict[str, Any]]:
    """Sums of moves by group before and after, largest usage first."""
    moves_by_ends: dict[tuple[EntryLabel, EntryLabel], list[Move]] = {}
    for move in moves:
        ends = entry_text(rights, _group_of(rights, move.before)), entry_text(rights, _group_of(rights, move.after))
        moves_by_ends.setdefault(ends, []).append(move)
    order = sorted(moves_by_ends.items(), key=lambda item: -sum(move.usage.core_s for move in item[1]))
    return [
        {
            "before": before,
            "after": after,
            "n": numbers.count(len(members)),
            "core_h": presentation.hours(sum(move.usage.core_s for move in members)),
        }
        for (before, after), members in order[:20]
    ]


def _group_of(rights: MapRights, entry: int) -> int:
    """Index of the entry by which moves are summed: the parent of a leaf, otherwise the entry itself."""
    tree = rights.tree
    is_member = entry > 0 and not tree.n_children[entry] and not tree.is_group[entry]
    above = int(tree.parent[entry]) if is_member else entry
    return above if above > 0 or not is_member else entry


def version_line(rights: MapRights, line: VersionRow, sources: Mapping[str, str]) -> dict[str, Any]:
    return {
        "version": line.version,
        "words": version_text(line),
        "n_added": len(line.added),
        "n_removed": len(line.removed),
        "url": version_url(rights.policy.slug, line.version.number),
        "added": [_version_rule(rights, rule, sources) for rule in line.added],
        "removed": [_version_rule(rights, rule, sources) for rule in line.removed],
        "placements": [
            {
                "words": account_text(key) if key is not None else AccountLabel(_("a removed account"), ""),
                "before": _entry_words_of_uid(rights, placement.before),
                "after": _entry_words_of_uid(rights, placement.after),
            }
            for key, placement in line.placements[:MOST_MEMBER_MOVES]
        ],
        "n_more": max(len(line.placements) - MOST_MEMBER_MOVES, 0),
    }


def version_text(line: VersionRow) -> str:
    counts = [
        (len(line.added), ngettext("%(n)s rule added", "%(n)s rules added", len(line.added))),
        (len(line.removed), ngettext("%(n)s rule removed", "%(n)s rules removed", len(line.removed))),
    ]
    attached = sum(placement.after is not None for _key, placement in line.placements)
    detached = len(line.placements) - attached
    counts.append((attached, ngettext("%(n)s account attached", "%(n)s accounts attached", attached)))
    counts.append((detached, ngettext("%(n)s account detached", "%(n)s accounts detached", detached)))
    changes = [words % {"n": n} for n, words in counts if n]
    if line.is_reordered:
        changes.append(_("rules reordered"))
    return ", ".join(changes) or _("nothing with effect")


def version_url(policy: str, number: int) -> str:
    return reverse("pages:mapping-version", kwargs={"policy": policy, "number": number})


def _version_rule(rights: MapRights, rule: Rule, sources: Mapping[str, str]) -> dict[str, Any]:
    return {
        "kind": KINDS[rule.kind],
        "words": rule_text(rule, sources),
        "place": _entry_words_of_uid(rights, rule.target_uid),
        "below": suffix_text(rule),
    }


def _entry_words_of_uid(rights: MapRights, uid: UUID | None) -> EntryLabel:
    if uid is None:
        return EntryLabel(_("where rules map to"), is_none=True)
    entry = rights.tree.index_of_uid(uid)
    if entry is None:
        return EntryLabel(_("an archived entry"), is_none=True)
    return EntryLabel(rights.tree.name[0]) if entry == 0 else entry_text(rights, entry)
