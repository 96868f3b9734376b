"""Who sees and divides which entries, by docs/privacy.md, docs/review.md ("Who may do what") and docs/rest.md.

Read literally: each entry is asked alone, each grant is asked alone, nothing is indexed or remembered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

# Scopes with which a token reads trees; `admin` has all rights of its owner.
READING = frozenset({"priorities:read", "policies:read", "policies:write", "admin"})
WRITING = frozenset({"policies:write", "admin"})
EVERYBODY = "*"


@dataclass(eq=False)
class Entry:
    name: str
    uid: UUID
    kind: str
    above: Entry | None
    inherits: bool = False
    has_place: bool = False  # for children
    is_locked: bool = False
    below: list[Entry] = field(default_factory=list)

    @property
    def lineage(self) -> list[Entry]:
        """From the root down to itself."""
        return [self] if self.above is None else [*self.above.lineage, self]

    @property
    def path(self) -> str:
        return "/" + "/".join(entry.name for entry in self.lineage[1:])

    @property
    def is_member(self) -> bool:
        """A leaf may be one person, whatever its kind says; share that is left over is none."""
        return not self.has_place and self.kind != "reserve"

    def entries(self) -> list[Entry]:
        return [self, *(each for child in self.below for each in child.entries())]


def tree_of(document: Mapping[str, Any], above: Entry | None = None) -> Entry:
    kind = document.get("kind", "group")
    entry = Entry(
        document["name"],
        UUID(document["uid"]),
        kind,
        above,
        inherits=document.get("shares") == "parent",
        has_place="children" in document,
    )
    entry.below = [tree_of(child, entry) for child in document.get("children") or ()]
    return entry


@dataclass(frozen=True)
class Grant:
    """policy: its slug. person: a user's name, or "" for people: a sign-in group, or EVERYBODY."""

    policy: str
    uid: UUID
    verbs: frozenset[str]
    person: str
    people: str
    expires_at: datetime | None


@dataclass(frozen=True)
class Reader:
    """scopes: None for a person who signed in without a token. top: the subtree that a token is bound to."""

    name: str
    groups: frozenset[str]
    is_admin: bool
    scopes: frozenset[str] | None
    top: UUID | None

    @property
    def reads(self) -> bool:
        return self.scopes is None or bool(self.scopes & READING)

    @property
    def writes(self) -> bool:
        return self.scopes is None or bool(self.scopes & WRITING)

    def holds(self, grant: Grant, policy: str, at: datetime) -> bool:
        is_theirs = grant.person == self.name if grant.person else grant.people in {*self.groups, EVERYBODY}
        return is_theirs and grant.policy == policy and (grant.expires_at is None or at < grant.expires_at)


class Sight:
    """What one reader may see and do in one policy at one instant, of these grants."""

    def __init__(
        self,
        policy: str,
        root: Entry,
        reader: Reader,
        grants: Sequence[Grant],
        at: datetime,
        *,
        is_open: bool,
        own: Collection[UUID] = (),
    ) -> None:
        self._root, self._reader, self._is_open, self._own = root, reader, is_open, own
        self._grants = [grant for grant in grants if reader.holds(grant, policy, at)]

    def sees(self, entry: Entry) -> bool:
        """The own path; what is above a grant; from there on groups, and people by any right but that to sums."""
        by_grant = any(
            self._is_above(entry, grant) or (self._is_below(entry, grant) and (_names(grant) or not entry.is_member))
            for grant in self._grants
        )
        return self._within(entry) and (self._sees_all or self._is_own(entry) or (self._reader.reads and by_grant))

    def numbers(self, entry: Entry) -> bool:
        """Always, beside any others in the sum: for the own path, and by the right to see members by name."""
        by_grant = any(
            "view_members" in grant.verbs and (self._is_above(entry, grant) or self._is_below(entry, grant))
            for grant in self._grants
        )
        return self._within(entry) and (self._sees_all or self._is_own(entry) or (self._reader.reads and by_grant))

    def names_below(self, entry: Entry) -> bool:
        by_grant = any(_names(grant) and self._is_below(entry, grant) for grant in self._grants)
        return self._within(entry) and (self._sees_all or (self._reader.reads and by_grant))

    def names_accounts(self, entry: Entry) -> bool:
        by_grant = any(
            grant.verbs & {"view_members", "map_accounts"} and self._is_below(entry, grant) for grant in self._grants
        )
        return self._within(entry) and (self._sees_all or (self._reader.reads and by_grant))

    def divides(self, entry: Entry) -> bool:
        """The share that its children compete for: that of the next entry above which doesn't inherit, or its own."""
        competed = entry
        while competed.inherits and competed.above is not None:
            competed = competed.above
        by_grant = any(
            grant.verbs & {"edit_shares", "edit_structure"} and self._is_below(competed, grant)
            for grant in self._grants
        )
        return self._within(entry) and self._reader.writes and (self._reader.is_admin or by_grant)

    def changes(self, entry: Entry) -> bool:
        """A right at an entry never changes the entry's own share; a lock of another person holds for all but
        administrators."""
        if entry.above is None or not self.divides(entry.above):
            return False
        return self._reader.is_admin or not entry.is_locked

    def own_levels(self) -> list[str]:
        """The top for administrators; else entries whose children are divided, or else those of other roles."""
        if self._reader.is_admin and self._reader.writes:
            return [each.path for each in self._root.entries() if each.uid == (self._reader.top or self._root.uid)]
        roles = [grant for grant in self._grants if grant.people != EVERYBODY]
        at = {grant.uid for grant in roles if "edit_shares" in grant.verbs} or {grant.uid for grant in roles}
        return sorted(each.path for each in self._root.entries() if each.uid in at and self._within(each))

    def holds_until(self, verb: str, entry: Entry) -> datetime | str | None:
        """ "always" for grants without an end, None without a grant."""
        if not self._within(entry):
            return None
        if self._reader.is_admin and self._reader.writes:
            return "always"
        ends = [grant.expires_at for grant in self._grants if verb in grant.verbs and self._is_below(entry, grant)]
        if not ends:
            return None
        return "always" if None in ends else max(end for end in ends if end is not None)

    @property
    def _sees_all(self) -> bool:
        return self._reader.reads and (self._reader.is_admin or self._is_open)

    def _within(self, entry: Entry) -> bool:
        """The bounds of a token."""
        return self._reader.top is None or self._reader.top in {each.uid for each in entry.lineage}

    def _is_own(self, entry: Entry) -> bool:
        return any(each.uid in self._own for each in entry.entries())

    def _is_above(self, entry: Entry, grant: Grant) -> bool:
        return any(each.uid == grant.uid for each in entry.entries()[1:])

    def _is_below(self, entry: Entry, grant: Grant) -> bool:
        return grant.uid in {each.uid for each in entry.lineage}


def _names(grant: Grant) -> bool:
    return bool(grant.verbs - {"view_aggregate"})
