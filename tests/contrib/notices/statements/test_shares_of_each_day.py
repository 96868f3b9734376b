"""An entitlement is settled by the shares of each day: beside an oracle that knows jobs and publications alone."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.notices.statements.selectors import AMOUNTS, get_statements
from apps.policies.tree.stored import load_tree
from apps.series.days import site_zone
from tests.priority_site import AS_OF, Site, build_series, children, finished, new_site

DAYS = 70
CORE_H = 3600.0
NAMES = ("physics", "biology", "ocean")
Shares = Mapping[str, float]


@dataclass
class Drawn:
    """A site whose shares changed several times in the year. published: when, and what; the first is before all jobs.

    used: core-hours by group and day.
    """

    site: Site
    published: list[tuple[datetime, Shares]]
    used: dict[tuple[str, date], float]

    def publish(self, shares: Shares, at: datetime) -> None:
        groups = {name: {"": shares[name], f"user-{name}": 1} for name in NAMES}
        self.site.publish(children(**groups), at=at)
        self.published.append((at, shares))


def draw_site(rng: random.Random) -> Drawn:
    drawn = Drawn(new_site(at=AS_OF - timedelta(days=DAYS + 2)), [], {})
    begin = AS_OF - timedelta(days=DAYS + 1)
    changed = sorted(rng.sample(range(1, DAYS), rng.randint(2, 5)), reverse=True)
    for at in [begin, *(AS_OF - timedelta(days=ago_d, hours=rng.uniform(-11, 11)) for ago_d in changed)]:
        drawn.publish({name: rng.choice((0, 1, 2, 5, 20)) + (name == "ocean") for name in NAMES}, at)
    drawn.site.map(at=begin)
    rows = []
    for name in NAMES:
        for ago_d in range(1, DAYS):
            if rng.random() < 0.7:
                hours = rng.uniform(1, 40)
                rows.append(finished(f"user-{name}", name, hours, ago_h=24 * ago_d))  # from 11 to 12 o'clock
                drawn.used[name, (AS_OF - timedelta(days=ago_d)).date()] = hours
    drawn.site.jobs(rows)
    build_series(drawn.site)
    return drawn


def oracle(drawn: Drawn, name: str, days: Sequence[date]) -> dict[str, float]:
    """Day by day: what was published last before its end divides what all groups used on it."""
    entitled = used = borrowed = unused = 0.0
    for on in days:
        ends_at = datetime.combine(on + timedelta(days=1), time(), site_zone())
        _at, shares = max((row for row in drawn.published if row[0] < ends_at), key=lambda row: row[0])
        ran = {each: drawn.used.get((each, on), 0.0) for each in NAMES}
        due = shares[name] / sum(shares.values()) * sum(ran.values())
        entitled += due
        used += ran[name]
        borrowed += max(0.0, ran[name] - due)
        unused += max(0.0, due - ran[name])
    return {"entitled": entitled, "used": used, "borrowed": borrowed, "unused": unused}


def statements(drawn: Drawn) -> dict[tuple[str, str], Any]:
    """Figures by group and month of the last three, in core-hours."""
    tree = load_tree(drawn.site.policy)
    found = {}
    for name in NAMES:
        i = tree.index_of_path(f"/{name}")
        assert i is not None
        for line in get_statements(policy_slug="grid", uid=tree.uuid(i), actor=COMMAND).months[:3]:
            found[name, line.month.text] = line.figures
    return found


def days_of(month: str) -> list[date]:
    """Complete days of the site in a month."""
    days = ((AS_OF - timedelta(days=ago_d)).date() for ago_d in range(1, DAYS + 2))
    return [on for on in days if f"{on:%Y-%m}" == month]


@pytest.mark.django_db
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.deep), pytest.param(3, marks=pytest.mark.deep)])
def test_an_entitlement_is_by_the_shares_of_each_day(seed: int) -> None:
    """And shares that are published today leave it as it was."""
    drawn = draw_site(random.Random(seed))
    first = statements(drawn)
    for (name, month), figures in first.items():
        wanted = oracle(drawn, name, days_of(month))
        if not wanted["entitled"]:
            continue  # none of its days, or no shares on any
        assert figures is not None, (name, month)
        unused = figures.lent + figures.missed + figures.unclear
        found = {"entitled": figures.entitled, "used": figures.used, "borrowed": figures.borrowed, "unused": unused}
        shown = {amount: core_s / CORE_H for amount, core_s in found.items()}
        assert shown == pytest.approx(wanted, rel=1e-6, abs=1e-6), (name, month)
    drawn.publish({"physics": 97, "biology": 1, "ocean": 2}, AS_OF)
    build_series(drawn.site)
    later = statements(drawn)
    for key, figures in first.items():
        if figures is not None:
            amounts = [(getattr(figures, name), getattr(later[key], name)) for name in AMOUNTS]
            assert all(before == after for before, after in amounts), key
