"""Operators and resolution of one policy: its figures, and what is shown to whom."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.contrib.lab.operators import figure_numbers
from apps.contrib.lab.operators.figure_numbers import SEVEN
from apps.contrib.lab.operators.figures import FIGURES
from apps.contrib.lab.operators.records import FigureQuery, columns_of, read_query
from apps.contrib.lab.operators.selectors import get_figure, get_operators_page
from apps.core.errors import Invalid, NotFound
from apps.engine.analysis import density, job_size
from apps.engine.operators import get_operator
from tests.pages.grid import SLUG, Grid


def figure(name: str, actor: Actor = COMMAND, **query: Any) -> Any:
    """A FigureTable; which record its rows are the test knows."""
    return get_figure(policy_slug=SLUG, figure=name, query=FigureQuery(**query), actor=actor)


@pytest.mark.deep
def test_every_figure_has_rows_of_its_record_and_a_sentence(open_grid: Grid) -> None:
    for name, made in FIGURES.items():
        found = figure(name)
        assert found.rows, name
        assert {type(row) for row in found.rows} == {made.record}, name
        assert found.sentence.endswith("."), name
        assert "%" not in found.sentence.replace("\u00a0%", ""), f"{name}: {found.sentence}"
        assert [column.name for column in found.columns if not column.text] == []
        assert set(found.json()["rows"][0]) == {column.name for column in columns_of(made.record)}


@pytest.mark.parametrize("target", [0.1, 0.5])
@pytest.mark.paper("D2")
def test_figures_10_to_13_show_the_numbers_of_the_analysis(open_grid: Grid, target: float) -> None:
    for name in SEVEN:
        operator = get_operator(name)
        rows = [row for row in figure("local-density", target=target).rows if row.operator == name]
        assert [row.density for row in rows] == density.local_density(operator, target, 8).tolist()
        curve = [row for row in figure("profiles", target=target).rows if row.operator == name]
        actual = np.array([row.actual for row in curve])
        assert [row.priority for row in curve] == operator(np.full_like(actual, target), actual).tolist()


@pytest.mark.paper("D1")
def test_figure_8_shows_the_numbers_of_the_analysis(open_grid: Grid) -> None:
    rows = figure("input-density").rows
    for name in SEVEN:
        found = [row.density for row in rows if row.operator == name]
        assert found == density.input_density(get_operator(name), 8).tolist()


@pytest.mark.parametrize(
    "reading",
    [
        pytest.param(each.name, marks=() if each.name.startswith("typical") else pytest.mark.deep)
        for each in job_size.READINGS
    ],
)
@pytest.mark.paper("J2")
def test_figure_17_shows_the_cells_of_the_analysis(open_grid: Grid, reading: str) -> None:
    named = next(each for each in job_size.READINGS if each.name == reading)
    expected = {(cell.operator, cell.column): (cell.bits, cell.published) for cell in job_size.cells(named.reading)}
    rows = figure("bits", reading=reading).rows
    assert {(row.operator, row.region): (row.bits, row.published) for row in rows} == expected


@pytest.mark.deep
@pytest.mark.paper("J3")
def test_figures_14_to_16_order_the_operators_as_the_analysis_does(open_grid: Grid) -> None:
    rows = figure("job-size").rows
    for region in job_size.REGIONS:
        here = {row.operator: row.job_h for row in rows if row.region == region and row.bits == 10}
        order = sorted(here, key=lambda name: here[name] or np.inf)
        operators = [get_operator(name) for name in SEVEN]
        assert order == job_size.best_first(operators, region, job_size.TYPICAL_OF_REAL_STATES)
        for operator in operators:
            fraction = job_size.job_fraction(
                operator, bits=10, region=job_size.REGIONS[region], reading=job_size.TYPICAL_OF_REAL_STATES
            )
            assert here[operator.name] == (None if fraction is None else fraction * job_size.POOL_H)


def test_figure_17_follows_the_nodes_the_window_and_the_job(open_grid: Grid) -> None:
    few = figure("bits", nodes=60, job_h=2_000).rows
    same = figure("bits", nodes=600, job_h=20_000).rows
    assert [row.bits for row in few] == [row.bits for row in same]
    paper = figure("bits").rows
    assert all((a.bits or 99) <= (b.bits or 99) for a, b in zip(few, paper, strict=True))


@pytest.mark.deep
@pytest.mark.paper("J3")
def test_smallest_jobs_equal_those_of_searched_states(open_grid: Grid) -> None:
    """At 5 bits: the states by halving, not by inverses; of each component its easiest target, then the lower third."""
    rows = {(row.operator, row.region): row.job_h for row in figure("job-size").rows if row.bits == 5}
    assert len(rows) == len(SEVEN) * len(job_size.REGIONS)
    for (name, region), job_h in rows.items():
        low, high = job_size.REGIONS[region]
        easiest = []
        for i in range(32):
            edge = -1 + i / 16
            if low - 1e-12 <= edge <= high + 1e-12:
                sizes = [_job_between(name, edge, edge + 1 / 16, tenths / 10) for tenths in range(1, 10)]
                easiest += [min(size for size in sizes if size is not None)] if any(sizes) else []
        expected = sorted(easiest)[(len(easiest) - 1) // 3] * 600 * 365 * 24 if easiest else None
        assert job_h == (None if expected is None else pytest.approx(expected, rel=1e-6)), (name, region)


def _job_between(name: str, lowest: float, highest: float, target: float) -> float | None:
    """The job, as a part of all usage, that leads from one edge of a component to the other; None if none exists."""
    low, high = _actual_at(name, highest, target), _actual_at(name, lowest, target)
    if low is None or high is None or high >= 1 - 1e-12:
        return None
    return (high - low) / (1 - high)


@cache
def _actual_at(name: str, priority: float, target: float) -> float | None:
    """The actual share with this priority, by halving; None if no share from 0 to 1 has it."""
    operator = get_operator(name)

    def priority_at(actual: float) -> float:
        return float(operator(np.array([target]), np.array([actual]))[0])

    if not priority_at(1.0) - 1e-12 <= priority <= priority_at(0.0) + 1e-12:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if priority_at(middle) >= priority else (low, middle)
    return low


@pytest.mark.paper("A12")
def test_the_sentence_of_job_sizes_names_the_finest_operator_of_each_region(open_grid: Grid) -> None:
    table = figure("job-size")
    finest = {}
    for region in job_size.REGIONS:
        jobs = {row.operator: row.job_h for row in table.rows if (row.region, row.bits) == (region, 10) and row.job_h}
        finest[region] = min(jobs, key=jobs.__getitem__)
    assert len(set(finest.values())) > 1
    assert table.sentence.endswith(
        f"Smallest visible job: {finest['balance']} around balance, {finest['under']} under target, "
        f"{finest['over']} over target."
    )


@pytest.mark.paper("D2")
def test_figure_6_and_9_are_components_and_densities(open_grid: Grid) -> None:
    for row in figure("steps").rows:
        assert (
            row.priority <= float(get_operator(row.operator)(np.array([row.target]), np.array([row.actual]))[0]) + 1e-9
        )
    found = figure("aggregation", operator="absolute").rows
    by_target: dict[float, list[float]] = {}
    for row in found:
        by_target.setdefault(row.target, []).append(row.density)
    assert len(by_target) == 11
    for target, densities in by_target.items():
        assert densities == density.local_density(get_operator("absolute"), target, 8).tolist()


@pytest.mark.parametrize(("operator", "share"), [("relative", "12.5"), ("absolute", "21.9")])
def test_figure_6_says_the_same_as_figure_8_about_all_pairs(open_grid: Grid, operator: str, share: str) -> None:
    densities = [row.density for row in figure("input-density", operator=operator).rows if row.operator == operator]
    assert f"{max(densities) * 100:.1f}" == share
    assert f"{share}\xa0% of all pairs" in figure("steps", operator=operator).sentence


@pytest.mark.paper("F6")
def test_exponents_equal_those_of_the_algorithm_and_are_on_the_curve(open_grid: Grid) -> None:
    rows = figure("exponent").rows
    points = [row for row in rows if row.entry]
    assert {row.entry for row in points} >= {"/atlas/alice", "/biomed/carol"}
    for row in points:
        bent = 1 / (1 + (5 * np.log(row.parent_ratio)) ** 2)
        same_side = (row.parent_ratio - 1) * (row.local_ratio - 1) >= 0
        assert row.k == pytest.approx(1.0 if same_side else bent)
        assert row.effective_ratio == pytest.approx(row.parent_ratio * row.local_ratio**row.k)
    curve = [row for row in rows if not row.entry]
    assert [row.parent_ratio for row in (curve[0], curve[-1])] == pytest.approx([0.2, 5.0])
    for row in curve:
        assert row.k == pytest.approx(1 / (1 + (5 * np.log(row.parent_ratio)) ** 2))
    one = figure("exponent", entry="/atlas/alice").rows
    assert [row.entry for row in one if row.entry] == ["/atlas/alice"]
    with pytest.raises(NotFound):
        figure("exponent", entry="/atlas/nobody")


def test_a_user_who_sees_one_path_gets_numbers_of_that_path_only(closed_grid: Grid) -> None:
    alice = Actor(user=closed_grid.alice, via="page")
    assert [row.entry for row in figure("leaf-jobs", alice).rows] == ["/atlas/alice"]
    page = get_operators_page(policy_slug=SLUG, query=FigureQuery(), actor=alice)
    assert (page.check.n_leaves, page.check.n_misplaced, page.check.n_pairs) == (1, 0, 0)
    assert [one.name for one in page.targets] == ["atlas"]
    assert {row.n_leaves for row in figure("resolution", alice).rows} == {1}
    assert {row.entry for row in figure("exponent", alice).rows if row.entry} == {"/atlas/alice"}
    with pytest.raises(NotFound):
        figure("exponent", alice, entry="/biomed/carol")


def test_without_usage_only_the_figures_of_the_paper_are_shown(unused_grid: Grid) -> None:
    check = get_operators_page(policy_slug=SLUG, query=FigureQuery(), actor=COMMAND).check
    assert (check.as_of, check.n_leaves) == (None, 0)
    assert figure("resolution").rows == figure("leaf-jobs").rows == ()
    assert figure("profiles").rows


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("target", "1.5"),
        ("target", "nan"),
        ("bits", "9"),
        ("bits", "3.5"),
        ("nodes", "0"),
        ("job_h", "1e99"),
        ("window_days", "-1"),
        ("operator", "cosine"),
        ("reading", "mine"),
        ("resolution", "1"),
        ("k", "x" * 99),
        ("entry", "/" + "a" * 5000),
        ("nodes", "٣"),
    ],
)
def test_unsupported_figure_parameters_are_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_query({name: text})
    assert [problem.where for problem in refused.value.fields] == [name]


def test_a_query_accepts_numbers_as_typed() -> None:
    assert read_query({"target": "0,25", "nodes": "1 200", "bits": " 4 ", "job_h": ""}) == FigureQuery(
        target=0.25, nodes=1200, bits=4
    )
    with pytest.raises(NotFound, match="profiles"):
        get_figure(policy_slug=SLUG, figure="pie", query=FigureQuery(), actor=COMMAND)


def test_a_very_large_tree_is_checked_for_one_operator_and_few_resolutions(
    open_grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure_numbers, "MOST_FOR_ALL", 5)
    rows = figure("resolution", operator="absolute", resolution=77).rows
    assert {row.operator for row in rows} == {"absolute"}
    assert [row.resolution for row in rows] == [77, 256, 4096, 10_000, 65_536]
