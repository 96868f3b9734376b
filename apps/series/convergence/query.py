"""Reads the parameters of a convergence query and finds its data: period, kind of share, members and their series."""

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

from apps.core.errors import FieldProblem, Invalid, Malformed
from apps.engine.convergence import actual_share as share_of
from apps.engine.convergence import trailing_sum
from apps.policies.models import Entry, Policy
from apps.priorities.selectors.rows import PolicyView
from apps.series.daily_series import F8, DailySeries, Mask, SeriesState
from apps.series.stored_series import load_against_today, load_children, load_hours, load_series
from apps.series.visible_days import as_visible

DAY = timedelta(days=1)
MOST_DAYS = 3_660
DEFAULT_DAYS = 30
LAST_DAYS = (7, 30, 90, 365)
DAILY_UP_TO = 400  # days; longer periods are drawn and listed weekly


@dataclass(frozen=True, slots=True)
class Period:
    """A range of days, both ends included."""

    from_on: date
    to_on: date

    @property
    def n_days(self) -> int:
        return (self.to_on - self.from_on).days + 1

    def starting_earlier(self, n_days: int) -> Period:
        """Return the period extended by `n_days` at the start, limited by the first day of the calendar."""
        earliest = self.from_on.toordinal() - n_days
        return Period(date.fromordinal(max(earliest, 1)), self.to_on)


def today_of(now: datetime) -> date:
    """Return the current date in the site's time zone."""
    return now.astimezone(ZoneInfo(settings.TIME_ZONE)).date()


def default_period(state: SeriesState, today: date, n_days: int = DEFAULT_DAYS) -> Period:
    """Return the last `n_days` built days."""
    to_on = state.through_on or today
    return Period(to_on - (n_days - 1) * DAY, to_on)


def whole_period(state: SeriesState, today: date) -> Period:
    """Return the whole built series, limited to the last MOST_DAYS days."""
    to_on = state.through_on or today
    earliest = to_on - (MOST_DAYS - 1) * DAY
    return Period(max(state.first_on or to_on, earliest), to_on)


def read_period(from_text: str, to_text: str, *, state: SeriesState, today: date) -> Period:
    """Parse the two dates of a period. A missing end date is the end of the series."""
    to_on = _day(to_text, "to", state) if to_text else None
    from_on = _day(from_text, "from", state) if from_text else None
    return check_period(from_on, to_on, state=state, today=today)


def check_period(from_on: date | None, to_on: date | None, *, state: SeriesState, today: date) -> Period:
    """Return the period between two dates, with defaults. Raises Invalid if it is reversed or too long."""
    if from_on is None and to_on is None:
        return default_period(state, today)
    if to_on is None:
        to_on = max(state.through_on or today, from_on or today)
    if from_on is None:
        from_on = date.fromordinal(max(to_on.toordinal() - (DEFAULT_DAYS - 1), 1))
    if to_on < from_on:
        values = {"first": from_on.isoformat(), "last": to_on.isoformat(), "there": available_days_text(state)}
        message = _("The period ends on %(last)s, before it starts on %(first)s: swap them. %(there)s")
        raise _period_error("to", message % values)
    if (to_on - from_on).days >= MOST_DAYS:
        values = {"n": f"{(to_on - from_on).days + 1:,}", "most": f"{MOST_DAYS:,}", "there": available_days_text(state)}
        message = _("That is %(n)s days; the limit is %(most)s (ten years). %(there)s")
        raise _period_error("from", message % values)
    return Period(from_on, to_on)


def available_days_text(state: SeriesState) -> str:
    """Return a sentence with the range of built days."""
    if state.first_on is None or state.through_on is None:
        return _("No daily data yet.")
    values = {"first": state.first_on.isoformat(), "last": state.through_on.isoformat()}
    return _("Data available from %(first)s to %(last)s.") % values


def _day(text: str, where: str, state: SeriesState) -> date:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        values = {"text": text.strip()[:40], "there": available_days_text(state)}
        message = _("“%(text)s” is not a date: write it like 2026-03-31. %(there)s") % values
        raise Malformed(message, code="period", fields=[FieldProblem(where, message)]) from None


def _period_error(where: str, message: str) -> Invalid:
    return Invalid(message, code="period", fields=[FieldProblem(where, message)])


DAY_S = 86_400
DECAYED, WINDOWED, RAW = VIEWS = ("decayed", "windowed", "raw")
PARENT, TOTAL = OFS = ("parent", "total")
DEFAULT_WINDOW_DAYS = 7
MOST_WINDOW_DAYS = 3_660


@dataclass(frozen=True, slots=True)
class ShareMethod:
    """How a share is computed and of what. view: `decayed` as for priorities, `windowed` summed over the last
    `window_days` days, or `raw` usage of the day. of: share of the parent or of the total.
    """

    view: str = DECAYED
    of: str = PARENT
    window_days: int = DEFAULT_WINDOW_DAYS

    @property
    def days_before(self) -> int:
        """Number of days to load before the first shown one."""
        return self.window_days - 1 if self.view == WINDOWED else 0


