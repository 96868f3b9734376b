"""A pack signed with the site's own key, so that a changed number is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.core.signing import digest_of, sign_document
from apps.federation.documents.site_keys import load_keys


@dataclass(frozen=True)
class SignedPack:
    """signed: both lines of the signed document, see `core.signing`. digest: SHA-256 of its canonical JSON."""

    signed: bytes
    digest: str
    fingerprint: str


def sign_pack(document: Mapping[str, Any], *, at: datetime) -> SignedPack:
    keys = load_keys(at=at)
    signed = sign_document(document, keys.key, keys.chain)
    return SignedPack(signed, digest_of(document), keys.key.public.fingerprint)
