"""`make pictures` draws the pictures of README and documentation anew: pages of a fresh sample, in Chromium."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.cli.stack.paths import sign_ins

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
THEMES = ("light", "dark")
_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_WIDTH, _HEIGHT = 1280, 800
_PATIENCE_S = 300.0  # until the first numbers of the sample are there
_SETTLED_MS = 2500  # after a page has loaded: its cards and figures


@dataclass(frozen=True, slots=True)
class Picture:
    """name: of the file, before its theme. path: of the page, opened by a user of the sample."""

    name: str
    user: str
    path: str

    def file(self, theme: str) -> Path:
        return FOLDER / f"{self.name}-{theme}.png"


PICTURES = (
    Picture("tree", "admin", "/policy/nordgrid/"),
    Picture("my-priority", "kimberg", "/me/priority/"),
    Picture("convergence", "admin", "/policy/nordgrid/convergence/"),
    Picture("home", "maria", "/"),
)


def main() -> int:
    program = next(filter(None, map(shutil.which, [os.environ.get("CHROME_BIN", ""), *_BROWSERS])), None)
    if program is None:
        print("no Chromium here: apt-get install chromium-headless-shell, or set CHROME_BIN", file=sys.stderr)
        return 1
    from playwright.sync_api import sync_playwright

    with _sample() as (base, passwords), sync_playwright() as playwright:
        args = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = playwright.chromium.launch(executable_path=program, args=args)
        for theme in THEMES:
            for picture in PICTURES:
                _draw(browser, base, picture, theme, passwords[picture.user])
                print(picture.file(theme).relative_to(ROOT))
        browser.close()
    return 0


def _draw(browser: Any, base: str, picture: Picture, theme: str, password: str) -> None:
    size = {"width": _WIDTH, "height": _HEIGHT}
    context = browser.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce", locale="en-GB")
    page = context.new_page()
    page.goto(f"{base}/sign-in/")
    page.fill("input[name=login], input[name=username]", picture.user)
    page.fill("input[type=password]", password)
    page.press("input[type=password]", "Enter")
    page.wait_for_load_state("networkidle")
    answer = page.goto(f"{base}{picture.path}")
    if answer is None or answer.status != 200:
        raise RuntimeError(f"{picture.path} answered {answer and answer.status}.")
    page.wait_for_timeout(_SETTLED_MS)
    page.screenshot(path=str(picture.file(theme)))
    context.close()


@contextmanager
def _sample() -> Iterator[tuple[str, dict[str, str]]]:
    """A fresh instance with the sample, with its address and the passwords of its users; it is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="fairshare-pictures-") as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        environment = os.environ | {"FAIRSHARE_VAR": folder, "FAIRSHARE_PORT": str(port)}
        command = [sys.executable, str(ROOT / "manage.py"), "up"]
        running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_for_numbers(f"http://127.0.0.1:{port}", running)
            yield f"http://127.0.0.1:{port}", sign_ins(var=Path(folder))
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(timeout=60)


def _wait_for_numbers(base: str, running: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        if running.poll() is not None:
            raise RuntimeError("The instance has stopped.")
        try:
            with urllib.request.urlopen(f"{base}/readyz", timeout=5):  # noqa: S310 - our own address
                return
        except OSError:
            time.sleep(1)
    raise RuntimeError(f"The instance isn't ready after {_PATIENCE_S:.0f} s.")


if __name__ == "__main__":
    sys.exit(main())
