"""People as other systems know them: who they are here, and which of their groups they are in today."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256

SOURCES = ("oidc", "ldap", "header")
LONGEST_GROUP = 150  # as Django's groups have it
_AROUND = re.compile(r"\s*([,=])\s*")


def clean_group(name: str) -> str:
    """The one way in which a group of sign-in is written: `oidc:physics`, `ldap:cn=hpc,ou=groups`, `header:staff`.

    Distinguished names differ in case and spaces without meaning it. What is too long keeps its beginning and a digest.
    Raises ValueError.
    """
    text = unicodedata.normalize("NFC", name.strip())
    if not text or len(text) > 4_000:
        raise ValueError("must name a group of sign-in, such as oidc:physics")
    if any(unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for character in text):
        raise ValueError("contains a character that can't be seen; leave it out")
    source, colon, rest = text.partition(":")
    if colon and source.lower() in SOURCES:
        text = f"{source.lower()}:{rest.strip()}"
    if text.startswith("ldap:"):
        text = _AROUND.sub(r"\1", text).lower()
    if len(text) > LONGEST_GROUP:
        digest = sha256(text.encode()).hexdigest()[:16]
        text = f"{text[: LONGEST_GROUP - 17]}~{digest}"
    return text
