"""The name of a new entry that an account gets."""

from __future__ import annotations

import hashlib
import re
import unicodedata

import numpy as np
import numpy.typing as npt

from apps.core.invisible import first_invisible
from apps.core.strings import Strings
from apps.mapping.rules.rule import LONGEST_NAME_PART

NO_NAME = "(none)"
_USUAL = str.maketrans("", "", "-_.@")  # beside letters and digits, in names of users
_ESCAPED = re.compile(r"%([0-9A-F]{2}(?:%[0-9A-F]{2})*)")
_LETTERS_AND_DIGITS = np.zeros(256, np.bool_)
_LETTERS_AND_DIGITS[[byte for byte in range(128) if chr(byte).isalnum()]] = True
_PLAIN = _LETTERS_AND_DIGITS.copy()
_PLAIN[list(b"-_.@")] = True
_NEVER = frozenset({"Cc", "Cs", "Zl", "Zp"})


def entry_name(text: str) -> str:
    """Convert text to a valid entry name: invalid characters and '%' become %XX of their UTF-8 bytes.

    Deterministic. A name longer than 128 characters is cut and ends in part of its hash.
    """
    if not text:
        return NO_NAME
    if text.isascii() and text.translate(_USUAL).isalnum() and len(text) <= LONGEST_NAME_PART:
        return text
    if text in (".", ".."):
        return "".join(map(_percent, text))
    normal = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())
    last = len(normal) - 1
    name = "".join(
        _percent(char) if _is_refused(char) or (char.isspace() and at in (0, last)) else char
        for at, char in enumerate(normal)
    )
    if len(name) <= LONGEST_NAME_PART:
        return name
    return name[: LONGEST_NAME_PART - 17] + "~" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def are_usual(names: Strings) -> npt.NDArray[np.bool_]:
    """Whether each name has only characters that need no conversion, and begins with a letter or digit.

    For these, `entry_name` and `text_of` change nothing.
    """
    utf8, ends = np.frombuffer(names.utf8, np.uint8), names.ends.astype(np.int64)
    lengths = np.diff(ends, prepend=0)
    usual = (lengths > 0) & (lengths <= LONGEST_NAME_PART)
    usual[ends.searchsorted(np.flatnonzero(~_PLAIN[utf8]), "right")] = False
    usual[usual] = _LETTERS_AND_DIGITS[utf8[(ends - lengths)[usual]]]
    return usual


def text_of(name: str) -> str:
    """Undo `entry_name`, unless the name was cut."""
    if name == NO_NAME:
        return ""
    if "%" not in name:
        return name
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[1].replace("%", "")).decode("utf-8", "replace"), name)


def _is_refused(character: str) -> bool:
    return character in "/%<>" or bool(first_invisible(character)) or unicodedata.category(character) in _NEVER


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
