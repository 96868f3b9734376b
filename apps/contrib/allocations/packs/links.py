"""Signed packs, and audited, expiring, revocable links to them, created by users who may publish at the entry."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.contrib.allocations.models import SharedPack
from apps.contrib.allocations.packs.content import PackQuery, get_pack
from apps.core.errors import Archived, FieldProblem, Invalid, NotAllowed, NotFound
from apps.core.signing import Opened, digest_of, open_document, sign_document
from apps.federation.documents.site_keys import load_keys
from apps.policies.access.scope import Rights, Verb, administers_policies, administers_within_bounds
from apps.priorities.selectors.rows import PolicyView, open_view

MOST_DAYS = 366
DEFAULT_DAYS = 30
_MOST_LISTED = 50


@dataclass(frozen=True)
class Sealed:
    """A signed pack: the document, its signed form, the SHA-256 of its canonical JSON, and the key's fingerprint."""

    document: Mapping[str, Any]
    signed: bytes
    digest: str
    fingerprint: str


def seal_pack(document: Mapping[str, Any], *, at: datetime) -> Sealed:
    """Sign with the site's own key."""
    keys = load_keys(at=at)
    signed = sign_document(document, keys.key, keys.chain)
    return Sealed(document, signed, digest_of(document), keys.key.public.fingerprint)


def may_share(view: PolicyView, i: int) -> bool:
    """Whether the actor is an administrator or may publish at the entry or above it."""
    if administers_within_bounds(view.actor):  # the view has no entries outside the bounds of a token
        return True
    lineage = [view.tree.uuid(j) for j in (*view.tree.ancestors(i), i)]
    return view.actor.has_scope("policies:write") and not Rights(view.policy, view.actor, view.now).at(
        Verb.PUBLISH
    ).isdisjoint(lineage)


@transaction.atomic
def share_pack(query: PackQuery, *, days: int, reason: str, at: datetime, actor: Actor) -> tuple[SharedPack, str]:
    """Store the pack as it is now; return the row and the secret of its link, which is shown once."""
    view = open_view(policy_slug=query.policy_slug, actor=actor)
    i = 0 if query.uid is None else view.require(query.uid)
    uid = view.tree.uuid(i)
    if not may_share(view, i):
        raise NotAllowed(_("Sharing a pack needs the right to publish here."))
    if not 1 <= days <= MOST_DAYS:
        problem = FieldProblem("days", _("must be from 1 to %(n)s") % {"n": MOST_DAYS})
        raise Invalid(_("A link is valid for 1 to %(n)s days.") % {"n": MOST_DAYS}, fields=[problem])
    sealed = seal_pack(get_pack(replace(query, uid=uid), actor=actor), at=at)
    secret = secrets.token_urlsafe(32)
    row = SharedPack.objects.create(
        policy=view.policy,
        entry_uid=uid,
        entry_path=view.tree.path(i),
        signed=sealed.signed,
        digest=sealed.digest,
        token_hash=_hash(secret),
        created_by=actor.user,
        created_by_name=actor.name,
        created_at=at,
        ends_at=at + timedelta(days=days),
    )
    details = {"link": row.pk, "digest": sealed.digest, "ends_at": row.ends_at.isoformat()}
    record(
        actor=actor,
        verb="pack.shared",
        at=at,
        policy_slug=view.policy.slug,
        entry_uid=uid,
        subject=row.entry_path,
        reason=reason,
        details=details,
    )
    return row, secret


@transaction.atomic
def revoke_link(*, policy_slug: str, link: int, at: datetime, actor: Actor) -> SharedPack:
    """Revoke the link immediately; a second call changes nothing."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    row = SharedPack.objects.select_for_update(no_key=True).filter(pk=link, policy=view.policy).first()
    i = None if row is None else view.tree.index_of_uid(row.entry_uid)
    if row is None or not (administers_policies(actor) if i is None else view.visibility.may_see(i)):
        raise NotFound("There is no such link.")
    if i is not None and not may_share(view, i):
        raise NotAllowed(_("Sharing a pack needs the right to publish here."))
    if row.revoked_at is None:
        row.revoked_at = at
        row.save(update_fields=["revoked_at"])
        record(
            actor=actor,
            verb="pack.link_revoked",
            at=at,
            policy_slug=view.policy.slug,
            entry_uid=row.entry_uid,
            subject=row.entry_path,
            details={"link": row.pk},
        )
    return row


def list_links(view: PolicyView, i: int) -> list[SharedPack]:
    """List the links of an entry, newest first; empty for an actor who may not share it."""
    if not may_share(view, i):
        return []
    return list(SharedPack.objects.filter(policy=view.policy, entry_uid=view.tree.uuid(i))[:_MOST_LISTED])


def list_pack_links(*, policy_slug: str, uid: UUID | None, actor: Actor) -> list[SharedPack]:
    """List the links of an entry, by default the root. Raises NotAllowed if the actor may not share its packs."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    i = 0 if uid is None else view.require(uid)
    if not may_share(view, i):
        raise NotAllowed(_("Sharing a pack needs the right to publish here."))
    return list_links(view, i)


def open_link(secret: str, *, at: datetime) -> tuple[SharedPack, Opened]:
    """Return the pack behind a link, for anyone who has its secret.

    Raises: NotFound if there is no such link. Archived if it has expired or was revoked.
    """
    row = SharedPack.objects.filter(token_hash=_hash(secret)).first() if len(secret) <= 200 else None
    if row is None:
        raise NotFound("There is no such link.")
    if not row.is_open(at):
        raise Archived(_("This link has ended. Request a new one from its sender."), code="link_ended")
    return row, open_document(bytes(row.signed), trusted=None)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
