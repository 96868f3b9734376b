"""Encrypt secrets that must be readable again, so that a copy of the database alone does not reveal them."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from apps.core.errors import Unavailable


def seal(purpose: str, text: str) -> str:
    return _keys(purpose).encrypt(text.encode()).decode()


def unseal(purpose: str, sealed: str) -> str:
    """Decrypt a sealed secret.

    Raises:
        Unavailable: it was sealed with a key that is neither SECRET_KEY nor a fallback.
    """
    try:
        return _keys(purpose).decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        message = "A stored secret was sealed with another SECRET_KEY: add that to SECRET_KEY_FALLBACKS, or renew it."
        raise Unavailable(message, code="sealed_otherwise") from error


def _keys(purpose: str) -> MultiFernet:
    """Keys derived from SECRET_KEY, for encryption, and from its fallbacks, for decryption; different for each
    purpose.
    """
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    digests = [hashlib.sha256(f"{purpose}:{key}".encode()).digest() for key in keys]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])
