"""Firefox as Debian packages it, driven by its own remote protocol (Marionette): it needs no other program.

What it does goes through the browser's actionability checks, as for a user: an element that is covered or disabled
can't be clicked.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("firefox-esr", "firefox")
NOT_INSTALLED = "Firefox is not installed: apt-get install firefox-esr, or set FIREFOX_BIN."
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_PREFERENCES = {
    "marionette.port": 0,  # any that is free, named in a file of the profile
    "ui.prefersReducedMotion": 1,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
}
_START_S, _PATIENCE_S, _PAUSE_S = 60.0, 30.0, 0.05
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "ArrowRight": "\ue014", "ArrowUp": "\ue013"}
# Visible as a user sees it, with a text: of all elements that match.
_SHOWS = """
const [selector, text] = arguments;
return [...document.querySelectorAll(selector)].some((each) => each.checkVisibility({ visibilityProperty: true })
  && (each.value ?? "").concat(" ", each.textContent.replace(/\\s+/g, " ")).includes(text));
"""


class FirefoxError(Exception):
    """What Firefox refused, by its own name and text."""


def find_firefox() -> str | None:
    return os.environ.get("FIREFOX_BIN") or next(filter(None, map(shutil.which, NAMES)), None)


class Firefox:
    """One window of 1440 × 900 CSS pixels with reduced motion."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_START_S)
        self._stream = self._socket.makefile("rb")
        self._number = 0
        self._receive()  # what it is
        self.version: str = self._call("WebDriver:NewSession")["capabilities"]["browserVersion"]
        self._call("WebDriver:SetTimeouts", implicit=0, pageLoad=60_000)
        self.resize(1440, 900)

    def close(self) -> None:
        self._call("Marionette:Quit", flags=["eForceQuit"])
        self._socket.close()

    def _receive(self) -> Any:
        length = b""
        while not length.endswith(b":"):
            if not (byte := self._stream.read(1)):
                raise FirefoxError("the connection ended")
            length += byte
        return json.loads(self._stream.read(int(length[:-1])))

    def _call(self, command: str, **parameters: Any) -> Any:
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(message), message))
        _kind, _number, refusal, result = self._receive()
        if refusal:
            raise FirefoxError(f"{refusal['error']}: {refusal['message']}")
        return result

    def resize(self, width: int, height: int) -> None:
        self._call("WebDriver:SetWindowRect", width=width, height=height)
        inner = self.evaluate("return [innerWidth, innerHeight]")
        self._call("WebDriver:SetWindowRect", width=2 * width - inner[0], height=2 * height - inner[1])

    def go(self, address: str) -> None:
        self._call("WebDriver:Navigate", url=address)

    @property
    def address(self) -> str:
        return str(self._call("WebDriver:GetCurrentURL")["value"])

    def add_cookie(self, name: str, value: str) -> None:
        """For the site of the page that is open."""
        self._call("WebDriver:AddCookie", cookie={"name": name, "value": value, "httpOnly": True})

    def evaluate(self, body: str, *arguments: Any) -> Any:
        """The result of a function body in a sandbox, which the policy of the page doesn't bind."""
        return self._call("WebDriver:ExecuteScript", script=body, args=arguments, sandbox="tests")["value"]

    def wait_for(self, selector: str, text: str = "") -> None:
        """Until an element that matches is visible and has the text or value."""
        self.wait_until(_SHOWS, selector, text)

    def wait_until(self, body: str, *arguments: Any) -> None:
        """Until the function body returns something true."""
        ends_at = time.monotonic() + _PATIENCE_S
        while not self.evaluate(body, *arguments):
            if time.monotonic() > ends_at:
                raise FirefoxError(f"{arguments} never comes at {self.address}")
            time.sleep(_PAUSE_S)

    def click(self, selector: str) -> None:
        self.wait_for(selector)
        self._call("WebDriver:ElementClick", id=self._find(selector))

    def write(self, selector: str, text: str) -> None:
        """In place of what the field holds."""
        self.wait_for(selector)
        element = self._find(selector)
        self._call("WebDriver:ElementClear", id=element)
        self._call("WebDriver:ElementSendKeys", id=element, text=text)

    def press(self, key: str) -> None:
        """On the element that has the focus."""
        typed = KEYS.get(key, key)
        strokes = [{"type": "keyDown", "value": typed}, {"type": "keyUp", "value": typed}]
        self._act("key", strokes)

    def drag(self, selector: str, by: int) -> None:
        """Take hold of the middle of an element and drop it so many pixels to the right."""
        self.wait_for(selector)
        origin = {_ELEMENT: self._find(selector)}
        moves = [{"type": "pointerMove", "x": x, "y": 0, "origin": origin} for x in (0, by // 2, by)]
        button = {"button": 0}
        self._act("pointer", [moves[0], {"type": "pointerDown", **button}, *moves[1:], {"type": "pointerUp", **button}])

    def _act(self, kind: str, actions: list[dict[str, Any]]) -> None:
        self._call("WebDriver:PerformActions", actions=[{"type": kind, "id": kind, "actions": actions}])

    def _find(self, selector: str) -> str:
        """The first visible one of those that match."""
        found = self._call("WebDriver:FindElements", using="css selector", value=selector)
        for reference in found:
            element = str(reference[_ELEMENT])
            if self._call("WebDriver:IsElementDisplayed", id=element)["value"]:
                return element
        raise FirefoxError(f"no element is visible: {selector}")


@contextmanager
def firefox(binary: str) -> Iterator[Firefox]:
    """A Firefox of its own, with a new profile; it ends with the block."""
    with tempfile.TemporaryDirectory(prefix="fairshare-firefox-") as profile:
        lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in _PREFERENCES.items())
        (Path(profile) / "user.js").write_text("\n".join(lines))
        command = [binary, "--headless", "--marionette", "--no-remote", "--profile", profile]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            driver = Firefox(_port(process, Path(profile) / "MarionetteActivePort"))
            yield driver
            driver.close()
        finally:
            process.terminate()
            process.wait()


def _port(process: subprocess.Popen[bytes], file: Path) -> int:
    ends_at = time.monotonic() + _START_S
    while not (file.exists() and (text := file.read_text())):
        if process.poll() is not None or time.monotonic() > ends_at:
            raise FirefoxError("Firefox doesn't start.")
        time.sleep(_PAUSE_S)
    return int(text)
