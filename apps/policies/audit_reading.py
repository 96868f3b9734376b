"""Read the audit log with the rights of the reader: their own actions, and events about entries within their grants.

A policy's past is limited to entries that are within the reader's current grants and were there at all times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from uuid import UUID

import numpy as np
from django.db.models import Count, Q, QuerySet

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent
from apps.accounts.selectors import usernames_like
from apps.core.errors import NotAllowed, NotFound
from apps.policies.access.scope import Rights, administers_within_bounds
from apps.policies.changesets.change_sets import named_uids
from apps.policies.models import ChangeSet, Entry, Grant, Policy
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.stored import load_tree


@dataclass(frozen=True)
class Part:
    """A set of entries of one tree, closed under descendants."""

    tree: TreeColumns
    mask: Mask

    @classmethod
    def below(cls, tree: TreeColumns, tops: Iterable[UUID]) -> Part:
        mask: Mask = np.zeros(len(tree), dtype=np.bool_)
        for i in map(tree.index_of_uid, tops):
            if i is not None:
                mask |= tree.subtree_mask(i)
        return cls(tree, mask)

    def has(self, uid: UUID) -> bool:
        i = self.tree.index_of_uid(uid)
        return i is not None and bool(self.mask[i])


class Reach:
    """Entries of one policy whose audit events a reader may see: those within current grants.

    Events name users, so a grant to see totals alone doesn't count. A moved entry counts if all its former parents are
    within reach, an archived one if its last parent is.
    """

    def __init__(self, policy: Policy, actor: Actor, at: datetime) -> None:
        self._policy, tree = policy, load_tree(policy)
        rights = Rights(policy, actor, at)
        by_name = rights.at(*(verb for verb in Grant.Verb if verb != Grant.Verb.VIEW_AGGREGATE))
        tops = {tree.uuid(0)} if administers_within_bounds(actor, "policies:read") else by_name
        part = Part.below(tree, tops)
        bound = actor.top_uid
        if bound is not None:
            tops = {uid for uid in {*tops, bound} if part.has(uid)}
            within = Part.below(tree, {bound})
            tops = {uid for uid in tops if within.has(uid)}
            part = Part.below(tree, tops)
        self._part, self._tops = part, tops
        self._parents: dict[UUID, set[UUID | None]] = {}
        self._known: dict[UUID, bool] = {}

    @property
    def is_anything(self) -> bool:
        return bool(self._part.mask.any())

    @property
    def is_whole(self) -> bool:
        return bool(self._part.mask[0])

    def name_of(self, uid: UUID) -> str:
        """Return the entry's current name, or "" if it is archived or out of reach."""
        i = self._part.tree.index_of_uid(uid) if self._part.has(uid) else None
        return "" if i is None else self._part.tree.name[i]

    def uid_at(self, path: str) -> UUID | None:
        """Return the uid of the entry that has this path now, or None if there is none within reach."""
        i = self._part.tree.index_of_path(path)
        return None if i is None or not self._part.mask[i] else self._part.tree.uuid(i)

    def load_parents(self, uids: Iterable[UUID]) -> None:
        """Load all parents that these entries and their ancestors ever had, with one query per level."""
        unknown = set() if self.is_whole else {uid for uid in uids if self._is_open(uid)}
        while unknown:
            rows = Entry.objects.filter(policy=self._policy, uid__in=unknown).values_list("uid", "parent_uid")
            self._parents |= {uid: set() for uid in unknown}
            for uid, parent in rows.distinct():
                self._parents[uid].add(parent)
            above = {parent for uid in unknown for parent in self._parents[uid] if parent is not None}
            unknown = {uid for uid in above if self._is_open(uid)}

    def covers(self, uids: Iterable[UUID]) -> bool:
        wanted = set(uids)
        self.load_parents(wanted)
        return self.is_whole or all(self._covers(uid) for uid in wanted)

    def _is_open(self, uid: UUID) -> bool:
        """Return whether the entry's former parents are needed and not loaded; existing entries out of reach need no
        query."""
        if uid in self._parents or uid in self._tops:
            return False
        return self._part.has(uid) or self._part.tree.index_of_uid(uid) is None

    def _covers(self, uid: UUID) -> bool:
        if uid not in self._known:
            # Guards against cycles: over time, two entries may each have been the parent of the other.
            self._known[uid] = False
            self._known[uid] = self._part.has(uid) if uid in self._tops else self._was_always_within(uid)
        return self._known[uid]

    def _was_always_within(self, uid: UUID) -> bool:
        parents = self._parents.get(uid, set())
        return bool(parents) and all(parent is not None and self._covers(parent) for parent in parents)


_CHUNK = 200
# Rows checked for one page; after that, the page is returned even if it isn't full.
_MOST_ROWS_CHECKED = 2_000
_CHANGE_SET = re.compile(r"change set (\d{1,18})")
_OF_CHANGE_SETS = ("changeset.", "policy.published")
_READS_POLICIES = ("policies:read", "policies:write")


