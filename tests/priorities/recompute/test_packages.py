"""Code of installed packages on real trees: what fails is refused by the package's name, and priorities stay."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import CheckMessage

from apps.accounts.actor import COMMAND, Actor
from apps.core.errors import Conflict, Invalid
from apps.engine.algorithms import algorithms_of_packages, get_algorithm, read_algorithm
from apps.engine.algorithms.package_properties import disproved
from apps.engine.analysis import properties
from apps.engine.operators import operators_of_packages
from apps.explain.contrasts import compare_leaves
from apps.pages.algorithm.api import algorithm_json
from apps.pages.algorithm.comparison import compare_algorithms
from apps.policies import settings
from apps.policies.models import ChangeSet
from apps.policies.recompute_runs import queue_recompute
from apps.policies.records import NewChangeSet
from apps.policies.selectors import get_change_set
from apps.policies.services import change_settings, effect_of, make_change_set, publish_change_set
from apps.policies.tree.stored import load_tree
from apps.priorities.change_effects import simulate_change_set
from apps.priorities.checks import check_packages
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from apps.web.texts.algorithm_text import describe
from tests.conftest import REPOSITORY
from tests.priority_site import AS_OF, NO_AGING, Site, children

# What the algorithm of the package does wrong is read where it computes, so that it passes the trial at load.
CODE = """
import os
import numpy as np
from dataclasses import replace
from fairshare_example import LeastUsed
from apps.engine.algorithms.base import Column
from apps.engine.operators import Operator, Properties

class Moody(LeastUsed):
    name = "moody"
    def compute(self, prepared, compared, settings):
        mood = os.environ.get("MOODY", "")
        if mood == "raises":
            return 1 / 0
        if mood == "writes":
            compared.usage[:] = 0
        found = super().compute(prepared, compared, settings)
        if mood == "nan":
            return replace(found, factor=np.full(prepared.tree.n_entries, np.nan))
        if mood == "short":
            return replace(found, rank=found.rank[1:])
        if mood == "column":
            return replace(found, columns={"x": Column(np.full(3, 0.0))})
        return found

MOODY = Moody()

class Boaster(LeastUsed):
    name = "boaster"
    def properties(self, settings):
        return Properties(True, True, True, True)

BOASTER = Boaster()

def operator(name, formula, properties=Properties(True, False, True, False)):
    return Operator(name=name, label=name, formula=name, reference="x", properties=properties, off_target=formula)

def _sulking(t, s):
    return (t - s) / 2 if os.environ.get("MOODY", "") != "raises" else np.full(len(t), np.nan)

