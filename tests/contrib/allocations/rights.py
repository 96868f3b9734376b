"""Rows of the rights matrix for the addresses of this plug-in, and the objects that they name."""

from __future__ import annotations

from datetime import date
from uuid import UUID

from apps.accounts.actor import SYSTEM, Actor
from apps.contrib.allocations.capacities import CapacityTerms, add_capacity
from apps.contrib.allocations.capacities import tag_of as tag_of_capacity
from apps.contrib.allocations.models import AllocationRequest
from apps.contrib.allocations.services import AllocationTerms, change_dates, create_allocation
from apps.contrib.allocations.services import tag_of as tag_of_allocation
from apps.policies.models import Allocation, Capacity, Policy
from apps.policies.tree.stored import load_tree
from tests.instants import AT
from tests.rights_world import API, HTMX, NODE, POLICY, Row, World

__all__ = ["MAKERS", "ROWS"]

ALLOCATION = POLICY + "/allocations/<uuid:allocation>"
REQUEST = POLICY + "/allocations/requests/<uuid:asked>"
CAPACITY = POLICY + "/capacities/<int:capacity>"
CORE_HOURS = "policy/<slug:policy>/allocations/"
DAYS = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
ROWS = [
    # REST: core-hours (some allocated to /physics/bob), and cores of the site
    Row(POLICY + "/allocations", "/api/v1/policies/grid/allocations", "401 200 200 200 200 200 403 200 200 401 401",
        word="core-hours for him", readers="pia admin reader dora"),
    Row(POLICY + "/allocations", "/api/v1/policies/grid/allocations", "401 404 404 201 404 201 403 403 404 401 401",
        "post", {"entry": "{bob}", "amount": 77, "reason": "try", **DAYS}, remakes="no_77", besides="dora 403",
        decided_by_body="alice aside"),
    Row(ALLOCATION, "/api/v1/policies/grid/allocations/{allocation}", "401 404 404 200 404 200 403 200 404 401 401",
        word="core-hours for him", readers="pia admin reader dora", besides="dora 200"),
    Row(ALLOCATION, "/api/v1/policies/grid/allocations/{allocation}", "401 404 404 200 404 200 403 403 404 401 401",
        "patch", {"amount": 5, "reason": "other"}, headers={"If-Match": "{of_allocation}"}, remakes="allocation",
        besides="dora 403"),
    Row(ALLOCATION, "/api/v1/policies/grid/allocations/{allocation}?reason=x",
        "401 404 404 204 404 204 403 403 404 401 401", "delete", headers={"If-Match": "{of_allocation}"},
        remakes="allocation", besides="dora 403"),
    Row(POLICY + "/allocations/table", "/api/v1/policies/grid/allocations/table",
        "401 404 200 200 200 200 403 200 404 401 401", word="/physics/bob", readers="pia admin reader dora",
        besides="vera 200 dora 200"),
    Row(POLICY + "/allocations/board", "/api/v1/policies/grid/allocations/board",
        "401 404 200 200 200 200 403 200 404 401 401", word="/physics/bob", readers="pia admin reader dora",
        besides="vera 200 dora 200"),
    Row(API + "me/allocations", "/api/v1/me/allocations?policy=grid",
        "401 200 200 200 200 200 403 403 403 401 401", word="/physics/bob", readers="dora"),
    Row(POLICY + "/allocations/shares", "/api/v1/policies/grid/allocations/shares?of=/physics",
        "401 404 403 200 404 200 403 200 404 401 401", word="bob", readers="pia admin reader",
        besides="vera 403 dora 403"),
    Row(POLICY + "/allocations/shares", "/api/v1/policies/grid/allocations/shares",
        "401 404 403 201 404 201 403 403 404 401 401", "post", {"of": "/physics", "reason": "try", **DAYS},
        besides="vera 403 dora 403", decided_by_body="alice aside"),
    Row(POLICY + "/allocations/portal-usage", "/api/v1/policies/grid/allocations/portal-usage",
        "401 404 200 200 200 200 403 200 200 401 401", "post",
        {"portal": "coldfront", "answers": {"allocations": []}}, besides="vera 200 dora 200"),
    Row(POLICY + "/allocations/file", "/api/v1/policies/grid/allocations/file",
        "401 200 200 200 200 200 403 200 200 401 401", word="core-hours for him", readers="pia admin reader dora"),
    Row(POLICY + "/allocations/file", "/api/v1/policies/grid/allocations/file?reason=try",
        "401 404 422 200 422 200 403 403 422 401 401", "put",
        {"allocations": [{"entry": "/physics/bob", "amount": 77, **DAYS}]}, remakes="no_77", besides="dora 422"),
    Row(POLICY + "/allocations/requests", "/api/v1/policies/grid/allocations/requests",
        "401 200 200 200 200 200 403 200 200 401 401", word='"amount":77', readers="pia admin",
        remakes="hours_request"),
    Row(POLICY + "/allocations/requests", "/api/v1/policies/grid/allocations/requests",
        "401 404 404 409 404 409 403 403 404 401 401", "post",
        {"entry": "{bob}", "amount": 77, "reason": "try", **DAYS}, besides="dora 409", decided_by_body="alice aside"),
    Row(REQUEST + "/grant", "/api/v1/policies/grid/allocations/requests/{hours_request}/grant",
        "401 404 404 200 404 200 403 403 404 401 401", "post", {"amount": 77}, remakes="hours_request",
        besides="dora 403"),
    Row(REQUEST + "/decline", "/api/v1/policies/grid/allocations/requests/{hours_request}/decline",
        "401 404 404 200 404 200 403 403 404 401 401", "post", {"text": "no"}, remakes="hours_request",
        besides="dora 403"),
    # Nobody of these sent it.
    Row(REQUEST + "/withdraw", "/api/v1/policies/grid/allocations/requests/{hours_request}/withdraw",
        "401 404 404 403 404 403 403 403 404 401 401", "post", besides="dora 403"),
    Row(POLICY + "/capacities", "/api/v1/policies/grid/capacities", "401 200 200 200 200 200 403 200 200 401 401",
        word="the old box", readers="alice pia ben admin reader aside vera dora"),
    Row(POLICY + "/capacities", "/api/v1/policies/grid/capacities", "401 404 404 403 403 201 403 403 404 401 401",
        "post", {"per_hour": 77, "reason": "try", **DAYS}, remakes="no_77", besides="vera 403 dora 403"),
    Row(CAPACITY, "/api/v1/policies/grid/capacities/{capacity}", "401 404 200 200 200 200 403 200 200 401 401",
        word="the old box", readers="alice pia ben admin reader aside vera dora", besides="vera 200 dora 200"),
    Row(CAPACITY, "/api/v1/policies/grid/capacities/{capacity}", "401 404 404 403 403 200 403 403 404 401 401",
        "patch", {"per_hour": 5, "reason": "other"}, headers={"If-Match": "{of_capacity}"}, remakes="capacity",
        besides="vera 403 dora 403"),
    Row(CAPACITY, "/api/v1/policies/grid/capacities/{capacity}?reason=x",
        "401 404 404 403 403 204 403 403 404 401 401", "delete", headers={"If-Match": "{of_capacity}"},
        remakes="capacity", besides="vera 403 dora 403"),
    Row(API + "me/balances.json", "/api/v1/me/balances.json?policy=grid", "401 200 200 200 200 200 403 200 200 401 401",
        word='"user":"bob"', readers="pia admin reader dora"),
    # Pages of core-hours
    Row(CORE_HOURS, "/policy/grid/allocations/", "302 404 200 200 200 200 302 302 302 302 302",
        word=">bob</a>", readers="pia admin dora", besides="vera 200 dora 200"),
    Row(CORE_HOURS, "/policy/grid/allocations/", "302 404 422 303 422 303 302 302 302 302 302", "post",
        {"entry": "/physics/bob", "amount": "77", "reason": "try", **DAYS}, remakes="no_77",
        besides="vera 422 dora 403"),
    Row(CORE_HOURS + "_table", "/policy/grid/allocations/_table", "302 404 200 200 200 200 302 302 302 302 302",
        word=">bob</a>", readers="pia admin dora", headers=HTMX, besides="vera 200 dora 200"),
    Row(CORE_HOURS + "_warnings", "/policy/grid/allocations/_warnings?entry=/physics/bob&amount=1e9",
        "302 404 200 200 200 200 302 302 302 302 302", headers=HTMX, besides="vera 200 dora 200"),
    Row(CORE_HOURS + "_soon", "/policy/grid/allocations/_soon?soon=90",
        "302 200 200 200 200 200 302 302 302 302 302", word="/physics/bob", readers="pia admin dora", headers=HTMX),
    Row(CORE_HOURS + "periods/", "/policy/grid/allocations/periods/", "302 404 200 200 200 200 302 302 302 302 302",
        word=">bob</a>", readers="pia admin dora", besides="vera 200 dora 200"),
    Row(CORE_HOURS + "board.csv", "/policy/grid/allocations/board.csv", "302 404 200 200 200 200 302 302 302 302 302",
        word="/physics/bob", readers="pia admin dora", besides="vera 200 dora 200"),
    Row(CORE_HOURS + "table.csv", "/policy/grid/allocations/table.csv", "302 404 200 200 200 200 302 302 302 302 302",
        word="/physics/bob", readers="pia admin dora", besides="vera 200 dora 200"),
    Row(CORE_HOURS + "calendar/", "/policy/grid/allocations/calendar/?month=2026-12",
        "302 200 200 200 200 200 302 302 302 302 302", word="/physics/bob", readers="pia admin dora"),
    Row(CORE_HOURS + "calendar/_month", "/policy/grid/allocations/calendar/_month?month=2026-12",
        "302 200 200 200 200 200 302 302 302 302 302", word="/physics/bob", readers="pia admin dora", headers=HTMX),
    Row(CORE_HOURS + "shares/", "/policy/grid/allocations/shares/?of={physics}",
        "302 404 403 200 404 200 302 302 302 302 302", word="bob", readers="pia admin", besides="vera 403 dora 403"),
    # The tab of the place names no group: each reader's own is converted.
    Row(CORE_HOURS + "shares/", "/policy/grid/allocations/shares/", "302 404 403 200 200 200 302 302 302 302 302",
        besides="vera 200 dora 200"),
    Row(CORE_HOURS + "shares/", "/policy/grid/allocations/shares/?of={physics}",
        "302 404 403 303 404 303 302 302 302 302 302", "post", {"reason": "try"}, besides="vera 403 dora 403"),
    Row(CORE_HOURS + "capacity/", "/policy/grid/allocations/capacity/", "302 404 200 200 200 200 302 302 302 302 302",
        word="the old box", readers="alice pia ben admin vera dora", besides="vera 200 dora 200"),
    Row(CORE_HOURS + "capacity/", "/policy/grid/allocations/capacity/", "302 404 404 403 403 303 302 302 302 302 302",
        "post", {"per_hour": "77", "reason": "try", **DAYS}, remakes="no_77", besides="vera 403 dora 403"),
    Row(CORE_HOURS + "file/", "/policy/grid/allocations/file/", "302 403 403 200 200 200 302 302 302 302 302",
        besides="vera 403 dora 200"),
    Row(CORE_HOURS + "file/", "/policy/grid/allocations/file/", "302 403 403 303 422 303 302 302 302 302 302", "post",
        {"text": "entry,amount,starts_on,ends_on\n/physics/bob,77,2026-01-01,2026-12-31\n", "step": "import",
         "reason": "try"}, remakes="no_77", besides="vera 403 dora 422"),
    Row(CORE_HOURS + "file.<str:form>", "/policy/grid/allocations/file.csv",
        "302 200 200 200 200 200 302 302 302 302 302", word="/physics/bob", readers="pia admin dora"),
    Row(CORE_HOURS + "units/", "/policy/grid/allocations/units/", "302 404 200 200 200 200 302 302 302 302 302",
        word="always there", readers="alice pia ben admin vera dora", besides="vera 200 dora 200"),
    Row(CORE_HOURS + "units/", "/policy/grid/allocations/units/", "302 404 403 403 403 303 302 302 302 302 302",
        "post", {"name": "GPU-hour", "symbol": "GPU-h", "weight_gpu_s": "1", "reason": "try", "step": "save"},
        besides="vera 403 dora 403"),
    Row(CORE_HOURS + "rules/", "/policy/grid/allocations/rules/", "302 404 200 200 200 200 302 302 302 302 302",
        word="No rule is on", readers="alice pia ben admin vera dora", besides="vera 200 dora 200"),
    Row(CORE_HOURS + "rules/", "/policy/grid/allocations/rules/", "302 404 403 403 403 303 302 302 302 302 302",
        "post", {"name": "Aging", "kind": "aging", "mode": "shadow", "unit": "core-h", "interval_days": "90",
                 "reason": "try", "step": "save"}, besides="vera 403 dora 403"),
    Row(POLICY + "/allocations/rule-steps", "/api/v1/policies/grid/allocations/rule-steps",
        "401 404 200 200 200 200 403 200 404 401 401", word='"results"', readers="alice pia ben admin reader vera dora",
        besides="vera 200 dora 200"),
    Row(CORE_HOURS + "capacity/<int:capacity_id>/", "/policy/grid/allocations/capacity/{capacity}/",
        "302 404 200 200 200 200 302 302 302 302 302", word="the old box",
        readers="alice pia ben admin vera dora", besides="vera 200 dora 200"),
    Row(CORE_HOURS + "capacity/<int:capacity_id>/", "/policy/grid/allocations/capacity/{capacity}/",
        "302 404 404 403 403 303 302 302 302 302 302", "post",
        {"step": "remove", "tag": "{capacity_tag}", "reason": "try"}, remakes="capacity", besides="vera 403 dora 403"),
    Row(CORE_HOURS + "<uuid:allocation>/", "/policy/grid/allocations/{allocation}/",
        "302 404 404 200 404 200 302 302 302 302 302", word="core-hours for him", readers="pia admin dora",
        besides="dora 200"),
    Row(CORE_HOURS + "<uuid:allocation>/", "/policy/grid/allocations/{allocation}/",
        "302 404 404 303 404 303 302 302 302 302 302", "post",
        {"step": "withdraw", "tag": "{allocation_tag}", "reason": "try"}, remakes="allocation", besides="dora 403"),
    Row(NODE + "/_core-hours", "/policy/grid/n/{bob}/_core-hours", "302 404 404 200 404 200 302 302 302 302 302",
        headers=HTMX, besides="dora 200"),
    Row(NODE + "/_allocation", "/policy/grid/n/{bob}/_allocation",
        "302 404 404 303 404 303 302 302 302 302 302", "post",
        {"amount": "77", "reason": "try", **DAYS}, remakes="no_77", besides="dora 403"),
    Row(NODE + "/_warnings", "/policy/grid/n/{bob}/_warnings?amount=5", "302 404 404 200 404 200 302 302 302 302 302",
        headers=HTMX, besides="dora 200"),
    Row(NODE + "/_request", "/policy/grid/n/{bob}/_request", "302 404 404 422 404 422 302 302 302 302 302", "post",
        {"amount": "77", "reason": "try", **DAYS}, besides="dora 422"),  # there is an open one for him
    Row(NODE + "/_request/<uuid:asked>", "/policy/grid/n/{bob}/_request/{hours_request}",
        "302 404 404 303 404 303 302 302 302 302 302", "post", {"step": "grant"}, remakes="hours_request",
        besides="dora 403"),
    Row(NODE + "/_dates", "/policy/grid/n/{bob}/_dates", "302 404 404 303 404 303 302 302 302 302 302", "post",
        {"ends_on": "2027-03-31", "reason": "try", "base_revision": "{undated}"}, remakes="undated",
        besides="dora 403"),
    Row(NODE + "/<slug:name>/core-hours/", "/policy/grid/n/{bob}/bob/core-hours/",
        "302 404 404 200 404 200 302 302 302 302 302", word="core-hours for him", readers="pia admin dora",
        besides="dora 200"),
    Row(POLICY + "/pack", "/api/v1/policies/grid/pack?entry={physics}&from=2026-11&to=2026-11",
        "401 404 200 200 404 200 403 200 404 401 401", word='"/physics"', readers="alice pia admin reader vera dora",
        besides="vera 200 dora 200"),
]  # fmt: skip


