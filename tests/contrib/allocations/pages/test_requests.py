"""Requests for allocations: a lead sends one, a manager above grants, changes or declines it; each step is audited."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.models import AuditEvent
from apps.contrib.allocations.models import AllocationRequest
from apps.policies.models import Allocation
from apps.policies.publishing.direct import publish_operations
from apps.policies.requests.requested_shares import MOST_OPEN_REQUESTS
from apps.policies.services import change_settings
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.pages.group import test_group
from tests.pages.page import read

lead, manager = test_group.lead, test_group.manager

DAYS = {"starts_on": "2026-12-01", "ends_on": "2027-02-28"}
TYPED = {"amount": "12,000", "unit": "core-h", **DAYS, "reason": "Two new postdocs."}


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


def ask(grid: Grid, client: Client, **more: Any) -> Any:
    return client.post(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/_request", {**TYPED, **more})


def answer(grid: Grid, client: Client, step: str, **more: Any) -> Any:
    (asked,) = AllocationRequest.objects.all()
    return client.post(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/_request/{asked.uid}", {"step": step, **more})


def page(grid: Grid) -> str:
    return f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/core-hours/"


def verbs() -> list[str]:
    wanted = AuditEvent.objects.filter(verb__startswith="allocation.").order_by("pk")
    return [f"{event.verb} {event.outcome}" for event in wanted]


@pytest.mark.parametrize(("is_archived", "status"), [(False, 422), (True, 303)])
def test_open_requests_count_until_their_entry_is_archived(
    grid: Grid, lead: Client, is_archived: bool, status: int
) -> None:
    assert ask(grid, lead).status_code == 303
    (first,) = AllocationRequest.objects.all()
    other = grid.uid("/cms")
    for n in range(MOST_OPEN_REQUESTS):
        first.pk, first.uid, first.unit = None, uuid4(), f"unit {n}"
        first.entry_uid = other
        first.save(force_insert=True)
    if is_archived:
        archive = {"op": "archive", "entry": str(other)}
        publish_operations(policy_slug=SLUG, operations=[archive], reason="Over.", at=AT, actor=COMMAND)
    AllocationRequest.objects.filter(unit="core-h").delete()
    assert ask(grid, lead).status_code == status


def test_a_request_waits_in_the_inbox_of_who_decides_and_a_grant_allocates(
    grid: Grid,
    lead: Client,
    manager: Client,
) -> None:
    assert read(lead.get(page(grid))).has("#requests form")
    assert ask(grid, lead).status_code == 303
    sent = read(lead.get("/inbox/"))
    assert "atlas requests 12,000 core-h" in sent.text("[aria-labelledby=sent]")
    waiting = read(manager.get("/inbox/"))
    assert "Two new postdocs." in waiting.text("[data-state=open]")
    assert waiting.text(".count.alert") == "1"
    board = read(manager.get(f"/policy/{SLUG}/allocations/"))
    assert "1" in board.text(".nav a[href$='/allocations/']")
    decided = read(manager.get(page(grid)))
    assert decided.one("#answer_amount").attributes["value"] == "12000"
    granted = answer(grid, manager, "grant", amount="9,000", **DAYS, text="Three quarters for now.")
    assert granted.status_code == 303
    made = Allocation.objects.get()
    assert (made.amount, made.unit, str(made.ends_on)) == (9_000, "core-h", "2027-02-28")
    asked = AllocationRequest.objects.get()
    assert (asked.state, asked.granted_amount, asked.allocation_uid) == ("granted", 9_000, made.uid)
    assert [verb.split()[0] for verb in verbs()] == [
        "allocation.requested",
        "allocation.given",
        "allocation.request_granted",
    ]
    shown = read(lead.get(page(grid))).text("[data-testid=request]")
    assert "Granted: 9,000 core-h" in shown
    assert "Three quarters for now." in shown


def test_a_decline_needs_a_comment_and_allocates_nothing(
    grid: Grid,
    lead: Client,
    manager: Client,
) -> None:
    ask(grid, lead)
    empty = answer(grid, manager, "decline", text="")
    assert empty.status_code == 422
    assert read(empty, 422).one("#answer_text").attributes.get("aria-invalid") == "true"
    assert answer(grid, manager, "decline", text="No room this year.").status_code == 303
    assert not Allocation.objects.exists()
    assert AllocationRequest.objects.get().state == "declined"
    assert answer(grid, manager, "grant").status_code == 422, "it is decided"


def test_an_author_withdraws_and_may_ask_again(grid: Grid, lead: Client) -> None:
    ask(grid, lead)
    again = ask(grid, lead)
    assert again.status_code == 422
    assert "There is an open request" in read(again, 422).text("#requests")
    assert answer(grid, lead, "withdraw").status_code == 303
    assert AllocationRequest.objects.get().state == "withdrawn"
    assert ask(grid, lead).status_code == 303


def test_a_lead_can_neither_grant_nor_allocate_and_strangers_request_nothing(
    grid: Grid,
    lead: Client,
    manager: Client,
) -> None:
    ask(grid, lead)
    assert answer(grid, lead, "grant").status_code == 403
    assert not Allocation.objects.exists()
    own = manager.post(f"/policy/{SLUG}/n/{grid.uid('/cms')}/_request", TYPED)
    assert own.status_code == 422
    assert "allocate to it yourself" in read(own, 422).text("main")
    other = lead.post(f"/policy/{SLUG}/n/{grid.uid('/cms')}/_request", TYPED)
    assert other.status_code in (403, 404)


def test_a_request_in_a_unit_that_was_removed_can_only_be_declined(grid: Grid, lead: Client, manager: Client) -> None:
    gpu = {"name": "GPU-hour", "symbol": "GPU-h", "weights": {"gpu_s": 1}}
    for units in ([gpu], []):
        change_settings(policy_slug=SLUG, settings={"units": units}, reason="x", at=AT, actor=COMMAND)
        if units:
            assert ask(grid, lead, unit="GPU-h").status_code == 303
    refused = answer(grid, manager, "grant", amount="5")
    assert refused.status_code == 422
    assert "must be a unit of the policy" in read(refused, 422).text("main").lower()
    assert not Allocation.objects.exists()
    assert answer(grid, manager, "decline", text="There is no such unit any more.").status_code == 303


@pytest.mark.parametrize(
    "wrong", [{"amount": "0"}, {"amount": "many"}, {"ends_on": "2026-01-01"}, {"reason": ""}, {"unit": "TPU-h"}]
)
def test_bad_input_is_kept_beside_its_field(grid: Grid, lead: Client, wrong: dict[str, str]) -> None:
    refused = read(ask(grid, lead, **wrong), 422)
    assert refused.has("#requests [aria-invalid=true]") or refused.has("#requests .note.bad")
    assert not AllocationRequest.objects.exists()
