"""Read policies, revisions, change sets and the history of entries; what the actor may not see raises NotFound."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
from django.db.models import Min, Q, QuerySet

from apps.accounts.actor import Actor
from apps.accounts.request_cache import once_per_request, store_for_request
from apps.accounts.selectors import usernames_like
from apps.core.errors import NotFound
from apps.core.typed_numbers import read_whole
from apps.policies.access.scope import (
    Visibility,
    load_policies,
    policy_not_found,
    refuse_archived,
    require_policy,
    require_scope,
)
from apps.policies.changesets.change_sets import ChangeSetAccess, missing_change_set, require_visible
from apps.policies.models import ChangeSet, Entry, Policy, Revision
from apps.policies.revision_reading import hide_outside
from apps.policies.tree.columns import FIELDS, Mask
from apps.policies.tree.document_merge import indexes_of
from apps.policies.tree.revision_diff import FieldChange
from apps.policies.tree.stored import node_of

READ = "policies:read"
_MOST_SEARCHED = 2_000


def read_moment(text: str | None) -> int | datetime | None:
    """Parse a revision number (up to nine digits) or an instant; None if empty, which means now."""
    if text is None or text == "":
        return None
    revision = read_whole(text, 9)
    return read_instant(text) if revision is None else revision


def read_instant(text: str) -> datetime:
    """Parse an instant to aware UTC; raise ValueError with the reason, also for a time without zone."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("is not a time; write 2026-01-31T12:00:00Z") from None
    if instant.tzinfo is None:
        raise ValueError("has no zone; write 2026-01-31T12:00:00Z")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError("is out of range") from None


def past_visibility_mask(then: Visibility, now: Visibility) -> Mask:
    """Mask of a past tree: entries visible then, and still visible now if they exist, with the path to them."""
    mask = then.mask.copy()
    if then.all_visible or then.tree is now.tree:
        return mask
    there = indexes_of(then.tree.uid, now.tree)
    mask &= (there < 0) | now.mask[np.maximum(there, 0)]
    for level in then.tree.subtree(0)[:0:-1]:
        here = slice(level.start, level.stop)
        mask[then.tree.parent[here][mask[here]]] = True
    return mask


@dataclass(frozen=True, slots=True)
class EntryChange:
    """Changes of one entry by one revision."""

    revision: int
    at: datetime
    author: str
    reason: str
    fields: list[FieldChange]
    change_set: int = 0
    origin: str = ChangeSet.Origin.HAND


def list_policies(*, actor: Actor) -> list[Policy]:
    """List policies by name, within the bounds of a token."""
    if actor.user is not None and not actor.user.is_active:
        return []
    current = load_policies(actor.user)
    for policy in current:
        store_for_request(("policy", policy.slug), policy)  # for find_policy
    return [policy for policy in current if actor.reaches_policy(policy.slug)]


def find_policy(slug: str) -> Policy | None:
    """Return a policy, archived or not, without checking access; cached for the request."""
    named = Policy.all_objects.filter(slug=slug)
    return once_per_request(("policy", slug), named.first) if "\0" not in slug else None


def get_policy(*, slug: str, actor: Actor, scope: str = READ, is_past: bool = False) -> Policy:
    """Return a policy that the actor may know of. scope: required of a token. is_past: archived policies are allowed.

    Access to its entries is checked separately, in access/scope.py.

    Raises:
        NotFound: the policy doesn't exist, or the actor may not know of it.
        Archived: the policy is archived, and is_past isn't set.
    """
    require_policy(actor, slug)
    policy = find_policy(slug)
    if policy is None:
        raise policy_not_found(slug)
    if not is_past:
        refuse_archived(policy)
    if scope == READ and actor.has_scope("policies:write"):
        return policy
    require_scope(actor, scope)
    return policy


def get_revision(*, policy: Policy, at: int | datetime | None = None) -> Revision:
    """Return the head, a revision by number, or the one current at an instant; without the tree's bytes."""
    revisions = Revision.objects.filter(policy=policy).defer("tree").order_by("-number")
    if isinstance(at, datetime):
        revision = revisions.filter(published_at__lte=at).first()
    elif at is None:
        number = policy.head_number
        revision = once_per_request(("revision", policy.pk, number), revisions.filter(number=number).first)
        if revision is not None:
            store_for_request(("tree", policy.pk, number), revision.tree_digest)  # for load_tree
    else:
        revision = revisions.filter(number=at).first() if 0 < at < 2**31 else None
    if revision is None:
        raise NotFound(f"Policy {policy.slug} has no revision {'now' if at is None else at}.")
    return revision


def list_revisions(
    *,
    policy: Policy,
    sees: Visibility,
    before: int | None = None,
    query: str = "",
    at: UUID | None = None,
    limit: int,
) -> list[Revision]:
    """List revisions, newest first, without trees and settings. before: cursor. query: part of the reason or author.
    at: an entry; only revisions that changed it or one of its children.

    sees: what the reader sees of the present tree; what only others see is cleared, and not found by a query.
    """
    revisions = Revision.objects.filter(policy=policy).defer("tree", "settings").order_by("-number")
    if query:
        by_name = Q(author_name__icontains=query) | Q(author_name__in=usernames_like(query))
        revisions = revisions.filter(Q(reason__icontains=query) | by_name)
    revisions = revisions if before is None else revisions.filter(number__lt=before)
    if at is not None:
        revisions = revisions.filter(number__in=_numbers_at(policy, at))
    rows = hide_outside(revisions.select_related("change_set")[: _MOST_SEARCHED if query else limit], sees)
    return [revision for revision in rows if not (query and revision.is_outside_view)][:limit]


