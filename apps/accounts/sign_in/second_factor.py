"""Two-factor authentication: codes of an authenticator app (RFC 6238) and recovery codes.

Tables are from allauth.mfa, one-time passwords from cryptography. This module adds what services need here: time as an
argument, one transaction with the audit row, and codes that are valid once across processes. Secrets are stored
encrypted: a copy of the database alone is not sufficient to sign in.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from datetime import datetime

from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.utils import decrypt, encrypt
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.hotp import HOTP
from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.accounts.models import User
from apps.accounts.sign_in.sealing import seal, unseal
from apps.core.code_paths import command_name
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound, Unavailable

_PURPOSE = "second factor"


class SealedAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth has no types
    """Hooks of allauth that encrypt and decrypt secrets."""

    def encrypt(self, text: str) -> str:
        return seal(_PURPOSE, text)

    def decrypt(self, encrypted_text: str) -> str:
        """Decrypt a secret.

        Raises:
            Unavailable: it was sealed with a key that is neither SECRET_KEY nor a fallback.
        """
        return unseal(_PURPOSE, encrypted_text)


PERIOD_S = 30
DIGITS = 6
_DRIFT = 1  # periods by which a phone's clock may differ
_MOST_FAILURES, _WITHIN_S = 20, 3_600  # limits guessing with a known password from any number of addresses
_TOTP, _CODES = Authenticator.Type.TOTP, Authenticator.Type.RECOVERY_CODES


def has_second_factor(user: User) -> bool:
    return bool(Authenticator.objects.filter(user_id=user.pk, type=_TOTP).exists())


def needs_second_factor(user: User) -> bool:
    """Whether the site requires a second factor of this user."""
    return bool(settings.FAIRSHARE_MFA_FOR_ADMINS and user.is_superuser)


def n_codes_left(user: User) -> int:
    codes = Authenticator.objects.filter(user_id=user.pk, type=_CODES).first()
    return 0 if codes is None else int(settings.MFA_RECOVERY_CODE_COUNT) - int(codes.data["used_mask"]).bit_count()


def new_secret() -> str:
    """Generate 160 random bits in base 32, as apps expect them."""
    return base64.b32encode(secrets.token_bytes(20)).decode("ascii")


def code_at(secret: str, at: datetime) -> str:
    """The code that an app shows at this time."""
    return _code_of(secret, _counter_at(at))


def add_second_factor(*, user: User, secret: str, code: str, at: datetime, actor: Actor) -> list[str]:
    """Turn on two-factor authentication; returns the recovery codes, to be shown once."""
    _require_own(user, actor)
    counter = _counter_of(secret, code, at, after=-1)
    if counter is None:
        raise _no_match()
    with transaction.atomic():
        _lock(user)
        if has_second_factor(user):
            raise Conflict(_("Two-factor authentication is on already."), code="second_factor_exists")
        data = {"secret": encrypt(secret), "counter": counter, "failures": []}
        Authenticator.objects.create(user=user, type=_TOTP, data=data, created_at=at)
        codes = _new_codes(user, at)
        record(actor=actor, verb="user.second_factor_added", at=at, subject=user.username)
    return codes


def check_second_factor(*, user: User, code: str, at: datetime, actor: Actor) -> bool:
    """Check a code: the app's current one, or an unused recovery code. Each is valid once; failures are counted.

    Raises:
        NotAllowed: too many failures.
    """
    text = "".join(code.split()).replace("-", "")
    with transaction.atomic():
        authenticator = Authenticator.objects.select_for_update(no_key=True).filter(user_id=user.pk, type=_TOTP).first()
        if authenticator is None:
            return False
        now_s = int(at.timestamp())
        failures = [then for then in authenticator.data["failures"] if now_s - then < _WITHIN_S]
        is_closed = len(failures) >= _MOST_FAILURES
        fits = not is_closed and (_fits_app(authenticator, text, at) or _fits_recovery(user, text, at, actor))
        if fits:
            authenticator.last_used_at, failures = at, []
        elif not is_closed:
            failures.append(now_s)
            if len(failures) == _MOST_FAILURES:
                record(actor=actor, verb="user.second_factor_closed", at=at, subject=user.username, outcome="refused")
        authenticator.data["failures"] = failures
        authenticator.save(update_fields=["data", "last_used_at"])
    if is_closed:
        raise NotAllowed(_("Too many wrong codes: wait an hour, then try again."), code="too_many_codes")
    return fits


def renew_recovery_codes(*, user: User, code: str, at: datetime, actor: Actor) -> list[str]:
    """Replace the recovery codes by ten new ones; the old ones become invalid."""
    _require_own(user, actor)
    _require_code(user, code, at, actor)
    with transaction.atomic():
        _lock(user)
        Authenticator.objects.filter(user_id=user.pk, type=_CODES).delete()
        codes = _new_codes(user, at)
        record(actor=actor, verb="user.recovery_codes_renewed", at=at, subject=user.username)
    return codes


def remove_second_factor(*, user: User, code: str, at: datetime, actor: Actor) -> None:
    """Turn off two-factor authentication, by its owner, with a valid code."""
    _require_own(user, actor)
    _require_code(user, code, at, actor)
    _forget(user, at, actor)


def forget_second_factor(*, username: str, at: datetime, actor: Actor) -> None:
    """Turn off two-factor authentication of a user without app and recovery codes, whom the operator has identified."""
    if not actor.is_system:
        raise NotAllowed(
            _("Only an operator can do this, on the server: %(command)s.")
            % {"command": command_name("forget_second_factor")}
        )
    user = User.objects.filter(username=username).first()
    if user is None or not has_second_factor(user):
        raise NotFound(_("No user %(name)s uses two-factor authentication.") % {"name": username[:150]})
    _forget(user, at, actor)


def _forget(user: User, at: datetime, actor: Actor) -> None:
    with transaction.atomic():
        Authenticator.objects.filter(user_id=user.pk, type__in=[_TOTP, _CODES]).delete()
        record(actor=actor, verb="user.second_factor_removed", at=at, subject=user.username)


def _fits_app(authenticator: Authenticator, code: str, at: datetime) -> bool:
    """Check an app's code: codes that were used, and older ones, are rejected."""
    try:
        secret = decrypt(authenticator.data["secret"])
    except Unavailable:  # sealed with a lost SECRET_KEY: an operator must remove it
        return False
    counter = _counter_of(secret, code, at, after=authenticator.data["counter"])
    if counter is None:
        return False
    authenticator.data["counter"] = counter
    return True


