"""The past days under a change set, as the review shows them: whose targets and ranks would have been others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.pages.changes.review.reviewed_change import ReviewPage
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.document_merge import indexes_of
from apps.priorities.sentences.numbers import ChangedShares, change_shares, count, number
from apps.series.back_test import BackTest
from apps.series.back_test_runs import DAYS, DEFAULT_DAYS, StoredBackTest, get_back_test
from apps.web.svg.two_targets import draw_two_targets

SHOWN = 10
_DECIMALS = 1  # of mean ranks and distances


@dataclass(frozen=True, slots=True)
class TargetDays:
    """An entry whose target the draft changes. target: on the last day. off, off_was: mean distance in points."""

    uid: UUID
    path: str
    name: str
    above: str
    target: ChangedShares
    off: float | None
    off_was: float | None
    n_days: int
    days_on: int
    days_on_was: int
    picture: SafeString


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

    def _places(self, result: BackTest) -> Any:
        return indexes_of(result.uid, self.tree)

    @cached_property
    def targets(self) -> list[TargetDays]:
        """Entries whose targets the draft changes, the largest change of the last day first."""
        result = self.result
        if result is None:
            return []
        at = self._places(result)
        rows = [row for row, place in enumerate(result.daily.tolist()) if at[place] >= 0]
        change = np.nan_to_num(np.abs(result.target[:, -1] - result.target_was[:, -1]))
        rows.sort(key=lambda row: (-change[row], row))
        return [self._target(result, row, int(at[result.daily[row]])) for row in rows]

    def _target(self, result: BackTest, row: int, i: int) -> TargetDays:
        entry = int(result.daily[row])
        off, off_was = (_or_none(side[entry] * 100) for side in (result.off, result.off_was))
        return TargetDays(
            self.tree.uuid(i),
            *self._names(i),
            change_shares(_or_none(result.target_was[row, -1]), _or_none(result.target[row, -1])),
            off,
            off_was,
            int(result.n_days[entry]),
            int(result.days_on[entry]),
            int(result.days_on_was[entry]),
            draw_two_targets(*(side[row].tolist() for side in (result.actual, result.target, result.target_was))),
        )

    def _names(self, i: int) -> tuple[str, str, str]:
        """Path, name, and the path above."""
        path = self.tree.path(i)
        return path, self.tree.name[i], path.rpartition("/")[0] or "/"

    @cached_property
    def moved(self) -> list[MovedLeaf]:
        """Leaves whose mean rank differs as it is shown, those that gain most first."""
        result = self.result
        if result is None:
            return []
        at = self._places(result)
        rank, rank_was = (np.round(side, _DECIMALS) for side in (result.rank, result.rank_was))
        places = np.flatnonzero(np.isfinite(rank - rank_was) & (rank != rank_was) & (at >= 0))
        places = places[np.argsort(rank[places] - rank_was[places], kind="stable")]
        return [
            MovedLeaf(self.tree.uuid(i), *self._names(i), float(rank[place]), float(rank_was[place]))
            for place, i in zip(places.tolist(), at[places].tolist(), strict=True)
        ]

    def furthest(self, most: int) -> list[MovedLeaf]:
        return sorted(self.moved, key=lambda leaf: -abs(leaf.places))[:most]

    @property
    def gained(self) -> list[MovedLeaf]:
        return [leaf for leaf in self.moved if leaf.places > 0]

    @property
    def lost(self) -> list[MovedLeaf]:
        """Those that lose most first."""
        return [leaf for leaf in reversed(self.moved) if leaf.places < 0]

    @property
    def n_ranked(self) -> int:
        return 0 if self.result is None else int(np.isfinite(self.result.rank).sum())

    @property
    def sentence(self) -> str:
        """How many users would have had a better or a worse mean rank."""
        n_better, n_worse = len(self.gained), len(self.lost)
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


def back_test_of(page: ReviewPage) -> BackTestOfReview:
    return BackTestOfReview(
        get_back_test(page.review.change_set, at=page.now), page.review.after, is_hidden=not page.sees_all_numbers
    )


def back_test_context(page: ReviewPage, *, show_all: bool) -> dict[str, Any]:
    """For the tab of the review."""
    tested = back_test_of(page)
    most = None if show_all else SHOWN
    result = tested.result
    n_days = len(result.on) if result is not None else DEFAULT_DAYS
    return {
        "tested": tested,
        "n_days": n_days,
        "day_choices": DAYS,
        "through_on": result.days[-1] if result is not None else None,
        "target_rows": [_target_row(each) for each in tested.targets[:most]],
        "n_more_targets": max(0, len(tested.targets) - SHOWN) if most else 0,
        "gained": [_leaf_row(each) for each in tested.gained[:SHOWN]],
        "lost": [_leaf_row(each) for each in tested.lost[:SHOWN]],
        "n_more_gained": max(0, len(tested.gained) - SHOWN),
        "n_more_lost": max(0, len(tested.lost) - SHOWN),
    }


def _target_row(each: TargetDays) -> dict[str, Any]:
    return {
        "each": each,
        "off": "\u2013" if each.off is None else number(each.off, _DECIMALS),
        "off_was": "\u2013" if each.off_was is None else number(each.off_was, _DECIMALS),
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
