"""Answers to what is asked of the palette: who is over target, undo, reports, why a job waits, climate 12 %.

A question is recognized by its words. Each answer is a link to the page that shows or does it; a change opens as a
preview, which publishes nothing by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse
from django.utils import formats
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.contrib.search.entries import EntryHit, find_entries, hit_of
from apps.contrib.search.jobs import own_waiting_jobs
from apps.contrib.search.name_index import fold
from apps.contrib.search.pages.catalogue import MANAGERS, Choice, SearchContext
from apps.contrib.search.pages.standing import standing_text
from apps.core import clock
from apps.engine.target_state import Side
from apps.policies.access.scope import list_own_levels
from apps.policies.selectors import list_revisions
from apps.priorities.level_facts import level_facts
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.sentences import numbers as number_texts
from apps.series.months import day_today, month_of
from apps.web.links.addresses import shares_url
from apps.web.shell import lines
from apps.web.templatetags.marks import kind_icon

MOST_ANSWERS = 6
MOST_ENTRIES_OF_NAME = 3  # of one name, such as that of a user in several groups
_MOST_REPORTED_LEVELS = 3
_LEAST_ASKED = 4  # characters of a question that is recognized before it is typed in full
_OF_NAME = re.compile(r"(?P<phrase>.+?) (?:in|of|for) (?P<name>.+)")
_TYPED_SHARES = re.compile(r"(?P<name>.+?)(?<=\S)\s++(?:to\s++|=\s*+)?(?P<number>\d[\d.,]*+)\s*+(?P<unit>%|shares?)")
_CHANGED_SHARES = re.compile(r"(?:change |set |raise |lower )?shares (?:of |for |in )?(?P<name>.+)")
_SIDES: Mapping[str, tuple[Side, ...]] = {"over": ("over",), "under": ("under",), "off": ("over", "under")}

Answers = Iterator[Choice]


@dataclass(frozen=True, slots=True)
class Question:
    """phrases: the forms that are recognized, also by their beginning. answer: choices about the named entry, or about
    what is the reader's own.
    """

    phrases: Sequence[str | Promise]
    answer: Callable[[SearchContext, EntryHit | None], Answers]

    def is_asked_by(self, phrase: str) -> bool:
        known = [fold(str(each)) for each in self.phrases]
        return phrase in known or (len(phrase) >= _LEAST_ASKED and any(each.startswith(phrase) for each in known))


def answers_to(query: str, context: SearchContext) -> list[Choice]:
    """At most `MOST_ANSWERS` choices; empty for what is no question. Names are those that the reader sees."""
    if context.policy is None:
        return []
    asked = fold(query).rstrip("?").strip()
    choices: list[Choice] = []
    for answer in _recognized(asked, context):
        choices += answer
    return choices[:MOST_ANSWERS]


def _recognized(asked: str, context: SearchContext) -> Iterator[Answers]:
    if typed := _TYPED_SHARES.fullmatch(asked):
        yield _typed_shares(context, typed["name"], f"{typed['number']} %" if typed["unit"] == "%" else typed["number"])
        return
    if changed := _CHANGED_SHARES.fullmatch(asked):
        yield _typed_shares(context, changed["name"], "")
    for question in _QUESTIONS:
        if question.is_asked_by(asked):
            yield question.answer(context, None)
        elif (named := _OF_NAME.fullmatch(asked)) and question.is_asked_by(named["phrase"]):
            for hit in _named(context, named["name"], most=1):
                yield question.answer(context, hit)


def _named(context: SearchContext, name: str, *, most: int) -> list[EntryHit]:
    """Entries with exactly this name, else those whose name begins with it or contains it, groups before users."""
    view = context.view
    hits = [hit for kind in ("entry", "person") for hit in find_entries(view, name, kind, most=most).hits]  # type: ignore[arg-type]
    exact = [hit for hit in hits if fold(hit.title) == name]
    return (exact or hits)[:most]


def _who(context: SearchContext, hit: EntryHit | None, *, side: str) -> Answers:
    """How many entries of a level are off target on a side, and which, the furthest first."""
    view = context.view
    at = view.tree.index_of_uid(hit.uid) if hit is not None else 0
    if at is None:
        return
    facts = level_facts(view, at)
    if not facts.entries:
        return
    these = facts.off_target(*_SIDES[side])
    title = _count_text(side, {"n": len(these), "all": facts.count.n_all, "name": view.tree.name[at]})
    yield Choice("chart-line", title, _("Convergence"), _course(view, at))
    for i in these[: MOST_ANSWERS - 1]:
        entry = hit_of(view, i)
        url = lines.entry_url(view.policy.slug, entry.uid, entry.title)
        yield Choice(kind_icon(entry.entry_kind), entry.title, standing_text(entry), url)


def _count_text(side: str, facts: Mapping[str, Any]) -> str:
    n = facts["n"]
    texts = {
        "over": ngettext(
            "%(n)s of %(all)s in %(name)s is over target", "%(n)s of %(all)s in %(name)s are over target", n
        ),
        "under": ngettext(
            "%(n)s of %(all)s in %(name)s is under target", "%(n)s of %(all)s in %(name)s are under target", n
        ),
        "off": ngettext("%(n)s of %(all)s in %(name)s is off target", "%(n)s of %(all)s in %(name)s are off target", n),
    }
    return texts[side] % {**facts, "n": number_texts.count(n), "all": number_texts.count(facts["all"])}


def _course(view: PolicyView, at: int) -> str:
    if not at:
        return reverse("pages:convergence", kwargs={"policy": view.policy.slug})
    names = {"policy": view.policy.slug, "uid": view.tree.uuid(at), "name": lines.name_slug(view.tree.name[at])}
    return reverse("pages:entry-convergence", kwargs=names)


def _undo(context: SearchContext, hit: EntryHit | None) -> Answers:
    """The preview that undoes the last publication, for those who may publish the reverse; others see who decides."""
    view = context.view
    newest = list_revisions(policy=view.policy, sees=view.visibility, limit=1)
    if hit is not None or not newest or newest[0].number < 2:
        return
    title = _("Undo revision %(n)s") % {"n": number_texts.count(newest[0].number)}
    if newest[0].is_outside_view or not context.edits:
        yield Choice("lock", title, str(MANAGERS), is_denied=True)
        return
    names = {"policy": view.policy.slug, "revision": newest[0].number}
    note = ": ".join(part for part in (newest[0].author_name, newest[0].reason.partition("\n")[0]) if part)
    yield Choice("history", title, note, reverse("pages:undo-revision", kwargs=names))


def _reports(context: SearchContext, hit: EntryHit | None, *, asks_this_month: bool = False) -> Answers:
    """Reports of what one leads, else of one's own entries: of last month and of this one so far, as asked."""
    view, now = context.view, clock.now()
    tree = view.tree
    levels = [] if hit is None else [view.require(hit.uid)]
    if hit is None:
        levels = list_own_levels(policy=view.policy, tree=tree, actor=context.actor, at=now) or view.own_entries
    this = month_of(day_today(view))
    months = ((this.before(), _("%(month)s of %(name)s")), (this, _("%(month)s of %(name)s, so far")))
    for month, text in reversed(months) if asks_this_month else months:
        for i in levels[:_MOST_REPORTED_LEVELS]:
            names = {"policy": view.policy.slug, "uid": tree.uuid(i), "name": lines.name_slug(tree.name[i])}
            try:
                url = reverse("pages:statements", kwargs=names)
            except NoReverseMatch:  # of a plug-in that is left out
                return
            words = {"month": formats.date_format(month.first_on, "F Y"), "name": tree.name[i]}
            yield Choice("calendar", text % words, _("Report"), f"{url}?{urlencode({'month': month.text})}")


