"""Where this site's usage alone counts in the numbers that somebody looks at, told as far as they see the entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.priorities.fallback.fallen_back import FallenBack
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.sentences import Said, say


@dataclass(frozen=True, slots=True)
class LocalOnly:
    """An entry below which others' usage doesn't count. Who doesn't see it is told neither its path nor the reason.

    was_then: it is told of the past.
    """

    uid: UUID
    path: str
    since: datetime
    reason: str
    was_then: bool = False

    @property
    def said(self) -> Said:
        """The one sentence for it beside numbers of an instant."""
        key = "fallback.below" if self.path else "fallback.above"
        named = {"name": self.path, "reason": self.reason} if self.path else {}
        return say(f"{key}_then" if self.was_then else key, **named, at=self.since)

    @property
    def title(self) -> Said:
        """The same without the reason, for a line under which that stands."""
        return say("fallback.since", name=self.path, at=self.since)

    @property
    def key(self) -> str:
        return self.said.key

    def __str__(self) -> str:
        return self.said.text


def list_local_only(view: PolicyView) -> list[LocalOnly]:
    """All entries that the actor sees below which it is so in the numbers of the view, by path."""
    tops = view.snapshot.fallen_tops if view.snapshot is not None else ()
    return sorted((one for one in (_told(view, top) for top in tops) if one.path), key=lambda one: one.path)


def local_only_among(view: PolicyView, uids: Iterable[UUID]) -> list[LocalOnly]:
    """What decides by whose usage these entries are compared, and those right below them; each once, by path."""
    snapshot = view.snapshot
    if snapshot is None or not snapshot.fallen:
        return []
    found: dict[UUID, FallenBack] = {}
    for uid in uids:
        i = snapshot.tree.index_of_uid(uid)
        for place in () if i is None else (i, int(snapshot.tree.parent[i])):
            if place in snapshot.fallen:
                found[snapshot.fallen[place].uid] = snapshot.fallen[place]
    return sorted((_told(view, each) for each in found.values()), key=lambda one: (one.path, one.since))


def _told(view: PolicyView, fallen: FallenBack) -> LocalOnly:
    i = view.tree.index_of_uid(fallen.uid)
    was_then = view.asked is not None
    if i is None or not view.visibility.may_see(i):
        return LocalOnly(fallen.uid, "", fallen.since, "", was_then)
    return LocalOnly(fallen.uid, view.tree.path(i), fallen.since, fallen.reason, was_then)
