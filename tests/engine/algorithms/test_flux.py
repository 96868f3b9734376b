"""flux's weighted tree: upstream's data and outputs, the slow twin, and the edges of the rules."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.engine.cases import solve
from apps.engine.errors import BadCase
from tests.engine import flux_walks
from tests.engine.algorithms.share_trees import is_close, share_cases
from tests.examples import examples
from tests.oracles import slurm_fair_tree as oracles_fair_tree


@pytest.fixture(autouse=True, scope="module")
def both_walks() -> Iterator[None]:
    with flux_walks.both():
        yield


@pytest.mark.deep
def test_ranks_and_factors_equal_upstream(golden_dir: Path) -> None:
    cases = json.loads((golden_dir / "flux/cases.json").read_text())
    truncated = [case["id"] for case in cases if not case["exact_sums_agree"]]  # named in tests/golden/README.md
    assert len(cases) - len(truncated) == 89
    for case in cases:
        if case["id"] in truncated:
            continue
        nodes = solve(case)["nodes"]
        for path, expected in case["expected"].items():
            where = (case["id"], path)
            assert nodes[path]["rank"] == expected["rank"], where
            assert nodes[path]["factor"] == pytest.approx(expected["factor"], abs=case["tolerance"]), where
        assert {path for path, node in nodes.items() if node["rank"] is not None} == case["expected"].keys()


def case_of(children: list[dict[str, Any]], usage: Mapping[str, float]) -> dict[str, Any]:
    return {"algorithm": {"name": "flux"}, "policy": {"name": "root", "children": children}, "usage": dict(usage)}


def user(name: str, shares: float = 1) -> dict[str, Any]:
    return {"name": name, "shares": shares}


def bank(name: str, shares: float, *children: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "shares": shares, "children": list(children)}


def ranks(case: dict[str, Any]) -> dict[str, int]:
    return {path.rsplit("/", 1)[1]: node["rank"] for path, node in solve(case)["nodes"].items() if node["rank"]}


def assert_as_the_twin(case: dict[str, Any]) -> None:
    nodes, twin = solve(case)["nodes"], oracles_fair_tree.flux(case)
    assert nodes.keys() == twin.keys()
    for path, expected in twin.items():
        assert nodes[path]["rank"] == expected["rank"], path
        assert nodes[path]["factor"] == expected["factor"], path
        assert is_close(nodes[path]["weight"], expected["weight"]), path


@pytest.mark.deep
@examples(250)
@given(share_cases("flux", weights=st.integers(0, 3), amounts=st.integers(0, 3), most_entries=18))
def test_the_oracle_agrees_with_many_ties(case: dict[str, Any]) -> None:
    assert_as_the_twin(case)


AMOUNTS = st.one_of(st.integers(0, 10**6), st.sampled_from((1e-300, 1e-10, 1e-9, 1e300)))


@examples(150)
@given(share_cases("flux", weights=st.one_of(st.integers(0, 10**6), st.sampled_from((1e-150, 1e150))), amounts=AMOUNTS))
def test_the_oracle_agrees_on_any_amounts(case: dict[str, Any]) -> None:
    assert_as_the_twin(case)


DECIMALS = st.integers(1, 99).map(lambda tenths: tenths / 10)


@examples(60)
@given(st.lists(DECIMALS, min_size=1, max_size=5), st.lists(DECIMALS, min_size=1, max_size=4), st.integers(1, 9))
@example([0.6], [0.1, 0.1, 5.4, 5.4], 3)  # the banks' doubles are equal, their exact weights differ
def test_exact_weights_decide_where_usage_is_in_proportion_to_decimal_shares(
    ours: list[float], theirs: list[float], per_share: int
) -> None:
    """All are on target but for the last bits of the decimals: siblings, the two banks, and their cousins."""
    banks: list[dict[str, Any]] = []
    usage: dict[str, float] = {}
    for name, shares in (("a", ours), ("b", theirs)):
        banks.append(bank(name, sum(shares), *(user(f"{name}{number}", own) for number, own in enumerate(shares))))
        usage |= {f"/{name}/{name}{number}": per_share * own for number, own in enumerate(shares)}
    assert_as_the_twin(case_of(banks, usage))


def test_a_gap_equal_to_the_tolerance_does_not_tie() -> None:
    """Weights 2a/(a + b) and 2b/(a + b) tie where (a − b)/a < 2⁻⁵², and (a − b)/a is exactly 2⁻⁵² in the second."""
    assert ranks(case_of([user("ann", 2**52 + 1), user("bob", 2**52)], {"/ann": 1, "/bob": 1})) == {"ann": 1, "bob": 1}
    assert ranks(case_of([user("ann", 2**52), user("bob", 2**52 - 1)], {"/ann": 1, "/bob": 1})) == {"ann": 1, "bob": 2}


@pytest.mark.parametrize("bits", range(44, 52))
def test_cousins_tie_by_their_exact_weights(bits: int) -> None:
    """1 and 1/(1 ± 2^−bits), from whole numbers in two banks that tie."""
    half = 2.0**bits
    banks = [bank("a", 1, user("a1"), user("a2")), bank("b", 1, user("b1"), user("b2"))]
    case = case_of(banks, {"/a/a1": half, "/a/a2": half, "/b/b1": half + 1, "/b/b2": half - 1})
    assert ranks(case) == {"b2": 1, "a1": 2, "a2": 2, "b1": 4}
    assert_as_the_twin(case)


@pytest.mark.parametrize(("unit", "amount"), [(2.0**-1040, 2.0**60), (2.0**960, 2.0**-29)])
def test_a_ratio_beyond_doubles_decides_no_tie(unit: float, amount: float) -> None:
    """shares / usage of both is below the least double that has all bits, or above the largest."""
    case = case_of([user("ann", 2**52 * unit), user("bob", (2**52 - 1) * unit)], {"/ann": amount, "/bob": amount})
    assert ranks(case) == {"ann": 1, "bob": 2}
    assert_as_the_twin(case)


@examples(30)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)), min_size=62, max_size=62))
def test_the_oracle_agrees_to_a_depth_of_64(levels: list[tuple[int, int, int]]) -> None:
    below, usage, path = [user("u"), user("v")], {}, ""
    for number, (shares, other, _) in enumerate(levels):
        below = [user(f"w{number}", other), bank("a", shares, *below), bank("b", other, user("x"))]
    for number, (_, _, amount) in enumerate(levels):
        usage[f"{path}/w{len(levels) - 1 - number}"] = amount
        usage[f"{path}/b/x"] = amount
        path += "/a"
    assert_as_the_twin(case_of(below, usage))


def test_chains_of_tied_banks_are_merged_and_cousins_tie() -> None:
    """b, c and d tie and become one list; in it b/x ties with c/x, and so do the banks below."""
    deep = [bank(f"deep{name}", 1, user(f"low{name}")) for name in "bcd"]
    banks = [bank(name, 1, user(f"x{name}"), deep[number]) for number, name in enumerate("bcd")]
    usage = {f"/{name}/x{name}": 5 for name in "bcd"} | {f"/{name}/deep{name}/low{name}": 15 for name in "bcd"}
    found = ranks(case_of(banks, usage))
    assert found == {"xb": 1, "xc": 1, "xd": 1, "lowb": 4, "lowc": 4, "lowd": 4}


def test_doubles_decide_without_a_tie_of_banks_and_exact_numbers_with_one() -> None:
    with flux_walks.both() as did_decide:
        ranks(case_of([bank("a", 1, user("ann")), bank("b", 1, user("bob"))], {"/a/ann": 1, "/b/bob": 5}))
        ranks(case_of([bank("a", 1, user("ann")), bank("b", 1, user("bob"))], {"/a/ann": 5, "/b/bob": 5}))
    assert did_decide == [True, False]


def test_merged_children_keep_their_weight_among_siblings() -> None:
    banks = [bank("a", 1, user("ann", 9), user("bob", 1)), bank("b", 1, user("cat", 1), user("dan", 1))]
    found = ranks(case_of(banks, {"/a/ann": 5, "/a/bob": 5, "/b/cat": 4, "/b/dan": 6}))
    assert found == {"ann": 1, "cat": 2, "dan": 3, "bob": 4}  # weights 1.8, 1.25, 0.83, 0.2


def test_a_user_precedes_a_bank_of_equal_weight() -> None:
    found = ranks(case_of([bank("b", 1, user("ann")), user("bob", 1)], {"/b/ann": 7, "/bob": 7}))
    assert found == {"bob": 1, "ann": 2}


def test_zero_shares_have_zero_weight_and_idle_entries_tie_at_the_top() -> None:
    children = [user("ann", 0), user("bob", 5), user("cat", 1), user("dan", 1)]
    case = case_of(children, {"/dan": 3, "/cat": 0.9e-9})
    assert ranks(case) == {"bob": 1, "cat": 1, "dan": 3, "ann": 4}
    nodes = solve(case)["nodes"]
    assert [nodes[f"/{name}"]["weight"] for name in ("ann", "bob", "cat")] == [0.0, 2.0**64, 2.0**64]


def test_inherited_shares_are_refused_by_path() -> None:
    with pytest.raises(BadCase) as refused:
        solve(case_of([bank("b", 1, {"name": "ann", "shares": "parent"})], {}))
    assert refused.value.place == "/b/ann"
