"""Why a past tree lacks an entry: a later revision created it, or an earlier one removed it."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Max, Min
from django.utils.translation import gettext as _

from apps.core.errors import DomainError, FieldProblem, Invalid, NotFound
from apps.mapping.visibility import see_then
from apps.policies.models import Entry
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors.rows import PolicyView


def require_entry(view: PolicyView, uid: UUID) -> int:
    """The entry's index.

    Raises:
        NotFound: there is no such entry, or the actor may not see it.
        Invalid: `entry_not_in_revision`, the actor sees it in another revision than the one that is shown.
    """
    i = view.tree.index_of_uid(uid)
    if i is None and view.asked is not None:
        raise _not_in_revision(view, uid)
    return view.visibility.require(i)


def require_path(view: PolicyView, path: str) -> int:
    """By a path, which may be one of the head."""
    i = view.tree.index_of_path(path)
    head = load_tree(view.policy) if i is None and view.asked is not None else None
    there = None if head is None else head.index_of_path(path)
    if head is not None and there is not None:
        return require_entry(view, head.uuid(there))
    return view.visibility.require(i)


def _not_in_revision(view: PolicyView, uid: UUID) -> DomainError:
    """Names a revision that has the entry to who may see it there; for others it doesn't exist."""
    plain = NotFound("There is no such entry in this policy.")
    spans = Entry.objects.filter(policy=view.policy, uid=uid)
    known = spans.aggregate(first=Min("since"), left=Max("until"))
    if known["first"] is None:
        return plain
    is_here = spans.filter(until=None).exists()
    last = view.policy.head_number if is_here else known["left"] - 1
    tree = load_tree(view.policy, last)
    i = tree.index_of_uid(uid)
    if i is None or not see_then(policy=view.policy, tree=tree, at=view.now, actor=view.actor).may_see(i):
        return plain
    said = {"n": view.revision, "name": tree.name[i], "first": known["first"], "last": last}
    if known["first"] > view.revision:
        message = _("Revision %(n)d has no entry %(name)s: revision %(first)d added it.") % said
    else:
        message = _("Revision %(n)d has no entry %(name)s: revision %(last)d was the last with it.") % said
    return Invalid(message, code="entry_not_in_revision", fields=[FieldProblem("at", message)])
