"""Convergence as a page shows it: heading, facts of the selected entry, tiles, and tables of the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from math import isfinite, isinf
from typing import Any
from uuid import UUID

import numpy as np
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.engine.target_state import is_on_target
from apps.pages.convergence.figures.course import GroupNumbers
from apps.pages.convergence.figures.sections import Section, off_target
from apps.pages.convergence.figures.tiles import balance_text, heading_of, pictures_of, scale_text
from apps.priorities.level_facts import IDLE_STATES, OFF_STATES, StateCount
from apps.priorities.projections import Projection
from apps.priorities.sentences import numbers as number_texts
from apps.priorities.sentences.numbers import day_and_time
from apps.series.convergence.off_target import off_target_since
from apps.series.convergence.query import Member
from apps.series.convergence.records import Convergence
from apps.web.figures.figure import with_changes
from apps.web.figures.scales import day_text
from apps.web.links.addresses import shares_url
from apps.web.shell import lines
from apps.web.shell.presentation import Balance
from apps.web.svg.bars import State
from apps.web.texts.day_on_target import when_text
from apps.web.texts.without_demand import idle_text

MayChange = Callable[[Member], bool]  # whether the reader may set the shares of an entry
_MOST_SECTION_NAMES = 6

CSV_HEADER = (
    "day",
    "name",
    "entry",
    "revision",
    "before_first",
    "actual",
    "target",
    "deviation_points",
    "state",
    "suppressed",
    "missing_sources",
    "as_of",
)


def member_url(policy: str, member: Member) -> str:
    """URL of an entry; of its history if it has left the tree."""
    if not member.is_here:
        return reverse("pages:entry-history", kwargs={"policy": policy, "uid": member.uid})
    return lines.entry_url(policy, member.uid, member.name)


def last(values: Any) -> float | None:
    """The last value, None if unknown."""
    return float(values[-1]) if len(values) and isfinite(values[-1]) else None


def balance_of(convergence: Convergence, row: int, decimals: int | None = None) -> Balance | None:
    """Balance from the newest snapshot if the line ends there, else of the last day.

    decimals: of the column of shares beside it; by default what its two shares need.
    """
    if not len(convergence.on):
        return None
    actual, target = float(convergence.actual[row, -1]), float(convergence.target[row, -1])
    state, slack = str(convergence.states[row, -1]), float(convergence.slack[row, -1])
    shape, amount, word = balance_text(state, actual, target, slack=slack, decimals=decimals)
    return Balance(State(shape), amount, word)


# --- The heading of the page


@dataclass(frozen=True, slots=True)
class Heading:
    """title: how many entries are on target; sentences: who is farthest off, and who is next on target."""

    title: str
    sentences: list[str]


def heading(numbers: GroupNumbers) -> Heading:
    """All from the last point, which the tiles show."""
    convergence = numbers.convergence
    name = convergence.entry.name
    count = StateCount.of(convergence.states[:, -1].tolist() if convergence.on else [])
    if not count.n_all:
        return Heading(_("Convergence: %(name)s") % {"name": name}, [])
    title = ngettext(
        "%(n)s of %(of)s in %(name)s is on target",
        "%(n)s of %(of)s in %(name)s are on target",
        count.n_on,
    )
    values = {"n": number_texts.count(count.n_on), "of": number_texts.count(count.n_all), "name": name}
    sentences = (_farthest_off(numbers), _next_on_target(numbers), idle_text(count))
    return Heading(title % values, [each for each in sentences if each])


def _farthest_off(numbers: GroupNumbers) -> str:
    convergence, rows = numbers.convergence, off_target(numbers.convergence)
    if not rows:
        return ""
    row = rows[0]
    away, n_days, is_whole = points_of(convergence, row), *days_off(convergence, row)
    is_over = convergence.states[row, -1] == "over"
    if convergence.is_by_hour or not n_days:
        text = (
            _("Furthest off: %(name)s, %(points)s percentage points over.")
            if is_over
            else _("Furthest off: %(name)s, %(points)s percentage points under.")
        )
    elif is_whole:
        text = (
            _("Furthest off: %(name)s, %(points)s percentage points over for at least %(n)s days.")
            if is_over
            else _("Furthest off: %(name)s, %(points)s percentage points under for at least %(n)s days.")
        )
    else:
        text = (
            ngettext(
                "Furthest off: %(name)s, %(points)s percentage points over for %(n)s day.",
                "Furthest off: %(name)s, %(points)s percentage points over for %(n)s days.",
                n_days,
            )
            if is_over
            else ngettext(
                "Furthest off: %(name)s, %(points)s percentage points under for %(n)s day.",
                "Furthest off: %(name)s, %(points)s percentage points under for %(n)s days.",
                n_days,
            )
        )
    return text % {"name": convergence.members[row].name, "points": away, "n": number_texts.count(n_days)}


def _next_on_target(numbers: GroupNumbers) -> str:
    convergence = numbers.convergence
    uids = {convergence.members[row].uid: convergence.members[row].name for row in off_target(convergence)}
    known = [
        (projection.on_target_at, uids[uid])
        for uid, projection in numbers.projections.items()
        if uid in uids and projection.on_target_at is not None
    ]
    if not known:
        return ""
    at, name = min(known)
    return _("Next on target: %(name)s, around %(day)s.") % {"name": name, "day": _day(at)}


def points_of(convergence: Convergence, row: int) -> str:
    shares = number_texts.compare_shares(last(convergence.actual[row]), last(convergence.target[row]))
    return shares.points


def days_off(convergence: Convergence, row: int) -> tuple[int, bool]:
    """For how many complete days the entry has been on its side of the target, and whether all of them are."""
    states, n = convergence.states[row], convergence.n_finished
    if convergence.is_by_hour or not len(states) or states[-1] not in OFF_STATES:
        return 0, False
    is_idle = (states == "no_demand") & (convergence.actual[row] == 0)
    off = off_target_since(
        convergence.on[:n],
        convergence.actual[row, :n],
        convergence.target[row, :n],
        convergence.slack[row, :n],
        is_idle[:n],
        "over" if states[-1] == "over" else "under",
    )
    return (0, False) if off is None else (off.n_days, off.is_whole)


def _day(at: datetime) -> str:
    return day_text(timezone.localtime(at).date())


# --- Facts of the selected entry


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts beside the picture. sentence: the way to the target. target_before: "" unless it changed in the period.

    off: since when it is off target; on_target: the day, on_target_range: its range; usual: its share of the group's
    usage in the last days; before: its share at the end of the period before. Empty: left out.
    """

    name: str
    sentence: str
    used: str
    target: str
    target_before: str
    balance: Balance | None
    off: str
    on_target: str
    on_target_range: str
    usual: str
    before_label: str
    before: str
    entry_url: str
    shares_url: str
    group_url: str


