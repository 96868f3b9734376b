"""While the database doesn't answer, agents get their last orders, and their reports are refused at once."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError

from apps.accounts.actor import SYSTEM
from apps.accounts.models import Token
from apps.contrib.schedulers.agent_orders import last_orders
from apps.contrib.schedulers.services import pause_scheduler
from fairshare_web.server import lanes
from tests.contrib.schedulers.reports import report
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site

pytestmark = pytest.mark.django_db


@pytest.fixture
def end_answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Afterwards every question runs into its time limit."""

    class Unanswered:
        def run(self, query: Callable[[], Any], *, timeout_s: float) -> Any:
            raise OperationalError("The database doesn't answer.")

    def end() -> None:
        monkeypatch.setattr(last_orders, "_probe", Unanswered())
        monkeypatch.setattr(settings, "FAIRSHARE_TOKEN_PATIENCE_S", 1.0)

    return end


def test_orders_without_a_database_are_the_last_ones_of_the_same_token(
    connected: Site, agent: Caller, end_answers: Callable[[], None]
) -> None:
    first = agent.get("schedulers/c1/orders")
    other = Caller(token=connected.token("schedulers", policy_slug="grid"))
    end_answers()
    again = agent.get("schedulers/c1/orders")
    assert (again.status_code, again.json(), again["ETag"]) == (200, first.json(), first["ETag"])
    assert agent.get("schedulers/c1/orders", if_none_match=first["ETag"]).status_code == 304
    for caller, name in ((other, "c1"), (agent, "c2"), (Caller(token=f"fsh_{'0' * 12}_{'0' * 64}"), "c1")):
        assert refused(caller.get(f"schedulers/{name}/orders"))[:2] == (503, "database_down")


def test_a_web_process_that_starts_without_a_database_has_the_last_orders_too(
    connected: Site, agent: Caller, end_answers: Callable[[], None]
) -> None:
    first = agent.get("schedulers/c1/orders")
    last_orders.clear()
    end_answers()
    again = agent.get("schedulers/c1/orders")
    assert (again.status_code, again.json(), again["ETag"]) == (200, first.json(), first["ETag"])
    assert refused(agent.get("schedulers/c2/orders"))[:2] == (503, "database_down")


def test_a_report_without_a_database_is_refused_before_it_waits(agent: Caller, end_answers: Callable[[], None]) -> None:
    end_answers()
    assert refused(agent.post("schedulers/c1/passes", report()))[:2] == (503, "database_down")


def test_orders_are_the_present_ones_as_long_as_the_database_answers(connected: Site, agent: Caller) -> None:
    assert agent.get("schedulers/c1/orders").json()["paused"] is False
    pause_scheduler(name="c1", at=AT, actor=SYSTEM)
    assert agent.get("schedulers/c1/orders").json()["paused"] is True
    Token.objects.update(revoked_at=AT)
    assert agent.get("schedulers/c1/orders").status_code == 401


def test_a_token_that_was_refused_gets_no_orders_of_before(
    connected: Site, agent: Caller, end_answers: Callable[[], None]
) -> None:
    assert agent.get("schedulers/c1/orders").status_code == 200
    Token.objects.update(revoked_at=AT)
    assert agent.get("schedulers/c1/orders").status_code == 401
    end_answers()
    assert agent.get("schedulers/c1/orders").status_code == 503


def test_a_token_that_expires_during_the_outage_gets_none(
    agent: Caller, end_answers: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.accounts.services._valid_until", lambda *_: AT)
    assert agent.get("schedulers/c1/orders").status_code == 200
    end_answers()
    assert agent.get("schedulers/c1/orders").status_code == 503


def test_orders_wait_for_no_thread_of_other_requests() -> None:
    asked = {
        "HTTP_AUTHORIZATION": "Bearer x",
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/api/v1/schedulers/c1/orders",
        "wsgi.input": BytesIO(),
    }
    assert lanes.lane_of(asked) is lanes.LOOKUP
    for other in ({"REQUEST_METHOD": "POST"}, {"PATH_INFO": "/api/v1/schedulers/c1/passes"}):
        assert lanes.lane_of({**asked, **other}) is lanes.REST
