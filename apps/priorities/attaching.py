"""Accounts placed at entries by hand: by whoever says which account belongs to which entry, at both of its ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from apps.accounts import audit
from apps.accounts.actor import Actor
from apps.accounts.intern import AccountKey
from apps.accounts.models import Account
from apps.errors import FieldProblem, Invalid, NotAllowed, NotFound
from apps.policies.change_sets import require_reason
from apps.policies.columns import TreeColumns
from apps.policies.models import Policy
from apps.policies.publishing import lock_policy
from apps.policies.scope import Rights, Verb, Visibility, require_scope, rules_all
from apps.policies.selectors import get_policy
from apps.policies.trees import load_tree
from apps.priorities.mapping import UNMAPPED
from apps.priorities.models import Attachment
from apps.priorities.models import Mapping as MappingRow
from apps.priorities.recompute import nudge
from apps.priorities.rulebook import load_rulebook
from apps.priorities.sight import see

WRITE = "policies:write"
_MOST = 1_000


@dataclass(frozen=True)
class MapRights:
    """At which entries of a tree an actor may say whose accounts are there, and at which they read who that is."""

    policy: Policy
    tree: TreeColumns
    actor: Actor
    at: datetime

    @cached_property
    def sees(self) -> Visibility:
        return see(policy=self.policy, tree=self.tree, at=self.at, actor=self.actor)

    @cached_property
    def _rights(self) -> Rights:
        return Rights(self.policy, self.actor, self.at)

    def may_map(self, i: int) -> bool:
        return self.actor.has_scope(WRITE) and self.holds(i, Verb.MAP_ACCOUNTS)

    def may_name(self, i: int) -> bool:
        """Whether names of accounts and people may be told."""
        return self.holds(i, Verb.MAP_ACCOUNTS, Verb.VIEW_MEMBERS)

    def require(self, uid: UUID) -> int:
        """An entry at which the actor maps accounts; NotFound for what they may not see."""
        i = self.sees.require(self.tree.index_of_uid(uid))
        if not self.may_map(i):
            raise NotAllowed(
                _("You may not say which accounts belong to %(path)s: ask whoever leads it.")
                % {"path": self.tree.path(i)}
            )
        return i

    def holds(self, i: int, *verbs: str) -> bool:
        """Whether one of these verbs is held at an entry or above it."""
        lineage = {self.tree.uuid(at) for at in (*self.tree.ancestors(i), i)}
        bound = self.actor.token.subtree_uid if self.actor.token else None
        if bound is not None and bound not in lineage:
            return False
        return rules_all(self.actor) or not self._rights.at(*verbs).isdisjoint(lineage)


def rights_in(policy_slug: str, *, at: datetime, actor: Actor, scope: str = "policies:read") -> MapRights:
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    return MapRights(policy, load_tree(policy), actor, at)


def attach_account(
    *, policy_slug: str, entry_uid: UUID, account: AccountKey, reason: str, at: datetime, actor: Actor
) -> Attachment:
    """From the next recompute on the account counts at this entry, whatever rules say.

    One that counts at an entry of others stays there: a move needs rights at both ends.
    """
    require_scope(actor, WRITE)
    said = require_reason(reason)
    with transaction.atomic():
        rights = _locked(policy_slug, at=at, actor=actor)
        i = rights.require(entry_uid)
        if i == 0 or rights.tree.is_reserve[i]:
            raise _invalid("entry", _("is no place for accounts: choose one below the root that isn't a reserve"))
        found = Account.objects.filter(**account._asdict()).first()
        if found is None or not _is_free(rights, account):
            raise _not_free(account)
        attachment, _made = Attachment.objects.update_or_create(
            policy=rights.policy, account=found,
            defaults={
                "entry_uid": entry_uid, "reason": said, "author": actor.user, "author_name": actor.name,
                "created_at": at,
            },
        )  # fmt: skip
        _changed(rights, "account.attached", attachment, said, at=at, actor=actor)
    return attachment


def detach_account(*, policy_slug: str, attachment_id: int, reason: str, at: datetime, actor: Actor) -> None:
    """The rules decide again where the account counts."""
    require_scope(actor, WRITE)
    said = require_reason(reason)
    with transaction.atomic():
        rights = _locked(policy_slug, at=at, actor=actor)
        attachment = get_attachment(rights, attachment_id)
        i = rights.tree.index_of_uid(attachment.entry_uid)
        if i is None:  # its entry is archived
            i = 0
        if not rights.may_map(i):
            raise NotAllowed(_("You may not say which accounts belong there: ask whoever leads it."))
        _changed(rights, "account.detached", attachment, said, at=at, actor=actor)
        attachment.delete()


def get_attachment(rights: MapRights, attachment_id: int) -> Attachment:
    found = Attachment.objects.select_related("account").filter(policy=rights.policy, pk=attachment_id).first()
    i = rights.tree.index_of_uid(found.entry_uid) if found is not None else None
    if found is None or not rights.may_name(0 if i is None else i):
        raise NotFound(_("There is no such attached account."))
    return found


def list_attachments(
    rights: MapRights, *, entry_uid: UUID | None = None, after: int = 0, limit: int = 100
) -> list[Attachment]:
    """At an entry and below it (None: anywhere) where the actor may read names; by their number."""
    tree = rights.tree
    within = None if entry_uid is None else tree.subtree_mask(rights.sees.require(tree.index_of_uid(entry_uid)))
    found: list[Attachment] = []
    rows = Attachment.objects.filter(policy=rights.policy, pk__gt=after).select_related("account").order_by("pk")
    for row in rows.iterator(chunk_size=_MOST):
        i = tree.index_of_uid(row.entry_uid)
        if within is not None and (i is None or not within[i]):
            continue
        if rights.may_name(0 if i is None else i):
            found.append(row)
            if len(found) >= limit:
                break
    return found


def key_of(account: Account) -> AccountKey:
    return AccountKey(*(getattr(account, name) for name in AccountKey._fields))


def _is_free(rights: MapRights, account: AccountKey) -> bool:
    """It counts nowhere, where only a default rule led it, or where the actor maps accounts too."""
    book = load_rulebook(rights.policy, rights.tree)
    match, number = book.on(rights.tree).decide(account)
    by_default = number is not None and book.rules[number].kind == "default"
    return match.entry == UNMAPPED or by_default or rights.may_map(match.entry)


def _locked(policy_slug: str, *, at: datetime, actor: Actor) -> MapRights:
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    policy = lock_policy(policy.pk)
    return MapRights(policy, load_tree(policy), actor, at)


def _changed(rights: MapRights, verb: str, attachment: Attachment, reason: str, *, at: datetime, actor: Actor) -> None:
    mapping, _made = MappingRow.objects.get_or_create(policy=rights.policy)
    MappingRow.objects.filter(pk=mapping.pk).update(version=F("version") + 1)
    nudge(rights.policy, at=at)
    audit.record(
        actor=actor, verb=verb, at=at, policy_slug=rights.policy.slug, entry_uid=attachment.entry_uid,
        subject=str(attachment.account), reason=reason, details={"account": key_of(attachment.account)._asdict()},
    )  # fmt: skip


def _not_free(account: AccountKey) -> Invalid:
    """The same words for what isn't there and what is somebody else's: neither is the actor's to know."""
    name = account.user_name or account.dn or account.group_name
    message = _(
        "%(name)s is no account that is free here: nobody ran anything by that name yet, or it counts elsewhere"
    )
    return _invalid("account", message % {"name": name[:80]})


def _invalid(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])
