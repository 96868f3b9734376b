"""Answers typed questions with the selectors behind the pages: explanation, convergence, forecast and history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.actor import Actor
from apps.analytics.convergence.query import today_of
from apps.analytics.forecast import build_forecast
from apps.core.errors import DomainError, Invalid
from apps.explain.contrasts import Comparison, compare_leaves
from apps.policies.models import Policy
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.sentences import text_of
from apps.priorities.serving.lookup import AccountQuery
from apps.search import off_target
from apps.search.changes import SearchEvent, list_changes
from apps.search.entries import entries_named, similar_names
from apps.search.questions import (
    ME,
    Question,
    Unreadable,
    WhatChanged,
    WhenOnTarget,
    WhoIsOff,
    WhyOrder,
    first_day,
)

_MOST_ACCOUNTS = 50  # entries of one name searched for the closest pair
_MOST_ROWS = 8
_MOST_CHILDREN = 1_000  # searched for an example
_MOST_ALIKE = 3

LinkTo = Literal["entry", "compare", "convergence", "history", "tree", "revision"]


@dataclass(frozen=True, slots=True)
class SearchRow:
    """Numbers of one entry. since: the first of the last n_days full days off target."""

    entry: UUID
    name: str
    path: str
    target: Annotated[float | None, "0..1, null: unknown or hidden"]
    actual: Annotated[float | None, "0..1, null: unknown or hidden"]
    state: str
    n_days: Annotated[int, "Full days in a row"] = 0
    since: date | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A link to the page with the full answer. number: of a revision."""

    to: LinkTo
    policy_slug: str
    title: str
    uid: UUID | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """An answer with its numbers. foot: a note on what the numbers mean."""

    key: Annotated[str, "Kind of answer: behind, off, changed, unreadable, nobody, …"]
    sentence: str
    reason: str = ""
    contradicts: Annotated[bool, "The question assumes something that is not true"] = False
    policy: str | None = None
    revision: int | None = None
    as_of: datetime | None = None
    foot: str = ""
    rows: Sequence[SearchRow] = ()
    events: Sequence[SearchEvent] = ()
    examples: Annotated[Sequence[str], "Questions that are understood"] = ()
    alike: Annotated[Sequence[str], "Visible names similar to the queried one"] = ()
    links: Sequence[Link] = ()


def answer(question: Question, *, policies: Sequence[Policy], actor: Actor) -> SearchAnswer:
    """Answer by the first policy that knows the names, in the caller's order."""
    if isinstance(question, Unreadable) or not policies:
        return _unreadable(question, policies, actor)
    missing = []
    for policy in policies:
        view = open_view(policy_slug=policy.slug, actor=actor)
        try:
            found = _answer_in(view, question)
        except DomainError:
            found = _not_shown(view.policy.name)
        if found.key != "nobody":
            as_of = found.as_of or view.as_of
            return replace(found, policy=policy.slug, revision=found.revision or view.revision, as_of=as_of)
        missing.append(found)
    return max(missing, key=lambda one: bool(one.alike))


def _answer_in(view: PolicyView, question: WhyOrder | WhoIsOff | WhatChanged | WhenOnTarget) -> SearchAnswer:
    if isinstance(question, WhyOrder):
        return _explain_order(view, question)
    if isinstance(question, WhoIsOff):
        return _list_off_target(view, question)
    if isinstance(question, WhatChanged):
        return _list_changed(view, question)
    return _forecast_target(view, question)


# --- What can't be answered -------------------------------------------------------------------------------------------
def _unreadable(question: Question, policies: Sequence[Policy], actor: Actor) -> SearchAnswer:
    about = question.about if isinstance(question, Unreadable) else ""
    return SearchAnswer(
        "unreadable",
        _("This question isn’t understood yet. These are:"),
        examples=examples(policies, actor=actor, about=about)[:3],
    )


def examples(policies: Sequence[Policy], *, actor: Actor, about: str = "") -> list[str]:
    """Return sample questions with names that the actor sees, those with the same first word first."""
    found = ["who is over target for 14 days", "what changed last week", "what changed today"]
    for policy in policies[:1]:
        view = open_view(policy_slug=policy.slug, actor=actor)
        mask, tree = view.visibility.mask, view.tree
        groups = [i for i in tree.children(0)[:_MOST_CHILDREN] if mask[i] and tree.is_group[i]] or view.own_entries
        if groups:
            name = view.tree.name[groups[0]]
            found = [f"when is {name} on target", found[0], f"what changed last week in {name}"]
        pair = _two_ranked(view)
        if pair:
            found.insert(0, f"why is {pair[0]} behind {pair[1]}")
    return sorted(found, key=lambda text: not text.startswith(f"{about} "))


def _two_ranked(view: PolicyView) -> tuple[str, str] | None:
    """Return the names of two siblings whose order can be explained, preferring the actor's own entries."""
    if view.snapshot is None:
        return None
    tree, place, is_ranked = view.tree, view.snapshot_index, view.snapshot.values.is_ranked
    leaves = [*view.own_entries, *(i for level in tree.subtree(0)[-1:] for i in level[:50])]
    for i in leaves:
        beside = [k for k in tree.children(max(int(tree.parent[i]), 0))[:50] if k != i]
        for k in beside:
            if all(place[at] >= 0 and is_ranked[place[at]] for at in (i, k)):
                return tree.name[i], tree.name[k]
    return None


