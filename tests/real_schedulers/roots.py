"""Roots of newer releases of Debian, with the schedulers of today inside: where they are, and what is said without one.

`.ci/roots` makes them, outside the repository: FAIRSHARE_ROOTS names the folder, with one folder per release below it.
"""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

import pytest

from tests.material import REPOSITORY


def roots_folder() -> Path:
    """The same as in .ci/roots."""
    named = os.environ.get("FAIRSHARE_ROOTS")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path(os.environ.get("HOME") or "/root") / ".cache")
    return Path(named) if named else Path(cache) / "fairshare-roots"


@functools.cache
def root_packages() -> dict[str, str]:
    """What .ci/roots installs, by release of Debian."""
    script = str(REPOSITORY / ".ci" / "roots")
    printed = subprocess.run(["sh", script, "--names"], capture_output=True, text=True, check=True).stdout
    return dict(line.split(":", 1) for line in printed.splitlines())


def is_made(release: str) -> bool:
    """Whether the whole root is there, with the packages of today's list."""
    made_of = roots_folder() / release / "made-of"
    return made_of.is_file() and made_of.read_text().strip() == root_packages()[release]


def find_root(release: str) -> Path:
    """The root of a release of Debian, "trixie" or "sid"; skips with its remedy, as without packages of the machine."""
    if not is_made(release):
        pytest.skip(f"no root of Debian {release} in {roots_folder()}: make schedulers")
    return roots_folder() / release