def read_share_method(view: str = "", of: str = "", window_s: float | None = None) -> ShareMethod:
    """Parse the parameters of an address. A window is rounded up to whole days."""
    view, of = view or DECAYED, of or PARENT
    if view not in VIEWS:
        raise _share_error("view", f"“{view[:40]}” is not one of {', '.join(VIEWS)}.")
    if of not in OFS:
        raise _share_error("of", f"“{of[:40]}” is not one of {', '.join(OFS)}.")
    if window_s is None:
        return ShareMethod(view, of)
    if not 0 < window_s <= MOST_WINDOW_DAYS * DAY_S:
        raise _share_error(
            "window_s", f"A window has between 1 second and {MOST_WINDOW_DAYS:,} days ({window_s:g} s given)."
        )
    return ShareMethod(view, of, max(1, ceil(window_s / DAY_S)))


def reject_windowed(counting: ShareMethod) -> None:
    """Raise Invalid for a windowed view, which hourly series don't have."""
    if counting.view == WINDOWED:
        message = _("Windows are counted in days: by hour, use decayed or raw.")
        raise Invalid(message, code="invalid", fields=[FieldProblem("view", message)])


def target_share(series: DailySeries, of: str) -> F8:
    """Target shares (entries, days), 0..1; NaN where an entry doesn't compete."""
    stated = series.target_global if of == TOTAL else series.target
    return np.where(series.competes, stated, np.nan)


def actual_share(series: DailySeries, counting: ShareMethod) -> F8:
    """Actual shares (entries, days), 0..1; NaN where an entry doesn't compete or its peers have no usage."""
    if counting.view == DECAYED:
        own, all_of, whole = series.decayed, series.peers_decayed, series.days.root_decayed
    else:
        own, all_of, whole = series.used, series.peers_used, series.days.root_used
    if counting.of == TOTAL:
        all_of = np.broadcast_to(whole[None, :], own.shape)
    if counting.view == WINDOWED and own.size:
        own, all_of = trailing_sum(own, counting.window_days), trailing_sum(all_of, counting.window_days)
    return np.where(series.competes & (all_of > 0), share_of(own, all_of), np.nan)


def visible_windows(visible: Mask, n_days: int) -> Mask:
    """Mask of windows all of whose days are visible: the difference of two windows would reveal the day that left."""
    if not visible.size:
        return visible
    whole: Mask = trailing_sum((~visible).astype(np.float64), n_days) == 0
    return whole


def select_days(series: DailySeries, keep: Mask) -> DailySeries:
    """Return all entries on some of the days."""
    if keep.all():
        return series
    at = np.flatnonzero(keep)
    return DailySeries(series.uids, series.days.select(at), *(getattr(series, name)[:, at] for name in COLUMNS))


def select_entries(series: DailySeries, rows: list[int]) -> DailySeries:
    """Return some of the entries, in this order, on all days."""
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


def _share_error(where: str, message: str) -> Invalid:
    return Invalid(message, code="invalid", fields=[FieldProblem(where, message)])


MOST_MEMBERS = 500
MOST_CELLS = 500_000  # entries × days in memory


@dataclass(frozen=True, slots=True)
class Member:
    """One panel. is_here: in the current tree. target: its current share of its parent, None if it doesn't compete."""

    uid: UUID
    name: str
    kind: str
    is_here: bool
    n_children: int = 0
    target: float | None = None


