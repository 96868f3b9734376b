"""Secrets of second factors lie in the database sealed: a copy of it alone lets nobody in."""

from __future__ import annotations

import base64
import hashlib

from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings


class SealedAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth has no types
    """What allauth asks before it stores a secret, and after it has read one."""

    def encrypt(self, text: str) -> str:
        return _keys().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Raises InvalidToken where neither SECRET_KEY nor a fallback is the one that it was sealed with."""
        return _keys().decrypt(encrypted_text.encode()).decode()


def _keys() -> MultiFernet:
    """Of SECRET_KEY, which seals, and of its predecessors, which still open."""
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return MultiFernet([Fernet(_key_of(key)) for key in keys])


def _key_of(secret_key: str) -> bytes:
    return base64.urlsafe_b64encode(hashlib.sha256(b"second factor:" + secret_key.encode()).digest())
