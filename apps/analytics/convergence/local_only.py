"""Days of local-only fallback in a series, for visible entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.analytics.convergence.messages import Sentence, say
from apps.analytics.series.calendar import day_at
from apps.priorities.local_only.state import list_fallen_back
from apps.priorities.selectors.rows import PolicyView


def local_only(
    view: PolicyView, at: int, members: Sequence[UUID], since: Mapping[UUID, datetime], last_on: date, zone: ZoneInfo
) -> list[Sentence]:
    """Of the children of the entry `at`, and of what is below each member; `since`: as the days are built.

    Entries with local scope are left out. last_on: days after it aren't shown.
    """
    if not since:
        return []
    tree, reasons = view.tree, {(one.uid, one.since): one.reason for one in list_fallen_back(view.policy)}
    code, scopes = tree.effective_scopes()
    above = {tree.uuid(i): at for i in (*tree.ancestors(at), at)}
    below = {uid: i for uid in members if (i := tree.index_of_uid(uid)) is not None and tree.n_children[i]}
    found = []
    for uid, begun in since.items():
        place, on = above.get(uid, below.get(uid)), day_at(begun, zone).on
        if place is None or on > last_on or scopes[int(code[place])][0] != "global":
            continue
        found.append((on, _said(view, uid, on, reasons.get((uid, begun), ""))))
    return [said for _on, said in sorted(found, key=lambda one: (one[0], str(one[1].values.get("name", ""))))]


def _said(view: PolicyView, uid: UUID, on: date, reason: str) -> Sentence:
    """reason: "" of one that is over, whose days aren't worked out again yet."""
    i = view.tree.index_of_uid(uid)
    if i is None or not view.visibility.may_see(i):
        return say("local_only_above", since=on)
    name = view.tree.path(i)
    if not reason:
        return say("local_only_until", name=name, since=on)
    return say("local_only", name=name, since=on, reason=reason)