def leaf_mask(members: Sequence[Member]) -> Mask:
    """Mask of members that are leaves of the current tree; leaves may have a tolerance of their own."""
    return np.array([member.is_here and not member.n_children for member in members], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class MemberSelection:
    """Members with the rows of their series and their visible days. n_all: count before the smallest were dropped."""

    members: list[Member]
    series: DailySeries
    visible: Mask
    n_all: int


def find_members(
    view: PolicyView, at: int, period: Period, *, itself: bool = False, against_today: bool = False
) -> MemberSelection:
    """Find the children of entry `at`, or the entry alone; of very many children those with the largest targets.

    against_today: compute all days with the head revision. Readers of sums don't see such days: the difference from the
    stored days may reveal one person's usage.
    """
    policy = view.policy
    if against_today:
        return _against_today(view, at, period, itself=itself)
    if itself or not len(view.tree.children(at)):
        series = load_series(policy, [view.tree.uuid(at)], from_on=period.from_on, to_on=period.to_on)
        return _visible_members(view, series, 1)
    children = view.visible_children(at)
    most = max(12, min(MOST_MEMBERS, MOST_CELLS // period.n_days))
    if len(view.tree.children(at)) > most:
        uids = [view.tree.uuid(i) for i in _largest(view, children, most)]
        series = load_series(policy, uids, from_on=period.from_on, to_on=period.to_on)
        return _visible_members(view, series, len(children))
    series = load_children(policy, view.tree.uuid(at), from_on=period.from_on, to_on=period.to_on)
    known = set(series.uids)
    added_later = [uid for uid in map(view.tree.uuid, children) if uid not in known]
    if added_later and series.days.on:
        uids = [*series.uids, *added_later]
        series = load_series(policy, uids, from_on=period.from_on, to_on=period.to_on)
    selection = _visible_members(view, series, 0)
    return MemberSelection(selection.members, selection.series, selection.visible, len(selection.members))


def _against_today(view: PolicyView, at: int, period: Period, *, itself: bool) -> MemberSelection:
    shown, n_all = _shown_entries(view, at, itself=itself)
    uids = [view.tree.uuid(i) for i in shown]
    return _fully_visible(
        view, shown, n_all, load_against_today(view.policy, uids, from_on=period.from_on, to_on=period.to_on)
    )


def find_hourly_members(view: PolicyView, at: int, *, itself: bool) -> MemberSelection:
    """As find_members, with hourly series. Readers of sums don't see hours: two sums an hour apart may differ by one
    person's usage.
    """
    shown, n_all = _shown_entries(view, at, itself=itself)
    return _fully_visible(view, shown, n_all, load_hours(view.policy, [view.tree.uuid(i) for i in shown]))


def _shown_entries(view: PolicyView, at: int, *, itself: bool) -> tuple[list[int], int]:
    """Return the shown entries of the head, and the number of all."""
    children = [] if itself else view.visible_children(at)
    return (_largest(view, children, MOST_MEMBERS), len(children)) if children else ([at], 1)


def _fully_visible(view: PolicyView, shown: list[int], n_all: int, series: DailySeries) -> MemberSelection:
    """Build the result for hourly or recomputed series, of which only entries visible in full are visible."""
    outright = view.visibility.outright[np.array(shown, np.int64)]
    visible = np.repeat(outright[:, None], len(series.days.on), axis=1)
    return MemberSelection([_member(view, i, view.tree.uuid(i), {}) for i in shown], series, visible, n_all)


def _largest(view: PolicyView, children: Sequence[int], most: int) -> list[int]:
    target = np.where(view.competes, view.target[0], 0.0)
    return sorted(sorted(children, key=lambda i: (-target[i], i))[:most])


def _visible_members(view: PolicyView, series: DailySeries, n_all: int) -> MemberSelection:
    """Drop entries that the actor may not see; removed entries are shown only to those who see the whole tree."""
    indices = [view.tree.index_of_uid(uid) for uid in series.uids]
    sees_all = view.visibility.all_visible
    shown_rows = [row for row, i in enumerate(indices) if (sees_all if i is None else view.visibility.may_see(i))]
    removed = _last_names(view.policy, [series.uids[row] for row in shown_rows if indices[row] is None])
    series = select_entries(series, shown_rows)
    series, visible = as_visible(series, view=view)
    if sees_all and bool(view.visibility.outright.all()):
        visible = np.ones_like(visible)
    members = [_member(view, indices[row], series.uids[n], removed) for n, row in enumerate(shown_rows)]
    return MemberSelection(members, series, visible, n_all)


def _member(view: PolicyView, i: int | None, uid: UUID, removed: dict[UUID, tuple[str, str]]) -> Member:
    if i is None:
        name, kind = removed.get(uid, (str(uid), ""))
        return Member(uid, name, kind, is_here=False)
    tree = view.tree
    target = float(view.target[0][i]) if view.competes[i] else None
    kind = tree.kind_names[int(tree.kind_code[i])]
    return Member(uid, tree.name[i], kind, is_here=True, n_children=int(tree.n_children[i]), target=target)


def _last_names(policy: Policy, uids: Sequence[UUID]) -> dict[UUID, tuple[str, str]]:
    """Return the last name and kind of each entry."""
    if not uids:
        return {}
    versions = Entry.objects.filter(policy=policy, uid__in=uids).order_by("since")
    return {uid: (name, kind) for uid, name, kind in versions.values_list("uid", "name", "kind")}


BEFORE_ENTRY = "before_entry"  # state of a day whose revision is older than the entry


def days_before_entry(policy: Policy, series: DailySeries) -> Mask:
    """Mask (entries, days) of days whose revision is older than the first one with the entry."""
    n_days = len(series.days.on)
    firsts = Entry.objects.filter(policy=policy, uid__in=series.uids).values_list("uid").annotate(first=Min("since"))
    since = dict(firsts)
    first = np.array([since.get(uid, 0) for uid in series.uids], np.int64).reshape(len(series.uids), 1)
    is_before: Mask = ~series.exists & (series.days.revision.reshape(1, n_days) < first)
    return is_before
