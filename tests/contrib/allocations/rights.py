"""Rows of the rights matrix for the addresses of this plug-in, and the objects that they name."""

from __future__ import annotations

from datetime import date
from uuid import UUID

from apps.accounts.actor import SYSTEM, Actor
from apps.contrib.allocations.capacities import CapacityTerms, add_capacity
from apps.contrib.allocations.capacities import tag_of as tag_of_capacity
from apps.contrib.allocations.removed import REMOVED_PAGES
from apps.contrib.allocations.services import AllocationTerms, change_dates, create_allocation
from apps.contrib.allocations.services import tag_of as tag_of_allocation
from apps.policies.models import Allocation, Capacity, Policy
from apps.policies.tree.stored import load_tree
from tests.instants import AT
from tests.rights_world import HTMX, NODE, POLICY, Row, World

__all__ = ["MAKERS", "REMOVED_PAGES", "ROWS"]

ALLOCATION = POLICY + "/allocations/<uuid:allocation>"
CAPACITY = POLICY + "/capacities/<int:capacity>"
CORE_HOURS = "policy/<slug:policy>/allocations/"
DAYS = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
ROWS = [
    # REST: core-hours (some allocated to /physics/bob), and cores of the site
    Row(POLICY + "/allocations", "/api/v1/policies/grid/allocations", "401 200 200 200 200 200 403 200 200 401 401",
        word="core-hours for him", readers="pia admin reader dora"),
    Row(POLICY + "/allocations", "/api/v1/policies/grid/allocations", "401 404 404 201 404 201 403 403 404 401 401",
        "post", {"entry": "{bob}", "core_h": 77, "reason": "try", **DAYS}, remakes="no_77", besides="dora 403",
        decided_by_body="alice aside"),
    Row(ALLOCATION, "/api/v1/policies/grid/allocations/{allocation}", "401 404 404 200 404 200 403 200 404 401 401",
        word="core-hours for him", readers="pia admin reader dora", besides="dora 200"),
    Row(ALLOCATION, "/api/v1/policies/grid/allocations/{allocation}", "401 404 404 200 404 200 403 403 404 401 401",
        "patch", {"core_h": 5, "reason": "other"}, headers={"If-Match": "{of_allocation}"}, remakes="allocation",
        besides="dora 403"),
    Row(ALLOCATION, "/api/v1/policies/grid/allocations/{allocation}?reason=x",
        "401 404 404 204 404 204 403 403 404 401 401", "delete", headers={"If-Match": "{of_allocation}"},
        remakes="allocation", besides="dora 403"),
    Row(POLICY + "/allocations/table", "/api/v1/policies/grid/allocations/table",
        "401 404 200 200 200 200 403 200 404 401 401", word="/physics/bob", readers="pia admin reader dora",
        besides="vera 200 dora 200"),
    Row(POLICY + "/allocations/shares", "/api/v1/policies/grid/allocations/shares?of=/physics",
        "401 404 403 200 404 200 403 200 404 401 401", word="bob", readers="pia admin reader",
        besides="vera 403 dora 403"),
    Row(POLICY + "/allocations/shares", "/api/v1/policies/grid/allocations/shares",
        "401 404 403 201 404 201 403 403 404 401 401", "post", {"of": "/physics", "reason": "try", **DAYS},
        besides="vera 403 dora 403", decided_by_body="alice aside"),
    Row(POLICY + "/capacities", "/api/v1/policies/grid/capacities", "401 200 200 200 200 200 403 200 200 401 401",
        word="the old box", readers="alice pia ben admin reader aside vera dora"),
    Row(POLICY + "/capacities", "/api/v1/policies/grid/capacities", "401 404 404 403 403 201 403 403 404 401 401",
        "post", {"cores": 77, "reason": "try", **DAYS}, remakes="no_77", besides="vera 403 dora 403"),
    Row(CAPACITY, "/api/v1/policies/grid/capacities/{capacity}", "401 404 200 200 200 200 403 200 200 401 401",
        word="the old box", readers="alice pia ben admin reader aside vera dora", besides="vera 200 dora 200"),
    Row(CAPACITY, "/api/v1/policies/grid/capacities/{capacity}", "401 404 404 403 403 200 403 403 404 401 401",
        "patch", {"cores": 5, "reason": "other"}, headers={"If-Match": "{of_capacity}"}, remakes="capacity",
        besides="vera 403 dora 403"),
    Row(CAPACITY, "/api/v1/policies/grid/capacities/{capacity}?reason=x",
        "401 404 404 403 403 204 403 403 404 401 401", "delete", headers={"If-Match": "{of_capacity}"},
        remakes="capacity", besides="vera 403 dora 403"),
    # Pages of core-hours
    Row(CORE_HOURS, "/policy/grid/allocations/", "302 404 200 200 200 200 302 302 302 302 302",
        word=">bob</a>", readers="pia admin dora", besides="vera 200 dora 200"),
    Row(CORE_HOURS, "/policy/grid/allocations/", "302 404 422 303 422 303 302 302 302 302 302", "post",
        {"entry": "/physics/bob", "core_h": "77", "reason": "try", **DAYS}, remakes="no_77",
        besides="vera 422 dora 403"),
    Row(CORE_HOURS + "_table", "/policy/grid/allocations/_table", "302 404 200 200 200 200 302 302 302 302 302",
        word=">bob</a>", readers="pia admin dora", headers=HTMX, besides="vera 200 dora 200"),
    Row(CORE_HOURS + "_soon", "/policy/grid/allocations/_soon?soon=90",
        "302 200 200 200 200 200 302 302 302 302 302", word="/physics/bob", readers="pia admin dora", headers=HTMX),
    Row(CORE_HOURS + "_trial", "/policy/grid/allocations/_trial?core_h=5",
        "302 404 200 200 200 200 302 302 302 302 302", headers=HTMX, besides="vera 200 dora 200"),
    Row(CORE_HOURS + "_trial", "/policy/grid/allocations/_trial?core_h=5&of={bob}&part_of={bob}",
        "302 404 404 200 404 200 302 302 302 302 302", headers=HTMX, besides="dora 200"),
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
        "post", {"cores": "77", "reason": "try", **DAYS}, remakes="no_77", besides="vera 403 dora 403"),
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
        {"core_h": "77", "reason": "try", **DAYS}, remakes="no_77", besides="dora 403"),
    Row(NODE + "/_dates", "/policy/grid/n/{bob}/_dates", "302 404 404 303 404 303 302 302 302 302 302", "post",
        {"ends_on": "2027-03-31", "reason": "try", "base_revision": "{undated}"}, remakes="undated",
        besides="dora 403"),
    Row(NODE + "/<slug:name>/core-hours/", "/policy/grid/n/{bob}/bob/core-hours/",
        "302 404 404 200 404 200 302 302 302 302 302", word="core-hours for him", readers="pia admin dora",
        besides="dora 200"),
    # The editor: shares of one group by dragging
    # /physics: who sees sums only is shown no weeks, because a week may be one person's
    Row(CORE_HOURS + "figures/<slug:figure>", "/policy/grid/allocations/figures/usage?of={physics}",
        "302 404 200 200 404 200 302 302 302 302 302", word='"bob"', readers="pia admin dora",
        besides="vera 200 dora 200"),
    Row(CORE_HOURS + "figures/<slug:figure>.<str:form>", "/policy/grid/allocations/figures/burn-down.csv?of={bob}",
        "302 404 404 200 404 200 302 302 302 302 302", word="bob", readers="pia admin dora", besides="dora 200"),
    Row(POLICY + "/pack", "/api/v1/policies/grid/pack?entry={physics}&from=2026-11&to=2026-11",
        "401 404 200 200 404 200 403 200 404 401 401", word='"/physics"', readers="alice pia admin reader vera dora",
        besides="vera 200 dora 200"),
]  # fmt: skip


def _allocation(world: World) -> UUID:
    Allocation.objects.all().delete()
    year = {"starts_on": date(2026, 1, 1), "ends_on": date(2026, 12, 31)}
    terms = AllocationTerms(core_h=10, reason="core-hours for him", **year)
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
        terms=CapacityTerms(cores=1, starts_on=date(2026, 1, 1), note="the old box", reason="x"),
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
    Allocation.objects.filter(core_h=77).delete()
    Capacity.objects.filter(cores=77).delete()


MAKERS = {"allocation": _allocation, "capacity": _capacity, "no_77": _no_77, "undated": _undated}
