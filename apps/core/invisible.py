"""Invisible characters, which could make two names look alike or hide a formula.

These are Unicode's format characters (category Cf) except visible ones, and others without a glyph: fillers, variation
selectors, the combining grapheme joiner, the empty braille pattern.
"""

from __future__ import annotations

import re

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_CONTROL = re.compile(f"[{INVISIBLE}\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def first_invisible(text: str) -> str:
    """The first invisible character; "" if there is none."""
    match = None if text.isascii() else _INVISIBLE.search(text)
    return match[0] if match else ""


def shown(text: str) -> str:
    """The text with each invisible character replaced by its code, as in `an[U+200B]na`."""
    return text if text.isascii() else _INVISIBLE.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def visible(text: str) -> str:
    """The text as displayed: without invisible and control characters, except tabs and line ends."""
    return text if text.isascii() and text.isprintable() else _CONTROL.sub("", text)