UPSIDE = operator("upside-down", lambda t, s: s - t)
FLAT = operator("flat", lambda t, s: 0.0 * t)
MEAN = operator("mean", lambda t, s: (t - s) / 2 * (1 + t.mean()) / 2)
SULKING = operator("sulking", _sulking)
BOASTING = operator("boasting", lambda t, s: (t - s) / 2, Properties(True, True, True, False))
LIKE = operator("like", lambda t, s: (t - s) / np.maximum(t, s) / 2, Properties(True, True, True, False))
"""
POINTS = """[fairshare.algorithms]
moody = moody:MOODY
boaster = moody:BOASTER
[fairshare.operators]
upside-down = moody:UPSIDE
flat = moody:FLAT
mean = moody:MEAN
sulking = moody:SULKING
boasting = moody:BOASTING
like = moody:LIKE
"""
TREE = children(physics={"": 60, "alice": 1, "bob": 1}, biology={"": 40, "carol": 3, "dan": 1})


def _forget() -> None:
    for each in (
        algorithms_of_packages,
        operators_of_packages,
        properties.measured_operators,
        properties.measured_algorithms,
    ):
        each.cache_clear()


@pytest.fixture
def moody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """The package as if it were installed; call it to have it uninstalled again."""
    (tmp_path / "moody.py").write_text(CODE)
    info = tmp_path / "moody-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moody-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    before = list(sys.path)
    sys.path[:0] = [str(tmp_path), str(REPOSITORY / "tests/example_package")]
    monkeypatch.delenv("MOODY", raising=False)
    _forget()

    def uninstall() -> None:
        sys.path[:] = before
        for name in ("moody", "fairshare_example"):
            sys.modules.pop(name, None)
        _forget()

    yield uninstall
    uninstall()


@pytest.fixture
def computed(moody: Callable[[], None], make_site: Callable[..., Site]) -> Site:
    """A policy with priorities, decided by an algorithm of ours."""
    site = make_site()
    site.publish(TREE, {**NO_AGING, "algorithm": {"name": "aequus"}})
    site.map()
    site.job("alice", "physics", 40)
    site.recompute()
    return site


def _settings(name: str = "moody", **more: Any) -> dict[str, Any]:
    return {"op": "set_policy", "settings": {"algorithm": {"name": name, **more}}}


def _refused(attempt: Callable[[], object], *named: str) -> None:
    with pytest.raises(Invalid) as refused:
        attempt()
    assert refused.value.code == "package_failed"
    assert [each for each in ("moody-package", *named) if each not in refused.value.message] == []


def test_an_operator_that_violates_the_definition_is_rejected_by_name(moody: Callable[[], None]) -> None:
    refused = {each.name: each for each in operators_of_packages().refused}
    assert set(refused) == {"upside-down", "flat", "mean"}
    assert {each.package for each in refused.values()} == {"moody-package"}
    assert set(operators_of_packages().objects) >= {"sulking", "boasting", "like"}
    warnings: list[CheckMessage] = check_packages()
    for name in refused:
        assert sum(name in str(each.msg) and each.id == "fairshare.W001" for each in warnings) == 1


def test_declared_and_measured_properties_are_shown_together(moody: Callable[[], None]) -> None:
    found = properties.measured_operators()
    assert found["like"].orders_like == ("relative",)
    assert found["boasting"].orders_like == ("absolute",)
    assert (found["boasting"].proportional_redistribution, found["like"].proportional_redistribution) == (False, True)
    assert found["boasting"].contradicts(operators_of_packages().objects["boasting"].properties) == (
        "proportional_redistribution",
    )
    (warned,) = [each for each in check_packages() if each.id == "fairshare.W002" and "operator" in each.msg]
    assert [
        each for each in ("boasting", "proportional_redistribution", "moody-package") if each not in warned.msg
    ] == []


def test_properties_of_an_algorithm_are_measured_on_small_trees(moody: Callable[[], None]) -> None:
    found = properties.measured_algorithms()
    declared = get_algorithm("boaster").properties(read_algorithm("boaster"))
    assert disproved(found["boaster"], declared) == ("scale_invariance", "sign")
    warnings = [each.msg for each in check_packages() if each.id == "fairshare.W002" and "'boaster'" in each.msg]
    assert len(warnings) == 2
    assert all("moody-package" in each for each in warnings)
    described = describe("boaster")
    assert described is not None
    assert [each.is_contradicted for each in described.properties] == [False, False, True, False]
    assert algorithm_json(get_algorithm("boaster"))["measured"]["scale_invariance"] is False
    assert algorithm_json(get_algorithm("aequus"))["measured"] is None


def test_the_page_shows_measured_and_declared_properties(moody: Callable[[], None]) -> None:
    described = describe("aequus", {"name": "aequus", "operator": "boasting", "resolution": 10, "factor_from": "rank"})
    assert described is not None
    assert [(each.holds, each.measured, each.is_contradicted) for each in described.properties] == [
        (True, None, False),
        (True, False, True),
        (True, None, False),
        (False, False, False),
    ]
    assert described.orders_like == "absolute"
    ours = describe("aequus")
    assert ours is not None
    assert {each.measured for each in ours.properties} == {None}


def test_an_algorithm_of_a_package_is_also_tried_with_current_usage(
    computed: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Any] = []
    monkeypatch.setattr(settings, "_trials", [lambda policy, *_: tried.append(policy)])
    tree, algorithm = load_tree(computed.policy), read_algorithm("moody")
    settings.refuse_unsuitable_tree(tree, algorithm)
    assert tried == []
    settings.refuse_unsuitable_tree(tree, algorithm, computed.policy)
    assert tried == [computed.policy]


@pytest.mark.parametrize(
    ("mood", "named"),
    [
        ("raises", "ZeroDivisionError"),
        ("nan", "factor"),
        pytest.param("writes", "read-only", marks=pytest.mark.deep),
        pytest.param("short", "rank", marks=pytest.mark.deep),
        pytest.param("column", "x", marks=pytest.mark.deep),
    ],
)
def test_a_recompute_that_fails_in_a_package_keeps_the_last_priorities(
    computed: Site, monkeypatch: pytest.MonkeyPatch, mood: str, named: str
) -> None:
    get_algorithm("moody")
    change_settings(policy_slug="grid", settings=_settings()["settings"], reason="x", at=AS_OF, actor=COMMAND)
    snapshot = computed.recompute()
    before = store.newest("grid").lookup(["alice"])
    monkeypatch.setenv("MOODY", mood)
    computed.job("bob", "physics", 3)
    run = work_run_now(queue_recompute(computed.policy, at=AS_OF).pk)
    assert (run.state, run.error_code, run.attempts) == ("failed", "package_failed", 1)
    assert [each for each in ("moody-package", "'moody'", named) if each not in run.error] == []
    assert Snapshot.objects.filter(is_live=True).latest("pk") == snapshot
    assert store.newest("grid").lookup(["alice"]) == before
    monkeypatch.delenv("MOODY")
    assert work_run_now(queue_recompute(computed.policy, at=AS_OF).pk).state == "succeeded"


def test_an_operator_that_returns_nan_makes_no_snapshot(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _settings("aequus", operator="sulking")["settings"]
    assert "sulking" in operators_of_packages().objects
    change_settings(policy_slug="grid", settings=settings, reason="x", at=AS_OF, actor=COMMAND)
    computed.recompute()
    monkeypatch.setenv("MOODY", "raises")
    computed.job("bob", "physics", 3)
    run = work_run_now(queue_recompute(computed.policy, at=AS_OF).pk)
    assert (run.state, run.error_code) == ("failed", "package_failed")
    assert "operator 'sulking'" in run.error


def test_a_draft_that_a_package_cannot_compute_is_refused(
    computed: Site, as_eva: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_algorithm("moody")
    made: dict[str, Any] = {
        "policy_slug": "grid",
        "new": NewChangeSet(operations=[_settings()], reason="x"),
        "at": AS_OF,
        "actor": COMMAND,
    }
    stored = make_change_set(**made)
    monkeypatch.setenv("MOODY", "raises")
    _refused(lambda: make_change_set(**made), "'moody'", "ZeroDivisionError")
    assert list(ChangeSet.objects.filter(state="draft")) == [stored]
    assert simulate_change_set(stored, actor=as_eva) is None
    _refused(lambda: publish_change_set(id=stored.pk, version=stored.version, at=AS_OF, actor=COMMAND))
    change = {"policy_slug": "grid", "settings": _settings()["settings"], "reason": "x", "at": AS_OF, "actor": COMMAND}
    _refused(lambda: change_settings(**change))
    side = compare_algorithms(policy_slug="grid", algorithms=[{}, {"name": "moody"}], actor=as_eva).sides[1]
    assert "moody-package" in side.refused


def test_a_published_change_set_stays_readable_without_the_package(
    computed: Site, moody: Callable[[], None], as_eva: Actor
) -> None:
    get_algorithm("moody")
    draft = make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=[_settings()], reason="x"), at=AS_OF, actor=COMMAND
    )
    publish_change_set(id=draft.pk, version=draft.version, at=AS_OF, actor=COMMAND)
    later = make_change_set(
        policy_slug="grid",
        new=NewChangeSet(operations=[_settings("moody", unit=60)], reason="x"),
        at=AS_OF,
        actor=COMMAND,
    )
    moody()
    for each in (draft, later):
        found = get_change_set(id=each.pk, actor=COMMAND, at=AS_OF)
        json.dumps(effect_of(found, at=AS_OF, actor=COMMAND), default=str)
        assert simulate_change_set(found, actor=as_eva) is None


def test_a_missing_algorithm_is_reported(computed: Site, moody: Callable[[], None]) -> None:
    get_algorithm("moody")
    change_settings(policy_slug="grid", settings=_settings()["settings"], reason="x", at=AS_OF, actor=COMMAND)
    computed.recompute()
    moody()
    store.forget()
    with pytest.raises(Conflict) as refused:
        compare_leaves(leaf="/physics/alice", other="/physics/bob", policy_slug="grid", actor=COMMAND)
    assert refused.value.code == "no_algorithm"