def facts_of(numbers: GroupNumbers, row: int, *, may_change: MayChange, convergence_url: str) -> Facts:
    """convergence_url: of the page."""
    convergence = numbers.convergence
    member, target_before = convergence.members[row], _target_before(convergence, row)
    shown = last(convergence.actual[row]), last(convergence.target[row]), target_before
    decimals = number_texts.decimals_beside(*shown)
    head = heading_of(convergence, row, decimals)
    projection = numbers.projections.get(member.uid)
    is_off = convergence.states[row, -1] in OFF_STATES if convergence.on else False
    url = member_url(convergence.policy_slug, member)
    n_days = numbers.query.period.n_days
    before = numbers.before.get(member.uid, {})
    return Facts(
        name=member.name,
        sentence=way_to_target(numbers, row),
        used=head.used,
        target=head.target,
        target_before="" if target_before is None else number_texts.percent(target_before, decimals),
        balance=balance_of(convergence, row, decimals),
        off=_off_text(convergence, row) if is_off else "",
        on_target=when_text(projection.outcome, projection.on_target_at) if projection and is_off else "",
        on_target_range=range_of(projection) if projection and is_off else "",
        usual="" if projection is None else number_texts.percent(projection.usual_share),
        before_label=_("%(n)s days before") % {"n": n_days} if numbers.query.is_compared else "",
        before=number_texts.percent(before[max(before)]) if before else number_texts.UNKNOWN,
        entry_url=url,
        shares_url=shares_url_of(convergence.policy_slug, member, may_change),
        group_url=with_level(convergence_url, member) if member.n_children else "",
    )


