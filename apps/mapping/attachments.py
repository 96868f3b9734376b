"""Attach accounts to entries by hand, and record their owners, as sources report them or mappers confirm them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts import audit_log as audit
from apps.accounts.account_ids import RESERVED, AccountKey, canonical, refuse_reserved
from apps.accounts.actor import Actor
from apps.accounts.models import Account, Token, User
from apps.accounts.selectors import list_accounts_of
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound
from apps.mapping.models import Attachment, Claim
from apps.mapping.moves import ProposedMapping, find_moves, moves_by_owner, refusal_of
from apps.mapping.permissions import WRITE, MapRights
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rule_set
from apps.mapping.versions import Placement, get_attaching_user, refuse_stale, store_version
from apps.policies.access.scope import require_scope
from apps.policies.changesets.change_sets import require_reason
from apps.policies.publishing.revisions import lock_policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import Mask
from apps.policies.tree.stored import load_tree
from apps.usage.models import Source

_MOST = 1_000


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
        found = Account.objects.filter(**account._asdict()).first()
        if found is None or not _is_free(rights, account):
            raise _not_free(account)
        was = Attachment.objects.filter(policy=rights.policy, account=found).values_list("entry_uid", flat=True).first()
        attachment, _made = Attachment.objects.update_or_create(
            policy=rights.policy,
            account=found,
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
        _refuse_detach(rights, attachment, at=at)
        _changed(rights, "account.detached", attachment, (attachment.entry_uid, None), reason, at=at, actor=actor)
        attachment.delete()


def _refuse_detach(rights: MapRights, attachment: Attachment, *, at: datetime) -> None:
    moves = find_moves(rights, ProposedMapping(places={attachment.account_id: None}), at=at)
    attached_by = get_attaching_user(rights.policy, attachment.account_id)
    is_own = rights.actor.user is not None and attached_by == rights.actor.user.pk
    refusal = refusal_of(rights, moves, attached={attachment.account_id} if is_own else ())
    if refusal:
        raise NotAllowed(refusal.text, code="not_yours")


def get_attachment(rights: MapRights, attachment_id: int) -> Attachment:
    found = Attachment.objects.select_related("account").filter(policy=rights.policy, pk=attachment_id).first()
    i = rights.tree.index_of_uid(found.entry_uid) if found is not None else None
    if found is None or not rights.may_name(0 if i is None else i):
        raise NotFound(_("Not found, or not visible to you."))
    return found


def list_attachments(
    rights: MapRights, *, entry_uid: UUID | None = None, after: int = 0, limit: int = 100
) -> list[Attachment]:
    """List attachments where the actor may read names, by id. entry_uid: only at and below it."""
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


def _not_free(account: AccountKey) -> Invalid:
    """Return the same error for missing accounts and accounts of others, so that it reveals neither."""
    name = account.user_name or account.dn or account.group_name
    message = _("%(name)s is not a free account here: it has no usage yet, or is mapped to another entry")
    return _invalid("account", message % {"name": name[:80]})


def _invalid(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])


# --- Claims -----------------------------------------------------------------------------------------------------------
MOST_CLAIMS = 20
_TOO_LONG = {"namespace": 128, "user_name": 256}


@dataclass(frozen=True)
class MyAccounts:
    """A user's confirmed accounts, unconfirmed accounts with their user name, and their pending claims."""

    mine: Sequence[Account]
    named_like_me: Sequence[Account]
    claims: Sequence[Claim]


@dataclass(frozen=True)
class OpenClaim:
    """A claim, with its accounts at entries where the actor maps accounts."""

    claim: Claim
    accounts: Sequence[Account]


def list_my_accounts(*, actor: Actor) -> MyAccounts:
    user = _person(actor)
    claims = list(Claim.objects.filter(user=user).order_by("namespace", "user_name"))
    claimed = {(claim.namespace, claim.user_name) for claim in claims}
    found = list_accounts_of(user)
    named = [one for one in found if one.person_id is None and not one.namespace.startswith(RESERVED)]
    return MyAccounts(
        mine=sorted(
            (one for one in found if one.person_id == user.pk),
            key=lambda one: (one.namespace, one.user_name, one.group_name),
        ),
        named_like_me=[one for one in named if (one.namespace, one.user_name) not in claimed],
        claims=claims,
    )


def assign_own_accounts(*, user: User, at: datetime) -> int:
    """Assign unowned accounts with this user name to the user, from sources whose account names are login names."""
    trusted = Source.objects.filter(names_people=True).values("namespace")
    with transaction.atomic():
        free = Account.objects.select_for_update(no_key=True).filter(
            person=None, user_name=user.username, namespace__in=trusted
        )
        accounts = list(free) if user.is_active and user.username else []
        if accounts:
            _assign_owner(accounts, user, Actor(user=user, via="page"), at, _("The source has login names."))
    return len(accounts)


