"""Statements as one person reads them: stored for a closed month, computed for an open one, filtered like pages.

Amounts are in the policy's metric (core-seconds where it weights cores alone). Of one entry, over the days d of a month
on which it competes:

entitled = Σ entitled_d, borrowed = Σ borrowed_d as `engine.entitlement` has them of each day
used = Σ used_d
lent = Σ unused_d over days without demand above use
missed = Σ unused_d over days on which jobs of its own waited
unclear = Σ unused_d over days on which it ran and no source reports whether jobs waited

so that entitled = used + lent + missed + unclear − borrowed, to the last bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import date, timedelta
from typing import Annotated, Any
from uuid import UUID

import numpy as np
from django.db.models import Q

from apps.accounts.actor import Actor
from apps.contrib.notices.models import Statement
from apps.contrib.notices.statements.in_units import InUnit, delivered_in_units
from apps.engine.entitlement import entitlement
from apps.policies.models import Adjustment
from apps.policies.selectors import entry_history
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.series.daily_series import DailySeries, Mask, SeriesState
from apps.series.days import day_of, site_zone
from apps.series.months import Month, day_today, month_of, read_month
from apps.series.stored_series import load_series, series_state
from apps.series.visible_days import as_visible

AMOUNTS = ("entitled", "used", "lent", "missed", "unclear", "borrowed")
MONTHS = 12
MOST_STATED_CHILDREN = 500


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums of a month, and the number of days they cover. target_first, target_last: None without a counted day."""

    entitled: Annotated[float, "Σ target · what all that compete with it used on the day"]
    used: float
    lent: Annotated[float, "Σ max(0, entitled − used) over days without demand above use"]
    missed: Annotated[float, "That over days on which its jobs waited"]
    unclear: Annotated[float, "That over days on which no source reports whether jobs waited"]
    borrowed: Annotated[float, "Σ max(0, used − entitled), day by day"]
    n_days: int
    n_before_first: Annotated[int, "Of these, from before anything was published"]
    n_unclear: int
    target_first: float | None
    target_last: float | None

    def to_json(self) -> dict[str, float | int | None]:
        return asdict(self)


FIELDS = tuple(field.name for field in fields(Figures))


def compute_statement(series: DailySeries, row: int, month: Month) -> Figures:
    """The statement of one entry of a series, over the month's days in the series."""
    within = np.array([on in month for on in series.days.on], dtype=np.bool_)
    days = within & series.exists[row] & series.competes[row]
    used, target = series.used[row, days], series.target[row, days]
    by_day = entitlement(target, used, series.peers_used[row, days])
    waited, knows = series.waited_core_s[row, days] > 0, series.knows_waiting[row, days]
    missed: Mask = waited
    unclear: Mask = ~waited & ~knows & (used > 0)
    return Figures(
        entitled=float(by_day.entitled.sum()),
        used=float(used.sum()),
        lent=float(by_day.unused[~missed & ~unclear].sum()),
        missed=float(by_day.unused[missed].sum()),
        unclear=float(by_day.unused[unclear].sum()),
        borrowed=float(by_day.borrowed.sum()),
        n_days=int(days.sum()),
        n_before_first=int((days & series.days.is_before_first).sum()),
        n_unclear=int(unclear.sum()),
        target_first=float(target[0]) if len(target) else None,
        target_last=float(target[-1]) if len(target) else None,
    )


def corrections_of(kept: dict[str, float], now: Figures) -> dict[str, float]:
    """Differences between a closed statement and a present computation, by amount: new − stored; empty if equal."""
    corrections = {}
    for name in AMOUNTS:
        difference = getattr(now, name) - float(kept[name])
        if abs(difference) > 1e-9 * max(abs(float(kept[name])), 1.0):
            corrections[name] = difference
    return corrections


@dataclass(frozen=True, slots=True)
class ShareChange:
    """One published change of the entry's shares in a month; None is *inherit*."""

    revision: int
    on: date
    before: Annotated[float | None, "null: inherited, or the entry was not there"]
    after: float | None