@dataclass(frozen=True)
class AuditFilter:
    """Search conditions. verb: a complete verb or its first word (`policy`). entries: the event names one of them or a
    descendant."""

    who: str = ""
    verb: str = ""
    policy_slug: str = ""
    entries: frozenset[UUID] = frozenset()
    via: str = ""
    outcome: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class AuditPage:
    """Events, newest first. `next_before` is the cursor of the next page, set even if no events were found so far."""

    events: list[AuditEvent]
    next_before: int | None


@dataclass(frozen=True)
class AuditCount:
    """Number of matching events. is_all: all rows were checked."""

    n: int
    n_refused: int
    is_all: bool


class AuditReader:
    """One user's view of the audit log at one instant. Unreadable events are neither listed nor counted."""

    def __init__(self, actor: Actor, at: datetime) -> None:
        self._actor, self._at = actor, at
        if not any(actor.has_scope(scope) for scope in ("self:read", *_READS_POLICIES)):
            raise NotAllowed("This token lacks the scope policies:read: make one that has it.", code="scope_missing")
        self._reaches: dict[str, Reach | None] = {}
        self._parts: dict[str, Part | None] = {}

    @cached_property
    def reads_all(self) -> bool:
        return self._actor.is_admin

    def page(self, wanted: AuditFilter, *, before: int | None = None, limit: int = 50) -> AuditPage:
        rows: list[AuditEvent] = []
        place = before
        for after, events in self._visible(wanted, before, _MOST_ROWS_CHECKED):
            rows, place = [*rows, *events], after
            if len(rows) > limit:
                return AuditPage(rows[:limit], rows[limit - 1].id)
        return AuditPage(rows, place)

    def every(self, wanted: AuditFilter) -> Iterator[AuditEvent]:
        """Yield all matching events, for exports; the log is read in chunks."""
        for _, events in self._visible(wanted, None, None):
            yield from events

    def count(self, wanted: AuditFilter, *, most: int = 2_000) -> AuditCount:
        """Count matching events and those refused among them; if there are very many, only of the newest rows."""
        if self.reads_all and not wanted.entries:
            refused = Count("pk", filter=Q(outcome=AuditEvent.Outcome.REFUSED))
            counts = self._asked(wanted).order_by().aggregate(n=Count("pk"), refused=refused)
            return AuditCount(counts["n"], counts["refused"], is_all=True)
        page = self.page(wanted, limit=most)
        n_refused = sum(event.outcome == AuditEvent.Outcome.REFUSED for event in page.events)
        return AuditCount(len(page.events), n_refused, is_all=page.next_before is None)

    def entries_at(self, path: str, policy_slug: str = "") -> frozenset[UUID]:
        """Return the entries that have this path now, in one policy or all policies, within the reader's reach."""
        slugs = [policy_slug] if policy_slug else list(Policy.all_objects.values_list("slug", flat=True))
        reaches = [reach for slug in slugs if (reach := self._reach(slug)) is not None]
        return frozenset(uid for reach in reaches if (uid := reach.uid_at(path)) is not None)

    def event(self, id: int) -> AuditEvent:
        event = AuditEvent.objects.filter(pk=id).first() if 0 < id < 2**63 else None
        if event is None or not self._readable([event]):
            raise NotFound("There is no such row in the log.")
        return event

    def entry_name(self, event: AuditEvent) -> str:
        """Return the current name of the entry that the event is about, or "" if there is none within reach."""
        reach = self._reach(event.policy_slug) if event.policy_slug and event.entry_uid else None
        return "" if reach is None or event.entry_uid is None else reach.name_of(event.entry_uid)

    def is_own(self, event: AuditEvent) -> bool:
        return self._actor.user is not None and event.actor_id == self._actor.user.pk

    def _visible(
        self, wanted: AuditFilter, before: int | None, most: int | None
    ) -> Iterator[tuple[int | None, list[AuditEvent]]]:
        """Yield readable events in chunks, each with the cursor of the next chunk; None at the end."""
        events, n_seen = self._asked(wanted), 0
        while True:
            some = list((events if before is None else events.filter(id__lt=before))[:_CHUNK])
            n_seen += len(some)
            is_last = len(some) < _CHUNK
            before = some[-1].id if some else None
            readable = self._readable(some)
            yield None if is_last else before, self._below(readable, wanted)
            if is_last or (most is not None and n_seen >= most):
                return

    def _asked(self, wanted: AuditFilter) -> QuerySet[AuditEvent]:
        events = AuditEvent.objects.order_by("-id")
        if not self.reads_all:
            own_events = Q(actor_id=self._actor.user.pk) if self._actor.user else Q(pk=None)
            events = events.filter(own_events | Q(policy_slug__in=self._policies))
        narrowed = {
            "policy_slug": wanted.policy_slug,
            "via": wanted.via,
            "outcome": wanted.outcome,
            "at__gte": wanted.since,
            "at__lt": wanted.until,
        }
        events = events.filter(**{name: value for name, value in narrowed.items() if value})
        if wanted.who:
            events = events.filter(_is_by(wanted.who))
        if wanted.verb:
            events = events.filter(Q(verb=wanted.verb) | Q(verb__startswith=f"{wanted.verb}."))
        if wanted.text:
            mentions = Q(subject__icontains=wanted.text) | Q(reason__icontains=wanted.text)
            events = events.filter(mentions | _is_by(wanted.text))
        return events

    @cached_property
    def _policies(self) -> list[str]:
        """Slugs of the policies in which the reader has any reach."""
        return [slug for slug in Policy.all_objects.values_list("slug", flat=True) if self._reach(slug) is not None]

    def _reach(self, slug: str) -> Reach | None:
        if slug not in self._reaches:
            self._reaches[slug] = self._reach_into(slug)
        return self._reaches[slug]

    def _reach_into(self, slug: str) -> Reach | None:
        actor = self._actor
        if not actor.reaches_policy(slug) or not any(actor.has_scope(scope) for scope in _READS_POLICIES):
            return None
        policy = Policy.all_objects.filter(slug=slug).first()
        reach = None if policy is None else Reach(policy, actor, self._at)
        return reach if reach is not None and reach.is_anything else None

    def _readable(self, events: Sequence[AuditEvent]) -> list[AuditEvent]:
        if self.reads_all:
            return list(events)
        change_sets = _change_sets_of(events)
        named = {event.id: named_entries(event, change_sets) for event in events}
        self._load_parents(events, named)
        return [event for event in events if self._may_read(event, named[event.id], change_sets)]

    def _load_parents(self, events: Iterable[AuditEvent], named: dict[int, set[UUID] | None]) -> None:
        """Load the former parents of all these entries together, to avoid about a thousand queries per page."""
        wanted: dict[str, set[UUID]] = {}
        for event in events:
            wanted.setdefault(event.policy_slug, set()).update(named[event.id] or ())
        for slug, uids in wanted.items():
            reach = self._reach(slug) if slug else None
            if reach is not None:
                reach.load_parents(uids)

    def _may_read(self, event: AuditEvent, named: set[UUID] | None, change_sets: dict[int, ChangeSet]) -> bool:
        if self.is_own(event) and self._actor.has_scope("self:read") and self._is_within_bounds(event):
            return True
        reach = self._reach(event.policy_slug) if event.policy_slug else None
        if reach is None:
            return False
        change_set = change_sets.get(_change_set_of(event) or 0)
        is_others_draft = change_set is not None and change_set.state == ChangeSet.State.DRAFT
        # An event about all policies, or a draft, which may name unpublished entries.
        if named is None or is_others_draft:
            return reach.is_whole
        return reach.covers(named)

    def _is_within_bounds(self, event: AuditEvent) -> bool:
        """Whether a bound token includes the policy of the event; one of a subtree reads by `Reach` alone."""
        is_of_policy = bool(event.policy_slug) and self._actor.reaches_policy(event.policy_slug)
        return not self._actor.is_bound or (is_of_policy and self._actor.top_uid is None)

    def _below(self, events: Iterable[AuditEvent], wanted: AuditFilter) -> list[AuditEvent]:
        listed = list(events)
        if not wanted.entries:
            return listed
        change_sets = _change_sets_of(listed)
        return [each for each in listed if self._is_below(each, wanted.entries, named_entries(each, change_sets))]

    def _is_below(self, event: AuditEvent, tops: frozenset[UUID], named: set[UUID] | None) -> bool:
        if not named or not event.policy_slug:
            return False
        below = self._part(event.policy_slug, tops)
        return bool(named & tops) or (below is not None and any(below.has(uid) for uid in named))

    def _part(self, slug: str, tops: frozenset[UUID]) -> Part | None:
        if slug not in self._parts:
            policy = Policy.all_objects.filter(slug=slug).first()
            self._parts[slug] = None if policy is None else Part.below(load_tree(policy), tops)
        return self._parts[slug]


