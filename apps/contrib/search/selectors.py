"""Searches everything that an actor may see by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from django.db.models import Q

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.search.entries import EntryHit, EntryKind, find_entries
from apps.contrib.search.jobs import JobHit, find_jobs
from apps.contrib.search.name_index import Match, fold, match_of
from apps.core import clock
from apps.policies.access.scope import require_scope
from apps.policies.changesets.change_sets import ChangeSetAccess
from apps.policies.models import ChangeSet, Policy
from apps.policies.selectors import READ, list_policies
from apps.priorities.selectors.rows import open_view
from apps.priorities.sentences import Message
from apps.usage.selectors import list_source_names
from apps.web.changes.change_titles import titles_of
from apps.web.texts.rank_use import rank_use_of

MOST_OF_SEARCH_GROUP = 5
MOST_LISTED_MATCHES = 100  # of one group, if only that is requested
LONGEST_SEARCH = 200  # characters of a query
_NEWEST = 200  # change sets searched
_ENTRY_KINDS: tuple[EntryKind, ...] = ("entry", "person", "account")

GroupKind = Literal["entries", "people", "jobs", "changes", "sources"]


@dataclass(frozen=True, slots=True)
class ChangeSetHit:
    """title, reason, state, author: as in the list of changes."""

    id: int
    title: str
    reason: str
    state: str
    author: str
    match: Match


@dataclass(frozen=True, slots=True)
class SourceHit:
    slug: str
    title: str
    match: Match


@dataclass(frozen=True, slots=True)
class UserHit:
    """A user who can sign in; found by administrators only."""

    username: str
    title: str
    match: Match


Hit = EntryHit | JobHit | ChangeSetHit | SourceHit | UserHit


@dataclass(frozen=True, slots=True)
class Group:
    """The best hits of one kind. n: number of all, None if there are too many to count."""

    kind: GroupKind
    hits: Sequence[Hit]
    n: int | None

    @property
    def rank_use(self) -> Sequence[Message]:
        """Where a scheduler of their policies doesn't use the ranks of these hits; empty without ranks."""
        slugs = {hit.policy_slug for hit in self.hits if isinstance(hit, EntryHit) and hit.rank is not None}
        return [message for slug in sorted(slugs) for message in rank_use_of(slug)]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """groups: the one with the best hit first."""

    query: str
    groups: Sequence[Group] = ()


def search_everything(
    *, query: str, actor: Actor, policy_slug: str = "", only: GroupKind | None = None, most: int = MOST_OF_SEARCH_GROUP
) -> SearchResult:
    """Search all policies that the actor sees, the named one first. only: one group, up to `most` of it."""
    require_scope(actor, READ)
    text = query[:LONGEST_SEARCH].replace("\0", "").strip()
    wanted = fold(text)
    if not wanted:
        return SearchResult(text)
    policies = sorted(list_policies(actor=actor), key=lambda policy: policy.slug != policy_slug)
    groups = [
        *(_entry_groups(policies, wanted, actor, only, most)),
        *([Group("jobs", *find_jobs(policies, text, actor, most))] if only in (None, "jobs") else []),
        *([_find_change_sets(policies, wanted, actor, most)] if only in (None, "changes") else []),
        *([_find_sources(wanted, actor, most)] if only in (None, "sources") else []),
    ]
    return SearchResult(text, sorted((group for group in groups if group.hits), key=lambda group: group.hits[0].match))


def _entry_groups(
    policies: Sequence[Policy], query: str, actor: Actor, only: GroupKind | None, most: int
) -> Iterable[Group]:
    hits_by_kind: dict[EntryKind, list[Hit]] = {kind: [] for kind in _ENTRY_KINDS}
    counts: dict[EntryKind, list[int | None]] = {kind: [] for kind in _ENTRY_KINDS}
    kinds = [kind for kind in _ENTRY_KINDS if only in (None, "entries" if kind == "entry" else "people")]
    for policy in policies if kinds else ():
        view = open_view(policy_slug=policy.slug, actor=actor)
        for kind in kinds:
            hits = find_entries(view, query, kind, most=most)
            hits_by_kind[kind] += hits.hits
            counts[kind].append(hits.n)
    users = _find_users(query, actor, most) if "person" in kinds else []
    yield Group("entries", _best(hits_by_kind["entry"], most), _sum(counts["entry"]))
    people = [*hits_by_kind["person"], *hits_by_kind["account"], *users]
    yield Group("people", _best(people, most), _sum([*counts["person"], *counts["account"], len(users)]))


def _find_users(query: str, actor: Actor, most: int) -> list[UserHit]:
    """Find users by user name and full name, for administrators; others find people in the tree."""
    if not actor.is_admin:
        return []
    matches = Q(username__icontains=query) | Q(first_name__icontains=query) | Q(last_name__icontains=query)
    users = User.objects.filter(matches, is_active=True).order_by("username")[: 10 * most]
    hits = []
    for user in users:
        match = _best_match(query, user.username, str(user))
        hits.append(UserHit(user.username, str(user), Match.NOTE if match is None else match))
    return sorted(hits, key=_order)[:most]


def _find_change_sets(policies: Sequence[Policy], query: str, actor: Actor, most: int) -> Group:
    """Search the newest change sets of each policy. Visibility is checked first, so that hidden ones take no time."""
    matches = []
    for policy in policies:
        newest = ChangeSet.objects.filter(policy=policy).order_by("-pk").defer("asked", "undone")
        if actor.is_admin:
            newest = newest.defer("operations")
        access = ChangeSetAccess(policy, actor, clock.now())
        for change_set in [change_set for change_set in newest[:_NEWEST] if access.may_see(change_set)]:
            match = match_of(fold(change_set.reason.strip().partition("\n")[0]), query)
            if match is None and query in fold(change_set.author_name):
                match = Match.NOTE
            if match is not None:
                matches.append((match, -change_set.pk))
    matches.sort()
    return Group("changes", _change_set_hits(matches[:most], actor), len(matches))


def _change_set_hits(matches: Sequence[tuple[Match, int]], actor: Actor) -> list[ChangeSetHit]:
    """matches: each with the negative of a primary key, in the order of hits."""
    match_by_pk = {-negative: match for match, negative in matches}
    change_sets = ChangeSet.objects.select_related("policy").in_bulk(match_by_pk)
    titles = titles_of(list(change_sets.values()), actor=actor, at=clock.now())
    return [
        ChangeSetHit(pk, titles[pk].text, titles[pk].reason, change_sets[pk].state, change_sets[pk].author_name, match)
        for pk, match in match_by_pk.items()
        if pk in change_sets
    ]


def _find_sources(query: str, actor: Actor, most: int) -> Group:
    hits = [
        SourceHit(slug, name, match)
        for slug, name in list_source_names(actor=actor)
        if (match := _best_match(query, name, slug)) is not None
    ]
    return Group("sources", _best(hits, most), len(hits))


def _best_match(query: str, *texts: str) -> Match | None:
    """Return the best match among several texts."""
    matches = (match_of(fold(text), query) for text in texts)
    return min((match for match in matches if match is not None), default=None)


def _order(hit: Hit) -> tuple[int, int]:
    return hit.match, len(hit.title)


def _best(hits: Iterable[Hit], most: int) -> list[Hit]:
    return sorted(hits, key=_order)[:most]


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(n for n in known if n is not None)
