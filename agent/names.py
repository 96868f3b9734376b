"""Patterns of names in commands and look-ups; names that don't match are skipped and reported."""

import re
import unicodedata

JOB = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\-]{0,127}\$?", re.ASCII)  # names in a directory are DOMAIN\user
SUBMITTER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,200}@[A-Za-z0-9_.-]{1,200}", re.ASCII)
GROUP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+:/-]{0,127}", re.ASCII)
PARTITION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+:-]{0,127}", re.ASCII)
ARRAY_TASK = re.compile(r"[0-9][0-9,:%.-]{0,254}", re.ASCII)
SLUG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
MOST_DETAIL = 300  # characters


def shown(text: str, most: int = 60) -> str:
    """For a message: on one line, without control characters, truncated."""
    clean = "".join(c if unicodedata.category(c)[0] != "C" else "?" for c in " ".join(text.splitlines()))
    return clean if len(clean) <= most else clean[: most - 1] + "…"
