"""Operators of other packages: what is loaded, what is refused with its reason, and what a later failure says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from apps.engine import installed, operator_trial
from apps.engine.algorithms import package_of
from apps.engine.analysis.properties import Measured, measure, measured_operators
from apps.engine.arrays import FloatArray
from apps.engine.errors import BadParameter, PackageFailed
from apps.engine.operators import (
    Operator,
    Properties,
    all_operators,
    get_operator,
    installed_operators,
    operators_of_packages,
)

PROPERTIES = Properties(True, False, True, False)
Formula = Callable[[FloatArray, FloatArray], Any]


def _operator(name: str, off_target: Formula, **changes: Any) -> Operator:
    described: dict[str, Any] = {"label": "L", "formula": "f", "reference": "R", "properties": PROPERTIES, **changes}
    return Operator(name=name, off_target=off_target, **described)


def _half(t: FloatArray, s: FloatArray) -> FloatArray:
    return (t - s) / 2


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install one package per object: `name="it"` is an entry point of that name, in a module `<package>`."""

    def make(**objects: object) -> None:
        points = [
            EntryPoint(name.replace("_", "-"), f"{name}_package:{name}", "fairshare.operators") for name in objects
        ]
        monkeypatch.setattr(installed, "entry_points", lambda group: points)
        monkeypatch.setattr(EntryPoint, "load", lambda point: objects[point.attr])
        operators_of_packages.cache_clear()
        measured_operators.cache_clear()

    yield make
    monkeypatch.undo()
    operators_of_packages.cache_clear()
    measured_operators.cache_clear()


def _reasons() -> dict[str, str]:
    return {each.name: each.reason for each in operators_of_packages().refused}


def test_an_operator_is_found_by_its_name_with_its_package(install: Callable[..., None]) -> None:
    install(half=_operator("half", _half))
    assert list(installed_operators()) == ["half"]
    assert operators_of_packages().refused == ()
    assert all_operators()[-1].name == "half"
    priority = get_operator("half")(np.array([0.5, 0.5, 0.2]), np.array([0.5, 0.1, 0.6]))
    assert priority.tolist() == pytest.approx([0.0, 0.2, -0.2])
    assert package_of({"name": "aequus", "operator": "half"}) == "half_package"
    assert package_of({"name": "aequus", "operator": "relative"}) == ""
    assert package_of({"name": "aequus"}) == ""


def test_what_is_incomplete_is_refused_with_what_is_missing(install: Callable[..., None]) -> None:
    class Derived(Operator):
        """Not an Operator itself: its methods could be others."""

    derived = Derived("derived", "L", "f", "R", PROPERTIES, _half)
    install(
        derived=derived,
        other=_operator("another", _half),
        unlabelled=_operator("unlabelled", _half, label=" "),
        unsourced=_operator("unsourced", _half, reference=None),
        unwritten=_operator("unwritten", _half, formula=""),
        declared=_operator("declared", _half, properties=("isolation",)),
        made=Operator,
        relative=_operator("relative", _half),
        relative_7=_operator("relative-7", _half),
    )
    assert _reasons() == {
        "derived": "it must be an Operator, not a Derived",
        "other": "it calls itself 'another', its entry point 'other'",
        "unlabelled": "its label must be a text that isn't empty",
        "unsourced": "its reference must be a text that isn't empty",
        "unwritten": "its formula must be a text that isn't empty",
        "declared": "its properties must be Properties",
        "made": "made_package:made is a class: the entry point must name an instance",
        "relative": "the name 'relative' is taken by one of ours",
        "relative-7": "the name 'relative-7' is taken by one of ours",
    }
    assert installed_operators() == {}
    with pytest.raises(BadParameter, match="package unlabelled_package was refused: its label must be a text"):
        get_operator("unlabelled")


def test_what_violates_the_definition_is_refused_with_the_first_violation(install: Callable[..., None]) -> None:
    """Equations 1 to 3 of the operators paper, on the grid of 1/40."""
    install(
        wide=_operator("wide", lambda t, s: 3 * (t - s)),
        nan=_operator("nan", lambda t, s: np.where(s > 0.9, np.nan, _half(t, s))),
        flat=_operator("flat", lambda t, s: np.sign(t - s) / 2),
        by_target=_operator("by-target", lambda t, s: np.sign(t - s) * (1 + t * np.sign(t - s)) / 2),
        upside=_operator("upside", lambda t, s: -_half(t, s)),
        mean=_operator("mean", lambda t, s: _half(t, s) * (1 + t.mean()) / 2),
        order=_operator("order", lambda t, s: _half(t, s) * (1 - 1e-9 * np.arange(len(t)))),
        shape=_operator("shape", lambda t, s: np.zeros(3)),
        raising=_operator("raising", lambda t, s: 1 / 0),
        writing=_operator("writing", lambda t, s: t.__setitem__(0, 1.0)),
    )
    reasons = _reasons()
    assert reasons.pop("wide").startswith("it can't be applied: its priority must be a number from −1 to 1, not -1.04")
    assert "not nan for t = 0.0, s = 0.925" in reasons.pop("nan")
    assert "it gave an array of shape (3,) for 1681 entries" in reasons.pop("shape")
    assert reasons.pop("raising") == "it can't be applied: ZeroDivisionError: division by zero"
    assert "read-only" in reasons.pop("writing")
    assert reasons == {
        "flat": "its priority must rise with the target",
        "by-target": "its priority must fall with the actual",
        "upside": "its priority must be above 0 below the target, and below 0 above it",
        "mean": "its priority of an entry must not change with the other entries",
        "order": "its priority of an entry must not change with the other entries",
    }


