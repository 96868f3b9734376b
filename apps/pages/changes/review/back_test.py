"""The past days under a change set, as the review shows them: whose targets and ranks would have been others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any
from uuid import UUID

import numpy as np
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.core.periods import DEFAULT_DAYS
from apps.pages.changes.review.reviewed_change import ReviewPage
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.document_merge import indexes_of
from apps.priorities.sentences.numbers import UNKNOWN, change_shares, count, number, points, points_phrase
from apps.series.back_test import F8, I8, LEAST_CHANGE, BackTest
from apps.series.back_test_runs import DAYS, StoredBackTest, get_back_test
from apps.web.svg.under_draft import draw_deviation, draw_ranks, draw_share

SHOWN, MOST_BACK_TESTED = 8, 200  # rows of a list, and of one that is shown whole
_DECIMALS = 1  # of mean ranks and distances


Daily = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class TargetDays:
    """An entry whose target, share or ranks the draft changes; `was`: by the current policy. off, off_was: mean
    distance in points. changed_points, changed_places: how far its share and the mean rank of its users differ on
    average; None where unknown.

    By day, None where unknown: target, actual, 0..1; mean_rank, of the leaves below it (of itself, if it is one).
    """

    uid: UUID
    path: str
    name: str
    above: str
    off: float | None
    off_was: float | None
    n_days: int
    days_on: int
    days_on_was: int
    changed_points: float | None
    changed_places: float | None
    target: Daily
    target_was: Daily
    actual: Daily
    actual_was: Daily
    mean_rank: Daily
    mean_rank_was: Daily


@dataclass(frozen=True, slots=True)
class MovedLeaf:
    """A leaf with its mean ranks, rounded as they are shown. places: gained by the draft, lost where negative."""

    uid: UUID
    path: str
    name: str
    above: str
    rank: float
    rank_was: float

    @property
    def places(self) -> float:
        return round(self.rank_was - self.rank, _DECIMALS)


@dataclass(frozen=True, eq=False)
class BackTestOfReview:
    """A stored back-test for a reader who may see all numbers of the policy; others get the state `hidden`."""

    stored: StoredBackTest
    tree: TreeColumns
    is_hidden: bool

    @property
    def state(self) -> str:
        return "hidden" if self.is_hidden else self.stored.state

    @property
    def result(self) -> BackTest | None:
        """None where the tree has changed since it was computed."""
        result = None if self.is_hidden else self.stored.result
        return result if result is not None and (self._places(result) >= 0).any() else None

    def _places(self, result: BackTest) -> I8:
        return indexes_of(result.uid, self.tree)

    @cached_property
    def targets(self) -> list[TargetDays]:
        """Entries whose targets the draft changes, or whose shares or ranks where it changes none, the largest change
        first.
        """
        result = self.result
        if result is None:
            return []
        at = self._places(result)
        rows = [row for row, place in enumerate(result.daily.tolist()) if at[place] >= 0]
        change = np.abs(np.nan_to_num(result.target[:, -1]) - np.nan_to_num(result.target_was[:, -1]))
        change = np.where(change > LEAST_CHANGE, change, 0.0)
        apart = [np.nan_to_num(_mean_apart(*sides)) for sides in _sides(result)]
        rows.sort(key=lambda row: (-change[row], -apart[0][row], -apart[1][row], row))
        return [self._target(result, row, int(at[result.daily[row]])) for row in rows]

    def _target(self, result: BackTest, row: int, i: int) -> TargetDays:
        entry = int(result.daily[row])
        off, off_was = (_or_none(side[entry] * 100) for side in (result.off, result.off_was))
        daily = (
            result.target,
            result.target_was,
            result.actual,
            result.actual_was,
            result.leaf_rank,
            result.leaf_rank_was,
        )
        return TargetDays(
            self.tree.uuid(i),
            *self._names(i),
            off,
            off_was,
            int(result.n_days[entry]),
            int(result.days_on[entry]),
            int(result.days_on_was[entry]),
            _or_none(_mean_apart(*_sides(result)[0])[row] * 100),
            _or_none(_mean_apart(*_sides(result)[1])[row]),
            *(_daily(side[row]) for side in daily),
        )

    @property
    def changes_targets(self) -> bool:
        """Whether the table is of entries with another target."""
        result = self.result
        if result is None or not len(result.daily):
            return False
        return bool((np.abs(np.nan_to_num(result.target) - np.nan_to_num(result.target_was)) > LEAST_CHANGE).any())

    @cached_property
    def deviation(self) -> tuple[Daily, Daily]:
        """(with the draft, with the current policy): mean distance of these entries from their targets by day, in
        points.
        """
        if self.result is None:
            return (), ()
        with_draft, current = self.result.deviation
        return _daily(with_draft * 100), _daily(current * 100)

    def _names(self, i: int) -> tuple[str, str, str]:
        """Path, name, and the path above."""
        path = self.tree.path(i)
        return path, self.tree.name[i], path.rpartition("/")[0] or "/"

    @cached_property
    def _moves(self) -> tuple[I8, F8, F8]:
        """(indices in the tree, ranks, ranks by the current policy) of leaves whose mean rank differs as it is
        shown, those that gain most first.
        """
        result = self.result
        if result is None:
            return np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
        at = self._places(result)
        rank, rank_was = (np.round(side, _DECIMALS) for side in (result.rank, result.rank_was))
        places = np.flatnonzero(np.isfinite(rank - rank_was) & (rank != rank_was) & (at >= 0))
        places = places[np.argsort(rank[places] - rank_was[places], kind="stable")]
        return at[places], rank[places], rank_was[places]

    @property
    def n_gained(self) -> int:
        _at, rank, rank_was = self._moves
        return int((rank < rank_was).sum())

    @property
    def n_lost(self) -> int:
        return len(self._moves[0]) - self.n_gained

    def gained(self, most: int) -> list[MovedLeaf]:
        """Those that gain most, first."""
        return self._leaves(np.arange(min(self.n_gained, most)))

    def lost(self, most: int) -> list[MovedLeaf]:
        """Those that lose most, first."""
        n = len(self._moves[0])
        return self._leaves(np.arange(n - 1, n - 1 - min(self.n_lost, most), -1))

    def furthest(self, most: int) -> list[MovedLeaf]:
        """Those that gain or lose most, first."""
        _at, rank, rank_was = self._moves
        return self._leaves(np.argsort(-np.abs(rank - rank_was), kind="stable")[:most])

    def _leaves(self, rows: I8) -> list[MovedLeaf]:
        at, rank, rank_was = (column[rows].tolist() for column in self._moves)
        return [
            MovedLeaf(self.tree.uuid(i), *self._names(i), now, was)
            for i, now, was in zip(at, rank, rank_was, strict=True)
        ]

    @property
    def n_ranked(self) -> int:
        return 0 if self.result is None else int(np.isfinite(self.result.rank).sum())

    @property
    def sentences(self) -> list[str]:
        """How far from their targets these entries would have been, and how many users would have had another rank."""
        return [each for each in (self._deviation_sentence, self._furthest_sentence, self._rank_sentence) if each]

    @property
    def _deviation_sentence(self) -> str:
        means = [[day for day in side if day is not None] for side in self.deviation]
        if not all(means):
            return ""
        with_draft, current = (sum(side) / len(side) / 100 for side in means)
        if points(with_draft) == points(current):
            return _("On average %(n)s from the targets a day, with the draft as without it.") % {
                "n": points_phrase(with_draft)
            }
        return _("On average %(n)s from the targets a day, instead of %(was)s.") % {
            "n": points_phrase(with_draft),
            "was": points(current),
        }

    @property
    def _furthest_sentence(self) -> str:
        """Of a draft that changes no target: who differs most, and by how much."""
        if not self.targets or self.changes_targets:
            return ""
        first = self.targets[0]
        if first.changed_points and points(first.changed_points / 100) != points(0.0):
            text = _("%(path)s changes most: its share by %(n)s on average.")
            return text % {"path": first.path, "n": points_phrase(first.changed_points / 100)}
        if not first.changed_places:
            return ""
        n = number(first.changed_places, _DECIMALS)
        return _("%(path)s changes most: by %(n)s places on average.") % {"path": first.path, "n": n}

    @property
    def _rank_sentence(self) -> str:
        n_better, n_worse = self.n_gained, self.n_lost
        if not n_better and not n_worse:
            return _("No user would have had another mean rank.")
        better = ngettext(
            "%(n)s user would have had a better mean rank", "%(n)s users would have had a better mean rank", n_better
        ) % {"n": count(n_better)}
        return _("%(better)s, %(worse)s a worse one; %(all)s were ranked.") % {
            "better": better,
            "worse": count(n_worse),
            "all": count(self.n_ranked),
        }


def _sides(result: BackTest) -> tuple[tuple[F8, F8], tuple[F8, F8]]:
    """Shares and mean ranks, (k, d) each: with the draft, and by the current policy."""
    return (result.actual, result.actual_was), (result.leaf_rank, result.leaf_rank_was)


def _mean_apart(side: F8, side_was: F8) -> F8:
    """(k,) mean distance over the days on which both are known; NaN without one."""
    apart = np.abs(side - side_was)
    is_known = np.isfinite(apart)
    n = is_known.sum(axis=1)
    return np.where(n > 0, np.where(is_known, apart, 0.0).sum(axis=1) / np.maximum(n, 1), np.nan)


def back_test_of(page: ReviewPage) -> BackTestOfReview:
    return BackTestOfReview(
        get_back_test(page.review.change_set, at=page.now), page.review.after, is_hidden=not page.sees_all_numbers
    )


def back_test_context(page: ReviewPage, *, show_all: bool) -> dict[str, Any]:
    """For the tab of the review."""
    tested = back_test_of(page)
    most = MOST_BACK_TESTED if show_all else SHOWN
    result = tested.result
    targets = tested.targets if result is not None else []
    return {
        "tested": tested,
        "n_days": DEFAULT_DAYS if result is None else len(result.on),
        "day_choices": DAYS,
        "chosen_days": DEFAULT_DAYS if result is None else next(each for each in DAYS if each >= len(result.on)),
        "through_on": None if result is None else result.days[-1],
        "n_idle": 0 if result is None else int(result.is_idle.sum()),
        "picture": _picture(result) if result is not None and targets else "",
        "day_rows": list(zip(result.days, *map(_texts, tested.deviation), strict=True)) if result and targets else [],
        "target_rows": [_target_row(each) for each in targets[:most]],
        "n_more_targets": max(0, len(targets) - most),
        "gained": [_leaf_row(each) for each in tested.gained(most)],
        "lost": [_leaf_row(each) for each in tested.lost(most)],
        "n_more_gained": max(0, tested.n_gained - most),
        "n_more_lost": max(0, tested.n_lost - most),
    }


def _picture(result: BackTest) -> SafeString:
    return draw_deviation(result.days, *(side.tolist() for side in result.deviation))


def _target_row(each: TargetDays) -> dict[str, Any]:
    return {
        "each": each,
        "target": change_shares(each.target_was[-1], each.target[-1]),
        "share_picture": draw_share(*map(_floats, (each.actual, each.target, each.target_was))),
        "rank_picture": draw_ranks(*map(_floats, (each.mean_rank, each.mean_rank_was))),
        "rank": _text(_mean(each.mean_rank)),
        "rank_was": _text(_mean(each.mean_rank_was)),
        "off": _text(each.off),
        "off_was": _text(each.off_was),
    }


def _leaf_row(leaf: MovedLeaf) -> dict[str, Any]:
    places = abs(leaf.places)
    text = number(places, _DECIMALS)
    return {
        "leaf": leaf,
        "rank": number(leaf.rank, _DECIMALS),
        "rank_was": number(leaf.rank_was, _DECIMALS),
        "places": f"+{text}" if leaf.places > 0 else f"\u2212{text}",
    }


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _daily(values: F8) -> Daily:
    return tuple(_or_none(value) for value in values.tolist())


def _floats(values: Daily) -> list[float]:
    return [nan if value is None else value for value in values]


def _mean(values: Daily) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _texts(values: Daily) -> list[str]:
    return [_text(value) for value in values]


def _text(value: float | None) -> str:
    return UNKNOWN if value is None else number(value, _DECIMALS)
