"""A web process that starts while the database is away answers look-ups with what this host keeps of tokens."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.db.backends.utils import CursorWrapper

from apps.accounts import token_cache, token_files
from apps.accounts.actor import COMMAND
from apps.accounts.models import Token, User
from apps.accounts.services import revoke_token
from apps.accounts.token_cache import tokens
from apps.policies.models import Grant
from apps.priorities.serving import store
from apps.web.middleware.lookup import TokenChecks
from apps.web.rest.token_visibility import visibility
from tests.instants import AT
from tests.rest_site import Caller
from tests.small_site import Site

ONE = "policies/grid/priorities"


@pytest.fixture(autouse=True)
def _new_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_files, "directory", lambda: tmp_path / "tokens")
    restart()


def restart() -> None:
    """As a new process, or another one of this host."""
    tokens.clear()
    visibility.clear()
    store.forget()


@contextmanager
def outage(monkeypatch: pytest.MonkeyPatch, *, at: datetime = AT) -> Iterator[None]:
    def refuse(*_: Any, **__: Any) -> None:
        raise OperationalError("no server")

    with monkeypatch.context() as patch:
        patch.setenv("FAIRSHARE_CLOCK", at.isoformat())
        patch.setattr(CursorWrapper, "execute", refuse)
        patch.setattr(connection, "cursor", refuse)
        patch.setattr(token_cache, "look_up_token", refuse)
        patch.setattr(token_cache, "connection", MagicMock())  # the test's own stays open
        yield


def answer(caller: Caller) -> tuple[int, str]:
    """Status, and code of a refusal."""
    response = caller.get(ONE, {"account": "alice"})
    return response.status_code, response.json().get("code", "")


def files() -> list[Path]:
    return sorted(token_files.directory().iterdir())


UNKNOWN = (503, "no_database")


@pytest.mark.fault("F25")
def test_after_a_restart_in_an_outage_look_ups_are_answered(scheduler: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    before = scheduler.get(ONE, {"account": "alice"}).json()["results"]
    restart()
    with outage(monkeypatch):
        during = scheduler.get(ONE, {"account": "alice"})
        assert (during.status_code, during.json()["results"]) == (200, before)
        assert answer(Caller(token=f"fsh_{'0' * 12}_{'0' * 64}")) == UNKNOWN
    assert answer(scheduler)[0] == 200


def test_rights_hold_after_a_restart_too(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of one group gets the same entries as before, and no others."""
    caller, accounts = (
        Caller(token=computed.token("priorities:read", user=computed.pia)),
        {"account": ["alice", "carol"]},
    )
    before = caller.get(ONE, accounts).json()["results"]
    assert [found.get("entry") for found in before] == ["/physics/alice", None]
    restart()
    with outage(monkeypatch):
        assert caller.get(ONE, accounts).json()["results"] == before
    Grant.objects.all().delete()
    TokenChecks().check()
    restart()
    with outage(monkeypatch):
        assert answer(caller)[0] == 503, "what was derived from withdrawn rights isn't kept"


@pytest.mark.parametrize("change", ["revoked by a service", "revoked", "scopes", "policy", "inactive", "gone"])
def test_a_token_that_has_changed_is_not_known_any_more(
    computed: Site, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    caller = Caller(token=computed.token("priorities:read"))
    assert answer(caller)[0] == 200
    token = Token.objects.latest("pk")
    match change:
        case "revoked by a service":
            revoke_token(token_id=token.pk, at=AT, actor=COMMAND)
        case "revoked":
            Token.objects.update(revoked_at=AT)
        case "scopes":
            Token.objects.update(scopes=["usage:write"])
        case "policy":
            Token.objects.update(policy_slug="other")
        case "inactive":
            User.objects.update(is_active=False)
        case _:
            token.delete()
    TokenChecks().check()
    for is_new_process in (False, True):
        if is_new_process:
            restart()
        with outage(monkeypatch):
            assert answer(caller) == UNKNOWN


def test_a_kept_token_ends_after_a_day_and_with_its_own_end(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(token=computed.token("priorities:read"))
    assert answer(caller)[0] == 200
    for later, expected in ((timedelta(hours=23.9), 200), (timedelta(hours=24), 503), (timedelta(minutes=-5), 503)):
        restart()
        with outage(monkeypatch, at=AT + later):
            assert answer(caller)[0] == expected, later
    Token.objects.update(expires_at=AT + timedelta(hours=1))
    restart()
    assert answer(caller)[0] == 200
    restart()
    with outage(monkeypatch, at=AT + timedelta(hours=2)):
        assert answer(caller) == (401, "invalid_token")


def test_files_that_were_changed_renamed_or_copied_are_not_believed(
    computed: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, other = (Caller(token=computed.token("priorities:read")) for _ in range(2))
    assert answer(caller)[0] == 200
    paths = files()
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    assert token_files.directory().stat().st_mode & 0o777 == 0o700
    assert b"fsh_" not in b"".join(path.read_bytes() for path in paths)
    whole = {path: path.read_bytes() for path in paths}
    for path, content in whole.items():
        for changed in (content[:-40], content[:50] + bytes([content[50] ^ 1]) + content[51:], b"{}", b""):
            path.write_bytes(changed)
            restart()
            with outage(monkeypatch):
                assert answer(caller)[0] == 503
        path.write_bytes(content)
    restart()
    assert answer(other)[0] == 200
    for path in set(files()) - set(paths):  # as the file of another token
        path.write_bytes(next(iter(whole.values())))
    restart()
    with outage(monkeypatch):
        assert answer(other)[0] == 503
        assert answer(caller)[0] == 200
    restart()
    monkeypatch.setattr(settings, "SECRET_KEY", "the key of another site")
    with outage(monkeypatch):
        assert answer(caller)[0] == 503


_KILLED = """
import os, sys
from pathlib import Path
import django
django.setup()
from apps.accounts import token_files
from tests.instants import AT
token_files.directory = lambda: Path(sys.argv[1])
token_files.seal = lambda *_: os.kill(os.getpid(), 9)
token_files.write(token_files.TokenFile("fsh_a", "verified", "b", "", AT, {}))
"""


def test_a_writer_that_is_killed_leaves_the_file_of_before(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(token=computed.token("priorities:read"))
    assert answer(caller)[0] == 200
    before = {path: path.read_bytes() for path in files()}
    command = [sys.executable, "-c", _KILLED, str(token_files.directory())]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "fairshare_web.settings"}
    assert subprocess.run(command, check=False, env=environment).returncode == -9
    (left,) = set(files()) - set(before)
    assert left.name.startswith(".")
    restart()
    with outage(monkeypatch):
        assert answer(caller)[0] == 200
    os.utime(left, (0, 0))
    TokenChecks().check()
    assert {path: path.read_bytes() for path in files()} == before
