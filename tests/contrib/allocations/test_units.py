"""Allocations in units of a policy: GPU-hours beside core-hours, never added to each other."""

from __future__ import annotations

from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.contrib.allocations.capacities import CapacityTerms, add_capacity
from apps.contrib.allocations.conversion import ConversionQuery, get_conversion
from apps.contrib.allocations.notice_kinds import describe_ending, describe_over_budget
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.services import AllocationTerms, create_allocation, tag_of, withdraw_allocation
from apps.contrib.allocations.table import AllocationRow, get_allocation_table
from apps.core.errors import Conflict, Invalid
from apps.policies.models import Allocation, Capacity
from apps.policies.services import change_settings
from apps.policies.tree.stored import load_tree
from tests import priority_site
from tests.priority_site import AS_OF, Site

_clock, as_eva = priority_site._clock, priority_site.as_eva
make_site, site = priority_site.make_site, priority_site.site

ZONE = ZoneInfo("UTC")
NAMES = ("physics", "biology")
YEAR = Period(date(2026, 1, 1), date(2026, 12, 31))
GPU_H: dict[str, Any] = {"name": "GPU-hour", "symbol": "GPU-h", "weights": {"gpu_s": 1}}
SU: dict[str, Any] = {
    "name": "Service unit",
    "symbol": "SU",
    "weights": {"cpu_s": 1, "gpu_s": 64},
    "minimum_charge_s": 900,
}


@pytest.fixture
def gpu_site(site: Site) -> Site:
    """A site with usage of GPUs, whose policy has GPU-hours and service units."""
    publish_units(site, GPU_H, SU)
    site.job("alice", "physics", 4, ago_h=30, gpus=2)
    return site


def publish_units(site: Site, *units: dict[str, Any]) -> None:
    settings = {"units": list(units)}
    change_settings(policy_slug=site.slug, settings=settings, reason="Units.", at=AS_OF, actor=COMMAND)
    site.policy.refresh_from_db()


def allocate(site: Site, actor: Actor, amount: float, unit: str, path: str = "/physics") -> Allocation:
    tree = load_tree(site.policy)
    i = tree.index_of_path(path)
    assert i is not None
    terms = AllocationTerms(
        starts_on=YEAR.starts_on, ends_on=YEAR.ends_on, amount=amount, unit=unit, reason="The board's."
    )
    return create_allocation(policy_slug=site.slug, entry_uid=tree.uuid(i), terms=terms, at=AS_OF, actor=actor)


def capacity(site: Site, actor: Actor, per_hour: float, unit: str) -> Capacity:
    terms = CapacityTerms(starts_on=YEAR.starts_on, per_hour=per_hour, unit=unit, reason="As delivered.")
    return add_capacity(policy_slug=site.slug, terms=terms, at=AS_OF, actor=actor)


def physics(site: Site, actor: Actor, unit: str = "") -> AllocationRow:
    table = get_allocation_table(policy_slug=site.slug, period=YEAR, zone=ZONE, actor=actor, unit=unit)
    return next(row for row in table.rows if row.path == "/physics")


def test_each_unit_has_a_table_of_its_own(gpu_site: Site, as_eva: Actor) -> None:
    allocate(gpu_site, as_eva, 1_000, "core-h")
    allocate(gpu_site, as_eva, 80, "GPU-h")
    core, gpu, su = (physics(gpu_site, as_eva, unit) for unit in ("core-h", "GPU-h", "SU"))
    assert (core.allocated, core.delivered) == (1_000, 40 + 15 + 4)
    assert (gpu.allocated, gpu.delivered, gpu.remaining) == (80, 2, 78)
    assert (su.allocated, su.delivered) == (None, 59 + 64 * 2)


def test_capacity_and_expected_are_of_the_unit(gpu_site: Site, as_eva: Actor) -> None:
    capacity(gpu_site, as_eva, 100, "core-h")
    capacity(gpu_site, as_eva, 8, "GPU-h")
    table = get_allocation_table(policy_slug=gpu_site.slug, period=YEAR, zone=ZONE, actor=as_eva, unit="GPU-h")
    assert table.capacity == 8 * 8_760
    assert table.group.delivered == 2
    assert physics(gpu_site, as_eva, "GPU-h").expected_whole == pytest.approx(0.6 * 8 * 8_760)
    assert physics(gpu_site, as_eva, "core-h").expected_whole == pytest.approx(0.6 * 100 * 8_760)


def test_a_page_begins_with_a_unit_that_is_used(gpu_site: Site, as_eva: Actor) -> None:
    first = get_allocation_table(policy_slug=gpu_site.slug, period=YEAR, zone=ZONE, actor=as_eva)
    assert (first.unit.symbol, first.used) == ("core-h", frozenset())
    allocate(gpu_site, as_eva, 80, "GPU-h")
    second = get_allocation_table(policy_slug=gpu_site.slug, period=YEAR, zone=ZONE, actor=as_eva)
    assert (second.unit.symbol, second.used) == ("GPU-h", frozenset({"GPU-h"}))


