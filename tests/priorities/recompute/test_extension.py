"""A snapshot holds while usage only decays: its ranks stay those that were computed, and its usage is scaled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND
from apps.engine import decay
from apps.engine.algorithms import PriorityResult, read_algorithm
from apps.engine.decay_functions import DECAY_FUNCTIONS
from apps.policies.publishing.direct import publish_operations
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.policies.settings import PolicySettings
from apps.priorities.change_effect_runs import get_effect
from apps.priorities.metering import window_of
from apps.priorities.models import Snapshot, StoredPlaces, UnmappedAccounts
from apps.priorities.recompute import staleness
from apps.priorities.recompute.extension import usage_scale
from apps.priorities.recompute.pipeline import compute, load_inputs
from apps.priorities.rounding import CheckedTree
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from apps.web.rest.answers import etag
from tests.examples import examples
from tests.priorities.recompute.test_pipeline import ALGORITHMS, AS_OF, Case, _cases, _inputs
from tests.priority_site import AS_OF as NOON
from tests.priority_site import PROJECTS, Site, finished

MINUTE = timedelta(minutes=1)


@examples(300)
@given(_cases, st.sampled_from(sorted(ALGORITHMS)), st.integers(1, 39))
def test_numbers_at_a_later_instant_are_those_that_were_computed(case: Case, algorithm: str, minutes: int) -> None:
    case = replace(case, opened=[], buckets=[row for row in case.buckets if row["hour_epoch"] < AS_OF.timestamp()])
    before = _inputs(case)
    before = replace(before, settings=replace(before.settings, algorithm=read_algorithm(algorithm)))
    after = replace(before, fingerprint=replace(before.fingerprint, as_of=AS_OF + minutes * MINUTE))
    scale = usage_scale(after, before.as_of)
    window = before.settings.window
    if window["length_s"] is None and window["aging"] in ("none", "exponential"):
        assert scale is not None
    if scale is None:
        return
    then, now = compute(before).result, compute(after).result
    assert np.allclose(now.usage, then.usage * scale, rtol=1e-12, atol=0)
    for name in ("target", "actual", "priority", "target_global", "factor", "has_rank", "is_ranked", "competes"):
        if name != "factor" or not (_has_ties(then) or _has_ties(now)):
            assert np.allclose(getattr(now, name), getattr(then, name), rtol=1e-9, atol=1e-12), name
    for name, column in now.columns.items():
        both = np.isfinite(column.values)
        assert (both == np.isfinite(then.columns[name].values)).all(), name
        assert np.allclose(column.values[both], then.columns[name].values[both], rtol=1e-6, atol=1e-9), name


def _has_ties(result: PriorityResult) -> bool:
    """Whether leaves are level: rounding may decide between them at another instant."""
    factors = result.factor[result.is_ranked].tolist()
    return len(set(factors)) < len(factors)


WINDOWS: dict[str, dict[str, Any]] = {
    "none": {"length_s": None},
    "exponential": {"length_s": None, "half_life_s": 50_000},
    "linear": {"length_s": 900_000},
    "step": {"length_s": None, "granularity_s": 7_200, "factor": 0.5},
    "slurm": {"length_s": None, "half_life_s": 50_000},
    "pbs": {"length_s": 900_000, "decay_time_s": 21_600, "decay_factor": 0.75},
    "flux": {"length_s": None, "half_life_s": 43_200, "periods": 4},
    "gridengine": {"length_s": None},
    "lsf": {"length_s": None},
}


@pytest.mark.parametrize("aging", sorted(DECAY_FUNCTIONS))
def test_each_decay_function_scales_or_is_computed_again(aging: str) -> None:
    """By weights: a window in which some hours lose more than others is never extended."""
    hours = [{"hour_epoch": int(AS_OF.timestamp()) // 3600 * 3600 - 3600 * ago} for ago in (1, 5, 30, 200)]
    amounts = {"cpu_s": 3600.0, "gpu_s": 0.0, "mem_gb_s": 0.0, "node_s": 0.0, "billing": 0.0}
    row = {"account_id": 1, "source_id": 1, "job_class_id": 1, "site": 0, **amounts}
    case = Case({"name": "p", "shares": 1, "children": []}, {}, [{**row, **hour} for hour in hours], [])
    inputs = replace(_inputs(case), settings=PolicySettings.from_json({"window": {"aging": aging, **WINDOWS[aging]}}))
    later = replace(inputs, fingerprint=replace(inputs.fingerprint, as_of=AS_OF + 20 * MINUTE))
    scale = usage_scale(later, AS_OF)
    expected = {"none": 1.0, "exponential": pytest.approx(2 ** (-1200 / 50_000), rel=1e-12)}
    if aging in expected:
        assert scale == expected[aging]
    elif scale is not None:
        hour_s, window = inputs.usage.hour_epoch, window_of(inputs.settings.window)
        then, now = (decay.bucket_weights(hour_s, each.as_of.timestamp(), window) for each in (inputs, later))
        assert now == pytest.approx(then * scale, rel=1e-12)


@pytest.fixture
def quiet(make_site: Callable[..., Site]) -> Site:
    """A policy whose usage is an hour old or more, with an unmapped account."""
    made = make_site()
    made.publish(PROJECTS, {"window": {"length_s": None, "aging": "exponential", "half_life_s": 86_400}})
    made.map()
    made.jobs([finished("alice", "physics", 8, ago_h=3), finished("carol", "biology", 2, ago_h=30)])
    made.job("nobody", "knows", 5, ago_h=4)
    return made


def at_minute(monkeypatch: pytest.MonkeyPatch, minute: int) -> datetime:
    at = NOON + minute * MINUTE
    monkeypatch.setenv("FAIRSHARE_CLOCK", (at + timedelta(seconds=2)).isoformat())
    return at


def recompute(site: Site, at: datetime) -> Snapshot:
    (run,) = staleness.recompute_stale(at=at)
    done = work_run_now(run)
    assert done.state == "succeeded", done.error
    assert done.result["as_of"] == at.isoformat()
    assert staleness.recompute_stale(at=at) == []
    return Snapshot.objects.defer("data").get(pk=done.result["snapshot"])


@pytest.mark.django_db
def test_a_quiet_hour_is_one_snapshot(quiet: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first = recompute(quiet, at_minute(monkeypatch, 0))
    served = store.newest("grid")
    unmapped = UnmappedAccounts.objects.get().usage
    for minute in (1, 2, 59):
        at = at_minute(monkeypatch, minute)
        row = recompute(quiet, at)
        assert (row.pk, row.as_of, row.valid_at) == (first.pk, NOON, at)
    factor = 2 ** (-59 / 1440)
    store.poll()
    later = store.newest("grid")
    assert (later.snapshot_id, later.as_of) == (first.pk, NOON + 59 * MINUTE)
    assert later.values.usage == pytest.approx(served.values.usage * factor, rel=1e-12)
    assert later.meta["unmapped_usage"] == pytest.approx(unmapped * factor, rel=1e-12)
    assert UnmappedAccounts.objects.get().usage == pytest.approx(unmapped * factor, rel=1e-12)
    answer, before = later.lookup(["alice"]), served.lookup(["alice"])
    assert answer == before
    store.forget()
    anew = store.newest("grid")
    assert (anew.values.usage == later.values.usage).all(), "a process that starts serves the same numbers"
    assert store.load_stored("grid", first.pk).as_of == NOON
    hour = recompute(quiet, at_minute(monkeypatch, 60))
    assert hour.pk != first.pk, "each hour has its own"
    assert Snapshot.objects.count() == 2


@pytest.mark.django_db
def test_what_is_computed_from_a_snapshot_is_computed_again_at_a_later_instant(
    quiet: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = [{"op": "set_shares", "entry": "/physics", "shares": 1}]
    draft = make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=operations, reason="Try."), at=NOON, actor=COMMAND
    )

    def derived(minute: int) -> tuple[Any, Any]:
        at = at_minute(monkeypatch, minute)
        if staleness.is_stale(quiet.policy, as_of=at):
            recompute(quiet, at)
        store.poll()
        snapshot = store.newest("grid")
        tree = snapshot.tree
        checked = CheckedTree(snapshot, tree, snapshot.settings.algorithm, tree.engine_tree().is_ranked)
        effect = get_effect(draft, at=at)
        assert (effect.as_of, effect.projection is None) == (at, False)
        return checked.jobs()[0], effect.projection

    (jobs, effect), (later_jobs, later_effect) = derived(0), derived(55)
    assert Snapshot.objects.count() == 1
    assert later_jobs == pytest.approx(jobs * 2 ** (-55 / 1440), rel=1e-9), "as the usage that they are compared with"
    assert later_effect is not effect
    assert derived(55)[1] is later_effect, "and once at each instant"


@pytest.mark.django_db
def test_adjustments_decay_with_the_usage_that_they_adjust(quiet: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    used_at = (NOON - timedelta(hours=5)).isoformat()
    adjustments = [
        {"op": "adjust_usage", "entry": path, "resource": "cpu_s", "amount_s": hours * 3600, "at": used_at}
        for path, hours in (("/physics/alice", -2.0), ("/biology", 3.0))
    ]
    publish_operations(policy_slug=quiet.slug, operations=adjustments, reason="test", at=NOON, actor=COMMAND)
    quiet.policy.refresh_from_db()
    recompute(quiet, at_minute(monkeypatch, 0))
    store.poll()
    at = at_minute(monkeypatch, 30)
    recompute(quiet, at)
    store.poll()
    extended = store.newest("grid")
    assert (extended.as_of, len(extended.meta["corrections"])) == (at, 2)
    inputs = load_inputs(quiet.policy, as_of=at)
    anew = compute(inputs)
    assert extended.values.usage == pytest.approx(anew.result.usage, rel=1e-12)
    assert extended.values.rank.tolist() == anew.result.rank.tolist()
    amounts = {each["uid"]: each["counted"] for each in anew.corrections}
    assert {each["uid"]: each["counted"] for each in extended.meta["corrections"]} == pytest.approx(amounts, rel=1e-12)


@pytest.mark.django_db
def test_what_changes_is_computed_again(quiet: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first = recompute(quiet, at_minute(monkeypatch, 0))
    quiet.job("bob", "physics", 1, ago_h=2)
    second = recompute(quiet, at_minute(monkeypatch, 1))
    assert second.pk != first.pk
    quiet.running("dan", "biology", cpus=4, since_h=1)
    third = recompute(quiet, at_minute(monkeypatch, 2))
    fourth = recompute(quiet, at_minute(monkeypatch, 3))
    assert len({second.pk, third.pk, fourth.pk}) == 3, "running jobs use more each minute"


@pytest.mark.django_db
def test_conditional_requests_see_that_usage_has_decayed(quiet: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    recompute(quiet, at_minute(monkeypatch, 0))
    tag = etag(store.newest("grid"))
    recompute(quiet, at_minute(monkeypatch, 1))
    store.poll()
    assert etag(store.newest("grid")) != tag


@pytest.mark.django_db
@pytest.mark.parametrize("damaged", ["data", "places", "digest", "empty"])
def test_a_damaged_snapshot_is_computed_again(quiet: Site, monkeypatch: pytest.MonkeyPatch, damaged: str) -> None:
    first = recompute(quiet, at_minute(monkeypatch, 0))
    expected = store.load_stored("grid", first.pk).values.rank.tolist()
    places, row = StoredPlaces.objects.filter(pk=first.places_id), Snapshot.objects.filter(pk=first.pk)
    if damaged == "digest":
        row.update(digest="0" * 64)
    elif damaged == "empty":
        row.update(data=b"")
    else:
        rows = row if damaged == "data" else places
        data = bytearray(rows.get().data)
        data[len(data) // 2] ^= 1
        rows.update(data=bytes(data))
    store.forget()
    second = recompute(quiet, at_minute(monkeypatch, 1))
    assert second.pk != first.pk
    assert store.load_stored("grid", second.pk).values.rank.tolist() == expected
    assert recompute(quiet, at_minute(monkeypatch, 2)).pk == second.pk
