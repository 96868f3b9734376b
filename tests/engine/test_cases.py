"""Cases of `compute` against golden results, against their slow twins, and refused with the place."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.case_text import name_of, read_cases
from apps.engine.cases import solve
from apps.engine.errors import BadCase, EngineError
from tests.each_case import each_case
from tests.examples import examples
from tests.material import GOLDEN
from tests.oracles import engine as oracles

GOLDEN_CASES = [
    case
    for folder in ("operators", "aequus", "gridwide")
    for case in json.loads((GOLDEN / folder / "cases.json").read_text())
]


def differences(case: dict[str, Any], nodes: dict[str, Any]) -> list[str]:
    """Every place where the answer isn't the expected one."""
    tolerance = case.get("tolerance", 1e-9)
    found = [] if set(nodes) == set(case["expected"]) else [f"paths {set(nodes) ^ set(case['expected'])}"]
    for path, expected in case["expected"].items():
        for name, value in expected.items():
            got = nodes[path].get(name, "missing") if name != "padded" else value
            is_close = isinstance(value, float) and isinstance(got, float) and abs(got - value) <= tolerance
            if not (is_close or (got == value and type(got) is type(value))):
                found.append(f"{path} {name}: {got!r}, not {value!r}")
    return found


@pytest.mark.parametrize("case", GOLDEN_CASES, ids=lambda case: case["id"])
def test_golden_cases(case: dict[str, Any]) -> None:
    assert differences(case, solve(case)["nodes"]) == []


def test_there_are_golden_cases_of_every_folder() -> None:
    assert len({case["id"] for case in GOLDEN_CASES}) == len(GOLDEN_CASES) >= 50


def leaf_or_group(children: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    shares = st.one_of(st.integers(0, 9), st.just("parent"))
    leaf = st.fixed_dictionaries({"shares": shares, "kind": st.sampled_from(["user", "project"])})
    reserve = st.fixed_dictionaries({"shares": st.integers(0, 9), "kind": st.just("reserve")})
    group = st.fixed_dictionaries({"shares": shares, "children": children})
    return st.one_of(leaf, leaf, group, reserve)


def named(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**entry, "name": f"n{number}"} for number, entry in enumerate(entries)]


policies = st.recursive(
    st.lists(leaf_or_group(st.just([])), max_size=3).map(named),
    lambda inner: st.lists(leaf_or_group(inner), max_size=4).map(named),
    max_leaves=12,
).map(lambda children: {"name": "root", "shares": 1, "children": children})