def test_shares_follow_the_allocations_of_one_unit(gpu_site: Site, as_eva: Actor) -> None:
    for unit, amounts in (("core-h", (30, 70)), ("GPU-h", (90, 10))):
        for path, amount in zip(("/physics", "/biology"), amounts, strict=True):
            allocate(gpu_site, as_eva, amount, unit, path)
    root = load_tree(gpu_site.policy).uuid(0)
    for unit, shares in (("core-h", [30, 70]), ("GPU-h", [90, 10])):
        query = ConversionQuery(parent_uid=root, period=YEAR, zone=ZONE, unit=unit)
        conversion = get_conversion(policy_slug=gpu_site.slug, query=query, at=AS_OF, actor=as_eva)
        assert {line.name: line.shares_after for line in conversion.lines} == dict(zip(NAMES, shares, strict=True))


def test_an_unknown_unit_is_refused_with_those_that_there_are(gpu_site: Site, as_eva: Actor) -> None:
    for attempt in (
        lambda: allocate(gpu_site, as_eva, 1, "TPU-h"),
        lambda: capacity(gpu_site, as_eva, 1, "gpu-h"),
        lambda: physics(gpu_site, as_eva, "TPU-h"),
    ):
        with pytest.raises(Invalid) as refusal:
            attempt()
        assert [problem.where for problem in refusal.value.fields] == ["unit"]
        assert "core-h, GPU-h, SU" in refusal.value.message


def test_a_unit_in_use_is_not_removed(gpu_site: Site, as_eva: Actor) -> None:
    made = allocate(gpu_site, as_eva, 80, "GPU-h")
    with pytest.raises(Conflict) as refusal:
        publish_units(gpu_site, SU)
    assert (refusal.value.code, "GPU-h" in refusal.value.message) == ("unit_in_use", True)
    publish_units(gpu_site, GPU_H | {"weights": {"gpu_s": 2}})
    assert physics(gpu_site, as_eva, "GPU-h").delivered == 4
    withdraw_allocation(
        policy_slug=gpu_site.slug, allocation_uid=made.uid, tag=tag_of(made), reason="Over.", at=AS_OF, actor=as_eva
    )
    publish_units(gpu_site)
    assert gpu_site.policy.head_number > 1


@pytest.mark.parametrize(
    ("unit", "where"),
    [
        (GPU_H | {"weights": {}}, "operations[0].settings.units[0].weights"),
        (GPU_H | {"weights": {"gpu_s": 0}}, "operations[0].settings.units[0].weights"),
        (GPU_H | {"weights": {"gpu_s": -1}}, "operations[0].settings.units[0].weights.gpu_s"),
        (GPU_H | {"weights": {"coffee": 1}}, "operations[0].settings.units[0].weights.coffee"),
        (GPU_H | {"symbol": ""}, "operations[0].settings.units[0].symbol"),
        (GPU_H | {"symbol": "core-H"}, "operations[0].settings.units[0].symbol"),
        (GPU_H | {"name": "x" * 65}, "operations[0].settings.units[0].name"),
        (GPU_H | {"minimum_charge_s": -1}, "operations[0].settings.units[0].minimum_charge_s"),
        (GPU_H | {"class_factors": [{"qos": "low"}]}, "operations[0].settings.units[0].class_factors[0].factor"),
        (GPU_H | {"colour": 1}, "operations[0].settings.units[0].colour"),
        ("GPU-h", "operations[0].settings.units[0]"),
    ],
)
def test_a_bad_unit_is_refused_with_its_place(site: Site, unit: Any, where: str) -> None:
    with pytest.raises(Invalid) as refusal:
        publish_units(site, unit)
    assert where in [problem.where for problem in refusal.value.fields]


def test_two_units_never_have_one_symbol(site: Site) -> None:
    with pytest.raises(Invalid) as refusal:
        publish_units(site, GPU_H, SU | {"symbol": "gpu-h"})
    assert [problem.where for problem in refusal.value.fields] == ["operations[0].settings.units[1].symbol"]


def test_notices_say_the_unit_and_those_of_before_are_in_core_hours() -> None:
    place = {"path": "/physics", "ends_on": "2026-12-31", "is_over": False}
    gpu = {**place, "amount": 80.0, "used": 81.0, "unit": "GPU-h"}
    before = {**place, "core_h": 80.0, "used_core_h": 81.0}
    assert "80 GPU-h" in describe_ending(gpu).text
    assert "80 core-h" in describe_ending(before).text
    assert "81 of the 80 GPU-h" in describe_over_budget(gpu).text
    assert "81 of the 80 core-h" in describe_over_budget(before).text
