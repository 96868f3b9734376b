"""Groups outside their tolerance for days, with demand: under target (starved), or over while siblings are starved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.analytics.series.daily_series import DailySeries, Mask
from apps.analytics.series.stored_series import load_series, series_state
from apps.engine.convergence import DayState, actual_share, day_states, tolerance_of
from apps.notices.kinds.base import Finding, Kind, Level, PolicyPlace, Sentence, Term
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Policy
from apps.priorities.sentences.numbers import points

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader

# --- Runs of days outside the band ------------------------------------------------------------------------------------
STALE_AFTER = timedelta(days=3)


def newest_day(policy: Policy, today: date) -> date | None:
    """The last built day; None if it is too old to describe the present."""
    through_on = series_state(policy).through_on
    return through_on if through_on is not None and today - through_on <= STALE_AFTER else None


def last_days(policy: Policy, uids: Sequence[UUID], *, through_on: date, n_days: int) -> DailySeries:
    return load_series(policy, uids, from_on=through_on - timedelta(days=n_days - 1), to_on=through_on)


I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Drift:
    """Drift of siblings up to the last day; arrays (entries,).

    starved_days: consecutive days under the tolerance with demand. pushing_days: consecutive days over it while a
    sibling was starved. deviation: actual − target on the last day.
    """

    starved_days: I8
    pushing_days: I8
    deviation: F8


def drift_of(siblings: DailySeries, *, tolerance: Mapping[str, Any]) -> Drift:
    """Drift of all competitors of one group, over the days since the last gap.

    actual = decayed / peers_decayed at the day's end. Starved and over are DayState, as on convergence pages; days
    without a report on waiting jobs are neither.
    """
    counted = _without_gaps(siblings)
    peers = siblings.peers_decayed[:, counted]
    target = siblings.target[:, counted]
    actual = actual_share(siblings.decayed[:, counted], peers)
    states = day_states(
        actual=actual,
        target=target,
        tolerance=tolerance_of(target, relative=tolerance["relative"], points=tolerance["points"]),
        used=siblings.used[:, counted],
        waited=siblings.waited_core_s[:, counted],
        knows_waiting=siblings.knows_waiting[:, counted],
        competes=siblings.exists[:, counted] & siblings.competes[:, counted] & (peers > 0),
    )
    starved = states == DayState.STARVED
    pushing = (states == DayState.OVER) & starved.any(axis=0)
    deviation = (actual - target)[:, -1] if counted.any() else np.zeros(len(siblings.uids))
    return Drift(_run_at_end(starved), _run_at_end(pushing), deviation)


def _without_gaps(series: DailySeries) -> Mask:
    """Days after the last gap, since the policy's first revision."""
    on = series.days.on
    counted = np.zeros(len(on), dtype=np.bool_)
    for at in range(len(on) - 1, -1, -1):
        is_next = at == len(on) - 1 or on[at + 1] - on[at] == timedelta(days=1)
        if not is_next or series.days.is_before_first[at]:
            break
        counted[at] = True
    return counted


def _run_at_end(mask: Mask) -> I8:
    """Length of the run of true days at the end."""
    backwards = mask[:, ::-1]
    found: I8 = np.cumprod(backwards, axis=1).sum(axis=1, dtype=np.int64)
    return found


# --- The kind ---------------------------------------------------------------------------------------------------------
_LEAST_FAMILY = 2  # siblings
_NAMED = 3
_LEAST_DAYS = 30  # days searched, so that the sentence can state the duration


def find(place: PolicyPlace) -> Iterable[Finding]:
    """Groups that were starved, or pushed siblings out, on each of the last days. Never entries of users."""
    through_on = newest_day(place.policy, place.today)
    if through_on is None:
        return
    tolerance = settings_of(place.policy, place.policy.head_number).tolerance
    for parent, groups in _families(place):
        most = max(int(terms["days"]) for terms in groups.values())
        rivals = [child for child in place.tree.children(parent) if not place.tree.inherit[child]]
        uids = [place.tree.uuid(child) for child in rivals]
        series = last_days(place.policy, uids, through_on=through_on, n_days=max(2 * most, _LEAST_DAYS))
        if not series.days.on or series.days.on[-1] != through_on:
            continue
        found = drift_of(series, tolerance=tolerance)
        at = {uid: n for n, uid in enumerate(series.uids)}
        away: list[Finding] = []
        for i, terms in groups.items():
            n = at.get(place.tree.uuid(i))
            if n is not None:
                days = int(found.starved_days[n]), int(found.pushing_days[n])
                away += _finding(place, i, int(terms["days"]), days, float(found.deviation[n]))
        yield from away if len(away) < _LEAST_FAMILY else _as_family(place, parent, away)


