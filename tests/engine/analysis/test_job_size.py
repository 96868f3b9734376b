"""Jobs that show: the printed and the corrected equation, figure 17's readings, bits and collisions of trees."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.engine import codecs, operators, sweep
from apps.engine.algorithms import PriorityResult, compute
from apps.engine.analysis import density, job_size, tree_resolution
from apps.engine.analysis import tree_resolution as bits
from apps.engine.tree import FairshareTree
from tests.examples import examples
from tests.oracles import analysis as oracles_analysis

SEVEN = ("absolute", "relative", "relative-2", "sigmoid", "sigmoid-2", "slurm", "combined")
OPERATORS = [operators.get_operator(name) for name in SEVEN]
# What rounding may move a priority by, and how far an actual may be from a target that it counts as.
PRIORITY_BITS = 2 * codecs.SNAP + 1e-15  # components are rounded up so near an edge
ACTUAL_BITS = 2 * operators.ON_TARGET_TOLERANCE


@pytest.fixture(scope="module")
def figure(golden_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden_dir / "operators/fig17.json").read_text())
    return found


def by_region(table: dict[str, dict[str, int | None]]) -> dict[str, list[int | None]]:
    return {name: [row[column] for column in ("balance", "over", "under", "overall")] for name, row in table.items()}


@pytest.mark.paper("J1")
def test_job_sizes_equal_the_examples(figure: dict[str, Any]) -> None:
    for listed in figure["job_hours_examples"]:
        apply = operators.get_operator(listed["operator"])
        assert apply.inverse is not None
        edges = np.array([listed["p"], listed["p"] + 2 / 2 ** listed["bits"]])
        high, low = apply.inverse(edges, np.full(2, listed["t"]))
        assert (low, high) == pytest.approx((listed["L"], listed["H"]), abs=1e-12)
        assert (low >= 0 and high <= 1) == listed["reachable"]
        step, actual = np.array([high - low]), np.array([low])
        printed = job_size.fraction_printed(step, actual)[0]
        assert printed == pytest.approx(listed["k_eq25"], rel=1e-9)
        assert printed * job_size.POOL_H == pytest.approx(listed["job_h_eq25"], rel=1e-9)
        assert job_size.fraction_corrected(step, actual)[0] == pytest.approx(listed["k_exact"], rel=1e-9)


@examples(200)
@given(own=st.integers(0, 10**6), others=st.integers(1, 10**6), job=st.integers(1, 10**6))
@pytest.mark.paper("J1")
def test_the_corrected_equation_recovers_the_job(own: int, others: int, job: int) -> None:
    before = Fraction(own, own + others)
    after = oracles_analysis.state_after(Fraction(own), Fraction(others), Fraction(job))
    step, actual = np.array([float(after - before)]), np.array([float(before)])
    exact = job / (own + others)
    assert job_size.fraction_corrected(step, actual)[0] == pytest.approx(exact, rel=1e-6)
    assert job_size.fraction_printed(step, actual)[0] <= exact * (1 + 1e-6)  # it understates the job


def test_no_job_raises_an_actual_share_to_one() -> None:
    assert job_size.fraction_corrected(np.array([0.3]), np.array([0.7])).tolist() == [np.inf]
    assert np.isfinite(job_size.fraction_printed(np.array([0.3]), np.array([0.7]))).all()


@pytest.mark.parametrize(
    ("name", "reading"),
    [
        ("literal-worst-case", job_size.PLAIN_PRINTED),
        ("literal-biggest-k-means-smaller-job", job_size.EASIEST_TARGET),
        ("eq25-best-case", job_size.Reading("printed", "smallest", "smallest", real_states_only=False)),
        ("exact-typical", job_size.TYPICAL),
        ("exact-fitted", job_size.Reading("corrected", "smallest", "geometric-mean", real_states_only=False)),
    ],
)
def test_every_reading_of_figure_17_gives_its_bits_and_orders(
    figure: dict[str, Any], name: str, reading: job_size.Reading
) -> None:
    listed = figure["variants"][name]
    assert by_region(job_size.bits_table(OPERATORS, reading, job=listed["job_limit_h"])) == listed["bits"]
    for region, expected in listed["ordering_at_10_bits"].items():
        assert job_size.best_first(OPERATORS, region, reading) == expected


@pytest.mark.paper("J2")
def test_only_the_typical_reading_is_within_one_bit_of_the_paper(figure: dict[str, Any]) -> None:
    typical = by_region(job_size.bits_table(OPERATORS, job_size.TYPICAL))
    for name, expected in figure["paper"].items():
        assert all(abs((bits or 99) - found) <= 1 for bits, found in zip(typical[name], expected, strict=True))
    for reading, equal in ((job_size.PLAIN_PRINTED, 1), (job_size.EASIEST_TARGET, 3)):
        table = by_region(job_size.bits_table(OPERATORS, reading))
        same = [a == b for name in SEVEN for a, b in zip(table[name][:3], figure["paper"][name][:3], strict=True)]
        assert sum(same) == equal


def test_cells_have_the_published_bits_beside_those_of_the_reading(figure: dict[str, Any]) -> None:
    cells, columns = job_size.cells(job_size.TYPICAL), ("balance", "over", "under", "overall")
    table = by_region(job_size.bits_table(OPERATORS, job_size.TYPICAL))
    assert [(cell.operator, cell.column, cell.published, cell.bits) for cell in cells] == [
        (name, column, figure["paper"][name][at], table[name][at])
        for name in SEVEN
        for at, column in enumerate(columns)
    ]


def test_states_that_cannot_exist_count_in_one_reading_alone() -> None:
    """At a target of 0.1 `combined` gives 0.55 at most, so no entry under target has a priority from 0.6 on there."""
    combined, region = operators.get_operator("combined"), job_size.REGIONS["under"]
    assert float(combined(np.array([0.1]), np.array([0.0]))[0]) == pytest.approx(0.55)

    def fraction(reading: job_size.Reading) -> float | None:
        return job_size.job_fraction(combined, bits=8, region=region, targets=(0.1,), reading=reading)

    assert fraction(job_size.TYPICAL) is not None
    assert fraction(job_size.TYPICAL_OF_REAL_STATES) is None


def test_the_job_is_a_third_of_the_way_up_the_sorted_sizes() -> None:
    """Not the job at the priority a third of the way through the region, which for `sigmoid` is another one."""
    operator, region, targets = OPERATORS[3], job_size.REGIONS["balance"], (0.1, 0.5)
    reading = job_size.TYPICAL_OF_REAL_STATES
    sizes = job_size.job_fractions(operator, bits=8, region=region, targets=targets, reading=reading).min(axis=0)
    found = job_size.job_fraction(operator, bits=8, region=region, targets=targets, reading=reading)
    assert found == sorted(sizes.tolist())[(len(sizes) - 1) // 3]
    assert found != sizes[(len(sizes) - 1) // 3]


@pytest.mark.paper("J4")
def test_only_the_published_order_under_target_holds(figure: dict[str, Any]) -> None:
    published = figure["paper_orderings_best_first"]
    found = {region: job_size.best_first(OPERATORS, region, job_size.TYPICAL) for region in published}
    assert [name for name in found["under"] if name != "absolute"] == published["under"]
    balance = published["balance"].copy()
    balance[2:4] = reversed(balance[2:4])
    assert found["balance"] == balance  # Slurm and relative change places
    over = published["over"].copy()
    over[4:6] = reversed(over[4:6])
    assert found["over"] == over  # absolute and relative-2 do


@examples(150)
@example(name="absolute", t=0.495, s=0.99, r=100)  # only a job near the whole pool shows
@example(name="relative-2", t=0.9375, s=0.9375, r=8)  # on an edge, beside which 1 swallows the square of a small gap
@example(name="slurm", t=0.0390625, s=0.5, r=1 << 14)  # a flat curve, on which rounding up is more than targets' bits
@example(name="slurm", t=0.0625, s=0.75, r=1 << 14)  # the same, on an edge
@given(
    name=st.sampled_from(SEVEN), t=st.floats(0.02, 0.98), s=st.floats(0.0, 0.95), r=st.sampled_from([8, 100, 1 << 14])
)
@pytest.mark.paper("Z4")
def test_the_significant_job_is_the_smallest_visible_one(name: str, t: float, s: float, r: int) -> None:
    apply, pool = operators.get_operator(name), 1000.0

    def component(actual: float) -> int:
        return int(codecs.scalar(apply(np.array([t]), np.array([actual])), r)[0])

    job = job_size.significant_job(apply, target=t, actual=s, resolution=r, pool_usage=pool)
    assert job.component == component(s)
    if job.usage is None:
        assert component(1 - ACTUAL_BITS) == job.component
        return
    assert job.step is not None
    after = s + (1 - s) * job.usage / (pool + job.usage)
    assert after == pytest.approx(s + job.step, abs=1e-13)
    # The edge is where the operator has its priority, as sharp as targets are met and 1 lets doubles tell.
    edge = job.component / r * 2 - 1
    above, at_edge, below = density.highest_actual(apply, edge + np.array([PRIORITY_BITS, 0.0, -PRIORITY_BITS]), t)
    assert component(min(1.0, after + (below - at_edge) + ACTUAL_BITS)) < job.component
    before = after - (at_edge - above) - ACTUAL_BITS
    if before > s:
        assert component(before) == job.component


def test_the_lowest_component_has_no_significant_job() -> None:
    slurm = operators.get_operator("slurm")
    none = job_size.significant_job(slurm, target=0.01, actual=0.9, resolution=100, pool_usage=5.0)
    assert (none.component, none.step, none.fraction, none.usage) == (0, None, None, None)
    zero = job_size.significant_job(slurm, target=0.0, actual=0.0, resolution=100, pool_usage=5.0)
    assert zero.component == 50
    assert zero.usage == 0.0  # any job at all


def office(seed: int, resolution: int = 10000, operator: str = "relative") -> PriorityResult:
    rng = np.random.default_rng(seed)
    parent = [-1, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 9, 9]
    tree, order = FairshareTree.from_columns(parent, rng.integers(1, 30, len(parent)).astype(np.float64))
    leaf = np.array([row not in parent for row in range(len(parent))])
    usage = np.where(leaf, rng.integers(0, 1000, len(parent)), 0)[order]
    return compute(tree, usage, algorithm={"name": "aequus", "operator": operator, "resolution": resolution})


@pytest.mark.parametrize("name", SEVEN)
@pytest.mark.paper("A13")
def test_current_bits_are_the_fewest_at_which_a_recompute_shows_the_job(name: str) -> None:
    result, job = office(4, operator=name), 30.0
    found = bits.bits_now(result, operators.get_operator(name), job)
    tree = result.tree
    own = result.usage - sweep.sibling_sum(tree, result.usage)
    needed: dict[int, int] = {}
    for leaf in np.flatnonzero(result.is_ranked).tolist():
        more = own.copy()
        more[leaf] += job
        entry = leaf
        while entry > 0:
            for b in range(1, 32):
                case = {"name": "aequus", "operator": name, "resolution": 2**b}
                before, after = compute(tree, own, algorithm=case), compute(tree, more, algorithm=case)
                if before.scalar[entry] != after.scalar[entry]:
                    needed[entry] = b
                    break
            entry = int(tree.parent[entry])
    for level in found.levels:
        here = range(int(tree.level_offsets[level.level]), int(tree.level_offsets[level.level + 1]))
        assert level.n_entries == len(here)
        assert level.bits == max((needed.get(entry, 0) for entry in here), default=0)
        assert level.n_unseen == sum(entry not in needed for entry in here)
    assert found.depth == result.depth == 3


@pytest.mark.parametrize(("name", "n_too_fine"), [("relative", 0), ("relative-1000", 3)])
def test_entries_without_any_effect_differ_from_those_that_the_operator_flattens(name: str, n_too_fine: int) -> None:
    """Entries below the root are off target; one has no shares, and of a group one child has all the usage."""
    parent = [-1, 0, 0, 0, 0, 4, 4]
    tree, order = FairshareTree.from_columns(parent, np.array([1.0, 1, 1, 0, 1, 1, 1]))
    usage = np.array([0.0, 10, 50, 5, 0, 30, 0])[order]
    result = compute(tree, usage, algorithm={"name": "aequus", "operator": name, "resolution": 100})
    found = bits.bits_now(result, operators.get_operator(name), 1e-3)
    assert sum(level.n_fixed for level in found.levels) == 2
    assert sum(level.n_unseen - level.n_fixed for level in found.levels) == n_too_fine


@examples(60)
@given(seed=st.integers(0, 10**6), r=st.integers(2, 40))
def test_collisions_count_leaves_that_share_a_vector(seed: int, r: int) -> None:
    result = office(seed)
    found = tree_resolution.collisions(result, r)
    at_r = office(seed, resolution=r)
    leaves = np.flatnonzero(at_r.is_ranked).tolist()
    padded = [tuple(at_r.vector(leaf) + [r // 2] * (at_r.depth - len(at_r.vector(leaf)))) for leaf in leaves]
    assert found.n_leaves == len(leaves)
    assert found.n_sharing == oracles_analysis.shared_vectors(padded)
    assert found.largest == max(padded.count(vector) for vector in padded)
    exact = office(seed, resolution=2**31)
    assert found.n_misplaced == int((at_r.rank != exact.rank)[leaves].sum())


@examples(40)
@given(seed=st.integers(0, 10**6))
def test_the_least_lossless_resolution_is_minimal(seed: int) -> None:
    result = office(seed)
    least = tree_resolution.least_resolution(result)
    assert least.bits is not None
    assert least.resolution is not None
    assert least.resolution <= 2**least.bits
    assert tree_resolution.collisions(result, least.resolution).n_lost == 0
    assert tree_resolution.collisions(result, 2**least.bits).n_lost == 0
    for r in range(2, min(least.resolution, 300)):
        assert tree_resolution.collisions(result, r).n_lost > 0


def test_true_ties_are_not_counted_as_loss() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 0], [1, 1, 1, 2])
    found = tree_resolution.collisions(compute(tree, [0, 3, 3, 1]), 10000)
    assert (found.n_sharing, found.n_lost, found.largest) == (2, 0, 2)


def test_a_tie_at_a_high_level_misplaces_leaves_with_distinct_vectors() -> None:
    """Figure 5: the first components fall together, and the second ones, the other way round, decide."""
    tree, _ = FairshareTree.from_columns([-1, 0, 0, 0, 1, 1, 2, 2], [1, 40, 40, 20, 1, 1, 1, 1])
    usage = [0, 0, 0, 399, 240, 60, 60, 241]
    result = compute(tree, usage, algorithm={"name": "aequus", "operator": "absolute"})
    coarse = tree_resolution.collisions(result, 10)
    assert coarse.n_misplaced > 0
    assert tree_resolution.collisions(result, 2**20).n_misplaced == 0
