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
    found = list(revisions)
    hidden = hidden_revisions(found[0].policy_id, {one.number for one in found}, sees) if found else set()
    for one in found:
        if one.number in hidden:
            one.is_outside_view, one.reason, one.author_name = True, "", ""
            one.author_id, one.n_changed = None, 0
    return found


def hidden_revisions(policy_id: int, numbers: Collection[int], sees: Visibility) -> set[int]:
    """Return the revisions among these that changed neither settings nor an entry that the reader sees."""
    if sees.all_visible:
        return set()
    # Revisions that changed settings, from which all numbers follow.
    change_sets = ChangeSet.objects.filter(revision__policy=policy_id, revision__number__in=numbers)
    found = change_sets.filter(operations__contains=[{"op": "set_policy"}])
    unseen = set(numbers) - set(found.values_list("revision__number", flat=True))
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
