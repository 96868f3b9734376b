"""A signed-in user: what most tests of pages begin with."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.test import Client

from apps.accounts.models import User
from apps.accounts.sign_in.sessions import SessionStore
from apps.mapping.receivers import own_accounts_after_sign_in

_BACKEND = "django.contrib.auth.backends.ModelBackend"


def sign_in(client: Client, user: User) -> Client:
    """The session is written once, and no attempt is looked for: a third of the time of `force_login`.

    What signing in does else is the business of the tests that post its form. A client that has a session already
    changes it as `force_login` does.
    """
    if settings.SESSION_COOKIE_NAME in client.cookies:
        client.force_login(user, backend=_BACKEND)
        return client
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = _BACKEND
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key or ""
    own_accounts_after_sign_in(None, user=user)
    return client