@dataclass(frozen=True, slots=True)
class StatementLine:
    """One entry's month.

    figures: None if hidden or missing; suppressed distinguishes them. adjusted: None if hidden.
    corrections: differences of a closed month to a present computation, by amount, new − stored.
    """

    uid: UUID
    path: str
    name: str
    month: Month
    figures: Figures | None
    suppressed: bool
    rounded: bool
    adjusted: float | None
    is_closed: bool
    corrections: Mapping[str, float]
    missing_days: int
    has_days: bool = True  # daily data of the month exist
    share_changes: Sequence[ShareChange] = ()  # of the chosen month
    in_units: Sequence[InUnit] = ()  # of the chosen month, in a policy with several units

    @property
    def is_pending(self) -> bool:
        """Whether figures are missing because daily data are, not because there is nothing to divide."""
        return self.figures is None and not self.suppressed and (self.missing_days > 0 or not self.has_days)


@dataclass(frozen=True)
class StatementPage:
    """An entry's last months, newest first, and one of them with its children."""

    policy_slug: str
    policy_name: str
    uid: UUID
    name: str
    path: str
    is_root: bool
    months: Sequence[StatementLine]
    chosen: StatementLine
    children: Sequence[StatementLine]
    hidden_children: int
    state: SeriesState
    is_stale: bool
    metric: Mapping[str, Any]  # what figures count


def get_statements(*, policy_slug: str, uid: UUID, month: str = "", actor: Actor) -> StatementPage:
    """Statements of an entry.

    Raises:
        Invalid: the month can't be read or hasn't started.
        NotFound: the actor sees no such policy or entry.
    """
    view = open_view(policy_slug=policy_slug, actor=actor)
    i = view.require(uid)
    today = day_today(view)
    wanted = read_month(month, today) if month else month_of(today)
    newest = max(wanted, month_of(today), key=lambda each: each.first_on)
    # An older month than the last twelve is shown with the eleven before it.
    last = newest if wanted.first_on >= newest.before(MONTHS - 1).first_on else wanted
    months = [last.before(n) for n in range(MONTHS)]
    state = series_state(view.policy)
    known = lines_of(view, [i], months, state.first_on)
    children = [child for child in view.tree.children(i) if view.visibility.may_see(child)]
    listed = children[:MOST_STATED_CHILDREN]
    in_units = delivered_in_units(view, [i, *listed], wanted)
    known[i, wanted] = replace(
        known[i, wanted], share_changes=_changes(view, uid, wanted), in_units=in_units.get(i, ())
    )
    lines = [known[i, each] for each in months]
    parts = lines_of(view, listed, [wanted], state.first_on)
    return StatementPage(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        uid=uid,
        name=view.policy.name if i == 0 else view.tree.name[i],
        path=view.tree.path(i),
        is_root=i == 0,
        months=lines,
        chosen=known[i, wanted],
        children=[replace(parts[child, wanted], in_units=in_units.get(child, ())) for child in listed],
        hidden_children=int(view.tree.n_children[i]) - len(listed),
        state=state,
        is_stale=state.stale_from_on is not None and state.stale_from_on <= wanted.last_on,
        metric=view.settings.metric,
    )


def lines_of(
    view: PolicyView, entries: Sequence[int], months: Sequence[Month], begins_on: date | None
) -> dict[tuple[int, Month], StatementLine]:
    """Statements by entry and month, with one query of the series."""
    uids = [view.tree.uuid(i) for i in entries]
    first_on, last_on = min(each.first_on for each in months), max(each.last_on for each in months)
    series = load_series(view.policy, uids, from_on=first_on, to_on=last_on)
    visible: Mask = np.zeros(series.exists.shape, np.bool_)
    if series.days.on:
        series, visible = as_visible(series, view=view)
    kept = _kept(view, uids, months)
    adjusted = _adjusted(view, entries, months)
    missing = {month: _missing(month, series, begins_on, day_today(view)) for month in months}
    lines = {}
    for row, i in enumerate(entries):
        for month in months:
            closed = kept.get((uids[row], month.first_on))
            line = _line(view, i, month, series, visible, row, closed, adjusted[i, month])
            lines[i, month] = replace(line, missing_days=missing[month])
    return lines