def _as_family(place: PolicyPlace, parent: int, away: list[Finding]) -> Iterator[Finding]:
    """One finding for all, at their parent; and one each, for readers who may not see all of them."""
    groups = sorted((dict(finding.facts) for finding in away), key=lambda facts: -abs(facts["deviation"]))
    level: Level = "bad" if any(finding.level == "bad" for finding in away) else "warn"
    uid = place.tree.uuid(parent)
    facts = {"name": place.tree.name[parent], "path": place.tree.path(parent), "groups": groups}
    yield Finding(f"{place.policy.pk}:{uid}:family", level, facts, uid)
    for finding in away:
        yield replace(finding, facts={**finding.facts, "family": str(uid)})


def _families(place: PolicyPlace) -> Iterator[tuple[int, dict[int, Mapping[str, float]]]]:
    """Each parent with those of its children that are checked."""
    tree = place.tree
    for parent in (i for i in range(len(tree)) if tree.n_children[i]):
        groups = {}
        for child in tree.children(parent):
            terms = place.terms_at(child)
            if terms is not None and tree.is_group[child] and not tree.inherit[child]:
                groups[child] = terms
        if groups:
            yield parent, groups


def _finding(place: PolicyPlace, i: int, least: int, days: tuple[int, int], deviation: float) -> Iterator[Finding]:
    starved, pushing = days
    n_days = max(starved, pushing)
    if n_days < least:
        return
    facts = {
        "name": place.tree.name[i],
        "path": place.tree.path(i),
        "is_starved": starved >= pushing,
        "days": n_days,
        "deviation": round(deviation, 4),
    }
    level = "bad" if n_days >= 2 * least else "warn"
    yield Finding(f"{place.policy.pk}:{place.tree.uuid(i)}", level, facts, place.tree.uuid(i))  # type: ignore[arg-type]


def is_for(reader: Reader, notice: Notice) -> bool:
    """Users concerned with the entry who see its numbers.

    Pushing siblings out reveals numbers of these too, so for that the reader must see all of their numbers.
    """
    sight, uid = reader.of(notice.policy), notice.entry_uid
    if sight is None or uid is None:
        return False
    if "groups" in notice.facts:
        return sight.sees_all_children(uid)
    if not sight.concerns(uid) or not sight.sees_exact_numbers(uid):
        return False
    family = notice.facts.get("family")
    if family is not None and sight.sees_all_children(UUID(family)):
        return False
    if notice.facts["is_starved"]:
        return True
    tree = sight.view.tree
    parent = int(tree.parent[tree.index_of_uid(uid) or 0])
    return all(sight.sees_exact_numbers(tree.uuid(child)) for child in (tree.children(parent) if parent >= 0 else ()))


def describe(facts: Mapping[str, Any]) -> Sentence:
    if "groups" in facts:
        return _describe_family(facts)
    given = {"path": facts["path"], "n": facts["days"], "points": points(facts["deviation"])}
    if facts["is_starved"]:
        text = _("%(path)s has had waiting jobs and been under its share for %(n)s days (now %(points)s points).")
        return Sentence("drift.starved", facts, text % given)
    text = _("%(path)s has been over its share for %(n)s days while others wait (now %(points)s points).")
    return Sentence("drift.pushing", facts, text % given)


def _describe_family(facts: Mapping[str, Any]) -> Sentence:
    """Sentence naming the groups furthest from target; the others are counted."""
    groups = facts["groups"]
    under = _("%(name)s under by %(points)s points for %(n)s days")
    over = _("%(name)s over by %(points)s points for %(n)s days")
    named = [
        (under if one["is_starved"] else over)
        % {"name": one["name"], "points": points(one["deviation"]), "n": one["days"]}
        for one in groups[:_NAMED]
    ]
    more = len(groups) - len(named)
    if more:
        named.append(ngettext("%(n)s more", "%(n)s more", more) % {"n": more})
    text = _("%(n)s groups of %(path)s are off target: %(groups)s.")
    place = facts["path"] if facts["path"] != "/" else facts["name"]
    given = {"n": len(groups), "path": place, "groups": ", ".join(named)}
    return Sentence("drift.family", facts, text % given)


KIND = Kind(
    name="drift",
    title=gettext_lazy("Groups off target"),
    about=gettext_lazy(
        "On every day of the period, a group is under its share with jobs waiting, or over it while a sibling "
        "has jobs waiting."
    ),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="entry",
    terms=(Term("days", gettext_lazy("Off target for"), gettext_lazy("days"), 7, 2, 180),),
)
