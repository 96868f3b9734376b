"""Runs of experiments: killed anywhere they give the same bytes, and a cancellation or a shutdown ends the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.lab.experiments import runs
from apps.contrib.lab.experiments.runs import PREPARE, VARIANT
from apps.contrib.lab.experiments.selectors import get_experiment
from apps.contrib.lab.experiments.services import cancel_experiment, create_experiment, remove_experiment
from apps.contrib.lab.models import Experiment, ExperimentInputs, VariantResult
from apps.core import clock
from apps.runs import shutdown
from apps.runs.models import Run
from apps.runs.services import work_due_runs
from tests.contrib.lab.experiments.test_drawn import SPEC
from tests.examples import first
from tests.instants import AT
from tests.killed_process import work_until_killed
from tests.small_site import Site

KINDS = [PREPARE, VARIANT]


def made() -> Experiment:
    return create_experiment(policy_slug="grid", name="killed", spec=SPEC, at=clock.now(), actor=COMMAND)


def work() -> int:
    return work_due_runs(clock=clock.now, of_kinds=KINDS)


def digests(experiment: Experiment) -> list[str]:
    return list(VariantResult.objects.filter(experiment=experiment).order_by("index").values_list("digest", flat=True))


@pytest.mark.faults
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("place", first(1, ["after_result", "before_inputs", "after_inputs", "before_result"]))
def test_a_run_that_is_killed_gives_the_same_bytes_again(computed_site: Site, place: str) -> None:
    whole = made()
    work()
    killed = made()
    work_until_killed(work, fault=f"lab.{place}:kill")
    work()
    assert digests(killed) == digests(whole)
    assert len(set(digests(whole))) == 3
    assert set(Run.objects.filter(kind__in=KINDS).values_list("state", flat=True)) == {"succeeded"}


@pytest.fixture
def reporting_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_REPORT_S", 0.0)


@pytest.fixture
def at_half(monkeypatch: pytest.MonkeyPatch, reporting_always: None) -> Callable[[Callable[[], Any]], list[float]]:
    """Has something happen once, when a simulation is half done; returns how far each got."""

    def make(act: Callable[[], Any]) -> list[float]:
        parts: list[float] = []
        acts = [act]
        watch = runs._watch

        def watched(lease: Any) -> Callable[[float], None]:
            progress = watch(lease)

            def seen(part: float) -> None:
                parts.append(part)
                if part >= 0.5 and acts:
                    acts.pop()()
                progress(part)

            return seen

        monkeypatch.setattr(runs, "_watch", watched)
        return parts

    return make


@pytest.mark.django_db
def test_a_cancellation_ends_the_simulation_inside_its_loop(
    computed: Site, at_half: Callable[[Callable[[], Any]], list[float]]
) -> None:
    experiment = create_experiment(policy_slug="grid", name="c", spec=SPEC, at=AT, actor=COMMAND)
    parts = at_half(lambda: cancel_experiment(policy_slug="grid", experiment_id=experiment.pk, at=AT, actor=COMMAND))
    work_due_runs(clock=lambda: AT, of_kinds=KINDS)
    assert len(parts) > 20
    assert 0.5 <= parts[-1] < 0.55
    shown = get_experiment(policy_slug="grid", experiment_id=experiment.pk, at=AT, actor=COMMAND)
    assert shown.row.state == "cancelled"
    assert [row.state for row in shown.variants] == ["cancelled"] * 3


@pytest.mark.django_db
def test_an_experiment_that_is_removed_while_it_runs_is_gone(
    computed: Site, at_half: Callable[[Callable[[], Any]], list[float]]
) -> None:
    experiment = create_experiment(policy_slug="grid", name="r", spec=SPEC, at=AT, actor=COMMAND)
    at_half(lambda: remove_experiment(policy_slug="grid", experiment_id=experiment.pk, at=AT, actor=COMMAND))
    work_due_runs(clock=lambda: AT, of_kinds=KINDS)
    assert not Experiment.objects.exists()
    assert set(Run.objects.filter(kind=VARIANT).values_list("state", flat=True)) == {"cancelled"}


@pytest.fixture
def stoppable() -> Iterator[None]:
    yield
    shutdown._stop_requested[0] = 0


@pytest.mark.django_db
@pytest.mark.usefixtures("stoppable")
def test_a_worker_that_stops_leaves_the_variant_to_the_next_one(
    computed: Site, at_half: Callable[[Callable[[], Any]], list[float]]
) -> None:
    experiment = create_experiment(policy_slug="grid", name="s", spec=SPEC, at=AT, actor=COMMAND)
    parts = at_half(shutdown.request_stop)
    work_due_runs(clock=lambda: AT, of_kinds=KINDS)
    assert parts[-1] < 0.55
    run = Run.objects.get(kind=VARIANT, subject=f"experiment:{experiment.pk}.0")
    assert (run.state, run.attempts) == ("queued", 0)
    shutdown._stop_requested[0] = 0
    work_due_runs(clock=lambda: AT, of_kinds=KINDS)
    assert all(digests(experiment))


@pytest.mark.django_db
def test_damaged_inputs_end_the_variants_clearly(computed: Site) -> None:
    experiment = create_experiment(policy_slug="grid", name="d", spec=SPEC, at=AT, actor=COMMAND)
    work_due_runs(clock=lambda: AT, of_kinds=[PREPARE])
    stored = ExperimentInputs.objects.get(experiment=experiment)
    data = bytearray(bytes(stored.data))
    data[len(data) // 2] ^= 1
    ExperimentInputs.objects.update(data=bytes(data))
    work_due_runs(clock=lambda: AT, of_kinds=[VARIANT])
    shown = get_experiment(policy_slug="grid", experiment_id=experiment.pk, at=AT, actor=COMMAND)
    assert shown.row.state == "failed"
    assert all("damaged" in row.problem for row in shown.variants)
