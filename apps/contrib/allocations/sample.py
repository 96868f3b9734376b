"""Core-hours that the sample grid has allocated."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

from django.conf import settings

from apps.cli.sample.grid import PART, POLICY_SLUG, SITES
from apps.cli.sample.jobs import DAYS
from apps.cli.sample.site import SampleSite
from apps.contrib.allocations.capacities import CapacityTerms, add_capacity
from apps.contrib.allocations.periods import DAY, Period, day_of
from apps.contrib.allocations.services import AllocationTerms, create_allocation

_NOTE = "A sixteenth of the machine belongs to the grid."
_ROUND = "Autumn round of the allocation committee."
_ALLOCATED_TO = ("climate", "lattice-qcd", "genomics", "radio-sky", "materials", "fusion")
_WITHIN = {
    "genomics/assembly": 0.6,
    "genomics/variants": 0.3,
    "genomics/pathogens": 0.2,
    "climate/seasonal": 0.5,
    "climate/sea-ice": 0.3,
}


def allocate_core_hours(sample: SampleSite) -> None:
    """State the capacity of each site, and allocate core-hours for half a year in proportion to shares."""
    at, admin = sample.at, sample.actor("admin")
    zone = ZoneInfo(settings.TIME_ZONE)
    first, today = day_of(at - timedelta(days=DAYS), zone), day_of(at, zone)
    for site in SITES:
        add_capacity(
            policy_slug=POLICY_SLUG,
            terms=CapacityTerms(
                starts_on=first, per_hour=site.cores / PART, site=site.name, note=_NOTE, reason="As agreed."
            ),
            at=at,
            actor=admin,
        )
    half_year = Period(first, first + 182 * DAY)
    whole = sum(site.cores for site in SITES) / PART * half_year.hours(zone)
    shares = sample.grid.vo_shares

    def allocate(path: str, amount: float, period: Period) -> None:
        create_allocation(
            policy_slug=POLICY_SLUG,
            entry_uid=sample.uid_of(f"/{path}"),
            terms=AllocationTerms(
                starts_on=period.starts_on, ends_on=period.ends_on, amount=round(amount, -3), reason=_ROUND
            ),
            at=at,
            actor=admin,
        )

    amounts = {name: whole * shares[name] / sum(shares.values()) for name in _ALLOCATED_TO}
    for name, amount in amounts.items():
        allocate(name, amount, half_year)
    for path, part in _WITHIN.items():
        allocate(path, amounts[path.partition("/")[0]] * part, half_year)
    allocate("climate/seasonal", 15_000, Period(today.replace(day=1), today.replace(day=1) + 60 * DAY))
    allocate("training", 5_000, Period(first, today + 20 * DAY))