def test_only_the_first_of_two_packages_has_a_name(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(half=_operator("half", _half))
    points = [EntryPoint("half", f"{package}:half", "fairshare.operators") for package in ("zeta", "alpha")]
    monkeypatch.setattr(installed, "entry_points", lambda group: points)
    loaded = operators_of_packages()
    assert loaded.package == {"half": "alpha"}
    assert [(each.package, each.group, each.reason) for each in loaded.refused] == [
        ("zeta", "fairshare.operators", "the name 'half' is taken by the package alpha")
    ]


def test_a_package_that_cannot_be_imported_is_refused(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(half=_operator("half", _half))
    for error in (ImportError("no numpy"), SystemExit(3)):

        def load(point: EntryPoint, error: BaseException = error) -> object:
            raise error

        monkeypatch.setattr(EntryPoint, "load", load)
        operators_of_packages.cache_clear()
        assert _reasons() == {"half": f"half_package:half can't be imported: {type(error).__name__}: {error}"}


def test_a_later_failure_names_the_package_and_the_entry(install: Callable[..., None]) -> None:
    """What the formula gives on target isn't used; priorities of −1 and 1 are allowed."""
    allowed = [1.0]

    def formula(t: FloatArray, s: FloatArray) -> FloatArray:
        return _half(t, s) if allowed[0] == 1.0 else np.array([9.0, 1.0, -1.0, allowed[0]])

    install(moody=_operator("moody", formula))
    t, s = np.array([0.5, 0.5, 0.0, 0.25]), np.array([0.5, 0.0, 0.5, 0.75])
    operator = get_operator("moody")
    allowed[0] = -1.0
    assert operator(t, s).tolist() == [0.0, 1.0, -1.0, -1.0]
    allowed[0] = -1.0001
    with pytest.raises(PackageFailed) as failed:
        operator(t, s)
    assert (failed.value.package, failed.value.name, failed.value.place) == ("moody_package", "moody", "algorithm")
    assert str(failed.value) == f"algorithm: {failed.value.message}"
    assert failed.value.message == (
        "package moody_package: operator 'moody' failed: "
        "its priority must be a number from −1 to 1, not -1.0001 for t = 0.25, s = 0.75"
    )
    assert failed.value.reason in failed.value.message
    assert measured_operators() == {}


def test_properties_are_measured_where_a_package_may_declare_them(install: Callable[..., None]) -> None:
    install(
        half=_operator("half", _half),
        like=_operator("like", lambda t, s: (t - s) / np.maximum(t, s) / 2),
        full=_operator("full", lambda t, s: (t - s) / np.maximum(t, s)),
    )
    assert measured_operators() == {
        "half": Measured(False, False, True, ("absolute",)),
        "like": Measured(True, False, True, ("relative",)),
        "full": Measured(True, True, True, ("relative",)),
    }
    assert measured_operators()["like"].contradicts(PROPERTIES) == ("proportional_redistribution",)
    assert measured_operators()["full"].contradicts(PROPERTIES) == ("proportional_redistribution", "boundaries")
    assert measured_operators()["half"].contradicts(PROPERTIES) == ()


def test_properties_of_our_own_operators_are_those_of_the_paper() -> None:
    """Table 1 and section 4: only `absolute` and what it is mixed into lack redistribution and boundaries."""
    for operator in all_operators():
        has_absolute = operator.name in ("absolute", "combined")
        measured = measure(operator)
        assert (measured.proportional_redistribution, measured.boundaries) == (not has_absolute,) * 2, operator.name
        assert measured.contradicts(operator.properties) == (), operator.name
        assert operator_trial.check_definition(operator).broken == "", operator.name
        assert operator_trial.is_entry_by_entry(operator), operator.name


def test_groups_of_entry_points_that_nothing_reads_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {
        "fairshare.operators": [EntryPoint("a", "a:a", "fairshare.operators")],
        "fairshare.operaters": [EntryPoint("b", "b:b", "fairshare.operaters")],
        "fairshare.algoritms": [EntryPoint("c", "c:c", "fairshare.algoritms")],
        "console_scripts": [EntryPoint("d", "d:d", "console_scripts")],
    }

    every = SimpleNamespace(groups=set(points))
    monkeypatch.setattr(installed, "entry_points", lambda group=None: points[group] if group else every)
    unknown = installed.unknown_groups(installed.GROUPS)
    assert [point.name for point in unknown] == ["c", "b"]
