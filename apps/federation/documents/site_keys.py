"""This authority's own keys.

The first key is made when it is needed. It can be replaced; each key signs its successor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.sign_in.sealing import seal, unseal
from apps.core.errors import NotAllowed
from apps.core.signing import Link, PublicKey, SigningKey, sign_successor
from apps.federation.models import SiteKey

_PURPOSE = "signing key"
_ONE_AT_A_TIME = 0x66736B79  # advisory lock of the database, so that two processes don't both make the first key


@dataclass(frozen=True)
class OwnKeys:
    """The signing key, and the chain of signatures that leads to it from older keys."""

    key: SigningKey
    chain: Sequence[Link]


def load_keys(*, at: datetime) -> OwnKeys:
    """Load the keys, and make the first one if there is none.

    Raises:
        Unavailable: SECRET_KEY was replaced and the old one isn't among its fallbacks.
    """
    rows = list(SiteKey.objects.order_by("number"))
    if not rows:
        with transaction.atomic():
            _lock()
            rows = list(SiteKey.objects.order_by("number")) or [_store(SigningKey.generate(), 1, b"", at)]
    keys = [PublicKey(bytes(row.public)) for row in rows]
    signatures = [bytes(row.rotation_signature) for row in rows]
    return OwnKeys(
        SigningKey(bytes.fromhex(unseal(_PURPOSE, rows[-1].sealed))),
        [Link(older, newer, by) for older, newer, by in zip(keys, keys[1:], signatures[1:], strict=False)],
    )


def require_rotation(actor: Actor) -> None:
    if not actor.is_admin:
        raise NotAllowed("Only administrators replace the site's key.")


@transaction.atomic
def rotate_key(*, reason: str, at: datetime, actor: Actor) -> PublicKey:
    """Make a new key, signed by the present one, so that sites that trust this one follow.

    Raises:
        NotAllowed: not an administrator.
    """
    require_rotation(actor)
    _lock()
    present = load_keys(at=at)
    new = SigningKey.generate()
    link = sign_successor(present.key, new.public)
    row = _store(new, SiteKey.objects.count() + 1, link.signature, at)
    details = {"from": present.key.public.fingerprint, "to": row.fingerprint}
    audit.record(actor=actor, verb="federation.key_rotated", at=at, subject="site key", reason=reason, details=details)
    return new.public


def list_keys() -> list[SiteKey]:
    """All keys without their secrets, oldest first."""
    return list(SiteKey.objects.order_by("number").defer("sealed"))


def _lock() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ONE_AT_A_TIME])


def _store(key: SigningKey, number: int, rotation_signature: bytes, at: datetime) -> SiteKey:
    public = key.public
    return SiteKey.objects.create(
        number=number,
        fingerprint=public.fingerprint,
        public=public.raw,
        rotation_signature=rotation_signature,
        made_at=at,
        sealed=seal(_PURPOSE, key.raw.hex()),
    )
