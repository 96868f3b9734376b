"""Members of a group as table rows: target and usage now, target after the typed changes, and rank changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from uuid import UUID

from django.utils.translation import gettext as _

from apps.pages.group.forms import GroupInput, MemberInput, may_boost, unchanged_input
from apps.policies.operations.apply import Operation
from apps.priorities.change_effects import simulate_operations
from apps.priorities.request_evidence import MOST_RANKED_AT_ONCE
from apps.priorities.selectors.group import GroupPage, MemberRow
from apps.priorities.sentences import numbers
from apps.web.shell import lines, presentation
from apps.web.shell.presentation import Balance, long_day, short_day
from apps.web.svg import bars
from apps.web.svg.bars import Bullet, Tolerance
from apps.web.texts.algorithm_text import decides_by_levels

WIDTH = 104
_MOST_SHOWN_MOVES = 5


@dataclass(frozen=True, slots=True)
class MemberLine:
    """One member as shown and typed."""

    uid: UUID
    name: str
    url: str
    kind: str
    typed: MemberInput
    locked: bool
    target_before: str
    target_after: str
    is_edited: bool
    is_shifted: bool  # its target changes because of others' typed shares
    used: str
    bar: Bullet | None
    balance: Balance
    place: int | None
    may_boost: bool
    is_boosted: bool
    button: str
    terms: str  # sentence about what happens at the end
    terms_key: str
    former_shares: float | None  # shares after a boost
    problem: str
    until_problem: str


def draw_members(page: GroupPage, typed: GroupInput) -> list[MemberLine]:
    """Table rows of all members, their bars on one scale that also holds the present targets."""
    tolerance = lines.tolerance_of(page.settings)
    scale = scale_of(page)
    pairs = [(row.entry.actual, row.target_after) for row in page.members if _is_off_target(row, tolerance)]
    decimals = numbers.decimals_of_column(pairs)
    return [_line(row, typed, page.policy_slug, scale, tolerance, decimals) for row in page.members]


def _is_off_target(row: MemberRow, tolerance: Tolerance) -> bool:
    return _balance(row, lines.tolerance_for(row.entry, tolerance)).is_off_target


def scale_of(page: GroupPage) -> float:
    pairs = [(row.entry.actual or 0.0, max(row.entry.target or 0.0, row.target_after or 0.0)) for row in page.members]
    return bars.share_scale(pairs, lines.tolerance_of(page.settings))


def _line(
    row: MemberRow, typed: GroupInput, slug: str, scale: float, tolerance: Tolerance, decimals: int
) -> MemberLine:
    entry, node = row.entry, typed.nodes[row.entry.uid]
    member, before = typed.member(entry.uid), unchanged_input(node)
    is_edited = (member.shares, member.until, member.leaves) != (before.shares, before.until, False)
    moved = _differ(entry.target, row.target_after)
    tolerance = lines.tolerance_for(entry, tolerance)
    shown = _balance(row, tolerance, decimals)
    shares = numbers.compare_shares(entry.actual, row.target_after, decimals=decimals)
    key, terms = _terms(row, member)
    return MemberLine(
        uid=entry.uid,
        name=entry.name,
        url=lines.entry_url(slug, entry.uid, entry.name),
        kind=entry.kind,
        typed=member,
        locked=entry.locked and not entry.may_change,
        target_before=numbers.percent(entry.target, shares.decimals) if moved else "",
        target_after=shares.target,
        is_edited=is_edited,
        is_shifted=moved and not is_edited,
        used=shares.actual,
        bar=_bar(row, shown, scale, tolerance, moved=moved),
        balance=shown,
        place=row.place,
        may_boost=may_boost(node),
        is_boosted=row.is_boosted,
        button=_button(row, member),
        terms=terms,
        terms_key=key,
        former_shares=row.former_shares if key == "returns" else None,
        problem=typed.problems.get(f"shares-{entry.uid}", ""),
        until_problem=typed.problems.get(f"until-{entry.uid}", ""),
    )


def _balance(row: MemberRow, tolerance: Tolerance, decimals: int | None = None) -> Balance:
    """Balance against the new target; against the active target if nothing is typed."""
    return presentation.balance_of(
        row.state_after, row.entry.actual, row.target_after, tolerance=tolerance, decimals=decimals
    )


def _bar(row: MemberRow, shown: Balance, scale: float, tolerance: Tolerance, *, moved: bool) -> Bullet | None:
    if row.target_after is None:
        return None
    return bars.draw(
        actual=row.entry.actual,
        target=row.target_after,
        maximum=scale,
        state=shown.state,
        width=WIDTH,
        before=row.entry.target if moved else None,
        tolerance=tolerance,
    )


def _button(row: MemberRow, typed: MemberInput) -> str:
    until = _day(typed.until)
    if until is not None:
        return _("to %(day)s") % {"day": short_day(until)}
    return _("Boost") if row.entry.shares else _("More")


def _terms(row: MemberRow, typed: MemberInput) -> tuple[str, str]:
    """Key and sentence about what happens automatically at the end date."""
    if row.has_own_dates:
        return "own_dates", _("It has its own dates.")
    until = _day(typed.until)
    if until is None:
        return "stays", _("Leave empty for no end.")
    return "returns", _("On %(day)s the shares return to %(former)s automatically.") % {
        "day": long_day(until + timedelta(days=1)),
        "former": presentation.shares(row.former_shares),
    }


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        return None


def _differ(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(before - after) > 1e-9


@dataclass(frozen=True, slots=True)
class Move:
    """A rank now and after the change; "–" for none."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class RankEffect:
    """Rank changes. moves: the largest few of `n_moved` that the reader may see."""

    root: str
    n_moved: int
    moves: Sequence[Move]
    above_decides: bool

    @property
    def n_more(self) -> int:
        return self.n_moved - len(self.moves)


def rank_effect(page: GroupPage, operations: Sequence[Operation]) -> RankEffect | None:
    """Rank changes of the typed edits; None without edits or priorities, and for trees too large for live preview."""
    if not operations or len(page.view.tree) > MOST_RANKED_AT_ONCE:
        return None
    rank_rows = simulate_operations(page.view, operations)
    if rank_rows is None:
        return None
    moved = [each for each in rank_rows if each["rank_before"] != each["rank_after"]]
    return RankEffect(
        root=page.policy_name,
        n_moved=len(moved),
        moves=[
            Move(each["path"].rpartition("/")[2], _rank(each["rank_before"]), _rank(each["rank_after"]))
            for each in moved[:_MOST_SHOWN_MOVES]
        ],
        above_decides=page.parent is not None and decides_by_levels(page.algorithm),
    )


def _rank(rank: int | None) -> str:
    return numbers.UNKNOWN if rank is None else numbers.count(rank)
