"""Background runs of experiments: one stores what the simulations read, and then one for each variant simulates it.

A run that is killed anywhere starts again and gives the same bytes. Only the last step of each writes, in one
transaction with the end of its run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from apps.contrib.lab.experiments.compare_variant import compare_variant, why_not_compared
from apps.contrib.lab.experiments.estimate import estimate_inputs
from apps.contrib.lab.experiments.headline import headline_json
from apps.contrib.lab.experiments.inputs import Inputs
from apps.contrib.lab.experiments.model_error import model_error_json
from apps.contrib.lab.experiments.outcome import Outcome
from apps.contrib.lab.experiments.prepare import prepare
from apps.contrib.lab.experiments.simulate_variant import history_of, simulate_variant
from apps.contrib.lab.experiments.spec import REPLAY, read_spec
from apps.contrib.lab.models import Experiment, ExperimentInputs, VariantResult
from apps.core.blobs import CorruptBlob
from apps.core.errors import Conflict, Invalid, NotFound
from apps.engine.errors import EngineError
from apps.policies.models import Policy
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run, work_other_runs

PREPARE, VARIANT = "lab_inputs", "lab_variant"
MOST_VARIANTS_AT_ONCE = 2  # variants of one owner, so that experiments of others aren't kept waiting
_ATTEMPTS = 3
_PARTS = 1_000  # of progress
_REPORT_S = 0.5  # between reports, each of which also notices a cancellation
_LET_PASS_S = 2.0  # between looks for runs of other queues


def enqueue_preparation(experiment: Experiment, *, at: datetime) -> Run:
    run = enqueue_run(
        kind=PREPARE,
        subject=f"experiment:{experiment.pk}",
        limit_key=_limit_key(experiment),
        arguments=_arguments(experiment),
        owner=experiment.owner,
        at=at,
        max_attempts=_ATTEMPTS,
    )
    experiment.preparing = run
    experiment.save(update_fields=["preparing"])
    return run


def _enqueue_variants(experiment: Experiment, problems: Mapping[int, str], *, at: datetime) -> None:
    """A run for each variant that can be simulated; of the others, why not."""
    for variant in experiment.variants.order_by("index"):
        if variant.index in problems:
            variant.summary = {"problem": problems[variant.index]}
            variant.save(update_fields=["summary"])
            continue
        variant.run = enqueue_run(
            kind=VARIANT,
            subject=f"experiment:{experiment.pk}.{variant.index}",
            limit_key=_limit_key(experiment),
            arguments={**_arguments(experiment), "index": variant.index},
            owner=experiment.owner,
            at=at,
            max_attempts=_ATTEMPTS,
        )
        variant.save(update_fields=["run"])


def _arguments(experiment: Experiment) -> dict[str, Any]:
    return {"policy": experiment.policy.slug, "experiment": experiment.pk}


def _limit_key(experiment: Experiment) -> str:
    return f"user:{experiment.owner_id}"


def run_preparation(run: Run, lease: Lease) -> dict[str, Any]:
    """Store the inputs, and enqueue a run for each variant."""
    experiment = _experiment_of(run)
    policy = Policy.all_objects.get(pk=experiment.policy_id)
    lease.report(0, _PARTS)
    try:
        spec = read_spec(experiment.spec)
        prepared = prepare(policy, experiment.revision_number, spec, done=_between_steps(lease))
        inputs = prepared.inputs
        estimate_inputs(inputs)  # of a replay its jobs are known only now
        happened = history_of(inputs)
    except EngineError as error:
        raise Invalid(f"{error.message}.", code=error.code) from None
    data, digest = inputs.pack()
    history = (None, "") if happened is None else happened.pack()
    summary = {
        "left_out": [
            {"reason": reason, "n_jobs": n_jobs, "core_hours": core_hours}
            for reason, (n_jobs, core_hours) in prepared.left_out.items()
        ],
        "n_jobs": None if inputs.jobs is None else len(inputs.jobs),
        "hours": inputs.hours,
        "sites": {site.name: site.cpus for site in inputs.sites},
        "first_day": inputs.first_day,
        "history": None if happened is None else headline_json(happened),
    }
    with lease.fenced():
        locked = Experiment.objects.select_for_update(no_key=True).get(pk=experiment.pk)
        ExperimentInputs.objects.update_or_create(
            experiment=locked,
            defaults={
                "data": data,
                "digest": digest,
                "history": history[0],
                "history_digest": history[1],
                "summary": summary,
            },
        )
        if locked.cancelled_at is None:
            _enqueue_variants(locked, prepared.problems, at=lease.clock())
        result = {"n_bytes": len(data)}
        fault_point("lab.before_inputs")
        lease.finish(result, lease.clock())
    fault_point("lab.after_inputs")
    return result


def run_variant(run: Run, lease: Lease) -> dict[str, Any]:
    """Simulate one variant, and store its outcome."""
    experiment = _experiment_of(run)
    index = int(run.arguments["index"])
    lease.report(0, _PARTS)
    stored = ExperimentInputs.objects.filter(experiment=experiment).first()
    if stored is None:
        raise Conflict(_("The inputs of this experiment are gone: make it again."), code="no_inputs")
    try:
        inputs = Inputs.unpack(bytes(stored.data), stored.digest)
        happened = None
        if index == 0 and stored.history is not None:
            happened = Outcome.unpack(bytes(stored.history), stored.history_digest)
    except CorruptBlob:
        raise Conflict(_("The stored inputs are damaged: make the experiment again."), code="damaged") from None
    del stored
    watch = _watch(lease)
    is_replay = inputs.spec.workload.kind == REPLAY
    is_compared = is_replay and not why_not_compared(inputs)
    try:
        outcome = simulate_variant(inputs, index, lambda part: watch(part / 2 if is_compared else part))
        compared = compare_variant(inputs, index, lambda part: watch(0.5 + part / 2)) if is_replay else None
    except EngineError as error:
        raise Invalid(f"{error.place or 'policy'}: {error.message}.", code=error.code) from None
    data, digest = outcome.pack()
    summary: dict[str, Any] = {"headline": headline_json(outcome)}
    if compared is not None:
        summary["compared"] = compared
    if happened is not None:
        summary["model_error"] = model_error_json(outcome, happened)
    with lease.fenced():
        VariantResult.objects.filter(experiment=experiment, index=index).update(
            data=data, digest=digest, summary=summary, finished_at=lease.clock()
        )
        result = {"n_jobs": outcome.numbers["n_submitted"], "n_events": outcome.numbers["n_events"]}
        fault_point("lab.before_result")
        lease.finish(result, lease.clock())
    fault_point("lab.after_result")
    return result


def _experiment_of(run: Run) -> Experiment:
    experiment = Experiment.objects.select_related("policy", "owner").filter(pk=run.arguments["experiment"]).first()
    if experiment is None:
        raise NotFound(_("The experiment was removed."))
    return experiment


def _between_steps(lease: Lease) -> Callable[[], None]:
    """Between two steps of the preparation: note progress, let runs of earlier queues pass, and end where the run was
    cancelled or the worker stops.
    """

    def done() -> None:
        lease.report()
        work_other_runs(lease)

    return done


def _watch(lease: Lease) -> Callable[[float], None]:
    """Report progress, end the simulation where the run was cancelled or taken over or the worker stops, and let runs
    of earlier queues pass.
    """
    reported_s = passed_s = time.monotonic()

    def progress(part: float) -> None:
        nonlocal reported_s, passed_s
        now_s = time.monotonic()
        lease.stop_if_requested()
        if now_s - reported_s >= _REPORT_S:
            lease.report(int(part * _PARTS))
            reported_s = now_s
        if now_s - passed_s >= _LET_PASS_S:
            work_other_runs(lease)
            passed_s = time.monotonic()

    return progress
