"""Cores, memory and disk that a site needs, from measured constants: the tables of docs/scale.md.

`python -m bench.sizing` prints them. Each constant names what measures it; a release that changes one changes it here,
and `make docs-parts` the document.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

DAY_S = 86_400.0


class Constant(NamedTuple):
    """A measured cost; the larger one where two runs differ."""

    value: float
    unit: str
    meaning: str
    measured_by: str


CONSTANTS = {
    "recompute": Constant(1.8, "µs an entry", "a recompute after a change, with PostgreSQL", "bench recompute"),
    "tick": Constant(70.0, "ms", "any tick of a policy, beside that", "bench growth"),
    "first": Constant(10.0, "µs an entry", "the first recompute of a worker", "bench recompute"),
    "ingest": Constant(42_000.0, "records a second", "stored with their hours, on one core", "bench growth"),
    "record": Constant(196.0, "bytes", "a stored record with its indexes", "bench growth"),
    "bucket": Constant(170.0, "bytes", "an hour of an account with its index", "bench growth"),
    "snapshot": Constant(6.1, "bytes an entry", "a stored snapshot", "bench day_bytes"),
    "served": Constant(230.0, "bytes an entry", "files that all processes of a host map", "bench web_memory"),
    "web": Constant(170.0, "MB", "a web process with 100,000 names looked up", "bench web_memory"),
    "worker": Constant(130.0, "MB", "a worker, importing or not", "bench usage"),
    "worker_entry": Constant(2.0, "kB an entry", "a worker that recomputes, beside that", "bench recompute"),
    "request": Constant(80.0, "ms", "a request, with its queries", "bench site_load"),
}
JOBS_A_BUCKET = 4.0  # of one account in one hour; LCG-2005-1 has 2.9
BUSIEST = 3.0  # times the mean rate of records, in the busiest hour
FILLED = 0.5  # of a core that one process uses at most, so that waiting stays short
TICK_S = 60.0
SNAPSHOTS = 24 * 30 + 335  # of a year: each hour of 30 days, then each day
POSTGRES_MB = 1_500.0  # shared buffers of 1 GB, connections and the hours in use
WEB_PROCESSES, WORKERS = 2, 2


def cost(name: str) -> float:
    return CONSTANTS[name].value


class Site(NamedTuple):
    """users: leaves of all its policies. records: a day. readers: people who open a page each minute."""

    users: int
    records: int
    readers: int = 0


class Needs(NamedTuple):
    """recompute_s: after a change. year_min: to import the records of a past year, on one core."""

    cores: int
    memory_gb: float
    disk_gb: float
    recompute_s: float
    year_min: float


SITES = (
    Site(1_000, 10_000, 10),
    Site(10_000, 100_000, 50),
    Site(100_000, 1_000_000, 200),
    Site(1_000_000, 10_000_000, 500),
)


def needs_of(site: Site) -> Needs:
    """A year of records is kept; each tick has a change."""
    recompute_s = cost("tick") * 1e-3 + site.users * cost("recompute") * 1e-6
    ingest = BUSIEST * site.records / DAY_S / cost("ingest")  # of a core
    pages = site.readers / 60 * cost("request") * 1e-3
    cores = max(2, math.ceil((recompute_s / TICK_S + ingest + pages) / FILLED))
    memory_mb = (
        POSTGRES_MB
        + WEB_PROCESSES * cost("web")
        + WORKERS * (cost("worker") + site.users * cost("worker_entry") / 1e3)
        + site.users * cost("served") / 1e6
    )
    return Needs(cores, memory_mb / 1e3, disk_gb(site, 365), recompute_s, 365 * site.records / cost("ingest") / 60)


def disk_gb(site: Site, days: int) -> float:
    """Records and buckets of these days, and the snapshots of a year."""
    a_day = site.records * (cost("record") + cost("bucket") / JOBS_A_BUCKET)
    return (days * a_day + SNAPSHOTS * site.users * cost("snapshot")) / 1e9


def constants() -> str:
    """The constants as a table."""
    rows = [f"| {c.meaning} | {c.value:,g} {c.unit} | `{c.measured_by}` |" for c in CONSTANTS.values()]
    return "\n".join(["| what | cost | measured by |", "|---|---|---|", *rows])


def table(sites: Sequence[Site] = SITES) -> str:
    """The needs of sites of several sizes."""
    head = "| users | records a day | readers | cores | memory | disk of a year | a recompute | importing a past year |"
    rows = [head, "|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for site in sites:
        needs = needs_of(site)
        rows.append(
            f"| {site.users:,} | {site.records:,} | {site.readers:,} | {needs.cores} | {needs.memory_gb:.1f} GB | "
            f"{needs.disk_gb:,.1f} GB | {needs.recompute_s:.3g} s | {needs.year_min:,.0f} min |"
        )
    return "\n".join(rows)


PLAN = Site(10_000_000, 100_000_000, 5_000)
PLAN_SITES = 10_000
PUSH_EVERY_S = 300.0
KEPT_DAYS = 90


def plan() -> str:
    """What a hub of 10,000 sites with 100,000,000 records a day costs, part by part."""
    ingest = PLAN.records / DAY_S / cost("ingest")
    pushes = PLAN_SITES / PUSH_EVERY_S
    users = PLAN.users / PLAN_SITES
    extended = PLAN_SITES * cost("tick") * 1e-3 / TICK_S
    recomputed = PLAN_SITES * users * cost("recompute") * 1e-6 / TICK_S
    buckets = PLAN.records / JOBS_A_BUCKET
    parts = [
        ("records of a day", f"{PLAN.records * cost('record') / 1e9:.0f} GB in one partition a day", "`import`"),
        ("buckets of a day", f"{buckets / 1e6:.0f} million, {buckets * cost('bucket') / 1e9:.1f} GB", "`import`"),
        (f"{KEPT_DAYS} days of both", f"{disk_gb(PLAN, KEPT_DAYS):,.0f} GB with snapshots of a year", "–"),
        ("storing records", f"{ingest:.2f} cores on average, {BUSIEST * ingest:.2f} in the busiest hour", "`import`"),
        ("requests that push", f"{pushes:.0f} a second, {pushes * cost('request') * 1e-3:.1f} cores", "web"),
        ("ticks without a change", f"{extended:.1f} cores for {PLAN_SITES:,} policies a minute", "`recompute`"),
        ("ticks with a change", f"{extended + recomputed:.1f} cores for policies of {users:,.0f} users", "`recompute`"),
        ("pages", f"{PLAN.readers / 60 * cost('request') * 1e-3:.1f} cores for {PLAN.readers:,} readers", "web"),
        ("served numbers", f"{PLAN.users * cost('served') / 1e9:.1f} GB on each web host", "web"),
    ]
    rows = [f"| {what} | {how} | {queue} |" for what, how, queue in parts]
    return "\n".join(["| part | cost | queue |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(constants(), table(), plan(), sep="\n\n")
