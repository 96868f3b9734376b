"""Releases of Slurm that tests run: the machine's own of Debian 12, and those in roots of Debian 13 and unstable.

`make test-schedulers RELEASE=24.11` (or several, with commas) chooses; all by default. Without --deep a test runs on
the machine's own. Unstable moves: what fails there is named at the end, and fails the run only where RELEASE names it.
"""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.real_schedulers.roots import find_root


class Release(NamedTuple):
    """root: of Debian, "" for the machine's own. parsers: of slurmrestd, the oldest first."""

    name: str
    root: str
    parsers: tuple[str, ...]
    usage_version: int  # of the state file of associations' usage

    def find_root(self) -> Path | None:
        """The folder, None for the machine's own; skips where there is none."""
        return find_root(self.root) if self.root else None

    @functools.cache  # noqa: B019 - three releases
    def version(self) -> str:
        """As its controller says it, e.g. 24.11.5; "" where it isn't installed."""
        inside = ["chroot", str(find_root(self.root))] if self.root else []
        try:
            printed = subprocess.run([*inside, "slurmctld", "-V"], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return ""
        return printed.split()[-1]


RELEASES = {
    one.name: one
    for one in (
        Release("22.05", "", ("v0.0.36", "v0.0.37", "v0.0.38"), 38 << 8),
        Release("24.11", "trixie", ("v0.0.40", "v0.0.41", "v0.0.42"), 42 << 8),
        Release("26.05", "sid", ("v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"), 45 << 8),
    )
}
OWN = "22.05"
SETTING = "FAIRSHARE_SLURM_RELEASE"


def _chosen() -> list[str]:
    named = [name for name in os.environ.get(SETTING, "").split(",") if name]
    unknown = sorted(set(named) - set(RELEASES))
    if unknown:
        raise pytest.UsageError(f"{SETTING} names {', '.join(unknown)}; known are {', '.join(RELEASES)}")
    return named or list(RELEASES)


def release_params() -> list[pytest.ParameterSet]:
    """For `params` of a fixture: each chosen release, by its name; all but the machine's own run with --deep."""
    named = os.environ.get(SETTING, "")
    moves = pytest.mark.xfail(reason="Debian unstable moves", strict=False)
    params = []
    for name in _chosen():
        deep = [] if name == OWN or named else [pytest.mark.deep]
        unstable = [moves] if RELEASES[name].root == "sid" and not named else []
        params.append(pytest.param(name, marks=[*deep, *unstable], id=name))
    return params
