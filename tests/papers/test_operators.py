"""Numbers of the operators paper beside ours."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.engine import codecs
from apps.engine.analysis import density, job_size, properties
from apps.engine.operators import get_operator
from tests.papers_by_claim import PaperValue

SEVEN = ("absolute", "relative", "relative-2", "sigmoid", "sigmoid-2", "slurm", "combined")
# Table 1 of the paper: priority without a target at the actual x, and without usage at the target x.
TABLE_1 = {name: (lambda x: -1.0, lambda x: 1.0) for name in SEVEN} | {
    "absolute": (lambda x: -x, lambda x: x),
    "combined": (lambda x: -0.5 - x / 2, lambda x: 0.5 + x / 2),
}


@pytest.fixture(scope="module")
def figure_17(golden_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden_dir / "operators/fig17.json").read_text())
    return found


@pytest.mark.paper("O1")
def test_seven_operators_meet_the_definition(paper_value: PaperValue) -> None:
    n_met = sum(not properties.check_definition(get_operator(name)).broken for name in SEVEN)
    paper_value("O1", "operators that meet it", n_met, 7)
    assert n_met == 7


@pytest.mark.paper("O9")
def test_every_cell_of_table_1_agrees(paper_value: PaperValue) -> None:
    x = np.linspace(0.01, 1.0, 100)
    zero = np.zeros_like(x)
    cells = [
        np.allclose(computed, [expected(value) for value in x.tolist()], rtol=0, atol=1e-12)
        for name, (without_target, without_usage) in TABLE_1.items()
        for computed, expected in (
            (get_operator(name)(zero, x), without_target),
            (get_operator(name)(x, zero), without_usage),
        )
    ]
    paper_value("O9", "cells that agree", sum(cells), 14)
    assert sum(cells) == 14


@pytest.mark.paper("V2")
def test_the_ends_and_the_balance_have_the_components_of_figure_4(paper_value: PaperValue) -> None:
    ours = codecs.scalar(np.array([-1.0, 0.0, 1.0]), 10_000).tolist()
    for name, component, published in zip(("−1", "0", "1"), ours, (0, 5000, 9999), strict=True):
        paper_value("V2", f"component of {name} at r = 10,000", component, published)
        assert component == published


@pytest.mark.paper("Z3")
def test_two_bits_leave_four_priorities(paper_value: PaperValue) -> None:
    ours = density.effective_priorities(4).tolist()
    assert ours == [-1.0, -0.5, 0.0, 0.5]
    paper_value("Z3", "effective priorities at r = 4", len(ours), 4)


@pytest.mark.paper("D3", "D4", "D5")
def test_what_the_text_says_about_input_densities(paper_value: PaperValue) -> None:
    parts = {name: density.input_density(get_operator(name), 8) for name in SEVEN}
    paper_value("D3", "largest part of relative at 3 bits", parts["relative"].max(), 0.125)
    paper_value("D3", "smallest part", parts["relative"].min(), 0.125)
    np.testing.assert_allclose(parts["relative"], 0.125, rtol=0, atol=1e-12)
    at_balance = {name: float(part[3] + part[4]) for name, part in parts.items()}
    at_ends = {name: float(part[0] + part[-1]) for name, part in parts.items()}
    paper_value("D4", "sigmoid-2 around balance", at_balance["sigmoid-2"])
    paper_value("D4", "absolute at both ends", at_ends["absolute"])
    assert min(at_balance, key=at_balance.__getitem__) == "sigmoid-2"
    assert min(at_ends, key=at_ends.__getitem__) == "absolute"
    for name in ("combined", "slurm"):
        mirrored = float(np.abs(parts[name] - parts[name][::-1]).max())
        paper_value("D5", f"{name}: largest difference of mirrored parts", round(mirrored, 5))
        assert (mirrored > 1e-5) == (name == "slurm")


@pytest.mark.paper("J2")
def test_cells_of_figure_17_by_the_typical_reading(figure_17: dict[str, Any], paper_value: PaperValue) -> None:
    ours = job_size.bits_table([get_operator(name) for name in SEVEN], job_size.TYPICAL)
    published = figure_17["paper"]
    regions = list(job_size.REGIONS)
    gaps = [abs((ours[name][regions[i]] or 99) - published[name][i]) for name in SEVEN for i in range(len(regions))]
    paper_value("J2", "cells equal to the published", gaps.count(0), 21)
    paper_value("J2", "cells within one bit", sum(gap <= 1 for gap in gaps), 21)
    assert max(gaps) == 1
    real = job_size.bits_table([get_operator(name) for name in SEVEN], job_size.TYPICAL_OF_REAL_STATES)
    gaps = [abs((real[name][regions[i]] or 99) - published[name][i]) for name in SEVEN for i in range(len(regions))]
    paper_value("J2", "cells within one bit, of real states only", sum(gap <= 1 for gap in gaps), 21)
    assert real["combined"]["under"] == 12  # published: 8


@pytest.mark.paper("J4")
def test_neighbours_that_change_places(figure_17: dict[str, Any], paper_value: PaperValue) -> None:
    operators = [get_operator(name) for name in SEVEN]
    for region, published in figure_17["paper_orderings_best_first"].items():
        order = [name for name in job_size.best_first(operators, region, job_size.TYPICAL) if name in published]
        n_changed = sum(a != b for a, b in zip(order, published, strict=True)) // 2
        paper_value("J4", f"pairs in another order, {region}", n_changed, 0)
        assert n_changed == (0 if region == "under" else 1)


@pytest.mark.paper("D6")
def test_sigmoid_2_is_the_finest_around_balance_at_every_target(paper_value: PaperValue) -> None:
    """And absolute is equally fine at all priorities that it reaches."""
    finest, n_level = [], 0
    for bits, tenths in product((3, 6, 9, 12), range(1, 10)):
        resolution = 2**bits
        parts = {name: density.local_density(get_operator(name), tenths / 10, resolution) for name in SEVEN}
        around = {name: part[resolution // 2 - 1] + part[resolution // 2] for name, part in parts.items()}
        finest.append(min(around, key=around.__getitem__))
        reached = parts["absolute"][parts["absolute"] > 0]
        n_level += np.allclose(reached[1:-1], 2 / resolution, rtol=1e-6, atol=0)
    paper_value("D6", "profiles in which sigmoid-2 is the finest around balance", finest.count("sigmoid-2"), 36)
    paper_value("D6", "profiles in which absolute is level", n_level, 36)
    assert finest.count("sigmoid-2") == n_level == 36


@pytest.mark.deep
@pytest.mark.paper("J5")
def test_the_order_of_the_operators_at_most_resolutions(paper_value: PaperValue) -> None:
    operators = [get_operator(name) for name in SEVEN]
    for region, least in (("balance", 15), ("over", 17), ("under", 17)):
        orders = []
        for bits in range(3, 21):
            sizes = [
                job_size.job_fraction(one, bits=bits, region=job_size.REGIONS[region], reading=job_size.TYPICAL)
                for one in operators
            ]
            orders.append(tuple(np.argsort([np.inf if size is None else size for size in sizes], kind="stable")))
        n_same = orders.count(orders[-1])
        paper_value("J5", f"of 18 resolutions with one order, {region}", n_same, 18)
        assert n_same == least
        assert len(set(orders[3:])) == 1  # from 6 bits on
