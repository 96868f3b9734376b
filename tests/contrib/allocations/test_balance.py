"""What is left of allocations: the charge of each hour beside a slow twin, and one number on all faces."""

from __future__ import annotations

import csv
import io
import random
import re
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.contrib.allocations.balance import Grant, charged, holding_on, run_on
from apps.contrib.allocations.board import get_allocation_board
from apps.contrib.allocations.notice_kinds import find_over_budget
from apps.contrib.allocations.packs.core_hours import allocation_rows
from apps.contrib.allocations.periods import day_of, whole_year
from apps.contrib.allocations.table import get_allocation_table
from apps.contrib.notices.kind import PolicyPlace
from apps.policies.models import Allocation
from apps.policies.tree.stored import load_tree
from apps.policies.units import CORE_HOUR
from apps.priorities.selectors.rows import open_view
from tests import priority_site
from tests.contrib.allocations.ruled_site import act, publish_rules, rule, uid_of
from tests.priority_site import AS_OF, PROJECTS, Site, finished
from tests.rest_site import Caller

_clock, make_site = priority_site._clock, priority_site.make_site

DAY = timedelta(days=1)
FIRST = date(2026, 1, 1)
GRANTS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 15), st.integers(0, 60), st.booleans()).map(
        lambda of: Grant(FIRST + of[0] * DAY, FIRST + (of[0] + of[1]) * DAY, float(of[2]), of[3])
    ),
    min_size=1,
    max_size=7,
)


def hours_of_days(used: Mapping[int, int]) -> Callable[[date, date], float]:
    return lambda a, b: float(sum(n for day, n in used.items() if a <= FIRST + day * DAY < b))


def charged_by_day(grants: list[Grant], used: Mapping[int, int], until: date) -> list[Fraction]:
    """Day by day and exact: the first to end pays, what was carried over before others, equal ones by what is left."""
    left = [Fraction(each.amount) for each in grants]
    paid = [Fraction(0) for _each in grants]
    for day, n in sorted(used.items()):
        on, hours = FIRST + day * DAY, Fraction(n)
        valid = [at for at, each in enumerate(grants) if each.starts_on <= on <= each.ends_on]
        if on >= until or not valid:
            continue
        turns = sorted({(grants[at].ends_on, not grants[at].is_carried) for at in valid})
        for turn in turns:
            own = [at for at in valid if (grants[at].ends_on, not grants[at].is_carried) == turn]
            together = sum(left[at] for at in own)
            part = min(together, hours)
            for at in own if together else ():
                paid[at] += part * left[at] / together
                left[at] -= part * left[at] / together
            hours -= part
        whole = sum(Fraction(grants[at].amount) for at in own)
        for at in own:
            paid[at] += hours * Fraction(grants[at].amount) / whole if whole else hours / len(own)
    return paid


@given(GRANTS, st.dictionaries(st.integers(0, 45), st.integers(0, 40), max_size=20), st.integers(0, 50))
def test_each_hour_is_charged_once_to_the_allocation_that_ends_first(
    grants: list[Grant], used: dict[int, int], until: int
) -> None:
    end = FIRST + until * DAY
    by_day = charged_by_day(grants, used, end)
    assert charged(grants, hours_of_days(used), end) == pytest.approx([float(each) for each in by_day], abs=1e-9)
    in_days = [day for day in used if any(each.starts_on <= FIRST + day * DAY <= each.ends_on for each in grants)]
    assert sum(by_day) == sum(used[day] for day in in_days if day < until)


@given(GRANTS, st.dictionaries(st.integers(0, 45), st.integers(-20, 40), max_size=20), st.integers(0, 46))
def test_what_valid_allocations_are_charged_is_the_use_less_what_ended_ones_paid_for(
    grants: list[Grant], used: dict[int, int], today: int
) -> None:
    """Whichever allocations are counted beside those of the run, and with corrections below zero."""
    day = FIRST + today * DAY
    holding = holding_on(grants, day)
    if holding is None:
        assert not any(each.starts_on <= day <= each.ends_on for each in grants)
        return
    hours = hours_of_days(used)
    until = day + DAY
    u = holding.used(hours, until)
    whole = charged(grants, hours, until)
    assert u == pytest.approx(max(sum(n for n, each in zip(whole, grants, strict=True) if each in holding.valid), 0.0))
    before = charged(holding.ended, hours, holding.starts_on) if holding.ended else []
    after = charged(holding.ended, hours, until) if holding.ended else []
    if all(n >= 0 for n in used.values()):
        paid = sum(min(n, each.amount) for n, each in zip(after, holding.ended, strict=True))
        paid -= sum(min(n, each.amount) for n, each in zip(before, holding.ended, strict=True))
        assert u == pytest.approx(hours(holding.starts_on, until) - paid)
    assert holding.balance(hours, until).remaining == holding.amount - u


