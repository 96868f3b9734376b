"""The rules of docs/examples/rules, replayed over a year of the sample's jobs: each number is the publisher's."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from uuid import UUID, uuid5

import numpy as np
import pytest

from apps.cli.sample.grid import Grid
from apps.cli.sample.jobs import DAYS, jobs, later_jobs
from apps.contrib.allocations.rules.engine import simulate
from apps.contrib.allocations.rules.state import RuledAllocation, RuledState, UsedByDay
from apps.contrib.allocations.rules.step import AmountEffect, SharesEffect, Step
from apps.core.code_paths import REPOSITORY
from apps.policies.allocation_rules import AllocationRule, PullBack, rules_of
from apps.policies.settings import PolicySettings
from tests.oracles.published_allocation_rules import jlab_shares, nesi_available, nrel_removed

FIRST, LAST = date(2025, 10, 1), date(2026, 9, 30)  # a fiscal year
N_DAYS = 365
SPACE = UUID(int=7)
ROOT = UUID(int=1)
# What each project was allocated, in parts of what it used in the year: from far too little to far too much.
GENEROSITY = (0.5, 0.9, 1.0, 1.2, 1.6, 2.2, 3.0, 6.0, 12.0)

Job = tuple[str, datetime, datetime, int]


@lru_cache(maxsize=1)
def sample_year() -> list[Job]:
    """(project, start, end, CPUs) of each job of the sample between these days; running ones until the end."""
    grid, end = Grid(), datetime.combine(LAST + timedelta(days=1), time(), UTC)
    loaded_at = datetime.combine(FIRST, time(), UTC) + timedelta(days=DAYS)
    first = [job for job in jobs(grid, end_at=loaded_at) if job.end_at is not None]
    later = later_jobs(grid, loaded_at=loaded_at, after=loaded_at, until=end)
    return [(job.member.vo, job.start_at, min(job.end_at or end, end), job.cpus) for job in (*first, *later)]


@lru_cache(maxsize=1)
def jobs_of() -> dict[str, list[Job]]:
    by_project: dict[str, list[Job]] = defaultdict(list)
    for job in sample_year():
        by_project[job[0]].append(job)
    return by_project


@lru_cache(maxsize=1)
def hours_by_day() -> dict[str, np.ndarray]:
    """Core-hours of each project on each day, by minutes of each job on it."""
    hours: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(N_DAYS))
    for project, start, end, cpus in sample_year():
        day = start.date()
        while datetime.combine(day, time(), UTC) < end:
            begins_at = datetime.combine(day, time(), UTC)
            part = min(end, begins_at + timedelta(days=1)) - max(start, begins_at)
            if FIRST <= day <= LAST:
                hours[project][(day - FIRST).days] += cpus * part.total_seconds() / 3600
            day += timedelta(days=1)
    return dict(hours)


def used_before(project: str, day: date) -> float:
    """The oracle's U: core-hours of all jobs until a midnight, job by job."""
    begins_at, ends_at = (datetime.combine(each, time(), UTC) for each in (FIRST, day))
    return sum(
        cpus * max((min(end, ends_at) - max(start, begins_at)).total_seconds(), 0.0) / 3600
        for _name, start, end, cpus in jobs_of()[project]
    )


def uid(project: str) -> UUID:
    return uuid5(SPACE, project)


def allocated() -> dict[str, float]:
    used = {project: hours.sum() for project, hours in hours_by_day().items()}
    return {
        project: round(used[project] * GENEROSITY[at % len(GENEROSITY)], -2) for at, project in enumerate(sorted(used))
    }


def make_state(shares: Mapping[str, float] | None = None) -> RuledState:
    projects = sorted(hours_by_day())
    rows = [RuledAllocation(uid(p), uid(p), f"/{p}", FIRST, LAST, allocated()[p], "core-h") for p in projects]
    daily = np.stack([hours_by_day()[p] for p in projects], axis=1)
    cumulative = np.concatenate([np.zeros((1, len(projects))), daily.cumsum(axis=0)])
    return RuledState(
        allocations={row.uid: row for row in rows},
        used={"core-h": UsedByDay(FIRST, cumulative, {uid(p): at for at, p in enumerate(projects)})},
        shares={uid(p): (shares or {}).get(p, 10.0) for p in projects},
        parents={uid(p): ROOT for p in projects},
        paths={ROOT: "/", **{uid(p): f"/{p}" for p in projects}},
    )


def published_rules(name: str) -> tuple[AllocationRule, ...]:
    """The rules of a document in docs/examples/rules, which is the body of a change set."""
    body = json.loads((REPOSITORY / f"docs/examples/rules/{name}.json").read_text(encoding="utf-8"))
    (operation,) = body["operations"]
    return rules_of(PolicySettings.from_json(operation["settings"]).rules)


