"""Entries over or under target on each of the last days, from the series shown on the convergence pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.analytics.convergence.numbers import get_convergence_until_now
from apps.analytics.convergence.query import default_period, read_share_method, today_of
from apps.analytics.convergence.records import ChildrenQuery, Convergence
from apps.analytics.convergence.selectors import get_series_state
from apps.policies.tree.columns import Mask as Mask
from apps.priorities.selectors.rows import PolicyView
from apps.search.questions import WhoIsOff

I8 = npt.NDArray[np.int64]

_MOST_DAYS = 60  # searched beyond the queried days, to find since when an entry is off target
_UNDER = ("met", "starved", "inferred")


@dataclass(frozen=True, slots=True)
class OffEntry:
    """actual, target: present fractions. n_days: number of full days in a row up to now, the first of them `since`."""

    uid: UUID
    name: str
    path: str
    target: float | None
    actual: float | None
    n_days: int
    since: date | None


@dataclass(frozen=True, slots=True)
class OffTarget:
    """Entries, furthest off first. n_known: children with visible numbers; n_searched of n_all: of very
    many children.
    """

    entries: Sequence[OffEntry]
    n_known: int
    n_searched: int
    n_all: int


def find_off_target(view: PolicyView, at: int, question: WhoIsOff) -> OffTarget:
    """Search the children of entry `at`."""
    slug, uid = view.policy.slug, view.tree.uuid(at) if at else None
    state = get_series_state(policy_slug=slug, actor=view.actor)
    period = default_period(state, today_of(view.now), question.n_days + _MOST_DAYS)
    query = ChildrenQuery(period=period, method=read_share_method())
    found = get_convergence_until_now(query, policy_slug=slug, uid=uid, actor=view.actor)
    days = found.states[:, : found.n_finished]
    runs = _runs_at_end(_is_off(days, question.side))
    blocking = _runs_at_end(_is_off(days, "over") & _others_wait(days))
    known = [row for row, member in enumerate(found.members) if member.is_here and _is_known(found, row)]
    rows = [row for row in known if _matches(found, question, row, runs, blocking)]
    rows.sort(key=lambda row: (-abs(_last_or_none(found.deviation[row]) or 0.0), found.members[row].name))
    entries = [_entry(view, at, found, row, int(runs[row])) for row in rows]
    return OffTarget(entries, len(known), len(found.members), found.n_all)


def mask_from_indices(n: int, indices: I8) -> Mask:
    """Mask of size n, true at the indices ≥ 0."""
    mask = np.zeros(n, dtype=np.bool_)
    mask[indices[indices >= 0]] = True
    return mask


def _matches(found: Convergence, question: WhoIsOff, row: int, runs: I8, blocking: I8) -> bool:
    needed = max(question.n_days, 1)
    if question.blocks_others:
        return bool(blocking[row] >= needed)
    if question.n_days:
        return bool(runs[row] >= needed)
    return bool(_is_off(found.states[row : row + 1, -1:], question.side)[0, 0])


def _is_off(states: npt.NDArray[np.str_], side: str) -> Mask:
    off: Mask = np.isin(states, ("over",) if side == "over" else _UNDER)
    return off


def _others_wait(states: npt.NDArray[np.str_]) -> Mask:
    """Mask of days on which a sibling had jobs waiting below target."""
    waits: Mask = (states == "starved").any(axis=0)
    return waits


def _runs_at_end(mask: Mask) -> I8:
    """Length of the run of true days at the end of each row."""
    found: I8 = np.cumprod(mask[:, ::-1], axis=1).sum(axis=1, dtype=np.int64)
    return found


def _is_known(found: Convergence, row: int) -> bool:
    return bool(found.states.shape[1]) and bool(np.isfinite(found.actual[row, -1]))


def _last_or_none(values: npt.NDArray[np.float64]) -> float | None:
    value = float(values[-1]) if len(values) else float("nan")
    return value if np.isfinite(value) else None


def _entry(view: PolicyView, at: int, found: Convergence, row: int, n_days: int) -> OffEntry:
    member = found.members[row]
    above = view.tree.path(at) if at else ""
    since = found.on[found.n_finished - n_days] if n_days else None
    target, actual = _last_or_none(found.target[row]), _last_or_none(found.actual[row])
    return OffEntry(member.uid, member.name, f"{above}/{member.name}", target, actual, n_days, since)
