"""Secrets of second factors are stored sealed: a copy of the database alone lets no one in."""

from __future__ import annotations

from allauth.mfa.adapter import DefaultMFAAdapter

from apps.accounts.sign_in.sealing import seal, unseal

_PURPOSE = "second factor"


class SealedAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth has no types
    """What allauth asks before it stores a secret, and after it has read one."""

    def encrypt(self, text: str) -> str:
        return seal(_PURPOSE, text)

    def decrypt(self, encrypted_text: str) -> str:
        """Raises Unavailable where neither SECRET_KEY nor a fallback is the one that it was sealed with."""
        return unseal(_PURPOSE, encrypted_text)