def _numbers_at(policy: Policy, uid: UUID) -> set[int]:
    versions = Entry.objects.filter(Q(uid=uid) | Q(parent_uid=uid), policy=policy).values_list("since", "until")
    return {number for span in versions.iterator() for number in span if number is not None}


def entry_history(*, policy: Policy, uid: UUID, limit: int = 20, until: int | None = None) -> list[EntryChange]:
    """List an entry's changes up to a revision, newest first. The caller checks that the entry may be seen."""
    last = policy.head_number if until is None else until
    versions = list(Entry.objects.filter(policy=policy, uid=uid, since__lte=last).order_by("-since")[: limit + 1])
    events = sorted(_events(versions, limit), key=lambda event: -event[0])
    events = [event for event in events if event[0] <= last][:limit]
    revisions = Revision.objects.filter(policy=policy, number__in=[number for number, _ in events])
    by_number = {each.number: each for each in revisions.select_related("change_set").defer("tree", "settings")}
    return [_entry_change(by_number[number], fields) for number, fields in events]


def _entry_change(revision: Revision, fields: list[FieldChange]) -> EntryChange:
    return EntryChange(
        revision=revision.number,
        at=revision.published_at,
        author=revision.author_name,
        reason=revision.reason,
        fields=fields,
        change_set=revision.change_set_id,
        origin=revision.change_set.origin,
    )


def _events(versions: Sequence[Entry], limit: int) -> Iterator[tuple[int, list[FieldChange]]]:
    """Yield (revision, changes) from versions, newest first; a gap between versions is an archiving and a restore."""
    for after, before in zip(versions, [*versions[1:], None], strict=True):
        if after is versions[0] and after.until is not None:
            yield after.until, [FieldChange("archived", False, True)]
        if before is None:
            if len(versions) <= limit:
                yield after.since, [FieldChange("archived", None, False)]
        elif before.until != after.since:
            yield after.since, [FieldChange("archived", True, False)]
            yield before.until or after.since, [FieldChange("archived", False, True)]
        else:
            yield after.since, list(_differences(before, after))


def _differences(before: Entry, after: Entry) -> Iterator[FieldChange]:
    old, new = node_of(before), node_of(after)
    for field in FIELDS:
        if field == "is_group":
            continue  # follows from children, which have a history of their own
        was, is_now = old.field_json(field), new.field_json(field)
        if was != is_now:
            yield FieldChange(field, was, is_now)


def last_change(*, policy: Policy, uid: UUID) -> int:
    """Return the revision that last changed an entry, which is the base of an edit of it."""
    row = Entry.objects.filter(policy=policy, uid=uid).order_by("-since").values_list("since", "until").first()
    if row is None:
        raise NotFound("There is no such entry in this policy.")
    return max(row[0], row[1] or 0)


def first_published_at(*, policy: Policy, uids: Collection[UUID]) -> dict[UUID, datetime]:
    """Return when each entry was first published, except for entries of the initial tree."""
    entries = Entry.objects.filter(policy=policy)
    began = entries.exclude(parent_uid=None).aggregate(number=Min("since"))["number"] or 1
    firsts = entries.filter(uid__in=uids).values_list("uid").annotate(first=Min("since"))
    numbers = {uid: first for uid, first in firsts if first > began}
    revisions = Revision.objects.filter(policy=policy, number__in=set(numbers.values()))
    published = dict(revisions.values_list("number", "published_at"))
    return {uid: published[number] for uid, number in numbers.items()}


def last_revision_with(*, policy_slug: str, uid: UUID) -> int | None:
    """Return the last revision that contains an archived entry; the caller checks that it may be seen."""
    versions = Entry.objects.filter(policy__slug=policy_slug, uid=uid).order_by("-since")
    until = versions.values_list("until", flat=True).first()
    return None if until is None else until - 1


def get_change_set(*, id: int, actor: Actor, at: datetime) -> ChangeSet:
    """Return a change set; visible to its author, administrators, and managers who see all that it names."""
    change_set = _with_revisions().filter(pk=id).first() if 0 < id < 2**63 else None
    if change_set is None:
        raise missing_change_set(id)
    require_visible(change_set, actor, at)
    if not actor.has_scope("policies:write"):
        require_scope(actor, READ)
    return change_set


def _with_revisions() -> QuerySet[ChangeSet]:
    """Query change sets with their policy, author and revision, without the revision's tree and settings."""
    change_sets = ChangeSet.objects.select_related("policy", "author", "revision")
    return change_sets.defer("revision__tree", "revision__settings")


def list_change_sets(*, policy: Policy, actor: Actor, at: datetime, states: Sequence[str] = ()) -> list[ChangeSet]:
    """List change sets, newest first: those of the newest 200 that the actor may see."""
    change_sets = _with_revisions().filter(policy=policy).order_by("-pk")
    if states:
        change_sets = change_sets.filter(state__in=states)
    access = ChangeSetAccess(policy, actor, at)
    return [change_set for change_set in change_sets[:200] if access.may_see(change_set)]
