"""Convergence as a page shows it: one panel a member, in groups with a common scale, and tables of the same numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from math import isfinite
from typing import Any

import numpy as np
from django.urls import reverse
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.pages.convergence.figures.panels import PAGE, Heading, balance_text, heading_of, sections_of, state_text
from apps.pages.convergence.page_query import PageQuery
from apps.series.convergence.query import Member
from apps.series.convergence.records import Convergence
from apps.web.shell import lines, presentation
from apps.web.shell.presentation import Balance
from apps.web.svg.bars import State


@dataclass(frozen=True, slots=True)
class Counts:
    """Number of days of each kind in a panel."""

    idle: int
    starved: int
    missing: int


@dataclass(frozen=True)
class PanelLine:
    """One member. reason: why its numbers can't be shown.

    state: of the last point, as in the CSV; "hidden" if no day may be shown.
    """

    member: Member
    row: int
    url: str
    entry_url: str
    state: str
    counts: Counts
    balance: Balance | None
    heading: Heading
    label: str
    reason: str


@dataclass(frozen=True)
class Group:
    title: str
    note_key: str
    note: str
    lines: list[PanelLine]


def member_url(policy: str, member: Member) -> str:
    """URL of a member's convergence; of its history if it has left the tree."""
    if not member.is_here:
        return reverse("dashboard:entry-history", kwargs={"policy": policy, "uid": member.uid})
    return f"{lines.entry_url(policy, member.uid, member.name)}convergence/"


def groups_of(convergence: Convergence, requested: PageQuery, *, page: int = 1) -> list[Group]:
    """The panels of one page, by section."""
    return [
        Group(
            _("Below 5 %") if section.is_small else _("5 % and more"),
            *_scale_text(convergence, section.rows, section.scales, section.common),
            [panel_line(convergence, requested, row) for row, _maximum in section.shown],
        )
        for section in sections_of(convergence, page)
    ]


