"""Claims of accounts: users ask for theirs, an authority decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.entry_accounts import RESERVED, refuse_reserved
from apps.accounts.models import Account, Token, User
from apps.accounts.selectors import list_accounts_of
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound
from apps.mapping.attachments import key_of
from apps.mapping.models import Claim
from apps.mapping.moves import moves_by_owner, refusal_of
from apps.mapping.permissions import MapRights
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rule_set
from apps.policies.tree.columns import Mask
from apps.usage.models import Source

MOST_CLAIMS = 20
_TOO_LONG = {"namespace": 128, "user_name": 256}


@dataclass(frozen=True)
class MyAccounts:
    """A user's confirmed accounts, unconfirmed accounts with their user name, and their pending claims."""

    own: Sequence[Account]
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
    accounts = list_accounts_of(user)
    named = [
        account for account in accounts if account.person_id is None and not account.namespace.startswith(RESERVED)
    ]
    return MyAccounts(
        own=sorted(
            (account for account in accounts if account.person_id == user.pk),
            key=lambda account: (account.namespace, account.user_name, account.group_name),
        ),
        named_like_me=[account for account in named if (account.namespace, account.user_name) not in claimed],
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
    open_claims = []
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
            open_claims.append(OpenClaim(claim, accounts))
    return open_claims


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
        open_claim = next((each for each in list_claims(rights, everywhere) if each.claim.pk == claim_id), None)
        if claim is None or open_claim is None:
            raise _no_claim()
        if actor.user is not None and claim.user_id == actor.user.pk and not actor.is_admin:
            raise NotAllowed(_("Another person must confirm that an account is yours."))
        if confirm:
            moves = moves_by_owner(rights, dict.fromkeys((account.pk for account in open_claim.accounts), claim.user))
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
