"""What this host keeps of tokens that the database verified, for processes that start while the database is away.

Files of FAIRSHARE_VAR/tokens, which only the service's user may read: that a token is valid, and what it may read. Each
is sealed with the site's key, names its token by a keyed hash, counts for a day and no longer, and is deleted within
seconds of a change in the database. They are in no backup.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.accounts.sign_in.sealing import seal, unseal
from apps.core.derived_state import in_files, in_memory
from apps.core.errors import Unavailable
from apps.core.mapped_columns import delete_abandoned
from apps.core.private_dirs import InsecureDirectory, private_dir

DERIVED_STATE = (
    in_files(
        "tokens/*",
        holds="verified tokens, what each may read, and orders of its agent, for outages of the database",
        key="keyed hash of the token, kind, name",
        inputs="token, person, rights, orders",
        range="the state of the rows that it names, for a day",
        ends="a change of these rows, within seconds; a day; a file of a later instant isn't believed",
    ),
    in_memory(
        "_opened",
        holds="opened files of tokens, which are listed every few seconds",
        key="path, inode, length and time of change of the file",
        inputs="the file",
        range="the files of the last list",
        ends="another file in its place, which has another inode; its deletion",
    ),
)

logger = logging.getLogger(__name__)
KEPT_S = 24 * 3600.0
# Kinds: that a token is valid, what it reads, the orders of its agent.
VERIFIED, READABLE, ORDERS = "verified", "readable", "orders"
_AHEAD_S = 60.0  # a file of a later instant was written by a wrong clock, or isn't believed
_PURPOSE = "verified token on this host"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TokenFile:
    """kind, name: what it says of the token. state: of the rows that it follows from. checked_at: by the database."""

    prefix: str
    kind: str
    name: str
    state: str
    checked_at: datetime
    content: Any

    def is_valid(self, at: datetime) -> bool:
        age_s = (at - self.checked_at).total_seconds()
        return -_AHEAD_S <= age_s < KEPT_S


def write(file: TokenFile) -> None:
    """Replace the file of this token, kind and name. One that can't be written is logged: it helps in outages only."""
    content = {
        "prefix": file.prefix,
        "kind": file.kind,
        "name": file.name,
        "state": file.state,
        "checked_at": file.checked_at.isoformat(),
        "content": file.content,
    }
    try:
        path = private_dir(directory()) / _file_name(file.prefix, file.kind, file.name)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(seal(_PURPOSE, json.dumps(content)))
        unfinished.replace(path)
    except (OSError, InsecureDirectory) as error:
        logger.warning("A verified token isn't kept for an outage of the database: %s", error)


def read(prefix: str, kind: str, name: str, *, at: datetime) -> TokenFile | None:
    """None without a file, and for one that is too old, changed, of another token or of another site."""
    file = _open(directory() / _file_name(prefix, kind, name))
    if file is None or (file.prefix, file.kind, file.name) != (prefix, kind, name) or not file.is_valid(at):
        return None
    return file


def list_files(*, at: datetime) -> Iterator[tuple[Path, TokenFile]]:
    """All that count; others are deleted."""
    with suppress(OSError):
        delete_abandoned(directory())
        paths = [path for path in sorted(directory().iterdir()) if not path.name.startswith(".")]
        for gone in _opened.keys() - set(paths):
            _opened.pop(gone, None)
        for path in paths:
            file = _open_once(path)
            if file is None or path.name != _file_name(file.prefix, file.kind, file.name) or not file.is_valid(at):
                path.unlink(missing_ok=True)
            else:
                yield path, file


def remove(prefix: str, kind: str, name: str) -> None:
    """Delete one file, if there is one."""
    with suppress(OSError):
        (directory() / _file_name(prefix, kind, name)).unlink(missing_ok=True)


def forget(prefix: str) -> None:
    """Delete all files of a token."""
    with suppress(OSError):
        for path in directory().glob(f"{_hidden(prefix)}.*"):
            path.unlink(missing_ok=True)


def secret_name(text: str) -> str:
    """The name of a token's secret in a file."""
    return _hidden(f"secret {text}")


def directory() -> Path:
    return Path(settings.VAR) / "tokens"


_opened: dict[Path, tuple[tuple[int, int, int], TokenFile | None]] = {}


def _open_once(path: Path) -> TokenFile | None:
    """As `_open`, for a file that is listed again and again: it is read anew once another is in its place."""
    try:
        status = path.stat()
    except OSError:
        return None
    stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
    known = _opened.get(path)
    if known is None or known[0] != stamp:
        known = _opened[path] = (stamp, _open(path))
    return known[1]


def _open(path: Path) -> TokenFile | None:
    try:
        content = json.loads(unseal(_PURPOSE, path.read_text("ascii")))
        at = datetime.fromisoformat(content.pop("checked_at"))
        return TokenFile(checked_at=at, **content)
    except (OSError, ValueError, TypeError, KeyError, Unavailable):
        return None


def _file_name(prefix: str, kind: str, name: str) -> str:
    return f"{_hidden(prefix)}.{_hidden(f'{kind} {name}')}"


def _hidden(text: str) -> str:
    """A keyed hash: who lists the folder learns no token."""
    key = hashlib.sha256(f"{_PURPOSE}: names:{settings.SECRET_KEY}".encode()).digest()
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]
