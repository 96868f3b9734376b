"""Groups outside their band for days, with demand: starved, or over while others are.

Sibling groups off their targets are reported together (a *family*): where one is over, another is under. The managers
of the parent get one notice for all of them; people of one group alone get the notice of that group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.notices.drift_days import drift_of, last_days, newest_day
from apps.notices.kinds.base import Finding, Kind, Level, PolicyPlace, Sentence, Term
from apps.policies.changesets.change_sets import settings_of

if TYPE_CHECKING:
    from apps.notices.models import Notice
    from apps.notices.visibility import Reader

_LEAST_FAMILY = 2  # groups beside each other
_NAMED = 3
_LEAST_DAYS = 30  # days searched, so that a sentence can say for how long


def find(place: PolicyPlace) -> Iterable[Finding]:
    """Groups that were starved, or displaced others, on each of the last days. Never entries of people."""
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
    """One finding about all of them, at their parent; and one for each, for readers who don't get the family's."""
    groups = sorted((dict(finding.facts) for finding in away), key=lambda facts: -abs(facts["deviation"]))
    level: Level = "bad" if any(finding.level == "bad" for finding in away) else "warn"
    uid = place.tree.uuid(parent)
    facts = {"name": place.tree.name[parent], "path": place.tree.path(parent), "groups": groups}
    yield Finding(f"{place.policy.pk}:{uid}:family", level, facts, uid)
    for finding in away:
        yield replace(finding, facts={**finding.facts, "family": str(uid)})


def _families(place: PolicyPlace) -> Iterator[tuple[int, dict[int, Mapping[str, float]]]]:
    """Each parent with those of its children that are watched."""
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
    """People concerned with the entry who see its numbers; displacing others reveals something of these too, so for
    that all of their numbers must be visible.
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
    given = {"path": facts["path"], "n": facts["days"], "points": _points(facts)}
    if facts["is_starved"]:
        text = _("%(path)s has had waiting jobs and been under its share for %(n)s days (now %(points)s points).")
        return Sentence("drift.starved", facts, text % given)
    text = _("%(path)s has been over its share for %(n)s days while others wait (now %(points)s points).")
    return Sentence("drift.pushing", facts, text % given)


def _describe_family(facts: Mapping[str, Any]) -> Sentence:
    """The groups that are away furthest, by name; the others by number."""
    groups = facts["groups"]
    under = _("%(name)s under by %(points)s points for %(n)s days")
    over = _("%(name)s over by %(points)s points for %(n)s days")
    named = [
        (under if one["is_starved"] else over) % {"name": one["name"], "points": _points(one), "n": one["days"]}
        for one in groups[:_NAMED]
    ]
    more = len(groups) - len(named)
    if more:
        named.append(ngettext("%(n)s more", "%(n)s more", more) % {"n": more})
    text = _("%(n)s groups of %(path)s are off target: %(groups)s.")
    place = facts["path"] if facts["path"] != "/" else facts["name"]
    given = {"n": len(groups), "path": place, "groups": ", ".join(named)}
    return Sentence("drift.family", facts, text % given)


def _points(facts: Mapping[str, Any]) -> str:
    return str(formats.number_format(abs(facts["deviation"]) * 100, 1))


KIND = Kind(
    name="drift",
    title=gettext_lazy("Groups off target"),
    about=gettext_lazy(
        "A group is under its share with waiting jobs, or over it while a sibling has waiting jobs, "
        "every day of this period."
    ),
    watches="policy",
    find=find,
    is_for=is_for,
    describe=describe,
    leads_to="entry",
    terms=(Term("days", gettext_lazy("For"), gettext_lazy("days"), 7, 2, 180),),
)
