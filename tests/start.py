"""How a test process begins: with Django, or without it where only the engine is tested."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_ENGINE = Path(__file__).parent / "engine"


def is_engine_alone(arguments: Sequence[str]) -> bool:
    """Whether the command line names nothing but tests of the engine, which start in a second without Django."""
    paths = [path for each in arguments if (path := Path(each.partition("::")[0])).exists()]
    return bool(paths) and all(path.resolve().is_relative_to(_ENGINE) for path in paths)


def set_up_django() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")  # playwright's own event loop runs in the test's thread
    import django
    from django.conf import settings

    django.setup()
    # Whoever asks looks for newer priorities and for tokens itself: a thread would see nothing of a test's transaction.
    settings.FAIRSHARE_SNAPSHOT_POLL_S = 0.0
    settings.FAIRSHARE_TOKEN_PATIENCE_S = 0.0
    # Production's Argon2 is slow on purpose; tests/accounts/test_passwords.py holds the setting to it.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
