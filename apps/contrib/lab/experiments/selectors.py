"""Read experiments: the list, one with its variants, the report of a variant, and estimates before anything is made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.asked import ask, clean_name
from apps.contrib.lab.experiments.changed import changes_of, title_of
from apps.contrib.lab.experiments.group_waits import GroupWait, group_waits
from apps.contrib.lab.experiments.headline import headline_of
from apps.contrib.lab.experiments.left_out import left_out_of
from apps.contrib.lab.experiments.model_error import base_explains_waits, model_error_of
from apps.contrib.lab.experiments.outcome import Outcome
from apps.contrib.lab.experiments.permissions import may_manage, policy_to_manage, policy_to_read, sees_all_numbers
from apps.contrib.lab.experiments.records import (
    Estimate,
    ExperimentDetail,
    ExperimentRow,
    ExperimentState,
    Kind,
    ReplayEvidence,
    VariantReport,
    VariantRow,
    VariantState,
    Verdict,
)
from apps.contrib.lab.experiments.report import report_of
from apps.contrib.lab.experiments.spec import ExperimentSpec, read_spec
from apps.contrib.lab.experiments.verdicts import compared_of, happened_of, sample_of, verdicts_of
from apps.contrib.lab.models import Experiment, ExperimentInputs, VariantResult
from apps.core.blobs import CorruptBlob
from apps.core.errors import Conflict, NotFound
from apps.policies.models import ChangeSet, Policy
from apps.runs.models import Run
from apps.runs.waiting import waiting_of

MOST_LISTED_EXPERIMENTS = 200
_KINDS: dict[str, Kind] = {"synthetic": "synthetic", "trace": "trace", "replay": "replay"}
_RUN_STATES: dict[str, VariantState] = {
    Run.State.QUEUED: "queued",
    Run.State.RUNNING: "running",
    Run.State.FAILED: "failed",
    Run.State.CANCELLED: "cancelled",
}


def estimate_experiment(
    *, policy_slug: str, spec: object, name: str | None = None, at: datetime, actor: Actor
) -> Estimate:
    """What this experiment would need; refuses what `services.create_experiment` refuses, and stores nothing.

    name: None for one that has none yet.
    """
    policy = policy_to_manage(slug=policy_slug, at=at, actor=actor)
    if name is not None:
        clean_name(name)
    return ask(policy, spec, at=at).estimate


def list_experiments(*, policy_slug: str, at: datetime, actor: Actor) -> list[ExperimentRow]:
    """The newest 200 of a policy, newest first."""
    policy = policy_to_read(slug=policy_slug, at=at, actor=actor)
    rows = Experiment.objects.filter(policy=policy).select_related("policy", "preparing").order_by("-pk")
    experiments = list(rows[:MOST_LISTED_EXPERIMENTS])
    variants: dict[int, list[VariantResult]] = {experiment.pk: [] for experiment in experiments}
    for variant in _variants_of([experiment.pk for experiment in experiments]):
        variants[variant.experiment_id].append(variant)
    return [_row(experiment, variants[experiment.pk], at) for experiment in experiments]


def get_experiment(*, policy_slug: str, experiment_id: int, at: datetime, actor: Actor) -> ExperimentDetail:
    policy = policy_to_read(slug=policy_slug, at=at, actor=actor)
    return _detail(experiment_of(policy, experiment_id), at=at, actor=actor)


def get_variant_report(
    *, policy_slug: str, experiment_id: int, index: int, at: datetime, actor: Actor
) -> VariantReport:
    """The outcome of one variant beside that of the base.

    Raises Conflict (`not_done`) until its run has ended, or if it failed.
    """
    policy = policy_to_read(slug=policy_slug, at=at, actor=actor)
    return _report(experiment_of(policy, experiment_id), index)


def get_history_report(*, policy_slug: str, experiment_id: int, at: datetime, actor: Actor) -> VariantReport:
    """The replay of the policy as published beside what happened: `_was` is what happened in fact.

    Raises Conflict (`not_done`) until it has run, and NotFound for an experiment without a history.
    """
    policy = policy_to_read(slug=policy_slug, at=at, actor=actor)
    experiment = experiment_of(policy, experiment_id)
    inputs = ExperimentInputs.objects.filter(experiment=experiment).defer("data").first()
    if inputs is not None and inputs.history is None:
        raise NotFound(
            _("Experiment %(id)s is no replay: nothing happened to compare it with.") % {"id": experiment_id}
        )
    outcome = _outcome(experiment, 0)
    if outcome is None or inputs is None or inputs.history is None:
        raise Conflict(_("The policy as published has not been replayed, or not yet."), code="not_done")
    happened = _unpacked(bytes(inputs.history), inputs.history_digest)
    title = title_of(experiment.policy, experiment.revision_number, read_spec(experiment.spec), 0)
    return report_of(experiment.pk, 0, title, outcome, happened, first_day=_day_of(inputs))


def list_group_waits(
    *, policy_slug: str, experiment_id: int, index: int, at: datetime, actor: Actor
) -> list[GroupWait]:
    """Waits of the top groups in a variant of a replay, beside the error of the replay.

    Raises Conflict (`not_done`) until both have run, and NotFound for an experiment without a history or variant.
    """
    history = get_history_report(policy_slug=policy_slug, experiment_id=experiment_id, at=at, actor=actor)
    variant = get_variant_report(policy_slug=policy_slug, experiment_id=experiment_id, index=index, at=at, actor=actor)
    policy = policy_to_read(slug=policy_slug, at=at, actor=actor)
    spec = read_spec(experiment_of(policy, experiment_id).spec)
    return group_waits(history, variant, is_published=spec.base.changes_nothing)


def list_evidence(*, change_set: ChangeSet, at: datetime, actor: Actor) -> list[ReplayEvidence]:
    """Experiments that are attached to a change set, the latest first. Empty for readers who may not see all numbers.

    The caller checks who may see the change set.
    """
    if not sees_all_numbers(Policy.all_objects.get(pk=change_set.policy_id), at=at, actor=actor):
        return []
    rows = Experiment.objects.filter(change_set=change_set).select_related("policy", "preparing")
    return [_evidence(experiment, change_set.pk, at=at, actor=actor) for experiment in rows.order_by("-attached_at")]


def _evidence(experiment: Experiment, change_set_id: int, *, at: datetime, actor: Actor) -> ReplayEvidence:
    detail = _detail(experiment, at=at, actor=actor)
    done = [row for row in detail.variants if row.state == "done" and row.index > 0]
    chosen = next((row for row in done if row.change_set == change_set_id), done[0] if done else None)
    return ReplayEvidence(
        detail=detail,
        attached_at=experiment.attached_at or experiment.created_at,
        attached_by=experiment.attached_by_name,
        report=None if chosen is None else _report(experiment, chosen.index),
    )


def experiment_of(policy: Policy, experiment_id: int, *, is_locked: bool = False) -> Experiment:
    """Raises NotFound if the policy has none with this id."""
    rows = Experiment.objects.filter(policy=policy, pk=experiment_id).select_related("policy", "preparing")
    if is_locked:
        rows = rows.select_for_update(no_key=True, of=("self",))
    experiment = rows.first() if 0 < experiment_id < 2**63 else None
    if experiment is None:
        raise NotFound(_("This policy has no experiment %(id)s.") % {"id": experiment_id})
    return experiment


def _variants_of(experiment_ids: list[int]) -> list[VariantResult]:
    """Without their outcomes, which are large."""
    rows = VariantResult.objects.filter(experiment__in=experiment_ids).select_related("run").defer("data")
    return list(rows.order_by("experiment", "index"))


def _row(experiment: Experiment, variants: list[VariantResult], at: datetime) -> ExperimentRow:
    states = [_variant_state(experiment, variant) for variant in variants]
    progress = [_progress(variant, state) for variant, state in zip(variants, states, strict=True)]
    state = _state(experiment, states)
    return ExperimentRow(
        id=experiment.pk,
        policy=experiment.policy.slug,
        name=experiment.name,
        kind=_KINDS[experiment.kind],
        state=state,
        waiting=waiting_of(_next_run(experiment, variants), at=at) if state == "queued" else None,
        progress=round(sum(progress) / max(len(progress), 1), 3),
        n_variants=max(0, len(variants) - 1),
        revision=experiment.revision_number,
        seed=experiment.seed,
        release=experiment.release,
        owner=experiment.owner_name,
        created_at=experiment.created_at,
        cancelled_by=experiment.cancelled_by_name,
        change_set=experiment.change_set_id,
    )


def _variant_state(experiment: Experiment, variant: VariantResult) -> VariantState:
    if variant.finished_at is not None:
        return "done"
    if variant.summary.get("problem"):
        return "failed"
    if variant.run is not None:
        return _RUN_STATES.get(variant.run.state, "failed")
    preparing = experiment.preparing
    if experiment.cancelled_at is not None or (preparing is not None and preparing.state == Run.State.CANCELLED):
        return "cancelled"
    return "failed" if preparing is None or preparing.state == Run.State.FAILED else "waiting"


def _state(experiment: Experiment, states: list[VariantState]) -> ExperimentState:
    if "running" in states:
        return "running"
    if "queued" in states:
        return "queued"
    if "waiting" in states:
        return "queued" if _waits(experiment.preparing) else "preparing"
    if "cancelled" in states or experiment.cancelled_at is not None:
        return "done" if all(state == "done" for state in states) else "cancelled"
    return "done" if "done" in states else "failed"


def _waits(run: Run | None) -> bool:
    return run is not None and run.state == Run.State.QUEUED


def _next_run(experiment: Experiment, variants: list[VariantResult]) -> Run | None:
    """The first of its runs that waits."""
    runs = [experiment.preparing, *(variant.run for variant in variants)]
    return next((run for run in runs if _waits(run)), None)


def _progress(variant: VariantResult, state: VariantState) -> float:
    if state in ("done", "failed", "cancelled"):
        return 1.0
    if variant.run is None or not variant.run.progress_total:
        return 0.0
    return round(variant.run.progress_done / variant.run.progress_total, 3)


def _detail(experiment: Experiment, *, at: datetime, actor: Actor) -> ExperimentDetail:
    variants, spec = _variants_of([experiment.pk]), read_spec(experiment.spec)
    inputs = ExperimentInputs.objects.filter(experiment=experiment).defer("data", "history").first()
    summary: dict[str, Any] = {} if inputs is None else inputs.summary
    rows = tuple(_variant_row(experiment, spec, variant) for variant in variants)
    preparing = experiment.preparing
    failed = preparing is not None and preparing.state == Run.State.FAILED
    history = headline_of(summary.get("history"))
    compared = {each.index: each.summary["compared"] for each in variants if each.summary.get("compared")}
    sample = sample_of(compared)
    is_explained = (
        base_explains_waits(history, rows[0].headline if rows else None) if sample is None else sample.meets_history
    )
    verdicts = verdicts_of(compared, {row.index: row.title for row in rows})
    first_day = summary.get("first_day")
    return ExperimentDetail(
        row=_row(experiment, variants, at),
        spec=experiment.spec,
        estimate=Estimate(**experiment.estimate),
        problem=preparing.error if failed and preparing is not None else "",
        first_day=date.fromisoformat(first_day) if first_day else None,
        hours=summary.get("hours"),
        sites=summary.get("sites", {}),
        left_out=left_out_of(summary.get("left_out", [])),
        variants=rows,
        history=history,
        happened=happened_of(compared),
        model_error=model_error_of(variants[0].summary.get("model_error") if variants else None),
        explains_waits=is_explained,
        verdicts=verdicts,
        closest=_closest(rows, verdicts) if is_explained else None,
        may_manage=may_manage(experiment.policy, at=at, actor=actor),
    )


def _closest(rows: Sequence[VariantRow], verdicts: Sequence[Verdict]) -> int | None:
    """Of equal ones the first. Of a replay, what its verdicts choose: the base where nothing is measurably better."""
    if verdicts:
        chosen = {each.chosen for each in verdicts if each.chosen is not None}
        points = {row.index: row.compared.held_back_points for row in rows if row.compared is not None}
        return min(chosen or {0}, key=lambda index: (index == 0, points.get(index) or 0.0))
    known = [
        (row.headline.fair_points, row.index)
        for row in rows
        if row.headline is not None and row.headline.fair_points is not None
    ]
    return min(known)[1] if known else None


def _variant_row(experiment: Experiment, spec: ExperimentSpec, variant: VariantResult) -> VariantRow:
    state = _variant_state(experiment, variant)
    run = variant.run
    return VariantRow(
        index=variant.index,
        title=title_of(experiment.policy, experiment.revision_number, spec, variant.index),
        changes=changes_of(experiment.policy, experiment.revision_number, spec, variant.index),
        change_set=spec.setup(variant.index).change_set,
        state=state,
        progress=_progress(variant, state),
        problem=variant.summary.get("problem") or (run.error if run is not None and state == "failed" else ""),
        run=None if run is None else run.pk,
        headline=headline_of(variant.summary.get("headline")),
        compared=compared_of(variant.summary.get("compared")),
        finished_at=variant.finished_at,
    )


def _report(experiment: Experiment, index: int) -> VariantReport:
    spec = read_spec(experiment.spec)
    outcome = _outcome(experiment, index)
    if outcome is None:
        raise Conflict(_("This variant has no result, or not yet."), code="not_done")
    base = None if index == 0 else _outcome(experiment, 0)
    inputs = ExperimentInputs.objects.filter(experiment=experiment).defer("data", "history").first()
    return report_of(
        experiment.pk,
        index,
        title_of(experiment.policy, experiment.revision_number, spec, index),
        outcome,
        base,
        first_day=None if inputs is None else _day_of(inputs),
    )


def _day_of(inputs: ExperimentInputs) -> date | None:
    first_day = inputs.summary.get("first_day")
    return date.fromisoformat(first_day) if first_day else None


def no_variant(index: int) -> NotFound:
    return NotFound(_("This experiment has no variant %(index)s.") % {"index": index})


def _outcome(experiment: Experiment, index: int) -> Outcome | None:
    row = experiment.variants.filter(index=index).first() if 0 <= index < 2**15 else None
    if row is None:
        raise no_variant(index)
    return None if row.data is None else _unpacked(bytes(row.data), row.digest)


def _unpacked(data: bytes, digest: str) -> Outcome:
    try:
        return Outcome.unpack(data, digest)
    except CorruptBlob:
        raise Conflict(_("The stored result is damaged: make the experiment again."), code="damaged") from None
