"""The check `groups` of a review: how many accounts will count at groups, where they have no place of their own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.mapping.rules.placement import match_accounts
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rulebook
from apps.policies.changesets.checks import Check
from apps.policies.changesets.review import Review
from apps.policies.tree.columns import Mask, TreeColumns
from apps.priorities.serving.lookup_index import ServedSnapshot
from apps.priorities.snapshots.ordering import ordering_of

MOST_MATCHED = 20_000  # accounts matched within the request; beyond it they count at their present entries
_SHOWN = 3


def check_groups(review: Review, snapshot: ServedSnapshot, *, sees: Mask) -> Check:
    """Known accounts at groups that the reader sees, after the change; a warning where they become more.

    sees: of the tree after the change.
    """
    after = review.after
    now = _places_now(after, snapshot)
    then = now if len(now) > MOST_MATCHED else _places_then(review, snapshot)
    n_then = _at_groups(after, then, sees)
    if not n_then.any():
        return Check("groups", "ok", _("No account counts at a group"))
    n = int(n_then.sum())
    title = ngettext("%(n)s account counts at a group", "%(n)s accounts count at groups", n) % {"n": f"{n:,}"}
    most = np.argsort(-n_then, kind="stable")[:_SHOWN].tolist()
    where = ", ".join(f"{after.path(i)} ({n_then[i]:,})" for i in most if n_then[i])
    if ordering_of(review.wanted.algorithm).has_own_order:
        means = _("The algorithm ranks leaves only: they get the fallback factor.")
    else:
        means = _("They have the group’s rank, not their own.")
    rise = n > int(_at_groups(snapshot.tree, snapshot.index.places.entry, _seen_before(review, snapshot, sees)).sum())
    remedy = _("Add an entry for each of them, or a membership rule to the group.")
    return Check("groups", "warn" if rise else "ok", title, f"{where}. {means}", remedy if rise else "")


def _at_groups(tree: TreeColumns, entry: npt.NDArray[np.int32], sees: Mask) -> npt.NDArray[np.int64]:
    """Accounts at each entry that is a group: shape (n,)."""
    counts = np.bincount(entry[entry != UNMAPPED], minlength=len(tree))
    is_group = tree.engine_tree().is_group & sees
    return np.where(is_group, counts, 0)


def _places_now(after: TreeColumns, snapshot: ServedSnapshot) -> npt.NDArray[np.int32]:
    """Where accounts are in the newest snapshot, as entries of the tree after the change."""
    tree, entry = snapshot.tree, snapshot.index.places.entry
    used = np.unique(entry)
    place = np.full(len(tree), UNMAPPED, dtype=np.int32)
    for i in used.tolist():
        at = after.index_of_uid(tree.uuid(i))
        place[i] = UNMAPPED if at is None else at
    found: npt.NDArray[np.int32] = place[entry]
    return found


def _places_then(review: Review, snapshot: ServedSnapshot) -> npt.NDArray[np.int32]:
    """The entries of these accounts in the tree after the change, by the rules."""
    book = load_rulebook(review.policy, review.after)
    matches = match_accounts(review.after, book.rules, book.known, snapshot.index.places.keys)
    entries = np.fromiter((match.entry for match in matches), dtype=np.int32, count=len(matches))
    return np.where(entries == 0, np.int32(UNMAPPED), entries)


def _seen_before(review: Review, snapshot: ServedSnapshot, sees: Mask) -> Mask:
    """Entries of the snapshot's tree that the reader sees after the change, and those that are gone by then."""
    tree = snapshot.tree
    found = np.ones(len(tree), dtype=np.bool_)
    for i in np.unique(snapshot.index.places.entry).tolist():
        at = review.after.index_of_uid(tree.uuid(i))
        found[i] = at is None or bool(sees[at])
    return found
