"""The identity of this release, so that results derived from its code alone can be cached."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from django.conf import settings

_ROOMS = Path(__file__).resolve().parent.parent


@lru_cache(maxsize=1)
def release_digest() -> str:
    """Digest of this project's modules and all installed packages, which may provide algorithms; 32 hex digits."""
    digest = hashlib.sha256()
    for path in sorted(_ROOMS.rglob("*.py")):
        status = path.stat()
        digest.update(f"{path.relative_to(_ROOMS)} {status.st_size} {status.st_mtime_ns}\n".encode())
    for name, version in sorted({(each.name, each.version) for each in metadata.distributions()}):
        digest.update(f"{name} {version}\n".encode())
    return digest.hexdigest()[:32]


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Digest of what this project's modules say: the same on all hosts with the same release; 16 hex digits."""
    digest = hashlib.sha256()
    for path in sorted(_ROOMS.rglob("*.py")):
        digest.update(f"{path.relative_to(_ROOMS)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def schema_file(suffix: str) -> Path:
    """Path of the generated OpenAPI description of this release. suffix: yaml or json."""
    return Path(settings.VAR) / "schema" / f"{release_digest()}.{suffix}"