def shares_url_of(policy_slug: str, member: Member, may_change: MayChange) -> str:
    return shares_url(policy_slug, member.uid) if may_change(member) else ""


def with_level(convergence_url: str, member: Member) -> str:
    return f"{convergence_url}?level={member.uid}"


def way_to_target(numbers: GroupNumbers, row: int) -> str:
    """One sentence about when the entry will be on target; the day is that of its projection."""
    convergence = numbers.convergence
    member, state = convergence.members[row], str(convergence.states[row, -1]) if convergence.on else ""
    projection = numbers.projections.get(member.uid)
    words = {"name": member.name, "parent": _group_name(convergence)}
    if not convergence.visible[row].any():
        return _("The usage of %(name)s is not shown: it has fewer than five active users.") % words
    if state in IDLE_STATES:
        return _("%(name)s has no demand.") % words
    if state == "on":
        return _("%(name)s is on target.") % words
    if state not in OFF_STATES:
        return _("The usage of %(name)s is not known.") % words
    is_over = state == "over"
    if projection is None or projection.outcome == "on_target":
        return (_("%(name)s is over its target.") if is_over else _("%(name)s is under its target.")) % words
    if projection.on_target_at is not None:
        words["day"] = _day(projection.on_target_at)
        return _("At its usual pace %(name)s is on target around %(day)s.") % words
    if projection.outcome == "never_if_nobody_runs" and projection.pace_days is not None:
        days = projection.pace_days
        words |= {"n": number_texts.count(days.n), "at": day_and_time(days.until)}
        text = (
            ngettext(
                "%(name)s is over its target, and %(parent)s had no usage on the day before %(at)s.",
                "%(name)s is over its target, and %(parent)s had no usage on the %(n)s days before %(at)s.",
                days.n,
            )
            if is_over
            else ngettext(
                "%(name)s is under its target, and %(parent)s had no usage on the day before %(at)s.",
                "%(name)s is under its target, and %(parent)s had no usage on the %(n)s days before %(at)s.",
                days.n,
            )
        )
        return text % words
    text = (
        _("At its usual pace %(name)s stays over its target for more than 90 days.")
        if is_over
        else _("At its usual pace %(name)s stays under its target for more than 90 days.")
    )
    return text % words


def _group_name(convergence: Convergence) -> str:
    if convergence.itself and convergence.ancestors:
        return convergence.ancestors[-1].name
    return convergence.entry.name


def _target_before(convergence: Convergence, row: int) -> float | None:
    """The target before its last change in the period; None if it is the present one as they are shown."""
    known = convergence.target[row][np.isfinite(convergence.target[row])]
    changes = np.flatnonzero(np.abs(np.diff(known)) > 1e-9)
    if not changes.size:
        return None
    before, now = float(known[changes[-1]]), float(known[-1])
    shares = number_texts.change_shares(before, now)
    return None if shares.before == shares.after else before


def _off_text(convergence: Convergence, row: int) -> str:
    n_days, is_whole = days_off(convergence, row)
    if not n_days:
        return ""
    text = (
        ngettext("for at least %(n)s day", "for at least %(n)s days", n_days)
        if is_whole
        else ngettext("for %(n)s day", "for %(n)s days", n_days)
    )
    return text % {"n": number_texts.count(n_days)}


def range_of(projection: Projection) -> str:
    """5 to 10 Dec; 28 Nov to 3 Dec; "" without two different days."""
    if projection.on_target_at is None or projection.earliest_at is None:
        return ""
    if projection.latest_at is None:
        return _("from %(day)s") % {"day": _day(projection.earliest_at)}
    first, last_ = (timezone.localtime(at).date() for at in (projection.earliest_at, projection.latest_at))
    if first == last_:
        return ""
    is_same_month = (first.year, first.month) == (last_.year, last_.month)
    words = {"first": str(first.day) if is_same_month else day_text(first), "last": day_text(last_)}
    return _("%(first)s to %(last)s") % words


# --- Tiles