def replay(name: str, state: RuledState) -> list[Step]:
    return list(simulate(published_rules(name), state, FIRST, LAST))


def test_the_sample_has_a_year_of_jobs_of_projects_that_use_too_much_and_too_little() -> None:
    assert len(sample_year()) > 100_000
    assert len(hours_by_day()) >= 9
    assert all(hours.sum() > 0 for hours in hours_by_day().values())


def test_aging_gives_what_nesi_publishes() -> None:
    steps, amounts = replay("nesi-aging", make_state()), allocated()
    assert [step.on for step in steps if step.path == steps[0].path] == [
        FIRST + timedelta(days=90 * n) for n in (1, 2, 3, 4)
    ]
    assert len(steps) == 4 * len(amounts)
    for step in steps:
        project = step.path[1:]
        used = used_before(project, step.on)
        available = nesi_available(amounts[project], FIRST, 365, step.on, used)
        if used > amounts[project]:
            assert available < 0
        assert step.number("A(t)") == pytest.approx(available, rel=1e-9, abs=1e-6)
        for effect in step.effects:
            assert isinstance(effect, AmountEffect)
            assert effect.after - used == pytest.approx(available, rel=1e-9, abs=1e-6)
    assert {len(step.effects) for step in steps} == {0, 1}, "some lose hours, some don't"


def test_pull_back_removes_what_nrel_publishes() -> None:
    steps, amounts = replay("nrel-reductions", make_state()), allocated()
    quarter_ends = [date(2026, 1, 1), date(2026, 4, 1), date(2026, 7, 1)]
    removed_by_project = defaultdict(list)
    for step in steps:
        removed_by_project[step.path[1:]].append((step.on, step.number("removed")))
    assert removed_by_project.keys() == amounts.keys()
    percents = set()
    for project, removed in removed_by_project.items():
        used = [used_before(project, day) for day in quarter_ends]
        expected = nrel_removed([amounts[project] / 4] * 4, used)
        assert [day for day, _n in removed] == quarter_ends
        assert [n for _day, n in removed] == pytest.approx(expected, rel=1e-9, abs=1e-6)
        percents |= {step.number("r") for step in steps if step.path == f"/{project}"}
    assert percents == {0, 20, 35, 55, 80}, "the year has a project in each row of the table"


@pytest.mark.parametrize(
    ("plan", "removed"),
    [
        pytest.param([25, 25, 25, 25], [13_750, 0, 0], id="Renewables"),
        pytest.param([10, 30, 30, 30], [0, 0, 0], id="Efficiency"),
    ],
)
def test_the_published_examples_of_nrel_come_out(plan: list[float], removed: list[float]) -> None:
    """Its text of 3 March 2021: 9,000, 20,000 and 25,000 of 100,000 AUs used; 55 % of 25,000 are removed after Q1.

    (Its later sentences say 12,500 for these 13,750.)
    """
    used = np.zeros(N_DAYS)
    for quarter, hours in zip((date(2025, 10, 5), date(2026, 1, 5), date(2026, 4, 5)), (9e3, 20e3, 25e3), strict=True):
        used[(quarter - FIRST).days] = hours
    project = UUID(int=9)
    state = RuledState(
        allocations={project: RuledAllocation(project, project, "/p", FIRST, LAST, 100_000, "core-h")},
        used={"core-h": UsedByDay(FIRST, np.concatenate([[0], used.cumsum()])[:, None], {project: 0})},
        shares={},
        parents={},
        paths={project: "/p"},
    )
    (rule,) = published_rules("nrel-reductions")
    assert isinstance(rule.terms, PullBack)
    rule = replace(rule, terms=replace(rule.terms, plan=tuple(plan)))
    steps = list(simulate([rule], state, FIRST, LAST))
    assert [step.number("removed") for step in steps] == pytest.approx(removed)
    assert nrel_removed([100_000 * part / 100 for part in plan], [9e3, 29e3, 54e3]) == pytest.approx(removed)


def test_monthly_shares_follow_what_remains_as_jefferson_lab_describes() -> None:
    state = make_state()
    steps = replay("jlab-shares", state)
    assert [step.on for step in steps] == [date(2025 + (9 + n) // 12, (9 + n) % 12 + 1, 1) for n in range(12)]
    amounts, current = allocated(), {project: 10.0 for project in allocated()}
    for step in steps:
        used = {project: used_before(project, step.on) for project in amounts}
        expected = jlab_shares(amounts, used, sum(current.values()))
        for effect in step.effects:
            assert isinstance(effect, SharesEffect)
            current[next(p for p in amounts if uid(p) == effect.entry_uid)] = effect.after
        assert current == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert all(current[p] == 0 for p in amounts if used[p] >= amounts[p]), "a used-up project is last"
    assert any(share == 0 for share in current.values())
    assert sum(current.values()) == pytest.approx(10.0 * len(amounts))
