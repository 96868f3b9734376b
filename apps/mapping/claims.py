"""Owners of accounts: reported by the account's source, or confirmed by a mapper of its entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.audit import log as audit
from apps.accounts.models import Account, Token, User
from apps.accounts.names.entry_names import RESERVED, refuse_reserved
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound
from apps.mapping.attachments import key_of
from apps.mapping.models import Claim
from apps.mapping.moves import moves_of_people, refusal_of
from apps.mapping.permissions import MapRights
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rulebook
from apps.policies.changesets.change_sets import clean_reason
from apps.policies.tree.columns import Mask
from apps.usage.models import Source

MOST_CLAIMS = 20
_TOO_LONG = {"namespace": 128, "user_name": 256}


@dataclass(frozen=True)
class MyAccounts:
    """A user's confirmed accounts, accounts of the same name, and claims that wait for confirmation."""

    mine: Sequence[Account]
    named_like_me: Sequence[Account]
    claims: Sequence[Claim]


@dataclass(frozen=True)
class OpenClaim:
    """A claim with the accounts it is about that count where the actor decides."""

    claim: Claim
    accounts: Sequence[Account]


def list_my_accounts(*, actor: Actor) -> MyAccounts:
    user = _person(actor)
    claims = list(Claim.objects.filter(user=user).order_by("namespace", "user_name"))
    claimed = {(claim.namespace, claim.user_name) for claim in claims}
    named = Account.objects.filter(person=None, user_name=user.username).exclude(namespace__startswith=RESERVED)
    named = named.order_by("namespace", "group_name")
    return MyAccounts(
        mine=list(Account.objects.filter(person=user).order_by("namespace", "user_name", "group_name")),
        named_like_me=[one for one in named if (one.namespace, one.user_name) not in claimed],
        claims=claims,
    )


def take_own_accounts(*, user: User, at: datetime) -> int:
    """After a sign-in: accounts of this very name, from sources whose names are those of people, are this person's."""
    trusted = Source.objects.filter(names_people=True).values("namespace")
    with transaction.atomic():
        free = Account.objects.select_for_update().filter(person=None, user_name=user.username, namespace__in=trusted)
        accounts = list(free) if user.is_active and user.username else []
        if accounts:
            _give(accounts, user, Actor(user=user, via="page"), at, _("The source has login names."))
    return len(accounts)


def claim_account(*, namespace: str, user_name: str, at: datetime, actor: Actor) -> bool:
    """Claim an account; True when it is confirmed at once, False when a mapper has to confirm it.

    An unknown name and a waiting claim get one answer.
    """
    user = _person(actor)
    namespace, user_name = namespace.strip(), user_name.strip()
    for where, text in (("namespace", namespace), ("user_name", user_name)):
        if not text or len(text) > _TOO_LONG[where] or "\0" in text:
            problem = FieldProblem(where, _("must be a name as the cluster writes it"))
            raise Invalid(f"{where} {problem.message}.", fields=[problem])
    refuse_reserved(namespace)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)  # bounds the claims also of concurrent requests
        if user_name == user.username:
            take_own_accounts(user=user, at=at)
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


def take_back_claim(*, claim_id: int, at: datetime, actor: Actor) -> None:
    user = _person(actor)
    with transaction.atomic():
        claim = Claim.objects.select_for_update().filter(pk=claim_id, user=user).first()
        if claim is None:
            raise _no_claim()
        audit.record(
            actor=actor, verb="account.claim_taken_back", at=at, subject=f"{claim.namespace}:{claim.user_name}"
        )
        claim.delete()


def list_claims(rights: MapRights, within: Mask) -> list[OpenClaim]:
    """Claims to accounts that count in this part of the tree where the actor maps accounts; oldest first."""
    claims = list(Claim.objects.select_related("user").order_by("pk")[:1_000])
    if not claims:
        return []
    found = []
    resolver = load_rulebook(rights.policy, rights.tree).on(rights.tree)
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


def decide_claim(
    rights: MapRights, *, claim_id: int, confirm: bool, reason: str = "", at: datetime, actor: Actor
) -> None:
    """Confirm or reject a claim, by a mapper of the account's entry; never one's own."""
    said = clean_reason(reason)
    with transaction.atomic():
        claim = Claim.objects.select_for_update(of=("self",)).select_related("user").filter(pk=claim_id).first()
        everywhere = rights.tree.subtree_mask(0)
        open_claim = next((one for one in list_claims(rights, everywhere) if one.claim.pk == claim_id), None)
        if claim is None or open_claim is None:
            raise _no_claim()
        if actor.user is not None and claim.user_id == actor.user.pk and not actor.is_admin:
            raise NotAllowed(_("Another person must confirm that an account is yours."))
        if confirm:
            moves = moves_of_people(rights, dict.fromkeys((one.pk for one in open_claim.accounts), claim.user))
            if refusal := refusal_of(rights, moves):
                raise NotAllowed(refusal.text, code="not_yours")
            _give(open_claim.accounts, claim.user, actor, at, said)
        else:
            audit.record(
                actor=actor,
                verb="account.claim_refused",
                at=at,
                policy_slug=rights.policy.slug,
                reason=said,
                subject=f"{claim.namespace}:{claim.user_name}",
                details={"person": claim.user.username},
            )
        claim.delete()


def _give(accounts: Sequence[Account], user: User, actor: Actor, at: datetime, reason: str) -> None:
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
    return NotFound(_("You have no such claim to decide."))
