"""Tokens that a window got, and where they may not appear: requested addresses, addresses of frames, and log lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from django.conf import settings
from playwright.sync_api import BrowserContext, Request

API_TOKEN = re.compile(r"fsh_[0-9a-z]{12}_[0-9a-f]{64}")
_COOKIES = (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)
_FIELD = "csrfmiddlewaretoken"
_HEADER = "x-csrftoken"


@dataclass
class SecretsSeen:
    """What one browser context sent: every address, and every secret beside it."""

    addresses: list[str] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)

    def note(self, request: Request) -> None:
        self.addresses.append(request.url)
        headers = request.headers
        body = request.post_data_buffer or b""
        fields = dict(parse_qsl(body.decode("latin-1"))) if b"csrfmiddlewaretoken=" in body else {}
        self.secrets |= {value for value in (fields.get(_FIELD), headers.get(_HEADER)) if value}

    def add_cookies(self, context: BrowserContext) -> None:
        self.secrets |= {cookie["value"] for cookie in context.cookies() if cookie["name"] in _COOKIES}

    def found_in(self, lines: Iterable[str]) -> list[str]:
        """The addresses and lines that show a secret, or the name under which forms send one."""
        return [line for line in [*self.addresses, *lines] if self._shows(unquote(line))]

    def _shows(self, line: str) -> bool:
        return _FIELD in line or bool(API_TOKEN.search(line)) or any(secret in line for secret in self.secrets)