def n_pages(convergence: Convergence) -> int:
    return max(1, -(-len(convergence.members) // PAGE))


def own_panel_line(convergence: Convergence, requested: PageQuery) -> PanelLine | None:
    """The panel of a single entry."""
    return panel_line(convergence, requested, 0) if convergence.members else None


def panel_line(convergence: Convergence, requested: PageQuery, row: int) -> PanelLine:
    member = convergence.members[row]
    shown = balance_of(convergence, row)
    reason = "" if convergence.visible[row].any() else _("not shown: fewer than five active members")
    query, counts = requested.query(), counts_of(convergence, row)
    url = member_url(convergence.policy_slug, member)
    return PanelLine(
        member=member,
        row=row,
        url=f"{url}?{query}" if query and member.is_here else url,
        entry_url=lines.entry_url(convergence.policy_slug, member.uid, member.name),
        state="hidden" if reason else str(convergence.states[row, -1]) if len(convergence.on) else "",
        counts=counts,
        balance=None if reason else shown,
        heading=heading_of(convergence, row),
        label=label_of(convergence, row, counts, reason),
        reason=reason,
    )


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
    shape, amount, word = balance_text(str(convergence.states[row, -1]), actual, target, decimals=decimals)
    return Balance(State(shape), amount, word)


def counts_of(convergence: Convergence, row: int) -> Counts:
    """Counts over complete days."""
    over = slice(convergence.n_finished)
    idle, starved = (
        (convergence.idle[row] | convergence.idle_inferred[row])[over],
        convergence.states[row, over] == "starved",
    )
    return Counts(int(idle.sum()), int(starved.sum()), int(_gap_mask(convergence).sum()))


def label_of(convergence: Convergence, row: int, counts: Counts, reason: str) -> str:
    """Text alternative of a panel."""
    name = convergence.members[row].name
    if reason:
        return f"{name}: {reason}"
    shares = presentation.compare_shares(last(convergence.actual[row]), last(convergence.target[row]))
    values = {"name": name, "actual": shares.actual, "target": shares.target}
    steps = _("hours") if convergence.is_by_hour else _("days")
    text = _("%(name)s: actual %(actual)s, target %(target)s") % values
    for n, words in (
        (counts.idle, _("no demand on %(n)s of %(of)s %(steps)s")),
        (counts.starved, _("jobs waited below target on %(n)s of %(of)s %(steps)s")),
        (counts.missing, _("data is missing on %(n)s of %(of)s %(steps)s")),
        (
            int(convergence.before_entry[row, : convergence.n_finished].sum()),
            _("%(n)s of %(of)s %(steps)s are from before the entry"),
        ),
    ):
        if n:
            text += "; " + words % {
                "n": presentation.count(n),
                "of": presentation.count(convergence.n_finished),
                "steps": steps,
            }
    return text


def short_day(day: date) -> str:
    return formats.date_format(day, "j M, H:i" if isinstance(day, datetime) else "j M")


def _gap_mask(convergence: Convergence) -> Any:
    return np.array([day in convergence.gaps for day in convergence.on], dtype=np.bool_)


def _scale_text(
    convergence: Convergence, rows: Sequence[int], scales: Sequence[float], common: float
) -> tuple[str, str]:
    """Key and sentence about the scale."""
    giant = next((row for row, scale in zip(rows, scales, strict=True) if scale > common), None)
    values: dict[str, Any] = {"to": presentation.percent(common, 0)}
    if giant is None:
        return "shared", _("shared scale 0 to %(to)s") % values
    values |= {"name": convergence.members[giant].name, "most": presentation.percent(max(scales), 0)}
    return "one_apart", _("%(name)s on 0 to %(most)s, the others share 0 to %(to)s") % values


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
    away, slack = (
        np.abs(convergence.deviation)[:, : convergence.n_finished],
        convergence.slack[:, : convergence.n_finished],
    )
    decimals = _decimals_of(convergence)
    for row in convergence.order():
        known = np.isfinite(away[row])
        n, inside = int(known.sum()), int((away[row] <= slack[row] * (1 + 1e-9)).sum())
        reason = "" if convergence.visible[row].any() else _("not shown")
        shares = presentation.compare_shares(
            last(convergence.actual[row]), last(convergence.target[row]), decimals=decimals
        )
        yield MemberRow(
            member=convergence.members[row],
            url=member_url(convergence.policy_slug, convergence.members[row]),
            actual=shares.actual,
            target=shares.target,
            balance=None if reason else balance_of(convergence, row, decimals),
            mean=presentation.points(float(away[row][known].mean())) if n else presentation.UNKNOWN,
            inside=presentation.percent(inside / n, 0) if n else presentation.UNKNOWN,
            reason=reason,
        )


def _decimals_of(convergence: Convergence) -> int:
    """Decimals of the shares of all members."""
    balances = [balance_of(convergence, row) for row in range(len(convergence.members))]
    rows = [row for row, balance in enumerate(balances) if balance is not None and balance.is_off_target]
    return presentation.decimals_of_column(
        (last(convergence.actual[row]), last(convergence.target[row])) for row in rows
    )


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day of one member. as_of: of the newest snapshot, None for a complete day or hour."""

    on: date
    as_of: datetime | None
    revision: int
    is_before_first: bool
    actual: str
    target: str
    state: str
    gap: str


_OFF_TARGET = ("over", "starved", "inferred")  # states


def day_rows(convergence: Convergence) -> list[DayRow]:
    """Rows of the days of the first member, newest first."""
    rows = []
    pairs = zip(convergence.actual[0].tolist(), convergence.target[0].tolist(), strict=True)
    off_target = [pair for pair, state in zip(pairs, convergence.states[0], strict=True) if str(state) in _OFF_TARGET]
    decimals = presentation.decimals_of_column(off_target)
    for at, day in reversed(list(enumerate(convergence.on))):
        actual, target = _or_none(convergence.actual[0, at]), _or_none(convergence.target[0, at])
        shares = presentation.compare_shares(actual, target, decimals=decimals)
        rows.append(
            DayRow(
                day,
                _as_of(convergence, at),
                int(convergence.days.revision[at]),
                bool(convergence.days.is_before_first[at]),
                shares.actual,
                shares.target,
                state_text(str(convergence.states[0, at])),
                ", ".join(convergence.gaps.get(day, ())),
            )
        )
    return rows


def _as_of(convergence: Convergence, at: int) -> datetime | None:
    return convergence.latest_at if at == convergence.n_finished else None


def _or_none(value: float) -> float | None:
    return float(value) if isfinite(value) else None


CSV_HEADER = (
    "day",
    "entry",
    "uid",
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


def scope_text(convergence: Convergence) -> str:
    """Sentence about which entries the page shows."""
    if convergence.itself or not convergence.n_all:  # nothing is computed yet, or the entry has no members
        return _("Convergence: %(name)s") % {"name": convergence.entry.name}
    text = ngettext(
        "Convergence of %(n)s entry in %(name)s", "Convergence of %(n)s entries in %(name)s", convergence.n_all
    )
    return text % {"n": presentation.count(convergence.n_all), "name": convergence.entry.name}
