"""Which revisions a reader learns more of than their number and instant: those that changed something they see."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db.models import Q

from apps.policies.access.scope import Visibility
from apps.policies.models import ChangeSet, Entry, Revision


def hide_outside(revisions: Iterable[Revision], sees: Visibility) -> list[Revision]:
    """Clear author, reason and counts of revisions that changed only what the reader doesn't see, and mark them.

    A reason is written for those whose entries change, and often names them. sees: of the present tree.
    """
    listed = list(revisions)
    hidden = hidden_revisions(listed[0].policy_id, {revision.number for revision in listed}, sees) if listed else set()
    for revision in listed:
        if revision.number in hidden:
            revision.is_outside_view, revision.reason, revision.author_name = True, "", ""
            revision.author_id, revision.n_changed = None, 0
    return listed


def hidden_revisions(policy_id: int, numbers: Collection[int], sees: Visibility) -> set[int]:
    """Return the revisions among these that changed neither settings nor an entry that the reader sees."""
    if sees.all_visible:
        return set()
    # Revisions that changed settings, from which all numbers follow.
    change_sets = ChangeSet.objects.filter(revision__policy=policy_id, revision__number__in=numbers)
    settings_changes = change_sets.filter(operations__contains=[{"op": "set_policy"}])
    settings_changes = settings_changes.exclude(origin=ChangeSet.Origin.ALLOCATION)  # a rule orders limits of entries
    unseen = set(numbers) - set(settings_changes.values_list("revision__number", flat=True))
    versions = Entry.objects.filter(policy=policy_id).filter(Q(since__in=unseen) | Q(until__in=unseen))
    for since, until, uid, parent_uid in versions.values_list("since", "until", "uid", "parent_uid").iterator():
        if since not in unseen and until not in unseen:
            continue
        i = sees.tree.index_of_uid(uid)
        if i is not None and sees.may_see(i):
            unseen -= {since, until}
        elif parent_uid is not None:
            # An entry that has left is as visible as others that come and go below its parent.
            parent = sees.tree.index_of_uid(parent_uid)
            if parent is not None and sees.may_name_below(parent):
                unseen -= {since, until}
        if not unseen:
            break
    return unseen
