"""The finding, the fields and the rows of a tree's picture in words."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.figures.convergence.words import short_balance, used_words
from apps.figures.tree.asked import TreeAsked
from apps.policies.tree.names import RESERVE
from apps.priorities.records.tree import EntryRow, IciclePage, Sector
from apps.priorities.sentences.numbers import count, percent

_STATES = {"idle": "no_demand"}  # as the figures of convergence call them


def entries_of(sector: Sector) -> Iterator[EntryRow]:
    """What is drawn below a field, in its order."""
    for child in sector.children:
        if child.row is not None:
            yield child.row
            yield from entries_of(child)


def sentence_of(page: IciclePage, asked: TreeAsked) -> str:
    """The finding with its number, and how much of the tree is drawn."""
    found = _largest(page, asked) if asked.color == "share" else _farthest(page)
    if page.n_shown == page.n_entries:
        return found
    words = {"n": count(page.n_shown), "of": count(page.n_entries)}
    drawn = (
        ngettext(
            "%(n)s of %(of)s entry is drawn; smaller ones are combined or deeper.",
            "%(n)s of %(of)s entries are drawn; smaller ones are combined or deeper.",
            page.n_entries,
        )
        % words
    )
    return f"{found} {drawn}"


def _farthest(page: IciclePage) -> str:
    rows = [row for row in entries_of(page.top) if row.state in {"over", "under"}]
    if rows:
        worst = max(rows, key=lambda row: abs(row.deviation_points or 0.0))
        words = {"name": worst.name, "words": words_of(worst)}
        return _("%(name)s is furthest off target: %(words)s.") % words
    if page.as_of is None:
        return _("No usage known yet: targets only.")
    return _("All entries shown are within tolerance.")


def _largest(page: IciclePage, asked: TreeAsked) -> str:
    fields = [one for one in page.top.children if one.row is not None]
    if not fields:
        return nothing_words(page, asked)
    largest = max(fields, key=lambda one: one.size)
    words = {"name": largest.row.name if largest.row else "", "share": percent(largest.size), "of": top_name(page)}
    if asked.size == "actual":
        return _("%(name)s used the most: %(share)s of %(of)s.") % words
    return _("%(name)s has the largest target: %(share)s of %(of)s.") % words


def nothing_words(page: IciclePage, asked: TreeAsked) -> str:
    """Why there is nothing to draw below the entry."""
    name = {"name": top_name(page)}
    if page.n_entries <= 1:
        return _("%(name)s has no members.") % name
    if asked.size == "actual":
        return _("Usage of the members of %(name)s is unknown. Choose “target” to see their shares.") % name
    return _("No member of %(name)s has a target. Choose “actual” to see their usage.") % name


def words_of(row: EntryRow) -> str:
    """used 52.6 %, target 40.0 %, 12.6 points over"""
    if row.target is None:
        return _("no shares of its own")
    if row.suppressed:
        return _("target %(target)s, usage not shown") % {"target": percent(row.target)}
    if row.actual is None or row.state == "unknown":
        return _("target %(target)s, usage unknown") % {"target": percent(row.target)}
    if row.kind == RESERVE and row.state == "idle":
        return _("reserve, target %(target)s") % {"target": percent(row.target)}
    return used_words(row.actual, row.target, _STATES.get(row.state, row.state))


def short_words(row: EntryRow) -> str:
    """▲ 12.6"""
    if row.parent_uid is None or row.target is None or row.suppressed or row.actual is None or row.state == "unknown":
        return ""
    if row.kind == RESERVE and row.state == "idle":
        return _("reserve")
    return short_balance(row.actual, row.target, _STATES.get(row.state, row.state))


def field_lines(sector: Sector, page: IciclePage) -> list[str]:
    """What a field says of itself: name, use against target, part of the whole, what is below it."""
    part = _("%(share)s of %(whole)s") % {"share": percent(sector.size), "whole": top_name(page)}
    row = sector.row
    if row is None:
        return [_("%(more)s (combined)") % {"more": more_words(sector.n_together)}, part]
    members = (
        ngettext("%(n)s member", "%(n)s members", row.n_children) % {"n": count(row.n_children)}
        if row.n_children
        else ""
    )
    own = _("the policy") if row.parent_uid is None else words_of(row)
    return [one for one in (f"{row.name}: {own}", "" if row == page.top.row else part, members) if one]


def more_words(n: int) -> str:
    return ngettext("%(n)s more", "%(n)s more", n) % {"n": count(n)}


def top_name(page: IciclePage) -> str:
    return page.top.row.name if page.top.row is not None else page.policy_name
