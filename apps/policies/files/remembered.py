"""What the last import left of a scheduler's file: the cluster's name, and the file itself for later exports.

It is no part of the policy, decides nothing, and is never read for its meaning; so it has no revision of its own. It
becomes active when the change set of its import is published; the file of an import that changes nothing at once.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import partial

import zstandard
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.policies.access.scope import Rights, rules_all
from apps.policies.formats.base import Remembered
from apps.policies.models import ChangeSet, Grant, ImportedFile, Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree

MOST_CHARACTERS = 32 * 2**20  # of a file; of a longer one only the cluster is remembered
_READ, _WRITE = "policies:read", "policies:write"


def remembered_of(policy: Policy, tree: TreeColumns, *, at: datetime, actor: Actor) -> Remembered | None:
    """What exports use. The file is for those who may publish the whole policy, the cluster's name for all."""
    found = _active(policy).first()
    if found is None:
        return None
    if not found.text or not _may_publish_all(policy, tree, actor, at, _READ):
        return Remembered(found.cluster)
    text = unpacked(bytes(found.text))
    number = found.number if found.change_set is None else found.change_set.revision.number
    return Remembered(found.cluster, text, load_tree(policy, number))


def remember_file(
    policy: Policy, left: Remembered, tree: TreeColumns, *, change_set: ChangeSet | None, at: datetime, actor: Actor
) -> bool:
    """Keep it with the change set of its import (None: nothing changed, so it is active now).

    Not of an actor who can't publish the whole policy: who loads an export into Slurm trusts what the file says.
    tree: that of the head. Returns whether it is kept.
    """
    if not _may_publish_all(policy, tree, actor, at, _WRITE):
        return False
    text = left.text if len(left.text) <= MOST_CHARACTERS else ""
    digest = hashlib.sha256(text.encode()).hexdigest()
    last = _active(policy).first()
    if last is not None and (last.cluster, last.digest) == (left.cluster, digest) and change_set is None:
        return True
    with transaction.atomic():
        ImportedFile.objects.create(
            policy=policy,
            change_set=change_set,
            number=policy.head_number,
            cluster=left.cluster,
            text=packed(text) or b"",
            digest=digest,
            created_at=at,
        )
        details = {"cluster": left.cluster, "n_bytes": len(text.encode()), "sha256": digest}
        if change_set is not None:
            details["change_set"] = change_set.pk
        event = partial(record, actor=actor, at=at, policy_slug=policy.slug, details=details)
        event(verb="policy.file_kept", subject=left.cluster or "a file")
        _forget_superseded(policy)
    return True


def packed(text: str) -> bytes | None:
    """None of a text that is empty, or too long to be kept."""
    return zstandard.ZstdCompressor(level=3).compress(text.encode()) if 0 < len(text) <= MOST_CHARACTERS else None


def unpacked(packed_text: bytes) -> str:
    return zstandard.ZstdDecompressor().decompress(packed_text, max_output_size=4 * MOST_CHARACTERS).decode()


def _active(policy: Policy) -> QuerySet[ImportedFile]:
    """Newest first: by the revision since which each is active."""
    is_active = Q(change_set=None) | Q(change_set__state=ChangeSet.State.PUBLISHED)
    since = Coalesce("change_set__revision__number", F("number"))
    return ImportedFile.objects.filter(is_active, policy=policy).order_by(since.desc(), "-pk")


def _forget_superseded(policy: Policy) -> None:
    active = list(_active(policy).values_list("pk", flat=True))
    withdrawn = Q(change_set__state=ChangeSet.State.WITHDRAWN)
    ImportedFile.objects.filter(Q(pk__in=active[1:]) | withdrawn, policy=policy).delete()


def _may_publish_all(policy: Policy, tree: TreeColumns, actor: Actor, at: datetime, scope: str) -> bool:
    return rules_all(actor, scope) or tree.uuid(0) in Rights(policy, actor, at).at(Grant.Verb.PUBLISH)