def _waiting(context: SearchContext, hit: EntryHit | None) -> Answers:
    """The reader's own jobs that wait, the one that goes first before the others; without accounts the question of a
    job's number.
    """
    slug = context.slug
    if hit is not None:
        return
    waiting = own_waiting_jobs(policy_slug=slug, actor=context.actor, at=clock.now())
    if waiting is None:
        url = reverse("pages:job-why", kwargs={"policy": slug})
        yield Choice("clock", _("Why a job waits"), _("By its number"), url)
        return
    for job in waiting:
        words = {"position": job.position, "of": job.of, "partition": job.partition}
        place = ""
        if job.position is not None:
            whole = _("place %(position)s of %(of)s")
            place = (_("place %(position)s of %(of)s in %(partition)s") if job.partition else whole) % words
        note = " · ".join(part for part in (place, job.held_by, job.source) if part)
        url = reverse("pages:job-why-of", kwargs={"policy": slug, "job": job.number.replace("/", "")})
        url = f"{url}?{urlencode({'scheduler': job.source})}" if job.is_listed else reverse("pages:my-priority")
        yield Choice("clock", _("Why job %(job)s waits") % {"job": job.number}, note, url)
    if not waiting:
        yield Choice("user-star", _("None of your jobs waits"), _("My priority"), reverse("pages:my-priority"))


def _typed_shares(context: SearchContext, name: str, typed: str) -> Answers:
    """The panel of an entry's shares with what was typed in it and its effect shown; nothing is published by it."""
    view = context.view
    for hit in _named(context, name, most=MOST_ENTRIES_OF_NAME):
        row = view.row(view.require(hit.uid), position=(1, 1))
        if row.parent_uid is None:
            continue
        title = _("Change shares of %(name)s") % {"name": row.name}
        if typed:
            title = _("Set %(name)s to %(typed)s") % {"name": row.name, "typed": _typed_text(typed)}
        if not row.may_change:
            yield Choice("lock", title, str(MANAGERS), is_denied=True)
            continue
        whole = view.tree.name[view.tree.whole_of(view.require(hit.uid))]
        words = {"target": number_texts.percent(row.target), "whole": whole}
        note = "" if row.target is None else _("now %(target)s of %(whole)s; opens a preview") % words
        url = shares_url(view.policy.slug, hit.uid) + (f"&{urlencode({'shares': typed})}" if typed else "")
        yield Choice("pencil", title, note, url)


def _typed_text(typed: str) -> str:
    number = typed.removesuffix("%").strip()
    if typed.endswith("%"):
        return f"{number}{number_texts.NBSP}%"
    return _("%(n)s shares") % {"n": number}


_QUESTIONS = (
    Question((gettext_lazy("who is over target"), gettext_lazy("over target")), partial(_who, side="over")),
    Question((gettext_lazy("who is under target"), gettext_lazy("under target")), partial(_who, side="under")),
    Question(
        (gettext_lazy("who is off target"), gettext_lazy("off target"), gettext_lazy("furthest off target")),
        partial(_who, side="off"),
    ),
    Question((gettext_lazy("undo the last change"), gettext_lazy("undo the last publication")), _undo),
    Question(
        (
            gettext_lazy("report of last month"),
            gettext_lazy("reports"),
            gettext_lazy("last month"),
            gettext_lazy("statements"),
            gettext_lazy("monthly statement"),
        ),
        _reports,
    ),
    Question((gettext_lazy("this month"),), partial(_reports, asks_this_month=True)),
    Question(
        (
            gettext_lazy("why does my job wait"),
            gettext_lazy("why do my jobs wait"),
            gettext_lazy("my waiting jobs"),
            gettext_lazy("when does my job start"),
        ),
        _waiting,
    ),
)
