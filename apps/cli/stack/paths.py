"""Where an instance keeps what it makes. Settings read this too, so nothing here imports Django."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]

#: sun_path of a unix socket holds 108 bytes, terminator included; macOS has 104.
_LONGEST_SOCKET_PATH = 100
_SOCKET_NAME = ".s.PGSQL.5432.lock"


class InsecureDirectory(Exception):
    """Another user owns a directory that has to be private."""


def var_dir() -> Path:
    """FAIRSHARE_VAR moves everything an instance makes, so that several run side by side."""
    return Path(os.environ.get("FAIRSHARE_VAR") or REPOSITORY / "var").expanduser().absolute()


def socket_dir(var: Path) -> Path:
    """Where the embedded database listens: in var, or in a short private place when that path is too long."""
    inside = var / "socket"
    if len(os.fsencode(inside / _SOCKET_NAME)) <= _LONGEST_SOCKET_PATH:
        return inside
    digest = hashlib.sha256(os.fsencode(var)).hexdigest()[:16]
    return Path("/tmp") / f"fairshare-{os.geteuid()}-{digest}"  # noqa: S108 - ownership is checked by private_dir


def private_dir(path: Path, mode: int = 0o700) -> Path:
    """Make a directory only we can enter; refuse one that another user put there first."""
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    found = path.lstat()
    if path.is_symlink() or found.st_uid != os.geteuid():
        raise InsecureDirectory(f"{path} belongs to somebody else: remove it or set FAIRSHARE_VAR elsewhere.")
    if found.st_mode & 0o777 != mode:
        path.chmod(mode)
    return path


def broker_dirs(var: Path) -> dict[str, str]:
    """Transport options of the file broker; in and out are one folder, so every process sees every message."""
    folders = {name: var / "broker" / name for name in ("queue", "processed", "control")}
    for folder in folders.values():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {
        "data_folder_in": str(folders["queue"]),
        "data_folder_out": str(folders["queue"]),
        "processed_folder": str(folders["processed"]),
        "control_folder": str(folders["control"]),
    }


def read_or_make_secret(name: str, *, characters: int = 50, var: Path | None = None) -> str:
    """A random secret kept in var (0600); the first of several processes that ask decides it for all."""
    path = (var or var_dir()) / name
    if not path.exists():
        write_once(path, secrets.token_urlsafe(characters)[:characters] + "\n")
    return path.read_text(encoding="ascii").strip()


def write_once(path: Path, text: str) -> None:
    """Create a private file whole or not at all; a file that is there already stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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
