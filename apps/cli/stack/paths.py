"""Paths of an instance's files, and secrets that a first start generates. Imported by the settings: without Django."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from pathlib import Path

from apps.core.code_paths import IS_INSTALLED, REPOSITORY, command_name
from apps.core.private_dirs import PRIVATE, private_dir

#: Limit of a unix socket's path: 108 bytes with terminator on Linux, 104 on macOS.
_LONGEST_SOCKET_PATH = 100
_SOCKET_NAME = ".s.PGSQL.5432.lock"
_SECRET_LENGTH = 50
_is_required = False
SIGN_INS = "sign-ins"
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # without 0, O, 1 and l, which are easily confused
_GROUPS, _GROUP_LENGTH = 4, 5  # 20 characters of 32: 100 bits


class NoInstance(Exception):
    """There is no folder of an instance where one is only examined."""


def var_dir() -> Path:
    """The folder of all files of an instance: FAIRSHARE_VAR, or `var` in the clone or the current folder.

    Raises:
        NoInstance: it isn't there, and this process makes none.
    """
    home = Path.cwd() if IS_INSTALLED else REPOSITORY
    var = Path(os.environ.get("FAIRSHARE_VAR") or home / "var").expanduser().absolute()
    if _is_required and not var.is_dir() and not os.environ.get("DATABASE_URL"):  # whose host has files of its own
        raise NoInstance(
            f"There is no instance in {var}: set FAIRSHARE_VAR to its folder, or make one: `{command_name('up')}`."
        )
    return var


def require_instance() -> None:
    """From now on this process makes no instance: settings would make the folder, with keys of its own."""
    global _is_required
    _is_required = True


def socket_dir(var: Path) -> Path:
    """Folder of the embedded database's socket: in var, or in /tmp if that path is too long."""
    inside = var / "socket"
    if len(os.fsencode(inside / _SOCKET_NAME)) <= _LONGEST_SOCKET_PATH:
        return inside
    digest = hashlib.sha256(os.fsencode(var)).hexdigest()[:16]
    return Path("/tmp") / f"fairshare-{os.geteuid()}-{digest}"  # noqa: S108 - ownership is checked by private_dir


def broker_dirs(var: Path) -> dict[str, str]:
    """Transport options of the file broker. Input and output share a folder, so that all processes see all messages."""
    folders = {name: var / "broker" / name for name in ("queue", "processed", "control")}
    for folder in folders.values():
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    return {
        "data_folder_in": str(folders["queue"]),
        "data_folder_out": str(folders["queue"]),
        "processed_folder": str(folders["processed"]),
        "control_folder": str(folders["control"]),
    }


def read_or_make_secret(name: str, *, var: Path | None = None) -> str:
    """A random secret, stored in var with mode 0600. Concurrent processes get the same secret."""
    path = (var or var_dir()) / name
    if not path.exists():
        write_once(path, secrets.token_urlsafe(_SECRET_LENGTH)[:_SECRET_LENGTH] + "\n")
    return path.read_text(encoding="ascii").strip()


def write_once(path: Path, text: str) -> None:
    """Create a private file atomically. An existing file is not changed."""
    path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
    finally:
        draft.unlink()


def password_for(name: str) -> str:
    """Password of a user that the first start creates; generated once and stored in var/sign-ins."""
    path = private_dir(var_dir()) / SIGN_INS
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        known = _parse(file.read())
        if name not in known:
            known[name] = _make_password()
            file.write(f"{name} {known[name]}\n")
        return known[name]


def sign_ins(*, var: Path) -> dict[str, str]:
    """User names with generated passwords, which users may have changed since."""
    try:
        return _parse((var / SIGN_INS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def _parse(text: str) -> dict[str, str]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _make_password() -> str:
    letters = (secrets.choice(_ALPHABET) for _ in range(_GROUPS * _GROUP_LENGTH))
    text = "".join(letters)
    return "-".join(text[start : start + _GROUP_LENGTH] for start in range(0, len(text), _GROUP_LENGTH))
