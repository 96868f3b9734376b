"""Entries selected for one figure, at any depth, each compared with its own siblings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.analytics.convergence.by_hour import convergence_by_hour
from apps.analytics.convergence.latest import with_latest
from apps.analytics.convergence.members import find_selection, find_selection_by_hour
from apps.analytics.convergence.period import Period
from apps.analytics.convergence.records import Selection
from apps.analytics.convergence.selectors import make_convergence, open_entry, order_children
from apps.analytics.convergence.shares import Counting
from apps.core.errors import FieldProblem, Invalid
from apps.policies.selectors import READ
from apps.priorities.selectors.rows import PolicyView

USUAL_PICKS = 4
_MOST_OFFERED = 200


def get_selection(
    *,
    policy_slug: str,
    actor: Actor,
    picks: Sequence[str],
    period: Period,
    whole: Period,
    counting: Counting,
    below: UUID | None = None,
    by_hour: bool = False,
    scope: str = READ,
) -> Selection:
    """The days of `whole` of the picks, uids or paths; without any of the children of `below` that are farthest from
    their target at the end of `period`. By the hour there is one period, the last seven days.

    Raises Invalid alike for a missing entry and one hidden from the actor.
    """
    view, at, alone = open_entry(policy_slug=policy_slug, actor=actor, uid=below, itself=False, scope=scope)
    rows = [_require(view, text) for text in picks] or _usual(view, at, alone, period, counting, by_hour)
    if by_hour:
        found = convergence_by_hour(view, at, False, find_selection_by_hour(view, rows), counting)
    else:
        days_before = whole.starting_earlier(counting.days_before)
        found = make_convergence(view, at, False, find_selection(view, rows, days_before), whole, counting, actor)
    found = with_latest(replace(found, period=period), view)
    return Selection(found, [view.tree.path(i).strip("/") for i in rows])


def _require(view: PolicyView, text: str) -> int:
    try:
        i = view.tree.index_of_uid(UUID(text))
    except ValueError:
        i = view.tree.index_of_path("/" + text.strip().strip("/"))
    if i is None or i == 0 or not view.visibility.may_see(i):
        message = _("There is no entry “%(text)s” in this policy to compare.") % {"text": text[:80]}
        raise Invalid(message, fields=[FieldProblem("pick", message)])
    return i


def _usual(view: PolicyView, at: int, alone: bool, period: Period, counting: Counting, by_hour: bool) -> list[int]:
    """The four farthest from their target; an entry without children alone."""
    if alone:
        return [at] if at else []
    if by_hour:
        children = [i for i in view.visible_children(at) if view.competes[i]]
        return sorted(children, key=lambda i: -view.target[0][i])[:USUAL_PICKS]
    places = [view.tree.index_of_uid(member.uid) for member in order_children(view, at, period, counting)]
    return [i for i in places if i is not None][:USUAL_PICKS]


def list_paths(*, policy_slug: str, actor: Actor, below: UUID | None = None, scope: str = READ) -> list[str]:
    """Paths of entries that may be picked, those below the entry first by level, two hundred at most."""
    view, at, _alone = open_entry(policy_slug=policy_slug, actor=actor, uid=below, itself=False, scope=scope)
    found: list[int] = []
    level = [at]
    while level and len(found) < _MOST_OFFERED:
        level = [child for i in level for child in view.visible_children(i)]
        found += level
    return [view.tree.path(i).strip("/") for i in found[:_MOST_OFFERED]]
