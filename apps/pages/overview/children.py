"""The children of the level as rows: their balance, why they are off target, until when, and what can be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.pages.overview.verdict import distance
from apps.policies.operations.dated_shares import is_boost
from apps.priorities.projections import Projection
from apps.priorities.selectors import Overview
from apps.priorities.selectors.overview import largest_user_below
from apps.priorities.selectors.rows import EntryRow, PolicyView
from apps.priorities.sentences import numbers
from apps.series.convergence.recent_days import EntryDays, RecentDays
from apps.web.shell import lines, presentation
from apps.web.shell.lines import Line
from apps.web.shell.presentation import KeyedText, short_day
from apps.web.svg.bars import State
from apps.web.texts.day_on_target import day_on_target

_DEMAND_DAYS = 14
_MOST_OF_IT = 0.5  # part of an entry's usage from which one user explains it
NOTHING = KeyedText("", "")


@dataclass(frozen=True, slots=True)
class ChildRow:
    """One child. fix_url: where its shares are set; empty where nothing can be set, and then why_url."""

    line: Line
    shares: str
    why: KeyedText
    more: KeyedText
    on_target: str
    fix_url: str
    why_url: str

    @property
    def is_off(self) -> bool:
        return self.line.balance is not None and self.line.balance.is_off_target


@dataclass(frozen=True, eq=False)
class ChildFacts:
    """What is known of the children of a level. asking: those for which a request for shares is open."""

    view: PolicyView
    overview: Overview
    days: RecentDays
    projections: Mapping[UUID, Projection]
    asking: frozenset[UUID]
    level_url: str

    def rows(self, drawn: Sequence[Line]) -> list[ChildRow]:
        """Rows of some children, in the same order."""
        whole = lines.whole_of(self.overview.children)
        return [self._row(line, whole) for line in drawn]

    def _row(self, line: Line, whole: str) -> ChildRow:
        entry, own = line.entry, presentation.shares(line.entry.shares)
        state = State.NO_DATA if line.balance is None else line.balance.state
        is_off = state in (State.OVER, State.UNDER)
        why = self._why(entry, state)
        more = next((text for text in self._more(entry, state) if text and text.key != why.key), NOTHING)
        return ChildRow(
            line=line,
            shares="" if entry.shares is None else _("%(own)s of %(whole)s shares") % {"own": own, "whole": whole},
            why=why,
            more=more,
            on_target=day_on_target(entry, self.projections.get(entry.uid)),
            fix_url=f"{self.level_url}?panel=shares&focus={entry.uid}" if is_off and entry.may_change else "",
            why_url=f"{line.url}convergence/" if is_off or state is State.IDLE else "",
        )

    def _why(self, entry: EntryRow, state: State) -> KeyedText:
        days = self.days.by_uid.get(entry.uid)
        if state is State.OVER:
            return self._why_over(entry)
        if state is State.UNDER:
            return self._why_under(entry, days)
        return _why_idle(days) if state is State.IDLE else NOTHING

    def _why_over(self, entry: EntryRow) -> KeyedText:
        i = self.view.tree.index_of_uid(entry.uid)
        largest = largest_user_below(self.view, i) if i is not None and entry.n_children else None
        if largest is not None and largest.part >= _MOST_OF_IT:
            words = {"name": largest.name, "part": numbers.percent(largest.part, 0)}
            return KeyedText("one_user", _("One user, %(name)s, ran %(part)s of it.") % words)
        return self._what_is_left(entry)

    def _what_is_left(self, entry: EntryRow) -> KeyedText:
        """Siblings that are under target without waiting jobs leave it to those that have some."""
        left = {
            row.name: row.target - row.actual
            for row in self.overview.children
            if row.uid != entry.uid
            and row.state in ("under", "idle")
            and row.uid not in self.overview.asked_core_s
            and row.target is not None
            and row.actual is not None
        }
        if not left:
            return NOTHING
        name = max(left, key=lambda each: left[each])
        if left[name] >= sum(left.values()) / 2:
            return KeyedText("runs_what_is_left", _("It runs what %(name)s leaves unused.") % {"name": name})
        return KeyedText("runs_what_is_left", _("It runs what others leave unused."))

    def _why_under(self, entry: EntryRow, days: EntryDays | None) -> KeyedText:
        waiting = self.overview.asked_core_s.get(entry.uid, 0.0)
        if waiting:
            hours = presentation.hours(waiting)
            return KeyedText("jobs_wait", _("Its jobs wait: they ask for %(hours)s core-h.") % {"hours": hours})
        if days is None:
            return NOTHING
        change = days.change_that_put_it_off
        if change is not None and change.after > change.before:
            shares = numbers.change_shares(change.before, change.after)
            words = {"before": shares.before, "after": shares.after, "day": short_day(change.on)}
            text = _("Its target rose from %(before)s to %(after)s on %(day)s.")
            return KeyedText("target_raised", text % words)
        n, of = days.count_without_waiting(_DEMAND_DAYS)
        if n and n == of:
            text = ngettext("None of its jobs waited in the last day.", "None of its jobs waited in %(n)s days.", n)
            return KeyedText("nothing_waited", text % {"n": numbers.count(n)})
        if n * 2 > of:
            words = {"n": numbers.count(n), "of": numbers.count(of)}
            text = ngettext(
                "It asked for less: no job waited on %(n)s of %(of)s days.",
                "It asked for less: no job waited on %(n)s of %(of)s days.",
                n,
            )
            return KeyedText("nothing_waited", text % words)
        return NOTHING

    def _more(self, entry: EntryRow, state: State) -> list[KeyedText]:
        """Further facts, the most important first."""
        i = self.view.tree.index_of_uid(entry.uid)
        dates = None if i is None else self.view.tree.dates.get(i)
        further = []
        if entry.uid in self.asking:
            further.append(KeyedText("asks", _("It has asked for more shares.")))
        if dates is not None and is_boost(dates) and dates.ends_on is not None:
            further.append(KeyedText("boosted", _("Boosted until %(day)s.") % {"day": short_day(dates.ends_on)}))
        if state in (State.OVER, State.UNDER):
            further.append(_since(self.days.by_uid.get(entry.uid), state))
        return further


def by_distance(drawn: Sequence[Line]) -> list[Line]:
    """The furthest from its target first, so that a short list never cuts it."""
    return sorted(drawn, key=lambda line: -distance(line))


def _since(days: EntryDays | None, state: State) -> KeyedText:
    off = None if days is None else days.off_since("over" if state is State.OVER else "under")
    if off is None:
        return NOTHING
    if off.is_whole:
        n = off.n_days
        text = (
            ngettext("Over target for at least %(n)s day.", "Over target for at least %(n)s days.", n)
            if state is State.OVER
            else ngettext("Under target for at least %(n)s day.", "Under target for at least %(n)s days.", n)
        )
        return KeyedText("off_since", text % {"n": numbers.count(n)})
    text = _("Over target since %(day)s.") if state is State.OVER else _("Under target since %(day)s.")
    return KeyedText("off_since", text % {"day": short_day(off.since)})


def _why_idle(days: EntryDays | None) -> KeyedText:
    if days is None:
        return NOTHING
    last = days.last_used_on
    if last is not None:
        return KeyedText("no_jobs", _("No jobs since %(day)s.") % {"day": short_day(last)})
    n = len(days.on)
    text = ngettext("No jobs in the last %(n)s day.", "No jobs in the last %(n)s days.", n)
    return KeyedText("no_jobs", text % {"n": numbers.count(n)})