def _allocation(world: World) -> UUID:
    Allocation.objects.all().delete()
    starts_on, ends_on = date(2026, 1, 1), date(2026, 12, 31)
    terms = AllocationTerms(amount=10, reason="core-hours for him", starts_on=starts_on, ends_on=ends_on)
    pia = Actor(user=world.site.pia, via="page")
    made = create_allocation(
        policy_slug="grid", entry_uid=world.site.uid("/physics/bob"), terms=terms, at=AT, actor=pia
    )
    world.objects["allocation_tag"] = tag_of_allocation(made)
    world.objects["of_allocation"] = f'"{tag_of_allocation(made)}"'
    return made.uid


def _capacity(world: World) -> int:
    Capacity.objects.all().delete()
    made = add_capacity(
        policy_slug="grid",
        terms=CapacityTerms(per_hour=1, starts_on=date(2026, 1, 1), note="the old box", reason="x"),
        at=AT,
        actor=SYSTEM,
    )
    world.objects["capacity_tag"] = tag_of_capacity(made)
    world.objects["of_capacity"] = f'"{tag_of_capacity(made)}"'
    return made.pk


def _undated(world: World) -> int:
    """The number of the head, in which no shares have an end."""
    policy, bob = Policy.objects.get(slug="grid"), world.site.uid("/physics/bob")
    if load_tree(policy).dates:
        change_dates(policy_slug="grid", entry_uid=bob, dates=None, reason="x", at=AT, actor=SYSTEM)
        policy.refresh_from_db()
    return policy.head_number


def _no_77(world: World) -> None:
    Allocation.objects.filter(amount=77).delete()
    Capacity.objects.filter(per_hour=77).delete()


def _hours_request(world: World) -> UUID:
    AllocationRequest.objects.all().delete()
    Allocation.objects.filter(amount=77).delete()
    days = {"starts_on": date(2026, 1, 1), "ends_on": date(2026, 12, 31)}
    policy, bob = Policy.objects.get(slug="grid"), world.site.uid("/physics/bob")
    made = AllocationRequest.objects.create(
        policy=policy, entry_uid=bob, unit="core-h", amount=77, reason="x", author_name="x", created_at=AT, **days
    )
    return made.uid


MAKERS = {
    "allocation": _allocation,
    "capacity": _capacity,
    "hours_request": _hours_request,
    "no_77": _no_77,
    "undated": _undated,
}
