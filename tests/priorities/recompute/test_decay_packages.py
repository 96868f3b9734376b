"""Decay functions of packages: measured at load, checked at each use; what fails keeps the last priorities."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.models import User
from apps.engine import decay, decay_function
from apps.engine.decay_function import DecayFunction
from apps.engine.errors import PackageFailed
from apps.engine.installed import Installed
from apps.notices.findings import failed_recomputes
from apps.notices.kind import PolicyPlace
from apps.policies.recompute_runs import queue_recompute
from apps.policies.services import change_settings
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from tests.priority_site import AS_OF, NO_AGING, Site, children

CODE = """
import itertools, os
import numpy as np
from apps.engine.decay_function import DecayFunction
from apps.engine.parameters import Parameter, number

def function(name, weigh, parameters=(), **more):
    return DecayFunction(name, name, name, "x", parameters, weigh, **more)

def halves(age, as_of_s, settings):
    return np.exp2(-age / 86_400)

calls = itertools.count(1)

def _moody(age, as_of_s, settings):
    mood = os.environ.get("MOODY", "")
    if mood == "nan":
        return np.full(age.shape, np.nan)
    if mood == "tenth" and next(calls) % 10 == 0:
        return np.ones(3)
    if mood == "raises":
        raise KeyError("x")
    return halves(age, as_of_s, settings)

def _writes(age, as_of_s, settings):
    age[:] = 0
    return np.ones_like(age)

MOODY = function("moody", _moody)
NAN = function("nan", lambda age, as_of_s, settings: np.log(-age))
OLD = function("old", lambda age, as_of_s, settings: 1 - halves(age, as_of_s, settings))
RISING = function("rising", lambda age, as_of_s, settings: np.where(age > 1e6, 0.9, halves(age, as_of_s, settings)))
WAVES = function("waves", lambda age, as_of_s, settings: np.where(age > 0, (1 + np.cos(age)) / 2, 1.0))
WRITES = function("writes", _writes)
NEIGHBOURS = function("neighbours", lambda age, as_of_s, settings: 1 - age / max(age.max(), 1e12 + age[-1]))
REACH = function("reach", halves, reach_s=lambda settings: 3600.0)
EDGE = function("edge", lambda age, as_of_s, settings: halves(age, as_of_s, settings) ** (1 / settings["e"]),
           (number("e", "E", 1, 0, 9),))
NAMED = function("named", halves, (number("factor", "F", 1, 0, 9),))
TUPLE = ("not", "a", "function")
NONE = function("none", halves)
"""
BROKEN = {
    "nan": "weight must be a number",
    "old": "age 0 must be 1",
    "rising": "rises",
    "waves": "rises",
    "writes": "read-only",
    "neighbours": "other ages",
    "reach": "reach_s",
    "edge": "division by zero",
    "named": "factor",
    "tuple": "DecayFunction",
    "none": "taken",
}
TREE = children(physics={"": 60, "alice": 1, "bob": 1}, biology={"": 40, "carol": 3})


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed[DecayFunction]]:
    """The package as if it were installed: what is found is registered, as at start."""
    (tmp_path / "moody_decay.py").write_text(CODE)
    info = tmp_path / "moody_decay-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moody-decay\nVersion: 1.0\n")
    points = "".join(f"{name} = moody_decay:{name.upper()}\n" for name in ("moody", *BROKEN))
    (info / "entry_points.txt").write_text(f"[fairshare.decay_functions]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("MOODY", raising=False)
    found = decay_function.decay_functions_of_packages.__wrapped__(tuple(decay.DECAY_FUNCTIONS), decay._RESERVED)
    for name, function in found.found.items():
        monkeypatch.setitem(decay.DECAY_FUNCTIONS, name, function)
    yield found
    sys.modules.pop("moody_decay", None)


def test_a_function_that_does_not_decay_is_rejected_with_the_reason(brought: Installed[DecayFunction]) -> None:
    assert set(brought.found) == {"moody"}
    reasons = {each.name: each.reason for each in brought.refused}
    assert set(reasons) == set(BROKEN)
    assert {name: reason for name, reason in reasons.items() if BROKEN[name] not in reason} == {}
    assert {each.package for each in brought.refused} == {"moody-decay"}


def test_built_in_functions_pass_the_checks_of_packages() -> None:
    for name in ("none", "exponential", "linear", "step", "slurm", "gridengine", "lsf"):
        function = decay.DECAY_FUNCTIONS[name]
        given = {"half_life_s": 3600, "length_s": 7200, "granularity_s": 60, "factor": 0.5}
        settings = {one.name: given.get(one.name, one.default) for one in function.parameters}
        decay_function._measure(function, settings)


@pytest.fixture
def decayed(brought: object, make_site: Callable[..., Site]) -> Site:
    """A policy with priorities that the package's function decayed."""
    site = make_site()
    site.publish(TREE, {**NO_AGING, "algorithm": {"name": "aequus"}})
    site.map()
    site.job("alice", "physics", 40)
    change_settings(policy_slug="grid", settings={"window": {"aging": "moody"}}, reason="x", at=AS_OF, actor=COMMAND)
    site.recompute()
    return site