def test_ten_thousand_overlapping_allocations_are_charged_by_reading_each_day_once() -> None:
    grants = [Grant(FIRST + n * DAY, FIRST + (n + 30) * DAY, 24.0) for n in range(10_000)]
    calls = 0

    def used(from_day: date, to_day: date) -> float:
        nonlocal calls
        calls += 1
        return 24.0 * (to_day - from_day).days

    own = charged(grants, used, FIRST + 10_000 * DAY)
    assert calls <= 20_000
    assert sum(own) == pytest.approx(24 * 10_000)
    starts = np.array([each.starts_on.toordinal() for each in grants])
    assert run_on(starts, starts + 30, int(starts[-1])).all()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    site = make_site()
    site.publish(PROJECTS)
    site.map()
    site.recompute()
    return site


def random_history(site: Site, rng: random.Random, zone: ZoneInfo) -> None:
    """Allocations of two entries that overlap, end, begin later and carry over, and jobs around their days."""
    today = day_of(AS_OF, zone)
    for path in ("/physics", "/biology"):
        uid, whole = uid_of(site, path), UUID(int=rng.getrandbits(128))
        Allocation.objects.create(
            policy=site.policy, uid=whole, entry_uid=uid, starts_on=today - rng.randint(0, 90) * DAY,
            ends_on=today + rng.randint(0, 90) * DAY, amount=rng.randint(0, 2_000), author_name="x", created_at=AS_OF,
        )  # fmt: skip
        for _n in range(rng.randint(0, 6)):
            first = today + rng.randint(-120, 40) * DAY
            Allocation.objects.create(
                policy=site.policy, entry_uid=uid, starts_on=first, ends_on=first + rng.randint(0, 70) * DAY,
                amount=rng.randint(0, 400), author_name="x", created_at=AS_OF,
                carried_from=whole if rng.random() < 0.3 else None,
            )  # fmt: skip
    rows = [
        finished(user, group, rng.randint(1, 90), ago_h=rng.uniform(1, 24 * 130), queue=str(n))
        for n in range(40)
        for user, group in (rng.choice([("alice", "physics"), ("bob", "physics"), ("carol", "biology")]),)
    ]
    site.jobs(rows)


def numbers_of(site: Site, today: date, zone: ZoneInfo) -> dict[str, dict[str, float]]:
    """By path, what each face says is left of the allocations of today."""
    caller = Caller(user=User.objects.create_superuser("root"))
    view, year = open_view(policy_slug=site.slug, actor=COMMAND), whole_year(today)
    left: dict[str, dict[str, float]] = {"/physics": {}, "/biology": {}}
    for row in get_allocation_board(policy_slug=site.slug, zone=zone, actor=COMMAND).rows:
        left[row.path]["board"] = row.remaining or 0.0
    for step in act(site, zone=zone):
        numbers = dict(step.facts["numbers"])
        left[step.facts["path"]]["rules"] = numbers["A"] - numbers["U"]
    for each in get_allocation_table(policy_slug=site.slug, period=year, zone=zone, actor=COMMAND).rows:
        left[each.path]["period"] = each.remaining or 0.0
    people = np.zeros(len(view.tree), np.bool_)
    for line in allocation_rows(view, 0, year, COMMAND, people, CORE_HOUR)["rows"][1:]:
        left[line["path"]]["pack"] = line["remaining_core_h"]
    place = PolicyPlace(site.policy, load_tree(site.policy), {"percent": 0}, AS_OF, today)
    for finding in find_over_budget(place):
        left[finding.facts["path"]]["notice"] = finding.facts["amount"] - finding.facts["used"]
    for name in ("board", "table"):
        for line in caller.get(f"policies/{site.slug}/allocations/{name}").json()["results"]:
            left[line["path"]][f"REST, {name}"] = line["remaining"]
        page = caller.client.get(reverse(f"pages:allocations-{PAGES[name]}", kwargs={"policy": site.slug}))
        for line in csv.DictReader(io.StringIO(b"".join(page).decode())):
            left[line["path"]][f"CSV, {name}"] = float(line["remaining"])
    for path, faces in left.items():
        words = {"policy": site.slug, "uid": uid_of(site, path), "name": path[1:]}
        page = caller.client.get(reverse("pages:entry-core-hours", kwargs=words))
        line = re.search(r"<dt>Remaining</dt>\s*<dd>([^<\s]+)", page.content.decode())
        assert line is not None
        faces["page"] = float(line[1].replace(",", ""))
    return left


PAGES = {"board": "board-csv", "table": "csv"}


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(8))
def test_all_faces_have_the_same_number(site: Site, seed: int, settings: Any) -> None:
    rng = random.Random(seed)
    settings.TIME_ZONE = rng.choice(["UTC", "Europe/Stockholm", "America/Los_Angeles", "Pacific/Auckland"])
    zone = ZoneInfo(settings.TIME_ZONE)
    random_history(site, rng, zone)
    publish_rules(site, rule("thresholds", {"levels": [{"percent": 0.001, "notify": True}]}))
    for path, faces in numbers_of(site, day_of(AS_OF, zone), zone).items():
        shown, left = faces.pop("page"), faces["board"]
        assert shown == pytest.approx(max(left, 0.0), abs=0.5 if left >= 10 else 0.05)
        assert len(faces) >= 6, "rules and notices name entries that have used something"
        assert faces == pytest.approx(dict.fromkeys(faces, left), abs=0.006), (path, seed)