@dataclass(frozen=True, slots=True)
class Tile:
    """One small picture. state: of the last point, as in the CSV; "hidden" if no day may be shown.

    url: selects it on the page. entry_url, shares_url, group_url: lead elsewhere; shares_url is "" if the reader may
    not set them, group_url without children.
    """

    member: Member
    state: str
    balance: Balance | None
    used: str
    target: str
    url: str
    entry_url: str
    shares_url: str
    group_url: str
    is_selected: bool
    svg: SafeString


@dataclass(frozen=True, slots=True)
class TileGroup:
    """A section as the page shows it. more_query: of its next page, "" on the last; n_left: entries on later ones."""

    key: str
    title: str
    scale: str
    n: int
    names: str
    page: int
    tiles: list[Tile]
    more_query: str
    n_left: int


def tile_group(
    section: Section,
    query: QueryDict,
    base: str,
    *,
    selected: UUID | None,
    may_change: MayChange,
    page: int = 1,
    is_drawn: bool = True,
) -> TileGroup:
    """base: address of the page. is_drawn: whether its tiles are part of the page."""
    convergence = section.numbers.convergence
    names = [convergence.members[row].name for row in section.rows[:_MOST_SECTION_NAMES]]
    n_others = len(section.rows) - len(names)
    listed = ", ".join(names)
    if n_others:
        listed = ngettext("%(names)s and %(n)s more", "%(names)s and %(n)s more", n_others) % {
            "names": listed,
            "n": number_texts.count(n_others),
        }
    return TileGroup(
        key=section.key,
        title=_section_title(section),
        scale=scale_text(section),
        n=len(section.rows),
        names=listed,
        page=page,
        tiles=tiles_of(section, query, base, page, selected, may_change) if is_drawn else [],
        more_query=with_changes(query, section=section.key, page=str(page + 1)) if section.has_more(page) else "",
        n_left=max(len(section.rows) - len(section.shown(page)) * page, 0),
    )


def _section_title(section: Section) -> str:
    n = {"n": number_texts.count(len(section.rows))}
    if section.key == "rest":
        hidden = [row for row in section.rows if not section.numbers.convergence.visible[row].any()]
        if hidden:
            return _("On target, no demand or not shown: %(n)s") % n
        return _("On target or no demand: %(n)s") % n
    if not section.is_split:
        return _("Off target: %(n)s") % n
    return _("Off target, 5 %% and more: %(n)s") % n if section.key == "off" else _("Off target, below 5 %%: %(n)s") % n


def tiles_of(
    section: Section, query: QueryDict, base: str, page: int, selected: UUID | None, may_change: MayChange
) -> list[Tile]:
    convergence = section.numbers.convergence
    tiles = []
    for picture in pictures_of(section, page):
        member, row = convergence.members[picture.row], picture.row
        head, is_hidden = heading_of(convergence, row), not convergence.visible[row].any()
        tiles.append(
            Tile(
                member=member,
                state="hidden" if is_hidden else str(convergence.states[row, -1]),
                balance=None if is_hidden else balance_of(convergence, row),
                used=head.used,
                target=head.target,
                url=f"{base}?{with_changes(query, entry=str(member.uid), section=None, page=None)}",
                entry_url=member_url(convergence.policy_slug, member),
                shares_url=shares_url_of(convergence.policy_slug, member, may_change),
                group_url=with_level(base, member) if member.n_children and member.is_here else "",
                is_selected=member.uid == selected,
                svg=picture.svg,
            )
        )
    return tiles


# --- Numbers of the period


@dataclass(frozen=True, slots=True)
class Kpi:
    label: str
    value: str
    note: str


def kpis(convergence: Convergence) -> list[Kpi]:
    """Mean deviation, time within tolerance, time to halve the deviation, share given to others."""
    figures = convergence.figures
    mean = number_texts.UNKNOWN if figures.mean_deviation is None else number_texts.points(figures.mean_deviation)
    n_days = convergence.n_finished
    words = {"n": number_texts.count(n_days)}
    last_days = ngettext("of the last day", "of the last %(n)s days", n_days) % words
    mean_note = ngettext(
        "points, share-weighted, of the last day", "points, share-weighted, of the last %(n)s days", n_days
    )
    return [
        Kpi(_("Mean deviation"), mean, mean_note % words),
        Kpi(_("Time within tolerance"), number_texts.percent(figures.inside, 0), last_days),
        Kpi(_("Time to halve the deviation"), *_half_time(convergence)),
        Kpi(
            _("Unused share given to others"),
            number_texts.percent(figures.idle_redistributed),
            _("of the policy") if not convergence.ancestors else _("of %(name)s") % {"name": convergence.entry.name},
        ),
    ]


