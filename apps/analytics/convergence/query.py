"""What a convergence figure is asked for: which days, which share, and which members, archived ones included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import ceil
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from django.conf import settings
from django.db.models import Min
from django.utils.translation import gettext as _

from apps.analytics.series.daily_series import F8, DailySeries, Mask, SeriesState
from apps.analytics.series.stored_series import load_against_today, load_children, load_hours, load_series
from apps.analytics.series.visible_days import as_visible
from apps.core.errors import FieldProblem, Invalid, Malformed
from apps.engine.convergence import actual_share as share_of
from apps.engine.convergence import trailing_sum
from apps.policies.models import Entry, Policy
from apps.priorities.selectors.rows import PolicyView

# --- Days -------------------------------------------------------------------------------------------------------------
DAY = timedelta(days=1)
MOST_DAYS = 3_660
USUAL_DAYS = 30
LAST_DAYS = (7, 30, 90, 365)
DAILY_UP_TO = 400  # longer periods are drawn and listed by weeks


@dataclass(frozen=True, slots=True)
class Period:
    """Both days belong to it."""

    from_on: date
    to_on: date

    @property
    def n_days(self) -> int:
        return (self.to_on - self.from_on).days + 1

    def starting_earlier(self, n_days: int) -> Period:
        """With so many days before it, as far as the calendar goes."""
        earliest = self.from_on.toordinal() - n_days
        return Period(date.fromordinal(max(earliest, 1)), self.to_on)


def today_of(now: datetime) -> date:
    """The day it is at the site."""
    return now.astimezone(ZoneInfo(settings.TIME_ZONE)).date()


def usual_period(state: SeriesState, today: date, n_days: int = USUAL_DAYS) -> Period:
    """The last days there are."""
    to_on = state.through_on or today
    return Period(to_on - (n_days - 1) * DAY, to_on)


def whole_period(state: SeriesState, today: date) -> Period:
    """The whole series, up to the longest period of one answer."""
    to_on = state.through_on or today
    earliest = to_on - (MOST_DAYS - 1) * DAY
    return Period(max(state.first_on or to_on, earliest), to_on)


def read_period(from_text: str, to_text: str, *, state: SeriesState, today: date) -> Period:
    """The period between two typed days; a missing one is the end of the series."""
    to_on = _day(to_text, "to", state) if to_text else None
    from_on = _day(from_text, "from", state) if from_text else None
    return check_period(from_on, to_on, state=state, today=today)


def check_period(from_on: date | None, to_on: date | None, *, state: SeriesState, today: date) -> Period:
    if from_on is None and to_on is None:
        return usual_period(state, today)
    if to_on is None:
        to_on = max(state.through_on or today, from_on or today)
    if from_on is None:
        from_on = date.fromordinal(max(to_on.toordinal() - (USUAL_DAYS - 1), 1))
    if to_on < from_on:
        said = {"first": from_on.isoformat(), "last": to_on.isoformat(), "there": there_are(state)}
        message = _("The period ends on %(last)s, before it starts on %(first)s: swap them. %(there)s")
        raise _refused("to", message % said)
    if (to_on - from_on).days >= MOST_DAYS:
        said = {"n": f"{(to_on - from_on).days + 1:,}", "most": f"{MOST_DAYS:,}", "there": there_are(state)}
        message = _("That is %(n)s days; the limit is %(most)s (ten years). %(there)s")
        raise _refused("from", message % said)
    return Period(from_on, to_on)


def there_are(state: SeriesState) -> str:
    """Which days could be asked for."""
    if state.first_on is None or state.through_on is None:
        return _("No daily data yet.")
    said = {"first": state.first_on.isoformat(), "last": state.through_on.isoformat()}
    return _("Data available from %(first)s to %(last)s.") % said


def _day(text: str, where: str, state: SeriesState) -> date:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        said = {"text": text.strip()[:40], "there": there_are(state)}
        message = _("“%(text)s” is not a date: write it like 2026-03-31. %(there)s") % said
        raise Malformed(message, code="period", fields=[FieldProblem(where, message)]) from None


def _refused(where: str, message: str) -> Invalid:
    return Invalid(message, code="period", fields=[FieldProblem(where, message)])


# --- Shares -----------------------------------------------------------------------------------------------------------
DAY_S = 86_400
DECAYED, WINDOWED, RAW = VIEWS = ("decayed", "windowed", "raw")
PARENT, TOTAL = OFS = ("parent", "total")
USUAL_WINDOW_DAYS = 7
MOST_WINDOW_DAYS = 3_660


@dataclass(frozen=True, slots=True)
class Counting:
    """decayed: as priorities count. windowed: all of the last `window_days` alike. raw: what was used that day."""

    view: str = DECAYED
    of: str = PARENT
    window_days: int = USUAL_WINDOW_DAYS

    @property
    def days_before(self) -> int:
        """Days that have to be known before the first one shown."""
        return self.window_days - 1 if self.view == WINDOWED else 0


def read_counting(view: str = "", of: str = "", window_s: float | None = None) -> Counting:
    """As an address says it; a window is counted in whole days, the last one begun counts."""
    view, of = view or DECAYED, of or PARENT
    if view not in VIEWS:
        raise _refused_share("view", f"“{view[:40]}” is no way to count; there are {', '.join(VIEWS)}.")
    if of not in OFS:
        raise _refused_share("of", f"“{of[:40]}” is nothing a share can be of; there are {', '.join(OFS)}.")
    if window_s is None:
        return Counting(view, of)
    if not 0 < window_s <= MOST_WINDOW_DAYS * DAY_S:
        raise _refused_share(
            "window_s", f"A window has between 1 second and {MOST_WINDOW_DAYS:,} days ({window_s:g} s given)."
        )
    return Counting(view, of, max(1, ceil(window_s / DAY_S)))


def refuse_windowed(counting: Counting) -> None:
    if counting.view == WINDOWED:
        message = _("Windows are counted in days: by hour, use decayed or raw.")
        raise Invalid(message, code="invalid", fields=[FieldProblem("view", message)])


def target_share(series: DailySeries, of: str) -> F8:
    """(entries, days) 0..1; NaN where an entry has none."""
    stated = series.target_global if of == TOTAL else series.target
    return np.where(series.competes, stated, np.nan)


def actual_share(series: DailySeries, counting: Counting) -> F8:
    """(entries, days) 0..1; NaN where the entries it competes with have no usage, or it does not compete."""
    if counting.view == DECAYED:
        own, all_of, whole = series.decayed, series.peers_decayed, series.days.root_decayed
    else:
        own, all_of, whole = series.used, series.peers_used, series.days.root_used
    if counting.of == TOTAL:
        all_of = np.broadcast_to(whole[None, :], own.shape)
    if counting.view == WINDOWED and own.size:
        own, all_of = trailing_sum(own, counting.window_days), trailing_sum(all_of, counting.window_days)
    return np.where(series.competes & (all_of > 0), share_of(own, all_of), np.nan)


def visible_windows(told: Mask, n_days: int) -> Mask:
    """A window is visible where each of its days is: the difference of two windows would reveal the day that left."""
    if not told.size:
        return told
    whole: Mask = trailing_sum((~told).astype(np.float64), n_days) == 0
    return whole


def cut(series: DailySeries, keep: Mask) -> DailySeries:
    """All entries on some of the days."""
    if keep.all():
        return series
    days = series.days
    at = np.flatnonzero(keep)
    fewer = type(days)(
        tuple(days.on[i] for i in at),
        days.ends_s[at],
        days.revision[at],
        days.is_before_first[at],
        days.root_used[at],
        days.root_decayed[at],
    )
    return DailySeries(series.uids, fewer, *(getattr(series, name)[:, at] for name in COLUMNS))


def pick(series: DailySeries, rows: list[int]) -> DailySeries:
    """Some of the entries, in this order, on the same days."""
    if rows == list(range(len(series.uids))):
        return series
    uids = tuple(series.uids[i] for i in rows)
    return DailySeries(uids, series.days, *(getattr(series, name)[rows] for name in COLUMNS))


COLUMNS = (
    "used",
    "peers_used",
    "decayed",
    "peers_decayed",
    "target",
    "target_global",
    "exists",
    "competes",
    "waited_core_s",
    "knows_waiting",
    "n_active",
    "largest",
)


def _refused_share(where: str, message: str) -> Invalid:
    return Invalid(message, code="invalid", fields=[FieldProblem(where, message)])


# --- Members ----------------------------------------------------------------------------------------------------------
MOST_MEMBERS = 500
MOST_CELLS = 500_000  # entries × days that are held at once


@dataclass(frozen=True, slots=True)
class Member:
    """One panel. `is_here`: in the current tree; `target`: of its parent now, None where it has none."""

    uid: UUID
    name: str
    kind: str
    is_here: bool
    n_children: int = 0
    target: float | None = None


def leaves_of(members: Sequence[Member]) -> Mask:
    """Which of them are entries without children, whose tolerance may be their own."""
    return np.array([member.is_here and not member.n_children for member in members], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Found:
    """Members beside the rows of their series, and their visible days. n_all: before the smallest were cut."""

    members: list[Member]
    series: DailySeries
    told: Mask
    n_all: int


def find_members(
    view: PolicyView, at: int, period: Period, *, itself: bool = False, against_today: bool = False
) -> Found:
    """The children of the entry `at`, or it alone; of very many children those with the largest targets.

    against_today: all days measured against the head. Who sees sums only doesn't see such days: their difference
    from the days as they were may be one person's.
    """
    policy = view.policy
    if against_today:
        return _against_today(view, at, period, itself=itself)
    if itself or not len(view.tree.children(at)):
        series = load_series(policy, [view.tree.uuid(at)], from_on=period.from_on, to_on=period.to_on)
        return _found(view, series, 1)
    children = view.visible_children(at)
    most = max(12, min(MOST_MEMBERS, MOST_CELLS // period.n_days))
    if len(view.tree.children(at)) > most:
        uids = [view.tree.uuid(i) for i in _largest(view, children, most)]
        series = load_series(policy, uids, from_on=period.from_on, to_on=period.to_on)
        return _found(view, series, len(children))
    series = load_children(policy, view.tree.uuid(at), from_on=period.from_on, to_on=period.to_on)
    known = set(series.uids)
    came_later = [uid for uid in map(view.tree.uuid, children) if uid not in known]
    if came_later and series.days.on:
        uids = [*series.uids, *came_later]
        series = load_series(policy, uids, from_on=period.from_on, to_on=period.to_on)
    found = _found(view, series, 0)
    return Found(found.members, found.series, found.told, len(found.members))


def _against_today(view: PolicyView, at: int, period: Period, *, itself: bool) -> Found:
    shown, n_all = _shown(view, at, itself=itself)
    uids = [view.tree.uuid(i) for i in shown]
    return _outright(
        view, shown, n_all, load_against_today(view.policy, uids, from_on=period.from_on, to_on=period.to_on)
    )


def find_selection(view: PolicyView, rows: Sequence[int], period: Period) -> Found:
    """These entries of the head, in their order."""
    uids = [view.tree.uuid(i) for i in rows]
    return _found(view, load_series(view.policy, uids, from_on=period.from_on, to_on=period.to_on), len(uids))


def find_selection_by_hour(view: PolicyView, rows: Sequence[int]) -> Found:
    """By the hour."""
    shown = list(rows)
    return _outright(view, shown, len(shown), load_hours(view.policy, [view.tree.uuid(i) for i in shown]))


def find_members_by_hour(view: PolicyView, at: int, *, itself: bool = False) -> Found:
    """By the hour. Readers of sums only don't see hours: two sums an hour apart differ by one person's use."""
    shown, n_all = _shown(view, at, itself=itself)
    return _outright(view, shown, n_all, load_hours(view.policy, [view.tree.uuid(i) for i in shown]))


def _shown(view: PolicyView, at: int, *, itself: bool) -> tuple[list[int], int]:
    """Entries of the head, and how many there are."""
    children = [] if itself else view.visible_children(at)
    return (_largest(view, children, MOST_MEMBERS), len(children)) if children else ([at], 1)


def _outright(view: PolicyView, shown: list[int], n_all: int, series: DailySeries) -> Found:
    """Only for entries visible in full."""
    outright = view.visibility.outright[np.array(shown, np.int64)]
    told = np.repeat(outright[:, None], len(series.days.on), axis=1)
    return Found([_member(view, i, view.tree.uuid(i), {}) for i in shown], series, told, n_all)


def _largest(view: PolicyView, children: Sequence[int], most: int) -> list[int]:
    target = np.where(view.competes, view.target[0], 0.0)
    return sorted(sorted(children, key=lambda i: (-target[i], i))[:most])


def _found(view: PolicyView, series: DailySeries, n_all: int) -> Found:
    """Without what the actor may not see; what has left the tree only for those who see all of it."""
    places = [view.tree.index_of_uid(uid) for uid in series.uids]
    sees_all = view.visibility.all_visible
    kept = [row for row, i in enumerate(places) if (sees_all if i is None else view.visibility.may_see(i))]
    left = _names_of(view.policy, [series.uids[row] for row in kept if places[row] is None])
    series = pick(series, kept)
    series, told = as_visible(series, view=view)
    if sees_all and bool(view.visibility.outright.all()):
        told = np.ones_like(told)
    members = [_member(view, places[row], series.uids[n], left) for n, row in enumerate(kept)]
    return Found(members, series, told, n_all)


def _member(view: PolicyView, i: int | None, uid: UUID, left: dict[UUID, tuple[str, str]]) -> Member:
    if i is None:
        name, kind = left.get(uid, (str(uid), ""))
        return Member(uid, name, kind, is_here=False)
    tree = view.tree
    target = float(view.target[0][i]) if view.competes[i] else None
    kind = tree.kind_names[int(tree.kind_code[i])]
    return Member(uid, tree.name[i], kind, is_here=True, n_children=int(tree.n_children[i]), target=target)


def _names_of(policy: Policy, uids: Sequence[UUID]) -> dict[UUID, tuple[str, str]]:
    """What entries were called last."""
    if not uids:
        return {}
    versions = Entry.objects.filter(policy=policy, uid__in=uids).order_by("since")
    return {uid: (name, kind) for uid, name, kind in versions.values_list("uid", "name", "kind")}


BEFORE_ENTRY = "before_entry"  # the state of such a day


def days_before_entry(policy: Policy, series: DailySeries) -> Mask:
    """(entries, days) whose revision is older than the first one with the entry."""
    n_days = len(series.days.on)
    firsts = Entry.objects.filter(policy=policy, uid__in=series.uids).values_list("uid").annotate(first=Min("since"))
    since = dict(firsts)
    first = np.array([since.get(uid, 0) for uid in series.uids], np.int64).reshape(len(series.uids), 1)
    found: Mask = ~series.exists & (series.days.revision.reshape(1, n_days) < first)
    return found
