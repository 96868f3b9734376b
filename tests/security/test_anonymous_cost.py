"""Requests without a sign-in cost little: process CPU time of each route of the router; new routes are included."""

from __future__ import annotations

import statistics
import time

import pytest
from django.conf import LazySettings
from django.contrib.auth.forms import AuthenticationForm
from django.test import Client

from apps.pages.sign_in import views
from tests.security.routes import all_addresses
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

QUERY = "?lang=de&version=2&account=x&q=x"  # parameters must not compute anything again
GOAL_S = 0.020
BOUND_S = 3 * GOAL_S  # other processes share the caches of this machine's cores
#: May cost more: a password is hashed, and attempts are limited by address.
LIMITED = {("POST", "/sign-in/")}


def cpu_s(client: Client, method: str, address: str) -> float:
    began = time.process_time()
    client.generic(method, address + QUERY, b"username=eva&password=wrong", "application/x-www-form-urlencoded")
    return time.process_time() - began


@pytest.mark.deep
def test_no_anonymous_request_costs_more_than_20_ms(computed: Site, settings: LazySettings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]  # as in production
    client = Client()
    slow = {}
    for address in all_addresses():
        for method in ("GET", "POST"):
            cpu_s(client, method, address)  # imports and templates of a process that has just started
            if cpu_s(client, method, address) > GOAL_S:
                slow[method, address] = statistics.median(cpu_s(client, method, address) for _ in range(7))
    assert {request: cost for request, cost in slow.items() if cost > BOUND_S and request not in LIMITED} == {}


def test_sign_in_attempts_are_limited_by_address_before_hashing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "minute_now", lambda: 7)
    monkeypatch.setattr(views, "MOST_SIGN_INS_A_MINUTE", most := 4)

    def answers(n: int, address: str) -> list[int]:
        client = Client(REMOTE_ADDR=address)
        forms = ({"username": f"nobody-{n}", "password": "wrong"} for n in range(n))  # the lock of a name never closes
        return [client.post("/sign-in/", form).status_code for form in forms]

    first = answers(most, "192.0.2.1")
    assert set(first) == {422}
    with monkeypatch.context() as patch:
        patch.setattr(AuthenticationForm, "is_valid", _hashes)
        assert set(answers(3, "192.0.2.1")) == {429}
    assert answers(1, "192.0.2.2") == [422]
    assert set(answers(most, "2001:db8::1")) == {422}
    assert answers(1, "2001:db8::2") == [429]  # the same customer's network
    monkeypatch.setattr(views, "minute_now", lambda: 8)
    assert answers(1, "192.0.2.1") == [422]


def _hashes(form: AuthenticationForm) -> bool:
    raise AssertionError("a password was checked")