def _name_not_found(view: PolicyView, name: str) -> SearchAnswer:
    """Same answer for a hidden name and one that doesn't exist."""
    if name == ME:
        return SearchAnswer("nobody", _("You have no account with a rank here."))
    return SearchAnswer(
        "nobody",
        _("Nothing called “%(name)s” here, or nothing you may see.") % {"name": name},
        alike=similar_names(view, name, most=_MOST_ALIKE),
    )


# --- Why is A behind B ------------------------------------------------------------------------------------------------
def _not_shown(where: str) -> SearchAnswer:
    return SearchAnswer("not_shown", _("No numbers of %(where)s that you may see.") % {"where": where})


def _explain_order(view: PolicyView, question: WhyOrder) -> SearchAnswer:
    sides: list[list[int]] = []
    for name in (question.one, question.other):
        found = view.own_entries if name == ME else entries_named(view, name, most=_MOST_ACCOUNTS)
        if not found:
            return _name_not_found(view, name)
        sides.append(found)
    one, other = _closest(view, sides[0], sides[1])
    try:
        compared = compare_leaves(
            policy_slug=view.policy.slug, one=view.tree.path(one), other=view.tree.path(other), actor=view.actor
        )
    except Invalid as refused:
        links = [_entry_link(view, i) for i in dict.fromkeys((one, other))]
        return SearchAnswer("not_compared", str(refused), rows=_rows(view, (one, other)), links=links)
    except DomainError as refused:
        return SearchAnswer("not_shown", str(refused))
    return _comparison_answer(view, question, compared, (len(sides[0]), len(sides[1])))


def _closest(view: PolicyView, ones: Sequence[int], others: Sequence[int]) -> tuple[int, int]:
    """Return the ranked pair with the longest common path, the first of several."""

    def rank_first(found: Sequence[int]) -> list[int]:
        snapshot, place = view.snapshot, view.snapshot_index
        ranked = [i for i in found if snapshot is not None and place[i] >= 0 and snapshot.values.is_ranked[place[i]]]
        return ranked or list(found)

    lineage = {i: [*view.tree.ancestors(i), i] for i in {*ones, *others}}
    pairs = [(a, b) for a in rank_first(ones) for b in rank_first(others) if a != b]
    if not pairs:
        return ones[0], others[0]
    return max(pairs, key=lambda pair: len(set(lineage[pair[0]]) & set(lineage[pair[1]])))


def _comparison_answer(
    view: PolicyView, question: WhyOrder, compared: Comparison, n_accounts: tuple[int, int]
) -> SearchAnswer:
    is_ahead = compared.ahead is compared.one
    is_tie = compared.ahead is None
    steps = [step for step in (compared.ahead_step, compared.behind_step) if step is not None]
    rows = [
        SearchRow(step.uid, step.name, step.path, step.target, None if step.is_suppressed else step.actual, step.state)
        for step in steps
    ]
    sides = ((compared.one, n_accounts[0]), (compared.other, n_accounts[1]))
    foot = [
        _("%(name)s is there %(n)s times: this is %(path)s.") % {"name": side.name, "n": n, "path": side.path}
        for side, n in sides
        if n > 1
    ]
    uids = [compared.visible.snapshot.tree.uuid(side.index) for side, _n in sides]
    return SearchAnswer(
        "tie" if is_tie else "ahead" if is_ahead else "behind",
        text_of(compared.sentences[:1]),
        reason=text_of(compared.sentences[1:4]),
        contradicts=is_tie or is_ahead != question.says_ahead,
        rows=rows,
        foot=" ".join(foot),
        revision=compared.visible.snapshot.revision,
        as_of=compared.visible.snapshot.as_of,
        links=[Link("entry", view.policy.slug, side.name, uid) for (side, _n), uid in zip(sides, uids, strict=True)],
    )


# --- Who is over or under target --------------------------------------------------------------------------------------
def _list_off_target(view: PolicyView, question: WhoIsOff) -> SearchAnswer:
    at = _top_entry(view)
    if question.within:
        found = [i for i in entries_named(view, question.within, most=_MOST_ACCOUNTS) if view.tree.n_children[i]]
        if not found:
            return _name_not_found(view, question.within)
        at = found[0]
    off = off_target.find_off_target(view, at, question)
    where = view.tree.name[at] if at else view.policy.name
    rows = [
        SearchRow(one.uid, one.name, one.path, one.target, one.actual, question.side, one.n_days, one.since)
        for one in off.entries[:_MOST_ROWS]
    ]
    key, sentence = _off_target_sentence(question, where, len(off.entries), off)
    foot = [_("Full days only: today is not counted.")] if question.n_days or question.blocks_others else []
    if off.n_all > off.n_searched:
        foot.append(_("Only the %(n)s largest of %(all)s.") % {"n": off.n_searched, "all": off.n_all})
    return SearchAnswer(
        key,
        sentence,
        rows=rows,
        foot=" ".join(foot),
        links=[
            Link("convergence", view.policy.slug, where, view.tree.uuid(at) if at else None),
            *(Link("entry", view.policy.slug, row.name, row.entry) for row in rows[:3]),
        ],
    )


