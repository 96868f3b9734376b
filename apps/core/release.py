"""The version of this release, its revision, and a digest of its code for what is derived from the code alone.

Builds import it, too: without Django.
"""

from __future__ import annotations

import hashlib
import subprocess
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from apps.core.code_paths import REPOSITORY, SHIPPED

__version__ = "1.0.0"  # the one place: the build, pages, commands and metrics read it
REVISION_FILE = "REVISION"  # in wheels, source releases and images
_GIT_S = 10

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


@lru_cache(maxsize=1)
def revision() -> str:
    """The revision of the code in git, 12 digits, with `+` if files were changed since; "" if it isn't known."""
    try:
        return (SHIPPED / REVISION_FILE).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return read_revision(REPOSITORY)


def read_revision(clone: Path) -> str:
    if not (clone / ".git").exists():
        return ""
    command = ["git", "-C", str(clone), "describe", "--always", "--match=", "--abbrev=12", "--dirty=+"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def release_name() -> str:
    """Version and revision, as commands and logs name a release: `1.0.0 (3f2a91c07d5e)`."""
    return f"{__version__} ({revision()})" if revision() else __version__
