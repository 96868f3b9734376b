"""What a change of shares moves, as texts: how many people change rank, by how many places, and whose targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.priorities.rank_effect import RankEffect, RankMoves
from apps.priorities.sentences import numbers
from apps.priorities.sentences.numbers import UNKNOWN, count


class Places(NamedTuple):
    """direction: up, down, or "" where no rank changes. text: beside the arrow. phrase: the same for screen readers."""

    direction: str
    text: str
    phrase: str


def places_of(moves: RankMoves | None) -> Places:
    """↑ 37 where all move alike, ↑ ≤ 37 where some move less; a dash without a move."""
    if moves is None or not moves.furthest:
        return Places("", UNKNOWN, _("no rank changes"))
    n = abs(moves.furthest)
    text = count(n) if moves.is_uniform else f"\u2264\u00a0{count(n)}"
    if moves.furthest > 0:
        phrase = ngettext("%(n)s place up", "%(n)s places up", n) if moves.is_uniform else _("up to %(n)s places up")
        return Places("up", text, phrase % {"n": count(n)})
    phrase = ngettext("%(n)s place down", "%(n)s places down", n) if moves.is_uniform else _("up to %(n)s places down")
    return Places("down", text, phrase % {"n": count(n)})


def change_text(effect: RankEffect | None) -> str:
    """76 change rank; empty if unknown."""
    if effect is None:
        return ""
    if not effect.n_moved:
        return _("No rank changes")
    return ngettext("%(n)s changes rank", "%(n)s change rank", effect.n_moved) % {"n": count(effect.n_moved)}


def other_targets_text(changes: Sequence[float]) -> str:
    """27 other targets drop by 3.8 %; empty if none changes.

    changes: of each target as a part of its value, below 0 where it drops. The largest is named: siblings that share a
    change in proportion all have the same.
    """
    moved = [each for each in changes if each]
    if not moved:
        return ""
    most = max(moved, key=abs)
    n = sum(each * most > 0 for each in moved)  # in the same direction
    part = numbers.percent(abs(most), numbers.decimals_beside(0.0, abs(most)))
    if most < 0:
        text = ngettext("%(n)s other target drops by %(part)s", "%(n)s other targets drop by %(part)s", n)
    else:
        text = ngettext("%(n)s other target rises by %(part)s", "%(n)s other targets rise by %(part)s", n)
    return text % {"n": count(n), "part": part}