def _fits_recovery(user: User, code: str, at: datetime, actor: Actor) -> bool:
    codes = Authenticator.objects.select_for_update(no_key=True).filter(user_id=user.pk, type=_CODES).first()
    if codes is None or len(code) != settings.MFA_RECOVERY_CODE_DIGITS or not (code.isascii() and code.isdigit()):
        return False
    try:
        known = _codes_of(decrypt(codes.data["seed"]))
    except Unavailable:
        return False
    used = codes.data["used_mask"]
    fitting = [i for i, each in enumerate(known) if hmac.compare_digest(each, code) and not used >> i & 1]
    if not fitting:
        return False
    codes.data["used_mask"] = used | 1 << fitting[0]
    codes.save(update_fields=["data"])
    left = n_codes_left(user)
    record(actor=actor, verb="user.recovery_code_used", at=at, subject=user.username, details={"n_left": left})
    return True


def _code_of(secret: str, counter: int) -> str:
    """RFC 4226, with SHA-1, as apps compute it."""
    return HOTP(base64.b32decode(secret, casefold=True), DIGITS, SHA1()).generate(counter).decode("ascii")  # noqa: S303


def _counter_at(at: datetime) -> int:
    return int(at.timestamp()) // PERIOD_S


def _counter_of(secret: str, code: str, at: datetime, *, after: int) -> int | None:
    """The period of the code, if it is near `at` and later than `after`; else None."""
    text, now = "".join(code.split()), _counter_at(at)
    for counter in range(max(now - _DRIFT, after + 1), now + _DRIFT + 1):
        if hmac.compare_digest(text.encode(), _code_of(secret, counter).encode()):
            return counter
    return None


def _new_codes(user: User, at: datetime) -> list[str]:
    seed = secrets.token_hex(40)
    values = {"data": {"seed": encrypt(seed), "used_mask": 0}, "created_at": at}
    Authenticator.objects.update_or_create(user_id=user.pk, type=_CODES, defaults=values)
    return _codes_of(seed)


def _codes_of(seed: str) -> list[str]:
    """Recovery codes by the scheme of allauth.mfa, which stored seeds were made for."""
    digits, codes = settings.MFA_RECOVERY_CODE_DIGITS, []
    digest = hmac.new(seed.encode("ascii"), digestmod="sha1")
    for i in range(settings.MFA_RECOVERY_CODE_COUNT):
        digest.update(f"{i:3},".encode())
        codes.append(str(int.from_bytes(digest.digest()[: digits // 2]) % 10**digits).zfill(digits))
    return codes


def _lock(user: User) -> None:
    User.objects.select_for_update(no_key=True).get(pk=user.pk)


def _require_own(user: User, actor: Actor) -> None:
    if actor.user is None or actor.user.pk != user.pk or actor.token is not None:
        raise NotAllowed(_("Users manage two-factor authentication on their own page."))


def _require_code(user: User, code: str, at: datetime, actor: Actor) -> None:
    if not check_second_factor(user=user, code=code, at=at, actor=actor):
        raise _no_match()


def _no_match() -> Invalid:
    problem = _("wrong code: enter the one that the app shows now; if it never works, check the clock of your device")
    return Invalid(_("Wrong code, or used already."), code="wrong_code", fields=[FieldProblem("code", problem)])
