"""What a first start makes up and keeps in var: passwords of the people it creates, readable by the owner only."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

from apps.cli.stack.paths import private_dir, var_dir

SIGN_INS = "sign-ins"
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # no 0, O, 1 and l: people type these
_GROUPS, _GROUP_LENGTH = 4, 5  # 20 characters of 32: 100 bits


def password_for(name: str, *, var: Path | None = None) -> str:
    """The password of a person the first start creates: made once, kept in var/sign-ins, printed once."""
    path = private_dir(var or var_dir()) / SIGN_INS
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        known = _parse(file.read())
        if name not in known:
            known[name] = _make_password()
            file.write(f"{name} {known[name]}\n")
        return known[name]


def sign_ins(*, var: Path | None = None) -> dict[str, str]:
    """Names and passwords made here; later changes are unknown."""
    try:
        return _parse(((var or var_dir()) / SIGN_INS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def _parse(text: str) -> dict[str, str]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _make_password() -> str:
    letters = (secrets.choice(_ALPHABET) for _ in range(_GROUPS * _GROUP_LENGTH))
    text = "".join(letters)
    return "-".join(text[start : start + _GROUP_LENGTH] for start in range(0, len(text), _GROUP_LENGTH))
