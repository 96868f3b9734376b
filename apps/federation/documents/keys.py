"""This authority's own keys: made at first need, replaced on request, each handing over to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from apps.accounts.actor import Actor
from apps.accounts.audit import log as audit
from apps.accounts.sign_in.sealing import seal, unseal
from apps.core.errors import NotAllowed
from apps.core.signing import Link, PublicKey, SigningKey, hand_over
from apps.federation.models import SiteKey

_PURPOSE = "signing key"
_ONE_AT_A_TIME = 0x66736B79  # a lock of the database: two processes that need the first key make one


@dataclass(frozen=True)
class OwnKeys:
    """The key that signs, and how those who trust an older one come to it."""

    key: SigningKey
    chain: Sequence[Link]


def load_keys(*, at: datetime) -> OwnKeys:
    """Makes the first key where there is none yet.

    Raises:
        Unavailable: SECRET_KEY was replaced without leaving the old one among its fallbacks.
    """
    rows = list(SiteKey.objects.order_by("number"))
    if not rows:
        with transaction.atomic():
            _lock()
            rows = list(SiteKey.objects.order_by("number")) or [_store(SigningKey.generate(), 1, b"", at)]
    return OwnKeys(_opened(rows[-1]), _chain(rows))


@transaction.atomic
def rotate_key(*, reason: str, at: datetime, actor: Actor) -> PublicKey:
    """Make a new key, signed by the present one: sites that trust this one follow.

    Raises:
        NotAllowed: only administrators.
    """
    if not actor.is_admin:
        raise NotAllowed("Only administrators replace the site's key.")
    _lock()
    present = load_keys(at=at)
    new = SigningKey.generate()
    link = hand_over(present.key, new.public)
    row = _store(new, SiteKey.objects.count() + 1, link.signature, at)
    details = {"from": present.key.public.fingerprint, "to": row.fingerprint}
    audit.record(actor=actor, verb="federation.key_rotated", at=at, subject="site key", reason=reason, details=details)
    return new.public


def list_keys() -> list[SiteKey]:
    """Oldest first; what is public of them."""
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


def _opened(row: SiteKey) -> SigningKey:
    return SigningKey(bytes.fromhex(unseal(_PURPOSE, row.sealed)))


def _chain(rows: Sequence[SiteKey]) -> list[Link]:
    keys = [PublicKey(bytes(row.public)) for row in rows]
    signatures = [bytes(row.rotation_signature) for row in rows]
    return [Link(older, newer, by) for older, newer, by in zip(keys, keys[1:], signatures[1:], strict=False)]