def named_entries(event: AuditEvent, change_sets: dict[int, ChangeSet]) -> set[UUID] | None:
    """Return the uids of the entries that an event is about; None if it is about the whole policy."""
    named = {event.entry_uid} if event.entry_uid else set()
    change_set = change_sets.get(_change_set_of(event) or 0)
    if change_set is None and _is_of_change_sets(event) and not named:
        return None
    by_operations = named_uids(change_set.operations) if change_set else set()
    return None if by_operations is None else (named | by_operations) or None


def _is_of_change_sets(event: AuditEvent) -> bool:
    return event.verb.startswith(_OF_CHANGE_SETS)


def _change_set_of(event: AuditEvent) -> int | None:
    stated = event.details.get("change_set") if isinstance(event.details, dict) else None
    if isinstance(stated, int):
        return stated
    match = _CHANGE_SET.fullmatch(event.subject)
    return int(match[1]) if match else None


def _change_sets_of(events: Iterable[AuditEvent]) -> dict[int, ChangeSet]:
    ids = {
        change_set_id
        for event in events
        if _is_of_change_sets(event) and (change_set_id := _change_set_of(event)) is not None
    }
    return ChangeSet.objects.in_bulk(ids) if ids else {}


def _is_by(name: str) -> Q:
    """Filter events by the actor's user name or display name."""
    return Q(actor_name__icontains=name) | Q(actor_name__in=usernames_like(name))
