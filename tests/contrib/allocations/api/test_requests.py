"""Requests for hours by REST, as by page: who leads asks, who decides grants another amount or declines."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.contrib.allocations.models import AllocationRequest
from apps.policies.models import Allocation
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.pages.group import test_group

lead, manager = test_group.lead, test_group.manager
REQUESTS = f"/api/v1/policies/{SLUG}/allocations/requests"
ASKED = {
    "entry": "/atlas",
    "amount": 12_000,
    "starts_on": "2026-12-01",
    "ends_on": "2027-02-28",
    "reason": "Two new postdocs.",
}


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


def post(client: Client, address: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    answer = client.post(address, body or {}, content_type="application/json")
    return answer.status_code, answer.json()


def ask(client: Client, **more: Any) -> str:
    status, made = post(client, REQUESTS, {**ASKED, **more})
    assert status == 201, made
    return f"{REQUESTS}/{made['uid']}"


def test_a_grant_of_another_amount_is_the_allocation_and_its_answer(grid: Grid, lead: Client, manager: Client) -> None:
    asked = ask(lead)
    (waiting,) = manager.get(REQUESTS).json()["results"]
    assert (waiting["path"], waiting["state"], waiting["may_decide"]) == ("/atlas", "open", True)
    assert waiting["entry"] == str(grid.uid("/atlas"))
    assert lead.get(REQUESTS).json()["results"][0]["may_decide"] is False
    status, granted = post(manager, f"{asked}/grant", {"amount": 9_000, "text": "Three quarters for now."})
    assert status == 200, granted
    made = Allocation.objects.get()
    assert (granted["state"], granted["granted_amount"], granted["allocation"]) == ("granted", 9_000, str(made.uid))
    assert (made.amount, made.unit, made.reason) == (9_000, "core-h", "Three quarters for now.")
    assert lead.get(REQUESTS).json()["results"][0]["answer"] == "Three quarters for now."
    assert post(manager, f"{asked}/decline", {"text": "No."})[0] == 409, "it is decided"


def test_a_decline_needs_an_answer_and_a_withdrawal_the_author(grid: Grid, lead: Client, manager: Client) -> None:
    asked = ask(lead)
    assert post(manager, f"{asked}/decline")[0] == 400
    assert post(manager, f"{asked}/withdraw")[0] == 403
    assert post(lead, f"{asked}/grant")[0] == 403
    status, declined = post(manager, f"{asked}/decline", {"text": "The partition is full."})
    assert (status, declined["state"], declined["answer"]) == (200, "declined", "The partition is full.")
    assert post(lead, f"{ask(lead)}/withdraw")[1]["state"] == "withdrawn"
    assert not Allocation.objects.exists()


def test_what_no_page_lets_one_request_is_refused_with_its_place(grid: Grid, lead: Client, manager: Client) -> None:
    for body, place, expected in (
        ({"amount": 0}, "amount", 422),
        ({"unit": "GPU-h"}, "unit", 422),
        ({"ends_on": "2026-11-30"}, "ends_on", 422),
        ({"reason": " "}, "reason", 400),
    ):
        status, refused = post(lead, REQUESTS, {**ASKED, **body})
        assert status == expected, refused
        assert place in str(refused), (body, refused)
    assert post(manager, REQUESTS, ASKED)[0] == 409, "who may allocate it needs no request"
    assert not AllocationRequest.objects.exists()
