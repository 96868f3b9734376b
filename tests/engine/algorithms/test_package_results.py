"""Algorithms of other packages: what is refused when one is loaded, and when it has computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.engine.algorithms import get_algorithm
from apps.engine.algorithms.base import Column, Explanation, PriorityResult
from apps.engine.algorithms.inputs import Compared, Prepared, compare_usage, prepare
from apps.engine.algorithms.packages import check_algorithm, run_foreign
from apps.engine.errors import PackageFailed
from apps.engine.operators import Properties
from apps.engine.parameters import Parameter, Settings, number, read_settings
from apps.engine.tree import FairshareTree

Change = Callable[[PriorityResult], Any]
N = 4


class Foreign:
    """Computes as `aequus` does; `change` makes something else of its result."""

    name = "foreign"
    label = "Foreign"
    formula = "as aequus"
    component = "t − s"
    reference = "None"
    fields: Any = ("rank", "factor")
    takes_inherit: Any = False
    parameters: Any = get_algorithm("aequus").parameters

    def __init__(self, change: Change = lambda result: result, **members: Any) -> None:
        self._change = change
        vars(self).update(members)

    def properties(self, settings: Settings) -> Properties:
        return Properties(True, True, True, True)

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        made: PriorityResult = self._change(get_algorithm("aequus").compute(prepared, compared, settings))
        return made


def _inputs() -> tuple[Prepared, Compared]:
    """Group a (1 share) with the users b and c, and user d (3 shares)."""
    tree, _order = FairshareTree.from_columns([-1, 0, 0, 1], [1, 1, 3, 1], is_user=[False, False, True, True])
    prepared = prepare(tree)
    return prepared, compare_usage(prepared, np.array([0.0, 0.0, 3.0, 5.0]), None)


def _run(algorithm: Any) -> PriorityResult:
    prepared, compared = _inputs()
    settings = read_settings("foreign", get_algorithm("aequus").parameters, {})
    return run_foreign("a-package", algorithm, prepared, compared, settings)


def _reason(change: Change) -> str:
    with pytest.raises(PackageFailed) as failed:
        _run(Foreign(change))
    assert (failed.value.package, failed.value.name) == ("a-package", "foreign")
    assert failed.value.message == f"package a-package: algorithm 'foreign' failed: {failed.value.reason}"
    return failed.value.reason


def _with(**changes: Any) -> Change:
    return lambda result: replace(result, **changes)


def test_a_result_is_given_on_as_it_is() -> None:
    """Whole numbers may be unsigned, and columns infinite."""
    made: list[PriorityResult] = []

    def change(result: PriorityResult) -> PriorityResult:
        rank = np.array([1, 1, 1, 1], dtype=np.uint32)
        made.append(replace(result, rank=rank, columns={"x": Column(np.array([np.inf] * N))}))  # type: ignore[arg-type]
        return made[0]

    assert _run(Foreign(change)) is made[0]


@pytest.mark.parametrize("name", ["usage", "group_usage", "target", "actual", "priority", "target_global", "factor"])
def test_numbers_are_an_array_of_all_entries_without_nan(name: str) -> None:
    assert _reason(_with(**{name: np.zeros(3)})) == f"its {name} must be an array of 4, not one of shape (3,)"
    assert _reason(_with(**{name: [0.0] * N})) == f"its {name} must be an array of 4, not a list"
    assert _reason(_with(**{name: np.zeros(N, dtype=np.int64)})) == f"its {name} must be of numbers"
    assert _reason(_with(**{name: np.array([0.0, 1.0, np.nan, np.nan])})) == f"its {name} is NaN for entry 2"


@pytest.mark.parametrize("name", ["rank", "scalar"])
def test_ranks_and_scalars_are_integers(name: str) -> None:
    assert _reason(_with(**{name: np.ones(N)})) == f"its {name} must be of integers"
    assert _reason(_with(**{name: np.ones((N, 1), dtype=np.int64)})) == (
        f"its {name} must be an array of 4, not one of shape (4, 1)"
    )


@pytest.mark.parametrize("name", ["competes", "has_rank", "has_factor", "is_ranked"])
def test_masks_are_booleans(name: str) -> None:
    for kind in (np.int64, np.uint8, np.float64):
        assert _reason(_with(**{name: np.ones(N, dtype=kind)})) == f"its {name} must be of booleans"


def test_columns_are_numbers_and_where_they_exist() -> None:
    numbers, some = np.zeros(N), np.ones(N, dtype=np.bool_)
    assert _run(Foreign(_with(columns={"x": Column(numbers, some), "y": Column(numbers)}))).columns["x"].exists is some
    reasons = {
        "its column x must be a Column, not a ndarray": numbers,
        "its column x must be an array of 4, not one of shape (3,)": Column(np.zeros(3)),
        "its column x must be of numbers": Column(some),  # type: ignore[arg-type]
        "its column x is NaN for entry 0": Column(numbers * np.nan),
        "its column x must be of booleans": Column(numbers, numbers),  # type: ignore[arg-type]
        "its column x must be an array of 4, not one of shape (2,)": Column(numbers, some[:2]),
    }
    assert [_reason(_with(columns={"a": Column(numbers), "x": column})) for column in reasons.values()] == list(reasons)


def test_results_are_of_this_tree_and_its_usage() -> None:
    other = FairshareTree.from_columns([-1, 0, 0, 1], [1, 1, 3, 1])[0]
    assert _reason(lambda result: (result,)) == "its method compute must give a PriorityResult, not a tuple"
    assert _reason(_with(tree=other)) == "its result is of another tree"
    for name in ("usage", "group_usage"):
        assert _reason(_with(**{name: np.array([8.0, 5.0, 3.0, 5.5])})) == "its usage must be what it was given"


def test_factors_and_ranks_are_within_their_bounds() -> None:
    edges = {"factor": np.array([0.0, 1.0, 0.5, 0.0]), "rank": np.array([0, 1, 2, 3])}
    has_rank = np.array([False, True, True, True])
    result = _run(Foreign(_with(**edges, has_rank=has_rank)))
    assert result.factor is edges["factor"]
    for wrong in (-1e-9, 1.000001):
        assert _reason(_with(factor=np.array([0.0, 0.0, wrong, 1.0]))) == "its factors must be from 0 to 1"
    assert _reason(_with(rank=np.array([0, 1, 0, 3]), has_rank=has_rank)) == (
        "its ranks must be 1 or more where it has some"
    )
    assert _reason(_with(n_ranked=3)) == "its n_ranked is 3, and is_ranked has 2 leaves"


def test_what_it_raises_is_named_and_what_another_package_raises_is_kept() -> None:
    for error in (ZeroDivisionError("by zero"), SystemExit("gone")):

        def fail(result: PriorityResult, error: BaseException = error) -> Any:
            raise error

        assert _reason(fail) == f"{type(error).__name__}: {error}"
    others = PackageFailed("hills", "operator", "steep", "no range")

    def fail_in_operator(result: PriorityResult) -> Any:
        raise others

    with pytest.raises(PackageFailed) as failed:
        _run(Foreign(fail_in_operator))
    assert failed.value is others


def test_inputs_cannot_be_written_to_and_stay_the_same_objects() -> None:
    seen: list[bool] = []

    class Writer(Foreign):
        def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
            for array in (prepared.target, prepared.ends, compared.total, compared.group_total):
                with pytest.raises(ValueError, match="read-only"):
                    array[0] = 7
            seen.extend((compared.prepared is prepared, compared.total is compared.group_total))
            return super().compute(prepared, compared, settings)

    prepared, compared = _inputs()
    _run(Writer())
    assert seen == [True, True]
    assert (prepared.target.flags.writeable, compared.total.flags.writeable) == (True, True)


# When it is loaded


def _refusal(**members: Any) -> str:
    with pytest.raises(ValueError, match=r".") as refused:
        check_algorithm("foreign", Foreign(**members))
    return str(refused.value)


def test_a_complete_algorithm_is_accepted() -> None:
    complete = Foreign(takes_inherit=True, parameters=(*Foreign.parameters, number("unit", "Unit", 1.0, 0.0, 9.0)))
    assert check_algorithm("foreign", complete) is complete


def test_names_are_of_small_letters_digits_and_single_hyphens() -> None:
    for name in ("a", "a-1", "1-b-c"):
        assert check_algorithm(name, Foreign(name=name)).name == name
    for name in ("A", "a--b", "-a", "a-", "a_b", "", "ä", "a b"):
        with pytest.raises(ValueError, match="its name must be of a–z, 0–9 and single hyphens"):
            check_algorithm(name, Foreign(name=name))
    with pytest.raises(ValueError, match="it calls itself 'foreign', its entry point 'mine'"):
        check_algorithm("mine", Foreign())


def test_each_declaration_is_required() -> None:
    for name in ("label", "formula", "component", "reference"):
        assert _refusal(**{name: " "}) == f"its {name} must be a text that isn't empty"
    wrong: dict[str, tuple[str, tuple[Any, ...]]] = {
        "parameters": ("a tuple of Parameter", ([], None, ("unit",))),
        "fields": ("a tuple of str", (["rank"], None, ("rank", 1))),
        "takes_inherit": ("True or False", (None, 1, "yes")),
    }
    for name, (what, values) in wrong.items():
        for value in values:
            assert _refusal(**{name: value}) == f"its {name} must be {what}"
    for name in ("properties", "compute"):
        assert _refusal(**{name: None}) == f"it has no method {name}"


def test_properties_must_be_given_without_a_failure() -> None:
    def fail(settings: Settings) -> Properties:
        raise KeyError("unit")

    assert _refusal(properties=fail) == "its properties can't be read: KeyError: 'unit'"
    assert _refusal(properties=lambda settings: None) == "its method properties must give Properties"

    def read(value: object) -> float:
        raise TypeError("no default")

    required = Parameter("unit", "Unit", None, "a number", read)
    assert _refusal(parameters=(required,)) == "its properties can't be read: TypeError: no default"


def test_two_small_trees_must_be_computable() -> None:
    for n_entries in (3, 7):

        def change(result: PriorityResult, n: int = n_entries) -> PriorityResult:
            return result if result.tree.n_entries != n else replace(result, n_ranked=9)

        n_leaves = {3: 2, 7: 4}[n_entries]
        assert _refusal(change=change) == (
            f"a small tree can't be computed: its n_ranked is 9, and is_ranked has {n_leaves} leaves"
        )


def test_small_trees_have_users_idle_groups_and_leaves_without_shares() -> None:
    trees: list[tuple[list[float], list[float], list[bool]]] = []

    def note(result: PriorityResult) -> PriorityResult:
        trees.append((result.target.tolist(), result.usage.tolist(), result.tree.is_user.tolist()))
        return result

    check_algorithm("foreign", Foreign(note))
    third, quarter = 1 / 3, 1 / 4
    assert trees == [
        ([1.0, 2 * third, third], [3.0, 3.0, 0.0], [False, True, True]),
        (
            [1.0, 3 * quarter, quarter, third, 2 * third, 0.0, 1.0],
            [8.0, 8.0, 0.0, 7.0, 1.0, 0.0, 0.0],
            [False, False, False, True, True, True, True],
        ),
    ]


def test_an_explanation_names_columns_that_the_result_has() -> None:
    for accepted in (None, Explanation("levels")):
        check_algorithm("foreign", Foreign(explanation=accepted))
    assert _refusal(explanation="levels") == "its explanation must be an Explanation"

    def with_columns(*names: str) -> Change:
        return lambda result: replace(result, columns={name: Column(np.zeros(result.tree.n_entries)) for name in names})

    ratio = Explanation("ratio", used="u", due="d", own_ratio="r", exponent="k")
    check_algorithm("foreign", Foreign(with_columns("u", "d", "r", "k"), explanation=ratio))
    for missing in "udrk":
        assert _refusal(change=with_columns(*set("udrk") - {missing}), explanation=ratio) == (
            f"its explanation names the column {missing!r}, which its result doesn't have"
        )
    assert _refusal(explanation=Explanation("levels", component="c")) == (
        "its explanation names the column 'c', which its result doesn't have"
    )
