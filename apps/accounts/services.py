"""Create users, and create, rotate, revoke and verify API tokens."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from apps.accounts import audit_log as audit
from apps.accounts import token_files
from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.models import Token, User
from apps.core.column_bounds import most_characters
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound, Unauthenticated

DAYS = 90
MOST_TOKEN_DAYS = 365
MOST_TOKENS = 100  # valid ones of a person: each that is used costs every web process a little, all the time
ROTATION_GRACE = timedelta(hours=24)
LAST_USED_EVERY = timedelta(seconds=60)
# Scopes that users may give their own tokens; only administrators give the others.
OWN_SCOPES = frozenset({Token.Scope.SELF_READ, Token.Scope.POLICIES_READ, Token.Scope.POLICIES_WRITE})
_FORM = re.compile(r"fsh_([0-9a-z]{12})_([0-9a-f]{64})")
_DAY_S = 86_400


def allowed_scopes(actor: Actor) -> list[str]:
    """Scopes that the actor may give to a token."""
    return [scope for scope in Token.Scope.values if actor.is_admin or scope in OWN_SCOPES]


@dataclass(frozen=True)
class NewToken:
    """A token to create, with the policy, subtree, source or scheduler that it is limited to."""

    name: str
    scopes: Sequence[str]
    user: User
    policy_slug: str = ""
    subtree_uid: UUID | None = None
    source_slug: str = ""
    scheduler_name: str = ""
    days: int = DAYS


@transaction.atomic
def make_token(new: NewToken, *, at: datetime, actor: Actor) -> tuple[Token, str]:
    """Create a token; returns it with its text, which is not stored."""
    _require_token_rights(actor, new.user)
    chosen = _checked_scopes(new.scopes, actor)
    if not new.name.strip() or len(new.name) > most_characters(Token, "name"):
        most = most_characters(Token, "name")
        raise _invalid("name", _("Give the token a name of 1 to %(most)d characters.") % {"most": most})
    if not 1 <= new.days <= MOST_TOKEN_DAYS:
        raise _invalid("days", _("A token is valid for 1 to %(most)d days.") % {"most": MOST_TOKEN_DAYS})
    if new.subtree_uid is not None and not new.policy_slug:
        raise _invalid("policy", _("A subtree belongs to a policy: name it too."))
    if new.scheduler_name and not new.policy_slug:
        raise _invalid("policy", _("A scheduler belongs to a policy: name it too."))
    if Token.objects.filter(user=new.user, revoked_at=None, expires_at__gt=at).count() >= MOST_TOKENS:
        message = _("%(user)s has %(most)d valid tokens, the most allowed: revoke one first.")
        raise Conflict(message % {"user": new.user.username, "most": MOST_TOKENS}, code="too_many_tokens")
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
    public_id, secret = "".join(secrets.choice(alphabet) for _place in range(12)), secrets.token_hex(32)
    version = len(settings.FAIRSHARE_TOKEN_PEPPERS) - 1
    token = Token.objects.create(
        public_id=public_id,
        name=new.name.strip(),
        user=new.user,
        scopes=chosen,
        policy_slug=new.policy_slug,
        subtree_uid=new.subtree_uid,
        source_slug=new.source_slug,
        scheduler_name=new.scheduler_name,
        digest=_digest(secret, version),
        pepper_version=version,
        last_four=secret[-4:],
        created_at=at,
        expires_at=at + timedelta(seconds=new.days * _DAY_S),
    )
    audit.record(
        actor=actor,
        verb="token.made",
        at=at,
        policy_slug=new.policy_slug,
        subject=str(token),
        details={
            "user": new.user.username,
            "scopes": chosen,
            "days": new.days,
            "source": new.source_slug,
            "scheduler": new.scheduler_name,
        },
    )
    return token, f"fsh_{public_id}_{secret}"


@transaction.atomic
def rotate_token(*, token_id: int, at: datetime, actor: Actor) -> tuple[Token, str]:
    """Replace the secret of a token; name and expiry stay, and the old secret is valid for another day."""
    token = _own_token(token_id, actor)
    if token.revoked_at or token.expires_at <= at:
        raise Conflict(_("This token has expired: create a new one."), code="token_ended")
    secret = secrets.token_hex(32)
    token.previous_digest = token.digest
    token.previous_until = min(at + ROTATION_GRACE, token.expires_at)
    token.pepper_version = len(settings.FAIRSHARE_TOKEN_PEPPERS) - 1
    token.digest = _digest(secret, token.pepper_version)
    token.last_four = secret[-4:]
    token.save()
    audit.record(actor=actor, verb="token.rotated", at=at, policy_slug=token.policy_slug, subject=str(token))
    return token, f"fsh_{token.public_id}_{secret}"


@transaction.atomic
def revoke_token(*, token_id: int, at: datetime, actor: Actor) -> None:
    token = _own_token(token_id, actor)
    if token.revoked_at:
        return
    _revoke(token, at, actor)


def revoke_tokens_of_scheduler(*, name: str, unused_only: bool = False, at: datetime, actor: Actor) -> None:
    """Revoke the tokens bound to a scheduler, or those that nobody has used yet. The caller checks permission."""
    tokens = Token.objects.select_for_update(of=("self",), no_key=True).filter(scheduler_name=name, revoked_at=None)
    for token in tokens.filter(last_used_at=None) if unused_only else tokens:
        _revoke(token, at, actor)


def _revoke(token: Token, at: datetime, actor: Actor) -> None:
    token.revoked_at = at
    token.save(update_fields=["revoked_at"])
    audit.record(actor=actor, verb="token.revoked", at=at, policy_slug=token.policy_slug, subject=str(token))
    transaction.on_commit(lambda: token_files.forget(f"fsh_{token.public_id}"))


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A valid token with its user and bounds, and the time until which it is valid unless revoked.

    row: as it was read; None for one that a file knows, with the state that it had.
    """

    user: User
    bounds: TokenBounds
    valid_until: datetime
    row: Token | None = None
    state_then: str = ""

    @property
    def state(self) -> str:
        """Changes with all of the stored token and its user that a verification follows from."""
        return self.state_then if self.row is None else _state_of(self.row)

    def to_json(self) -> dict[str, Any]:
        """All but the prefix and the state."""
        return {
            "user": [self.user.pk, self.user.username, self.user.is_superuser],
            "scopes": sorted(self.bounds.scopes),
            "bounds": [self.bounds.policy_slug, str(self.bounds.subtree_uid or ""), *self.bounds.bounds[2:]],
            "valid_until": self.valid_until.isoformat(),
        }

    @classmethod
    def of_json(cls, content: Mapping[str, Any], *, prefix: str, state: str) -> VerifiedToken:
        """The user is an unsaved object, so that nothing is queried."""
        pk, username, is_superuser = content["user"]
        policy_slug, subtree_uid, source_slug, *scheduler = content["bounds"]  # none in files of before
        bounds = TokenBounds(
            prefix=prefix,
            scopes=frozenset(content["scopes"]),
            policy_slug=policy_slug,
            subtree_uid=UUID(subtree_uid) if subtree_uid else None,
            source_slug=source_slug,
            scheduler_name=scheduler[0] if scheduler else "",
        )
        user = User(pk=pk, username=username, is_active=True, is_superuser=is_superuser)
        return cls(user, bounds, datetime.fromisoformat(content["valid_until"]), state_then=state)