@st.composite
def cases(draw: st.DrawFn, algorithm: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    policy = draw(policies)
    entries = [entry for entry in oracles.read({"policy": policy, "usage": {}}).walk() if entry.kind != "reserve"]
    usage = {entry.path: draw(st.integers(0, 12)) for entry in entries}
    return {"id": "drawn", "algorithm": draw(algorithm), "policy": policy, "usage": usage}


aequus = st.fixed_dictionaries(
    {
        "name": st.just("aequus"),
        "operator": st.sampled_from(
            ["absolute", "relative", "relative-3", "sigmoid", "sigmoid-2", "slurm", "combined"]
        ),
        "resolution": st.sampled_from([2, 3, 9, 100, 10000, 2**31]),
    }
)
gridwide = st.just({"name": "gridwide"})


def close(got: float | None, exact: Any) -> bool:
    return got is None if exact is None else got is not None and abs(got - float(exact)) <= 1e-12


@examples(200)
@given(case=cases(aequus))
@pytest.mark.paper("V1")
def test_aequus_equals_its_oracle(case: dict[str, Any]) -> None:
    result = solve(case)
    root, nodes, operator = oracles.read(case), result["nodes"], case["algorithm"]["operator"]
    entries = list(root.walk())
    assert list(nodes) == [entry.path for entry in entries]
    r = case["algorithm"]["resolution"]
    for entry in entries:
        node = nodes[entry.path]
        assert close(node["target"], entry.target)
        assert close(node["actual"], entry.actual)
        if entry.target is None or entry.actual is None:
            assert node["priority"] is None
        else:
            # The twin works with exact fractions: near a state of 0 a root magnifies the last bit.
            expected = oracles.operator(operator, entry.target, entry.actual)
            assert math.isclose(
                node["priority"], expected, rel_tol=0, abs_tol=1e-11 if "sigmoid" not in operator else 1e-7
            )
        assert node["vector"] == [oracles.scalar(nodes[path]["priority"], r) for path in entry.seat]
    vectors = {entry.path: nodes[entry.path]["vector"] for entry in entries}
    ranks = oracles.ranks_of_vectors(vectors, {entry.path for entry in entries if entry.is_ranked}, r)
    assert_ranks(entries, nodes, ranks)


@examples(200)
@given(case=cases(gridwide))
@pytest.mark.paper("4.34", "4.37")
def test_gridwide_equals_its_oracle(case: dict[str, Any]) -> None:
    nodes = solve(case)["nodes"]
    entries = list(oracles.read(case).walk())
    points = {
        entry.path: 100 * (entry.target - entry.actual)
        for entry in entries
        if entry.target is not None and entry.actual is not None
    }
    for path, exact in points.items():
        assert abs(nodes[path]["priority"] - float(exact)) <= 1e-9
    tuples = {entry.path: [nodes[path]["priority"] for path in entry.seat] for entry in entries}
    ranked = {entry.path for entry in entries if entry.is_ranked}
    assert_ranks(entries, nodes, oracles.ranks_of_numbers(tuples, ranked, 1e-9))
    depth = max((len(tuples[path]) for path in ranked), default=0)
    seats = {entry.path: entry.seat for entry in entries}
    for path in ranked:
        digits = oracles.padded([round(points[seat]) for seat in seats[path]], depth, 0)
        value = sum((digit + 100) * 200 ** (depth - level) for level, digit in enumerate(digits, start=1))
        assert nodes[path]["value"] == str(value)


def assert_ranks(entries: list[oracles.Entry], nodes: dict[str, Any], ranks: dict[str, int]) -> None:
    n = sum(entry.is_ranked for entry in entries)
    for entry in entries:
        node, rank = nodes[entry.path], ranks[entry.path]
        if not any(each.is_ranked for each in (entry, *entry.walk())):
            assert (node["rank"], node["factor"]) == (None, None)
            continue
        assert node["rank"] == rank
        if entry.is_ranked:
            assert node["factor"] == pytest.approx(1 - (rank - 1) / n, abs=1e-15)
        elif n:
            assert node["factor"] == pytest.approx(max(1 - (rank - 1) / n, 1 / n), abs=1e-15)


@examples(50)
@given(case=cases(aequus))
@pytest.mark.paper("V6")
def test_the_factor_from_the_key_is_the_padded_vector_as_a_fraction(case: dict[str, Any]) -> None:
    nodes = solve({**case, "algorithm": {**case["algorithm"], "factor_from": "key"}})["nodes"]
    r = case["algorithm"]["resolution"]
    entries = list(oracles.read(case).walk())
    depth = max((len(entry.seat) for entry in entries if entry.is_ranked), default=0)
    for entry in entries:
        node = nodes[entry.path]
        if node["rank"] is not None:
            vector = oracles.padded(node["vector"], depth, r // 2)
            assert node["factor"] == pytest.approx(sum(q / r**i for i, q in enumerate(vector, start=1)), abs=1e-12)


@examples(60)
@given(case=cases(st.one_of(aequus, gridwide)), data=st.data())
def test_the_order_of_siblings_changes_nothing(case: dict[str, Any], data: st.DataObject) -> None:
    def shuffled(entry: dict[str, Any]) -> dict[str, Any]:
        if "children" not in entry:
            return entry
        return {**entry, "children": data.draw(st.permutations([shuffled(child) for child in entry["children"]]))}

    assert solve({**case, "policy": shuffled(case["policy"])})["nodes"] == solve(case)["nodes"]


@examples(60)
@given(case=cases(aequus), factor=st.sampled_from([2.0**-30, 0.25, 2.0, 2.0**40]))
def test_multiplying_all_usage_changes_nothing(case: dict[str, Any], factor: float) -> None:
    scaled = {path: amount * factor for path, amount in case["usage"].items()}
    assert solve({**case, "usage": scaled})["nodes"] == solve(case)["nodes"]


@pytest.mark.paper("Z5")
def test_other_groups_change_nothing_in_this_group() -> None:
    def case(moved: int, more: int = 0) -> dict[str, Any]:
        group = [{"name": "x", "shares": 2}, {"name": "y", "shares": 1}]
        policy = {
            "children": [{"name": "g", "shares": 1, "children": group}, {"name": "h", "shares": 3, "children": group}]
        }
        usage = {"/g/x": 5 + moved + more, "/g/y": 9 - moved, "/h/x": 7, "/h/y": 2}
        return {"algorithm": {"name": "aequus"}, "policy": policy, "usage": usage}

    before, after = solve(case(0))["nodes"], solve(case(4))["nodes"]
    assert before["/g/x"]["vector"] != after["/g/x"]["vector"]
    for path in ("/h", "/h/x", "/h/y"):
        assert before[path]["vector"] == after[path]["vector"]
    busier = solve(case(0, more=100))["nodes"]
    assert before["/h"]["vector"] != busier["/h"]["vector"]
    for path in ("/h/x", "/h/y"):
        assert before[path]["priority"] == busier[path]["priority"]
        assert before[path]["vector"][1:] == busier[path]["vector"][1:]


@pytest.mark.parametrize("amount", [1e308, 5e-324, 1e-300])
def test_extreme_valid_usage_does_not_overflow(amount: float) -> None:
    policy = {"children": [{"name": name, "shares": 1e308} for name in "abc"]}
    nodes = solve({"algorithm": {"name": "aequus"}, "policy": policy, "usage": {"/a": amount, "/b": amount}})["nodes"]
    assert nodes["/a"]["actual"] == pytest.approx(0.5)
    assert nodes["/c"]["target"] == pytest.approx(1 / 3)
    assert [nodes[f"/{name}"]["rank"] for name in "abc"] == [2, 2, 1]


def test_a_policy_without_entries_has_no_nodes() -> None:
    assert solve({"algorithm": {"name": "gridwide"}, "policy": {"name": "root"}, "usage": {}})["nodes"] == {}


@pytest.mark.paper("4.4")
def test_a_tree_of_64_levels_is_computed_exactly() -> None:
    policy: dict[str, Any] = {"name": "leaf", "shares": 1}
    path = ""
    for level in range(64):
        sibling = {"name": "idle", "shares": 1}
        policy = {"name": "leaf" if level < 63 else "root", "shares": 1, "children": [policy, sibling]}
        path += "/leaf"
    nodes = solve({"algorithm": {"name": "aequus", "resolution": 2**31}, "policy": policy, "usage": {path: 1}})["nodes"]
    assert nodes[path]["vector"] == [2**29] * 64  # half over its share: −0.5 everywhere
    assert nodes[path]["rank"] == 65
    assert nodes["/idle"]["rank"] == 1
    assert nodes["/leaf/idle"]["rank"] == 2


GOOD: dict[str, Any] = {
    "algorithm": {"name": "aequus"},
    "policy": {"children": [{"name": "a", "shares": 1, "children": [{"name": "b", "shares": 1}]}]},
    "usage": {},
}


def tree_of(**entry: Any) -> dict[str, Any]:
    return {**GOOD, "policy": {"children": [{"name": "a", "shares": 1, **entry}]}}


@each_case(
    ("case", "place", "allowed"),
    [
        (5, "", "an object"),
        ({**GOOD, "algorithm": None}, "algorithm", "aequus"),
        ({**GOOD, "algorithm": {}}, "algorithm.name", "gridwide"),
        ({**GOOD, "algorithm": {"name": "maui"}}, "algorithm.name", "aequus, flux, gridwide"),
        ({**GOOD, "algorithm": {"name": "aequus", "damping": 1}}, "algorithm.damping", "resolution"),
        ({**GOOD, "algorithm": {"name": "aequus", "operator": "cubic"}}, "algorithm.operator", "relative-N"),
        ({**GOOD, "algorithm": {"name": "aequus", "operator": "relative-1"}}, "algorithm.operator", "relative-N"),
        ({**GOOD, "algorithm": {"name": "aequus", "operator": 7}}, "algorithm.operator", "relative"),
        ({**GOOD, "algorithm": {"name": "aequus", "resolution": 1}}, "algorithm.resolution", "2 to 2147483648"),
        ({**GOOD, "algorithm": {"name": "aequus", "resolution": 2**31 + 1}}, "algorithm.resolution", "2147483648"),
        ({**GOOD, "algorithm": {"name": "aequus", "resolution": 10.5}}, "algorithm.resolution", "integer"),
        ({**GOOD, "algorithm": {"name": "aequus", "resolution": True}}, "algorithm.resolution", "integer"),
        ({**GOOD, "algorithm": {"name": "aequus", "resolution": math.nan}}, "algorithm.resolution", "integer"),
        ({**GOOD, "algorithm": {"name": "aequus", "resolution": 10**500}}, "algorithm.resolution", "integer"),
        ({**GOOD, "algorithm": {"name": "aequus", "operator": "combined", "k": 1.1}}, "algorithm.k", "0 to 1"),
        ({**GOOD, "algorithm": {"name": "aequus", "operator": "combined", "k": math.nan}}, "algorithm.k", "0 to 1"),
        ({**GOOD, "algorithm": {"name": "aequus", "k": 0.5}}, "algorithm.k", "combined"),
        ({**GOOD, "algorithm": {"name": "aequus", "factor_from": "luck"}}, "algorithm.factor_from", "'key'"),
        ({**GOOD, "algorithm": {"name": "gridwide", "factor_from": "key"}}, "algorithm.factor_from", "'rank'"),
        ({**GOOD, "algorithm": {"name": "gridwide", "resolution": 100}}, "algorithm.resolution", "factor_from"),
        ({**GOOD, "policy": None}, "policy", "children"),
        (tree_of(shares=-1), "/a", "≥ 0"),
        (tree_of(shares=math.nan), "/a", "≥ 0"),
        (tree_of(shares=math.inf), "/a", "≥ 0"),
        (tree_of(shares=10**400), "/a", "≥ 0"),
        (tree_of(shares="30"), "/a", '"parent"'),
        (tree_of(shares=None), "/a", '"parent"'),
        (tree_of(shares=True), "/a", '"parent"'),
        (tree_of(shares=[1]), "/a", '"parent"'),
        (tree_of(name=""), "/ child 0", "isn't empty"),
        (tree_of(name="a/b"), "/ child 0", "no '/'"),
        (tree_of(name=7), "/ child 0", "text"),
        (tree_of(kind=7), "/a", "text"),
        (tree_of(children={}), "/a", "a list"),
        (tree_of(children=[3]), "/a child 0", "an object"),
        (tree_of(kind="reserve", children=[{"name": "x", "shares": 1}]), "/a", "reserve"),
        ({**GOOD, "policy": {"children": [{"name": "a"}]}}, "/a", "missing"),
        ({**GOOD, "policy": {"children": [{"name": "a", "shares": 1}] * 2}}, "/a", "differ"),
        ({**GOOD, "usage": []}, "usage", "paths"),
        ({**GOOD, "usage": {"/a/c": 1}}, "/a/c", "in the tree"),
        ({**GOOD, "usage": {"a/b": 1}}, "a/b", "in the tree"),
        ({**GOOD, "usage": {"": 1}}, '""', "in the tree"),
        ({**GOOD, "usage": {"/a/b": -1}}, "/a/b", "≥ 0"),
        ({**GOOD, "usage": {"/a/b": math.inf}}, "/a/b", "≥ 0"),
        ({**GOOD, "usage": {"/a/b": "5"}}, "/a/b", "≥ 0"),
        ({**GOOD, "usage": {"/a/b": 10**400}}, "/a/b", "≥ 0"),
        ({**tree_of(kind="reserve"), "usage": {"/a": 1}}, "/a", "reserve"),
        ({**GOOD, "id": [1]}, "id", "text"),
    ],
)
def test_an_invalid_case_is_rejected_with_location_and_allowed_values(case: object, place: str, allowed: str) -> None:
    with pytest.raises(EngineError) as refused:
        solve(case)
    assert place in refused.value.place
    assert allowed in refused.value.message


def test_the_65th_level_is_refused_by_its_path() -> None:
    policy: dict[str, Any] = {"name": "e", "shares": 1}
    for _ in range(65):
        policy = {"name": "e", "shares": 1, "children": [policy]}
    with pytest.raises(BadCase, match="at most 64 levels") as refused:
        solve({**GOOD, "policy": policy})
    assert refused.value.place == "/e" * 65


def test_duplicate_keys_are_rejected() -> None:
    texts = {
        '{"algorithm": {"name": "aequus"}, "policy": {"children": [{"name": "a", "shares": 1, "shares": 2}]}}': "/a",
        '{"algorithm": {"name": "aequus"}, "policy": {"children": [{"name": "a", "shares": 1}]}, '
        '"usage": {"/a": 1, "/a": 2}}': "/a",
        '{"algorithm": {"name": "aequus"}, "policy": {}, "policy": {}}': "policy",
        '{"algorithm": {"name": "aequus", "name": "gridwide"}, "policy": {}}': "algorithm.name",
    }
    for text, place in texts.items():
        (case,) = read_cases(text)
        with pytest.raises(BadCase, match="given twice") as refused:
            solve(case)
        assert refused.value.place == place


def test_a_too_deeply_nested_case_affects_no_other() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    good = json.dumps({**GOOD, "id": "good"})
    found = read_cases(f'[{good}, {deep}, {{"x": "}},]", "id": "de\\"ep", "policy": {deep}}}, {good}]')
    assert len(found) == 4
    assert [name_of(case, index) for index, case in enumerate(found)] == ["good", "1", 'de"ep', "good"]
    assert [isinstance(case, BadCase) for case in found] == [False, True, True, False]
    with pytest.raises(BadCase, match=r"nested 10000\d deep"):
        solve(found[2])


@pytest.mark.parametrize("text", ["", "{", "nope", '{"a": 1} x', "[1,]", "[" * 100_000, '{"a":' * 100_000])
def test_broken_json_is_refused(text: str) -> None:
    try:
        found = read_cases(text)
    except BadCase:
        return
    assert found
    assert all(isinstance(case, BadCase) for case in found)


def test_numbers_beyond_json_are_reported_at_their_case() -> None:
    text = '[{"id": "x", "algorithm": {"name": "aequus"}, "policy": {"children": [{"name": "a", "shares": %s}]}}]'
    for number in ("NaN", "Infinity", "1e999", "9" * 5000, "-1"):
        (case,) = read_cases(text % number)
        with pytest.raises(BadCase, match=r"shares .* can't be used"):
            solve(case)