@pytest.mark.parametrize(("mood", "found"), [("nan", "not nan"), ("tenth", "shape (3,)"), ("raises", "KeyError")])
def test_a_failing_decay_function_keeps_the_last_priorities(
    decayed: Site, monkeypatch: pytest.MonkeyPatch, mood: str, found: str
) -> None:
    before: object = store.newest("grid").lookup(["alice"])
    snapshot = Snapshot.objects.filter(is_live=True).latest("pk")
    monkeypatch.setenv("MOODY", mood)
    for n in range(20):  # the tenth call comes in one of these
        decayed.job("bob", "physics", 3 + n)
        run = work_run_now(queue_recompute(decayed.policy, at=AS_OF).pk)
        if run.state == "failed":
            break
        snapshot = Snapshot.objects.filter(is_live=True).latest("pk")
        store.poll()
        before = store.newest("grid").lookup(["alice"])
    assert (run.state, run.error_code) == ("failed", "package_failed")
    assert [each for each in ("moody-decay", "'moody'", found) if each not in run.error] == []
    assert Snapshot.objects.filter(is_live=True).latest("pk") == snapshot
    store.poll()
    assert store.newest("grid").lookup(["alice"]) == before
    place = PolicyPlace(decayed.policy, load_tree(decayed.policy), {}, AS_OF, AS_OF.date())
    (finding,) = failed_recomputes(place)
    assert finding.facts["error"] == run.error
    monkeypatch.delenv("MOODY")
    assert work_run_now(queue_recompute(decayed.policy, at=AS_OF).pk).state == "succeeded"


def test_settings_with_a_missing_function_can_be_read_and_changed(
    decayed: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = PolicySettings.from_json({"window": {"aging": "moody"}}).to_json()
    monkeypatch.delitem(decay.DECAY_FUNCTIONS, "moody")
    read = PolicySettings.from_stored(stored)
    assert read.window["aging"] == "moody"
    kept = PolicySettings.from_operation({"fallback_factor": 0.25}, base=read)
    assert (kept.window["aging"], kept.fallback_factor) == ("moody", 0.25)
    assert PolicySettings.from_operation({"window": {"aging": "none"}}, base=read).window["aging"] == "none"
    decayed.job("bob", "physics", 5)
    run = work_run_now(queue_recompute(decayed.policy, at=AS_OF).pk)
    assert run.state == "failed"
    assert "'moody'" in run.error
    change_settings(policy_slug="grid", settings={"window": {"aging": "none"}}, reason="x", at=AS_OF, actor=COMMAND)
    assert work_run_now(queue_recompute(decayed.policy, at=AS_OF).pk).state == "succeeded"


def test_a_failure_names_package_function_and_age(brought: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOODY", "nan")
    with pytest.raises(PackageFailed) as failed:
        decay.weights([7.0], decay.Window.of("moody", None, {}))
    assert (failed.value.package, failed.value.name, failed.value.place) == ("moody-decay", "moody", "window")
    assert "at 7 s" in failed.value.reason


def test_pages_and_rest_report_a_failing_package(
    decayed: Site, monkeypatch: pytest.MonkeyPatch, client: Client, admin_user: User
) -> None:
    client.force_login(admin_user)
    monkeypatch.setenv("MOODY", "nan")
    found = {path: client.get(path).status_code for path in ("/policy/grid/decay/", "/policy/grid/", "/")}
    assert found == {"/policy/grid/decay/": 200, "/policy/grid/": 200, "/": 200}
    figure = client.get("/policy/grid/decay/figures/decay.json")
    trial = client.get("/api/v1/policies/grid/forecast", {"account": "alice"})
    assert (figure.status_code, trial.status_code) == (422, 503), (figure.content[:300], trial.content[:300])
