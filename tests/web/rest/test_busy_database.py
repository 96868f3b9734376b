"""A deadlock or a lock that others hold is not a missing database: it has a code of its own, and the server repeats."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.test import Client, RequestFactory

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.core.operator_commands import OperatorCommand
from apps.policies import services
from apps.policies.models import ChangeSet
from fairshare_web.server.views import Views
from tests.instants import AT

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "/api/v1/policies/grid/changesets"
STATES = ["40P01", "40001", "55P03", "57014"]


def fail_with(state: str) -> None:
    """The database's own error of this SQLSTATE, inside a transaction as in a service."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"DO $$ BEGIN RAISE EXCEPTION 'held by others' USING ERRCODE = '{state}'; END $$")


@pytest.fixture
def admin(transactional_db: None) -> Client:
    services.make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_user("admin", is_superuser=True))
    return client


def draft_of(name: str) -> dict[str, Any]:
    operation = {"op": "add", "parent": "/", "name": name, "kind": "user", "shares": 1}
    return {"base_revision": 1, "operations": [operation], "reason": "r"}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.fault("F28")
def test_requests_that_others_hold_up_are_busy_for_rest_pages_and_commands(
    admin: Client, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr("apps.policies.selectors.list_policies", lambda **_: fail_with(state))
    rest, page = admin.get("/api/v1/policies"), admin.get("/")
    assert (rest.status_code, rest.json()["code"], rest.headers["Retry-After"]) == (503, "busy", "5")
    assert (page.status_code, "The database" in page.text) == (503, False)
    assert "database" not in rest.json()["detail"]

    class Command(OperatorCommand):
        def handle(self, *_: Any, **__: Any) -> None:
            fail_with(state)

    with pytest.raises(CommandError, match="Others held the same rows"):
        Command().execute(force_color=False, no_color=True, skip_checks=True, stdout=None, stderr=None)


def failing_at_first(n_times: int, state: str, real: Callable[..., Any]) -> Callable[..., Any]:
    left = [n_times]

    def call(**given: Any) -> Any:
        made = real(**given) if not left[0] else None
        if left[0]:
            left[0] -= 1
            fail_with(state)
        return made

    return call


@pytest.mark.parametrize(("n_times", "state", "status"), [(1, "40P01", 201), (3, "55P03", 201), (4, "40P01", 503)])
def test_the_server_repeats_a_request_that_lost_to_others(
    admin: Client, monkeypatch: pytest.MonkeyPatch, n_times: int, state: str, status: int
) -> None:
    monkeypatch.setattr(services, "make_change_set", failing_at_first(n_times, state, services.make_change_set))
    body = json.dumps(draft_of("alice")).encode()
    cookie = f"{settings.SESSION_COOKIE_NAME}={admin.cookies[settings.SESSION_COOKIE_NAME].value}"
    request = RequestFactory().post(PATH, body, content_type="application/json", HTTP_COOKIE=cookie)
    environ = {**request.environ, "wsgi.input": io.BytesIO(body)}
    monkeypatch.setattr("rest_framework.authentication.SessionAuthentication.enforce_csrf", lambda *_: None)
    answer: Any = Views()._respond(environ)
    answer.close()
    assert answer.status_code == status, answer.content
    assert ChangeSet.objects.filter(state="draft").count() == (status == 201)
