"""The clock of every page's test stands at AT; a grid that everybody sees, and one that shows people their own path."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

from apps.accounts.models import User
from apps.priorities.receivers import own_accounts_after_sign_in
from tests.dashboard.grid import Grid
from tests.worlds import AT

_force_login = Client.force_login


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


@pytest.fixture(autouse=True)
def _signed_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests begin with somebody who has signed in: their session is written once, and no attempt is looked for.

    What signing in does else is the business of the tests that post its form.
    """
    monkeypatch.setattr(Client, "force_login", _begin_session)


def _begin_session(client: Client, user: User, backend: str | None = None) -> None:
    if settings.SESSION_COOKIE_NAME in client.cookies:
        _force_login(client, user, backend)
        return
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = backend or "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key or ""
    own_accounts_after_sign_in(None, user=user)


@pytest.fixture
def grid(open_grid: Grid) -> Grid:
    return open_grid


@pytest.fixture
def closed(closed_grid: Grid) -> Grid:
    return closed_grid
