"""Usage that a mounted document leaves without an entry: how much it is, and keeping it at the mount's entry.

A document replaces all entries below its mount. Accounts that counted at an entry which goes are unmapped from then on,
and their past usage counts nowhere, unless another rule maps them or the mount keeps it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from apps.accounts.account_ids import is_reserved
from apps.accounts.actor import SYSTEM
from apps.core.signing import BadDocument
from apps.federation.documents.wire import PolicyDocument
from apps.federation.models import Mount
from apps.federation.mounts.landing import lay_over
from apps.mapping.changes import MOST_ASSIGNED, Assign, make_change
from apps.mapping.moves import Move, UnmappedUsage, moves_to_nowhere, usage_of_unmapped
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.difference import mount_of
from apps.policies.tree.stored import load_tree


def unmapped_by_arrival(policy: Policy, mount_uid: UUID, document: PolicyDocument, *, at: datetime) -> UnmappedUsage:
    """What laying the document over the current tree leaves without an entry; nothing where it can't be laid over it,
    because then it isn't applied: the fetch says why.
    """
    tree = load_tree(policy)
    try:
        landing = lay_over(tree, mount_uid, document, owned_elsewhere=lambda uids: ())
    except BadDocument:
        return UnmappedUsage()
    return usage_of_unmapped(moves_to_nowhere(policy, tree, landing.tree), at=at) if landing.n_gone else UnmappedUsage()


def keep_usage(policy: Policy, revision: Revision) -> None:
    """Map the accounts of removed entries to their mount, when a version of it is published, by itself or reviewed."""
    if revision.number < 2 or revision.change_set.origin != ChangeSet.Origin.MOUNT:
        return
    mounts = {mount.entry_uid: mount for mount in Mount.objects.filter(policy=policy, keep_usage=True)}
    if not mounts:
        return
    before, after = load_tree(policy, revision.number - 1), load_tree(policy, revision.number)
    for uid, accounts in _by_mount(before, moves_to_nowhere(policy, before, after)).items():
        if uid in mounts and may_have_accounts(after, uid):
            _keep(policy, mounts[uid], accounts, at=revision.published_at)


def may_have_accounts(tree: TreeColumns, uid: UUID) -> bool:
    """Accounts count at no root, and at no reserve."""
    i = tree.index_of_uid(uid)
    return i is not None and i != 0 and not tree.is_reserve[i]


def _keep(policy: Policy, mount: Mount, accounts: Sequence[int], *, at: datetime) -> None:
    reason = f"{mount}: their entries were removed, and their usage is kept at the mount."
    for start in range(0, len(accounts), MOST_ASSIGNED):
        places = dict.fromkeys(accounts[start : start + MOST_ASSIGNED], mount.entry_uid)
        make_change(policy_slug=policy.slug, edit=Assign(places), reason=reason, version=None, at=at, actor=SYSTEM)


def _by_mount(before: TreeColumns, moves: Sequence[Move]) -> Mapping[UUID, list[int]]:
    found: dict[UUID, list[int]] = defaultdict(list)
    for move in moves:
        mount = mount_of(before, move.before)
        if mount is not None and not is_reserved(move.key.namespace):
            found[before.uuid(mount)].append(move.account)
    return found