def _half_time(convergence: Convergence) -> tuple[str, str]:
    days, number = convergence.figures.half_time_days, convergence.figures.half_time_revision
    if days is None:
        return number_texts.UNKNOWN, _("No changes in this period.")
    after = _("after revision %(n)s") % {"n": number}
    if isinf(days):
        return _("not reached"), after
    return ngettext("%(n)s day", "%(n)s days", 1 if days == 1 else 2) % {"n": f"{days:.3g}"}, after


def newest_text(convergence: Convergence) -> str:
    """Say of when the current values are; "" if the last point is a finished day or hour."""
    if convergence.latest_at is None:
        return ""
    at = number_texts.clock_text(convergence.latest_at, "H:i")
    if convergence.is_by_hour:
        return _("Current values %(at)s. Averages: complete hours.") % {"at": at}
    return _("Current values %(at)s. Averages: complete days.") % {"at": at}


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member in the table beside the panels. mean, inside: over complete days."""

    member: Member
    url: str
    actual: str
    target: str
    balance: Balance | None
    mean: str
    inside: str
    reason: str


def member_rows(convergence: Convergence) -> Iterator[MemberRow]:
    finished = (slice(None), slice(convergence.n_finished))
    away = np.abs(convergence.deviation)[finished]
    is_on = is_on_target(convergence.actual[finished], convergence.target[finished], convergence.slack[finished])
    decimals = _decimals_of(convergence)
    for row in convergence.order():
        known = np.isfinite(away[row])
        n, inside = int(known.sum()), int(is_on[row].sum())
        reason = "" if convergence.visible[row].any() else _("not shown")
        shares = number_texts.compare_shares(
            last(convergence.actual[row]), last(convergence.target[row]), decimals=decimals
        )
        yield MemberRow(
            member=convergence.members[row],
            url=member_url(convergence.policy_slug, convergence.members[row]),
            actual=shares.actual,
            target=shares.target,
            balance=None if reason else balance_of(convergence, row, decimals),
            mean=number_texts.points(float(away[row][known].mean())) if n else number_texts.UNKNOWN,
            inside=number_texts.percent(inside / n, 0) if n else number_texts.UNKNOWN,
            reason=reason,
        )


def _decimals_of(convergence: Convergence) -> int:
    """Decimals of the shares of all members."""
    balances = [balance_of(convergence, row) for row in range(len(convergence.members))]
    rows = [row for row, balance in enumerate(balances) if balance is not None and balance.is_off_target]
    return number_texts.decimals_of_column(
        (last(convergence.actual[row]), last(convergence.target[row])) for row in rows
    )


def _as_of(convergence: Convergence, at: int) -> datetime | None:
    return convergence.latest_at if at == convergence.n_finished else None


def _or_none(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def csv_rows(convergence: Convergence) -> Iterator[tuple[Any, ...]]:
    """Every member on every day; unknown and hidden numbers are empty, never 0.

    as_of: when the snapshot behind the last row was computed; empty on complete days.
    """
    for row, member in enumerate(convergence.members):
        for at, day in enumerate(convergence.on):
            actual, target = _or_none(convergence.actual[row, at]), _or_none(convergence.target[row, at])
            off = None if actual is None or target is None else (actual - target) * 100
            is_visible, as_of = bool(convergence.visible[row, at]), _as_of(convergence, at)
            yield (
                day.isoformat(),
                member.name,
                str(member.uid),
                int(convergence.days.revision[at]),
                int(convergence.days.is_before_first[at]),
                "" if actual is None else actual,
                "" if target is None else target,
                "" if off is None else off,
                str(convergence.states[row, at]),
                int(not is_visible),
                ", ".join(convergence.gaps.get(day, ())),
                "" if as_of is None else as_of.isoformat(),
            )