def claim_account(*, namespace: str, user_name: str, at: datetime, actor: Actor) -> bool:
    """Claim an account. Returns True if it is confirmed at once, False if a mapper has to confirm it.

    Unknown names and pending claims give the same result.
    """
    user = _person(actor)
    namespace, user_name = namespace.strip(), user_name.strip()
    for where, text in (("namespace", namespace), ("user_name", user_name)):
        if not text or len(text) > _TOO_LONG[where] or "\0" in text:
            problem = FieldProblem(where, _("must be a name as the cluster writes it"))
            raise Invalid(f"{where} {problem.message}.", fields=[problem])
    refuse_reserved(namespace)
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)  # enforces MOST_CLAIMS for concurrent requests
        if user_name == user.username:
            assign_own_accounts(user=user, at=at)
        if Account.objects.filter(person=user, namespace=namespace, user_name=user_name).exists():
            return True
        if Claim.objects.filter(user=user).count() >= MOST_CLAIMS:
            raise Conflict(_("Too many pending claims: withdraw one first."), code="too_many_claims")
        _claim, made = Claim.objects.get_or_create(
            user=user, namespace=namespace, user_name=user_name, defaults={"created_at": at}
        )
        if made:
            audit.record(actor=actor, verb="account.claimed", at=at, subject=f"{namespace}:{user_name}")
    return False


def cancel_claim(*, claim_id: int, at: datetime, actor: Actor) -> None:
    user = _person(actor)
    with transaction.atomic():
        claim = Claim.objects.select_for_update(no_key=True).filter(pk=claim_id, user=user).first()
        if claim is None:
            raise _no_claim()
        audit.record(actor=actor, verb="account.claim_withdrawn", at=at, subject=f"{claim.namespace}:{claim.user_name}")
        claim.delete()


def list_claims(rights: MapRights, within: Mask) -> list[OpenClaim]:
    """List claims to accounts in this part of the tree where the actor maps accounts, oldest first."""
    claims = list(Claim.objects.select_related("user").order_by("pk")[:1_000])
    if not claims:
        return []
    found = []
    resolver = load_rule_set(rights.policy, rights.tree).on(rights.tree)
    for claim in claims:
        accounts = [
            account
            for account in _free(claim)
            if (entry := resolver.resolve(key_of(account)).entry) != UNMAPPED
            and within[entry]
            and rights.may_map(entry)
        ]
        if accounts:
            found.append(OpenClaim(claim, accounts))
    return found


def decide_claim(rights: MapRights, *, claim_id: int, confirm: bool, at: datetime, actor: Actor) -> None:
    """Confirm or reject a claim as a mapper of the account's entry; never one's own claim."""
    with transaction.atomic():
        claim = (
            Claim.objects.select_for_update(of=("self",), no_key=True)
            .select_related("user")
            .filter(pk=claim_id)
            .first()
        )
        everywhere = rights.tree.subtree_mask(0)
        open_claim = next((one for one in list_claims(rights, everywhere) if one.claim.pk == claim_id), None)
        if claim is None or open_claim is None:
            raise _no_claim()
        if actor.user is not None and claim.user_id == actor.user.pk and not actor.is_admin:
            raise NotAllowed(_("Another person must confirm that an account is yours."))
        if confirm:
            moves = moves_by_owner(rights, dict.fromkeys((one.pk for one in open_claim.accounts), claim.user))
            if refusal := refusal_of(rights, moves):
                raise NotAllowed(refusal.text, code="not_yours")
            _assign_owner(open_claim.accounts, claim.user, actor, at)
        else:
            audit.record(
                actor=actor,
                verb="account.claim_refused",
                at=at,
                policy_slug=rights.policy.slug,
                subject=f"{claim.namespace}:{claim.user_name}",
                details={"person": claim.user.username},
            )
        claim.delete()


def _assign_owner(accounts: Sequence[Account], user: User, actor: Actor, at: datetime, reason: str = "") -> None:
    Account.objects.filter(pk__in=[account.pk for account in accounts]).update(person=user)
    names = [key_of(account)._asdict() for account in accounts]
    audit.record(
        actor=actor,
        verb="account.owned",
        at=at,
        subject=str(user.username),
        reason=reason,
        details={"person": user.username, "accounts": names},
    )


def _free(claim: Claim) -> list[Account]:
    return list(Account.objects.filter(person=None, namespace=claim.namespace, user_name=claim.user_name)[:100])


def _person(actor: Actor) -> User:
    if actor.user is None or not actor.has_scope(Token.Scope.SELF_READ):
        raise NotAllowed(_("Sign in to claim accounts."))
    return actor.user


def _no_claim() -> NotFound:
    return NotFound(_("Not found, or not visible to you."))