def _top_entry(view: PolicyView) -> int:
    """Return the root, or the subtree that the actor's token is restricted to."""
    top = view.actor.top_uid
    return view.require(top) if top else view.visibility.require(0)


def _off_target_sentence(question: WhoIsOff, where: str, n: int, off: off_target.OffTarget) -> tuple[str, str]:
    if not off.n_known:
        return "not_shown", _not_shown(where).sentence
    side = _("over") if question.side == "over" else _("under")
    values = {"n": n, "of": off.n_known, "side": side, "where": where, "days": question.n_days}
    if question.n_days:
        text = ngettext(
            "%(n)s of %(of)s in %(where)s has been %(side)s target for %(days)s days or more",
            "%(n)s of %(of)s in %(where)s have been %(side)s target for %(days)s days or more",
            n,
        )
    else:
        text = ngettext(
            "%(n)s of %(of)s in %(where)s is %(side)s target", "%(n)s of %(of)s in %(where)s are %(side)s target", n
        )
    blocks = _(", while others wait") if question.blocks_others else ""
    return ("off" if n else "none_off"), text % values + blocks + "."


# --- What changed -----------------------------------------------------------------------------------------------------
def _list_changed(view: PolicyView, question: WhatChanged) -> SearchAnswer:
    top = 0
    if question.within:
        found = entries_named(view, question.within, most=_MOST_ACCOUNTS)
        if not found:
            return _name_not_found(view, question.within)
        top = min(found, key=lambda i: int(view.tree.level[i]))
    since = first_day(question, today_of(view.now))
    events, n = list_changes(view, top if question.within else None, since)
    where = view.tree.name[top] if question.within else view.policy.name
    values = {"n": n, "where": where, "since": formats.date_format(since, "j M Y")}
    if question.within:
        text = ngettext(
            "%(n)s revision changed %(where)s since %(since)s.", "%(n)s revisions changed %(where)s since %(since)s.", n
        )
        none = _("Nothing has changed in %(where)s since %(since)s.")
    else:
        text = ngettext(
            "%(n)s revision was published since %(since)s.", "%(n)s revisions were published since %(since)s.", n
        )
        none = _("Nothing was published since %(since)s.")
    links = [
        Link("history", view.policy.slug, where, view.tree.uuid(top) if question.within else None),
        *(Link("revision", view.policy.slug, event.reason, number=event.revision) for event in events[:3]),
    ]
    return SearchAnswer("changed" if n else "unchanged", (text if n else none) % values, events=events, links=links)


# --- When is X on target ----------------------------------------------------------------------------------------------
def _forecast_target(view: PolicyView, question: WhenOnTarget) -> SearchAnswer:
    found = view.own_entries if question.name == ME else entries_named(view, question.name, most=_MOST_ACCOUNTS)
    if not found:
        return _name_not_found(view, question.name)
    i = min(found, key=lambda one: int(view.tree.level[one]))
    uid, name = view.tree.uuid(i), view.tree.name[i]
    links = [
        Link("convergence", view.policy.slug, name, uid if i else None),
        *([Link("entry", view.policy.slug, name, uid)] if i else []),
    ]
    snapshot, at = view.snapshot, int(view.snapshot_index[i])
    if snapshot is None or at < 0 or i == 0:
        return replace(_not_shown(name), links=links)
    mask = off_target.mask_from_indices(len(snapshot.tree), view.snapshot_index)
    level = build_forecast(view.policy, snapshot, at, AccountQuery(name), mask).levels[-1]
    foot = ""
    if len(found) > 1:
        values = {"name": name, "n": len(found), "path": view.tree.path(i)}
        foot = _("%(name)s is there %(n)s times: this is %(path)s.") % values
    in_s = level.outlook and level.outlook.to_target.middle.in_s
    if in_s:
        day = formats.date_format((snapshot.as_of + timedelta(seconds=in_s)).astimezone(), "j M Y")
        foot = " ".join(filter(None, [_("At the pace of the last days: %(day)s.") % {"day": day}, foot]))
    return SearchAnswer(
        level.messages[0].key,
        level.messages[0].text,
        reason=text_of(level.messages[1:]),
        rows=_rows(view, (i,)),
        foot=foot,
        links=links,
    )


# --- Rows -------------------------------------------------------------------------------------------------------------
def _rows(view: PolicyView, entries: Sequence[int]) -> list[SearchRow]:
    found = [view.row(i, position=(1, 1)) for i in dict.fromkeys(entries)]
    return [SearchRow(row.uid, row.name, row.path, row.target, row.actual, row.state) for row in found]


def _entry_link(view: PolicyView, i: int) -> Link:
    return Link("entry", view.policy.slug, view.tree.name[i], view.tree.uuid(i))