def _line(
    view: PolicyView,
    i: int,
    month: Month,
    series: DailySeries,
    visible: Mask,
    row: int,
    kept: Statement | None,
    adjusted: float,
) -> StatementLine:
    days = [at for at, on in enumerate(series.days.on) if on in month]
    outright = bool(view.visibility.outright[i])
    may = outright or all(visible[row, at] for at in days if series.exists[row, at])
    figures = compute_statement(series, row, month) if days else None
    corrections: Mapping[str, float] = {}
    is_closed = kept is not None
    if outright and kept is not None:
        corrections = corrections_of(kept.figures, figures) if figures is not None else {}
        figures = Figures(**{name: kept.figures[name] for name in FIELDS})
    if figures is not None and not figures.n_days:
        figures = None
    has, shown = figures is not None, figures if may else None
    return StatementLine(
        uid=view.tree.uuid(i),
        path=view.tree.path(i),
        name=view.tree.name[i],
        month=month,
        figures=shown,
        suppressed=has and not may,
        rounded=has and not outright,
        adjusted=adjusted if outright else None,
        is_closed=is_closed,
        corrections=corrections,
        missing_days=0,
        has_days=bool(days),
    )


def _missing(month: Month, series: DailySeries, begins_on: date | None, today: date) -> int:
    """Number of complete days not in the series, counted from its first day; without a series all of them."""
    first_on = max(month.first_on, begins_on or month.first_on)
    due = (min(month.last_on, today - timedelta(days=1)) - first_on).days + 1
    return max(due - sum(on in month for on in series.days.on), 0)


def _kept(view: PolicyView, uids: Sequence[UUID], months: Sequence[Month]) -> dict[tuple[UUID, date], Statement]:
    firsts = [each.first_on for each in months]
    rows = Statement.objects.filter(policy=view.policy, entry_uid__in=uids, month_on__in=firsts)
    return {(row.entry_uid, row.month_on): row for row in rows}


def _adjusted(view: PolicyView, entries: Sequence[int], months: Sequence[Month]) -> dict[tuple[int, Month], float]:
    """Σ amount · weight of its resource, of current adjustments in the month, at the entry or below it."""
    zone = site_zone()
    spans = [(each, day_of(each.first_on, zone).from_at, day_of(each.last_on, zone).to_at) for each in months]
    number = view.policy.head_number
    rows = Adjustment.objects.filter(policy=view.policy, since__lte=number).filter(Q(until=None) | Q(until__gt=number))
    first_at, last_at = min(span[1] for span in spans), max(span[2] for span in spans)
    weights = view.settings.metric["weights"]
    adjustments = {(i, month): 0.0 for i in entries for month in months}
    for row in rows.filter(at__gte=first_at, at__lt=last_at).order_by("pk"):
        place = view.tree.index_of_uid(row.entry_uid)
        if place is None:
            continue
        way = {place, *view.tree.ancestors(place)}
        for month, from_at, to_at in spans:
            if from_at <= row.at < to_at:
                for i in way.intersection(entries):
                    adjustments[i, month] += weights.get(row.resource, 0.0) * row.amount_s
    return adjustments


def _changes(view: PolicyView, uid: UUID, month: Month) -> list[ShareChange]:
    """Changes of shares, oldest first. Shares are visible wherever the entry is."""
    zone, changes = site_zone(), []
    for change in entry_history(policy=view.policy, uid=uid, limit=200):
        on = change.at.astimezone(zone).date()
        for field, before, after in change.fields:
            if field == "shares" and on in month:
                changes.append(ShareChange(change.revision, on, before, after))
    return changes[::-1]
