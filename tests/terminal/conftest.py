"""The real file, fetched from a live site and run as a program."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.loaded_script import run_script
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

Run = Callable[..., "Outcome"]


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


@dataclass
class Terminal:
    """A home directory with the program in it, and a shell's environment."""

    site: Site
    url: str
    home: Path

    @property
    def program(self) -> Path:
        return self.home / "fairshare"

    def run(self, *arguments: str, token: str | None = None, **more: str) -> Outcome:
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TZ": "UTC", **more}
        if token is not None:
            environment["FAIRSHARE_TOKEN"] = token
        return Outcome(*run_script(self.program, arguments, env=environment, cwd=self.home))

    def keep(self, text: str, mode: int = 0o600) -> Path:
        path = self.home / ".config" / "fairshare" / "token"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
        path.chmod(mode)
        return path


@pytest.fixture
def terminal(computed_site: Site, live_server: object, tmp_path: Path) -> Terminal:
    url = str(live_server)
    found = Terminal(computed_site, url, tmp_path)
    with urllib.request.urlopen(f"{url}/fairshare") as answer:
        found.program.write_bytes(answer.read())
    return found


@pytest.fixture
def alice(terminal: Terminal) -> str:
    return terminal.site.token("self:read", user=terminal.site.alice)
