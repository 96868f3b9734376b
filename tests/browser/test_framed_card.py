"""The card in frames of other origins, in a real browser: those of the setting show it, all others and all other pages
are refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.conf import settings as site_settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext

from apps.accounts.models import User
from tests.pages.grid import Grid

CARD = "/me/card/"


@pytest.fixture
def context(browser: Browser, live_server: Any, grid: Grid) -> Iterator[BrowserContext]:
    """A browser with a session of alice."""
    client = Client()
    client.force_login(User.objects.get(username="alice"), backend="django.contrib.auth.backends.ModelBackend")
    context = browser.new_context()
    name = site_settings.SESSION_COOKIE_NAME
    context.add_cookies(
        [{"name": name, "value": client.cookies[name].value, "url": live_server.url, "sameSite": "Lax"}]
    )
    yield context
    context.close()


class Portal(BaseHTTPRequestHandler):
    """A portal's page with a frame of the address in its query string."""

    def do_GET(self) -> None:
        address = parse_qs(urlsplit(self.path).query).get("frame", [""])[0]
        body = f'<!doctype html><title>Portal</title><iframe src="{address}"></iframe>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def port() -> Iterator[int]:
    """Where the portal is: under the name of the site it is of the same site, under the other one of another."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def framed(context: BrowserContext, portal: str, address: str) -> str:
    """The text in a frame of a portal's page; "" where the browser refused to show it by the site's own headers."""
    page = context.new_page()
    page.goto(f"{portal}/?{urlencode({'frame': address})}")
    (frame,) = [each for each in page.frames if each != page.main_frame]
    frame.wait_for_load_state()
    text = "" if frame.url.startswith("chrome-error:") else frame.locator("body").inner_text()
    page.close()
    return text


def hosts(live_server: Any) -> tuple[str, str]:
    """The host of the site, and another one that is this machine too, but another site for a browser."""
    own = urlsplit(live_server.url).hostname or ""
    return own, "127.0.0.1" if own == "localhost" else "localhost"


def test_an_origin_of_the_setting_shows_the_readers_own_place(
    context: BrowserContext, live_server: Any, settings: Any, port: int
) -> None:
    portal = f"http://{hosts(live_server)[0]}:{port}"
    settings.FAIRSHARE_FRAME_ORIGINS = ["https://ondemand.example.org", portal]
    assert "/atlas/alice" in framed(context, portal, live_server.url + CARD)


def test_another_site_shows_that_nobody_is_signed_in(
    context: BrowserContext, live_server: Any, settings: Any, port: int
) -> None:
    """The session stays with its own site, so that no other one shows a place."""
    portal = f"http://{hosts(live_server)[1]}:{port}"
    settings.FAIRSHARE_FRAME_ORIGINS = [portal]
    text = framed(context, portal, live_server.url + CARD)
    assert "Sign in" in text
    assert "alice" not in text


@pytest.mark.parametrize("is_same_site", [True, False])
@pytest.mark.parametrize(
    "origins", [[], ["https://ondemand.example.org"], ["http://localhost:1", "http://127.0.0.1:1"]]
)
def test_all_other_origins_are_refused(
    context: BrowserContext, live_server: Any, settings: Any, port: int, origins: list[str], is_same_site: bool
) -> None:
    settings.FAIRSHARE_FRAME_ORIGINS = origins
    portal = f"http://{hosts(live_server)[0 if is_same_site else 1]}:{port}"
    assert framed(context, portal, live_server.url + CARD) == ""


@pytest.mark.parametrize("path", ["/me/priority/", "/sign-in/", "/"])
def test_no_other_page_is_shown_in_a_frame(
    context: BrowserContext, live_server: Any, settings: Any, port: int, path: str
) -> None:
    portal = f"http://{hosts(live_server)[0]}:{port}"
    settings.FAIRSHARE_FRAME_ORIGINS = [portal]
    assert framed(context, portal, live_server.url + path) == ""