def verify_token(text: str, *, at: datetime) -> tuple[User, TokenBounds]:
    """The user and bounds of a valid token.

    Raises:
        Unauthenticated: not a token, unknown, expired or revoked, or its user is deactivated.
    """
    verified = look_up_token(text, at=at)
    return verified.user, verified.bounds


def prefix_of(text: str) -> str | None:
    """The public part of a token's text; None if it isn't one."""
    match = _FORM.fullmatch(text)
    return None if match is None else f"fsh_{match[1]}"


def look_up_token(text: str, *, at: datetime) -> VerifiedToken:
    """Like `verify_token`, with the end of the token's validity."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise _refused()
    public_id, secret = match.groups()
    token = Token.objects.select_related("user").filter(public_id=public_id).first()
    valid_until = _valid_until(token, secret, at)
    if token is None or valid_until is None or token.revoked_at or not token.user.is_active:
        raise _refused()
    _note_use(token, at)
    bounds = TokenBounds(
        prefix=f"fsh_{public_id}",
        scopes=frozenset(token.scopes),
        policy_slug=token.policy_slug,
        subtree_uid=token.subtree_uid,
        source_slug=token.source_slug,
        scheduler_name=token.scheduler_name,
    )
    return VerifiedToken(user=token.user, bounds=bounds, valid_until=valid_until, row=token)


def states_of(prefixes: Iterable[str]) -> dict[str, str]:
    """`VerifiedToken.state` of the tokens that still exist, by prefix."""
    rows = Token.objects.select_related("user").filter(public_id__in=[each.removeprefix("fsh_") for each in prefixes])
    return {f"fsh_{token.public_id}": _state_of(token) for token in rows}


def _state_of(token: Token) -> str:
    user = token.user
    parts = [
        sorted(token.scopes),
        [token.policy_slug, str(token.subtree_uid), token.source_slug, token.scheduler_name],
        [bytes(token.digest).hex(), bytes(token.previous_digest or b"").hex(), token.pepper_version],
        [str(each and each.timestamp()) for each in (token.expires_at, token.previous_until, token.revoked_at)],
        [user.pk, user.username, user.is_active, user.is_superuser],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@transaction.atomic
def make_user(
    *, username: str, email: str, password: str | None, is_admin: bool, at: datetime | None = None, actor: Actor
) -> tuple[User, str | None]:
    """Create a user. Without a password one is generated, and returned only here."""
    if not actor.is_admin:
        raise NotAllowed(_("Only administrators can add users."))
    user = User(username=username, email=email, is_superuser=is_admin, is_staff=is_admin)
    made = None if password is not None else secrets.token_urlsafe(15)
    try:
        user.clean_fields(exclude=["password"])
        validate_password(password or made or "", user)
    except ValidationError as error:
        raise _from_validation(error) from error
    if User.objects.filter(username=username).exists():
        raise Conflict(_("A user %(name)s already exists.") % {"name": username}, code="user_exists")
    user.set_password(password if password is not None else made)
    if at is not None:
        user.date_joined = at
    user.save()
    audit.record(actor=actor, verb="user.made", at=user.date_joined, subject=username, details={"is_admin": is_admin})
    return user, made


def _require_token_rights(actor: Actor, user: User) -> None:
    """Check that the actor may create tokens for the user: not through a token, except an unbound one with scope
    `admin`.
    """
    if actor.is_bound or not actor.has_scope(Token.Scope.ADMIN):
        raise NotAllowed(_("Sign in to create tokens: a token can’t."))
    if not actor.is_admin and (actor.user is None or actor.user.pk != user.pk):
        raise NotAllowed(_("You can create tokens for yourself only."))


def _checked_scopes(scopes: Iterable[str], actor: Actor) -> list[str]:
    chosen = sorted({str(scope) for scope in scopes})
    unknown = [scope for scope in chosen if scope not in Token.Scope.values]
    if unknown or not chosen:
        message = _("Choose at least one of: %(scopes)s.") % {"scopes": ", ".join(Token.Scope.values)}
        raise _invalid("scopes", message)
    above = [scope for scope in chosen if scope not in allowed_scopes(actor)]
    if above:
        raise NotAllowed(_("Only an administrator gives a token %(scopes)s.") % {"scopes": ", ".join(above)})
    return chosen


def _own_token(token_id: int, actor: Actor) -> Token:
    token = (
        Token.objects.select_for_update(of=("self",), no_key=True).select_related("user").filter(pk=token_id).first()
    )
    if token is None or not (actor.is_admin or (actor.user is not None and token.user_id == actor.user.pk)):
        raise NotFound(_("Not found, or not visible to you."))
    _require_token_rights(actor, token.user)
    return token


def _valid_until(token: Token | None, secret: str, at: datetime) -> datetime | None:
    """Time until which this secret is valid for the token; takes equally long for an unknown token."""
    version = token.pepper_version if token else 0
    digest = _digest(secret, version)
    if hmac.compare_digest(digest, bytes(token.digest) if token else b"\0" * 32) and token:
        return token.expires_at if at < token.expires_at else None
    if token is None or token.previous_digest is None or token.previous_until is None:
        return None
    previous = bytes(token.previous_digest)
    versions = range(len(settings.FAIRSHARE_TOKEN_PEPPERS))  # the old secret may have used an older pepper
    opens = [hmac.compare_digest(_digest(secret, candidate), previous) for candidate in versions]
    return token.previous_until if any(opens) and at < token.previous_until else None


def _digest(secret: str, version: int) -> bytes:
    """Keyed hash of a secret. A fast hash is sufficient for 256 random bits, unlike for passwords."""
    peppers: list[str] = settings.FAIRSHARE_TOKEN_PEPPERS
    pepper = peppers[version] if version < len(peppers) else secrets.token_hex(32)
    return hmac.new(pepper.encode(), secret.encode(), hashlib.sha256).digest()


def _note_use(token: Token, at: datetime) -> None:
    if token.last_used_at is not None and at - token.last_used_at < LAST_USED_EVERY:
        return
    unnoted = Q(last_used_at=None) | Q(last_used_at__lt=at - LAST_USED_EVERY)
    Token.objects.filter(unnoted, pk=token.pk).update(last_used_at=at)


def _refused() -> Unauthenticated:
    return Unauthenticated(_("This token is not valid: it is unknown, expired or revoked."), code="invalid_token")


def _invalid(where: str, message: str) -> Invalid:
    return Invalid(message, fields=[FieldProblem(where, message)])


def _from_validation(error: ValidationError) -> Invalid:
    by_field = getattr(error, "error_dict", None)
    problems = (
        [FieldProblem(where, " ".join(problem.messages)) for where, ones in by_field.items() for problem in ones]
        if by_field
        else [FieldProblem("password", message) for message in error.messages]
    )
    return Invalid(" ".join(problem.message for problem in problems), fields=problems)
