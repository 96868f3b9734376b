"""Names of users and groups, as sources know them, into names that entries may have; and back."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from apps.core.invisible import first_invisible

LONGEST = 128
NO_NAME = "(none)"
_ESCAPED = re.compile(r"%([0-9A-F]{2}(?:%[0-9A-F]{2})*)")
_NEVER = frozenset({"Cc", "Cs", "Zl", "Zp"})


def entry_name(text: str) -> str:
    """A name an entry may have: what it may not contain, and '%', is written as %XX of its UTF-8 bytes.

    Deterministic. A name longer than 128 characters ends in part of its hash instead.
    """
    if not text:
        return NO_NAME
    if text.isascii() and text.isalnum() and len(text) <= LONGEST:
        return text
    if text in (".", ".."):
        return "".join(map(_percent, text))
    normal = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())
    last = len(normal) - 1
    name = "".join(
        _percent(one) if _is_refused(one) or (one.isspace() and at in (0, last)) else one
        for at, one in enumerate(normal)
    )
    if len(name) <= LONGEST:
        return name
    return name[: LONGEST - 17] + "~" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def text_of(name: str) -> str:
    """The text that `entry_name` turned into this name, if it wasn't cut."""
    if name == NO_NAME:
        return ""
    if "%" not in name:
        return name
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[1].replace("%", "")).decode("utf-8", "replace"), name)


def _is_refused(character: str) -> bool:
    return character in "/%<>" or bool(first_invisible(character)) or unicodedata.category(character) in _NEVER


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
