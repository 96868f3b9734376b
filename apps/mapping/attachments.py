"""Attach accounts to entries by hand, and record their owners, as sources report them or mappers confirm them."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts import audit_log as audit
from apps.accounts.account_keys import AccountKey, canonical
from apps.accounts.actor import Actor
from apps.accounts.entry_accounts import refuse_reserved
from apps.accounts.models import Account
from apps.core.errors import FieldProblem, Invalid, NotAllowed, NotFound
from apps.mapping.models import Attachment
from apps.mapping.moves import ProposedMapping, find_moves, refusal_of
from apps.mapping.permissions import WRITE, MapRights
from apps.mapping.rules.rule_set import load_rule_set
from apps.mapping.versions import Placement, get_attaching_user, refuse_stale, store_version
from apps.policies.access.scope import require_scope
from apps.policies.changesets.change_sets import require_reason
from apps.policies.publishing.revisions import lock_policy
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree

_MOST_ATTACHMENTS_AT_A_TIME = 1_000


def attach_account(
    *,
    policy_slug: str,
    entry_uid: UUID,
    account: AccountKey,
    reason: str,
    version: int | None = None,
    at: datetime,
    actor: Actor,
) -> Attachment:
    """Attach an account to an entry; from the next recompute on, this takes precedence over rules.

    An account mapped to an entry outside the actor's rights is refused, because a move needs rights at both entries.
    version: of the mapping that the caller loaded.
    """
    require_scope(actor, WRITE)
    reason = require_reason(reason)
    account = canonical(account)
    refuse_reserved(account.namespace, where="account")
    with transaction.atomic():
        rights = _locked(policy_slug, at=at, actor=actor)
        refuse_unmappable_entry(rights, rights.require(entry_uid))
        refuse_stale(rights.policy, version)
        row = Account.objects.filter(**account._asdict()).first()
        if row is None or not _is_free(rights, account):
            # The same error for missing accounts and accounts of others, so that it reveals neither.
            name = account.user_name or account.dn or account.group_name
            message = _("%(name)s is not a free account here: it has no usage yet, or is mapped to another entry")
            raise _invalid("account", message % {"name": name[:80]})
        was = Attachment.objects.filter(policy=rights.policy, account=row).values_list("entry_uid", flat=True).first()
        attachment, _made = Attachment.objects.update_or_create(
            policy=rights.policy,
            account=row,
            defaults={
                "entry_uid": entry_uid,
                "reason": reason,
                "author": actor.user,
                "author_name": actor.name,
                "created_at": at,
            },
        )
        _changed(rights, "account.attached", attachment, (was, entry_uid), reason, at=at, actor=actor)
    return attachment


def refuse_unmappable_entry(rights: MapRights, i: int) -> None:
    if i == 0 or rights.tree.is_reserve[i]:
        raise _invalid("entry", _("can’t have accounts: choose an entry below the root that isn't a reserve"))


def detach_account(
    *, policy_slug: str, attachment_id: int, reason: str, version: int | None = None, at: datetime, actor: Actor
) -> None:
    """Detach an account, so that rules map it again; refused if they map it to an entry outside the actor's rights.

    An account that no rule maps can be detached only by the user who attached it, or by mappers of the whole policy.
    """
    require_scope(actor, WRITE)
    reason = require_reason(reason)
    with transaction.atomic():
        rights = _locked(policy_slug, at=at, actor=actor)
        attachment = get_attachment(rights, attachment_id)
        i = rights.tree.index_of_uid(attachment.entry_uid)
        if i is None:  # its entry is archived
            i = 0
        if not rights.may_map(i):
            raise NotAllowed(_("You may not map accounts there: ask a manager of the entry."))
        refuse_stale(rights.policy, version)
        moves = find_moves(rights, ProposedMapping(places={attachment.account_id: None}), at=at)
        attached_by = get_attaching_user(rights.policy, attachment.account_id)
        is_own = rights.actor.user is not None and attached_by == rights.actor.user.pk
        refusal = refusal_of(rights, moves, attached={attachment.account_id} if is_own else ())
        if refusal:
            raise NotAllowed(refusal.text, code="not_yours")
        _changed(rights, "account.detached", attachment, (attachment.entry_uid, None), reason, at=at, actor=actor)
        attachment.delete()


def get_attachment(rights: MapRights, attachment_id: int) -> Attachment:
    attachment = Attachment.objects.select_related("account").filter(policy=rights.policy, pk=attachment_id).first()
    i = rights.tree.index_of_uid(attachment.entry_uid) if attachment is not None else None
    if attachment is None or not rights.may_name(0 if i is None else i):
        raise NotFound(_("Not found, or not visible to you."))
    return attachment


def list_attachments(
    rights: MapRights, *, entry_uid: UUID | None = None, after: int = 0, limit: int = 100
) -> list[Attachment]:
    """List attachments where the actor may read names, by id. entry_uid: only at and below it."""
    tree = rights.tree
    within = None if entry_uid is None else tree.subtree_mask(rights.sees.require(tree.index_of_uid(entry_uid)))
    attachments: list[Attachment] = []
    rows = Attachment.objects.filter(policy=rights.policy, pk__gt=after).select_related("account").order_by("pk")
    for row in rows.iterator(chunk_size=_MOST_ATTACHMENTS_AT_A_TIME):
        i = tree.index_of_uid(row.entry_uid)
        if within is not None and (i is None or not within[i]):
            continue
        if rights.may_name(0 if i is None else i):
            attachments.append(row)
            if len(attachments) >= limit:
                break
    return attachments


def key_of(account: Account) -> AccountKey:
    return AccountKey(*(getattr(account, name) for name in AccountKey._fields))


def _is_free(rights: MapRights, account: AccountKey) -> bool:
    """Return whether the account is unmapped, mapped by a default rule, or mapped where the actor maps accounts."""
    resolver = load_rule_set(rights.policy, rights.tree).on(rights.tree)
    decided = resolver.decide(account)
    return resolver.is_free(decided) or rights.may_map(decided[0].entry)


def _locked(policy_slug: str, *, at: datetime, actor: Actor) -> MapRights:
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    policy = lock_policy(policy.pk)
    return MapRights(policy, load_tree(policy), actor, at)


def _changed(
    rights: MapRights,
    verb: str,
    attachment: Attachment,
    ends: tuple[UUID | None, UUID | None],
    reason: str,
    *,
    at: datetime,
    actor: Actor,
) -> None:
    moved = Placement(attachment.account_id, *ends)
    number = store_version(rights.policy, attached=[moved], reason=reason, at=at, actor=actor)
    audit.record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=rights.policy.slug,
        entry_uid=attachment.entry_uid,
        subject=str(attachment.account),
        reason=reason,
        details={"account": key_of(attachment.account)._asdict(), "version": number},
    )


def _invalid(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])
