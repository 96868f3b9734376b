"""Ways to sign in besides a password kept here."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend

from apps.accounts.models import User
from apps.accounts.people import welcome
from apps.accounts.sign_in.directory import look_up
from apps.core.clock import now


class DirectoryBackend(ModelBackend):
    """A user name and a password that the site's directory knows."""

    def authenticate(
        self, request: Any, username: str | None = None, password: str | None = None, **_more: Any
    ) -> User | None:
        person = look_up(username or "", password or "")
        if person is None:
            return None
        return welcome(person, at=now(), via="page", address=request.META.get("REMOTE_ADDR") if request else None)


class ElsewhereBackend(ModelBackend):
    """A person verified by an OIDC issuer or a proxy: it keeps sessions, and checks no password."""

    def authenticate(self, request: Any, **_credentials: Any) -> None:  # type: ignore[override]
        return None
