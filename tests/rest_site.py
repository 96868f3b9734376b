"""Who calls REST in tests, and the site that they call."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.priorities.serving import store
from tests.small_site import Site


class Caller:
    """Sends JSON, by token, by session, or without sign-in."""

    def __init__(self, token: str | None = None, user: User | None = None) -> None:
        self.client = Client(raise_request_exception=True)
        self.headers = {"authorization": f"Bearer {token}"} if token else {}
        if user is not None:
            self.client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")

    def get(self, path: str, data: Any = None, **headers: str) -> Any:
        return self.client.get(f"/api/v1/{path}", data, headers={**self.headers, **_named(headers)})

    def post(self, path: str, data: Any = None, content_type: str = "application/json", **headers: str) -> Any:
        return self._send("post", path, data, content_type, headers)

    def patch(self, path: str, data: Any = None, **headers: str) -> Any:
        return self._send("patch", path, data, "application/json", headers)

    def put(self, path: str, data: Any = None, content_type: str = "application/json", **headers: str) -> Any:
        return self._send("put", path, data, content_type, headers)

    def _send(self, method: str, path: str, data: Any, content_type: str, headers: dict[str, str]) -> Any:
        body = b"" if data is None else data
        send = getattr(self.client, method)
        return send(f"/api/v1/{path}", body, content_type=content_type, headers={**self.headers, **_named(headers)})


def refused(answer: Any) -> tuple[int, str, list[str]]:
    """Status, code and places of a problem document."""
    assert answer.headers["Content-Type"] == "application/problem+json", answer.content[:300]
    problem = answer.json()
    assert problem["status"] == answer.status_code
    return answer.status_code, problem["code"], [field["where"] for field in problem["fields"]]


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.fixture
def site(small_site: Site) -> Site:
    return small_site


@pytest.fixture
def computed(computed_site: Site) -> Site:
    store.poll()
    return computed_site


@pytest.fixture
def scheduler(computed: Site) -> Caller:
    return Caller(token=computed.token("priorities:read"))


@pytest.fixture
def admin(site: Site) -> Caller:
    return Caller(user=site.admin)
