"""Make, cancel, attach and remove experiments. Each writes one sentence of the audit log; none touches priorities."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.audit_log import record
from apps.contrib.lab.experiments.asked import ask, clean_name
from apps.contrib.lab.experiments.permissions import policy_to_manage
from apps.contrib.lab.experiments.runs import PREPARE, enqueue_preparation
from apps.contrib.lab.experiments.selectors import experiment_of
from apps.contrib.lab.experiments.spec import read_spec
from apps.contrib.lab.models import Experiment, VariantResult
from apps.core.errors import Conflict, NotFound
from apps.core.release import release_name
from apps.policies.models import Policy
from apps.policies.selectors import get_change_set
from apps.runs.models import Run
from apps.runs.services import cancel_run

MOST_OPEN_EXPERIMENTS = 10  # experiments of one policy that wait or run


@transaction.atomic
def create_experiment(*, policy_slug: str, name: str, spec: object, at: datetime, actor: Actor) -> Experiment:
    """Store an experiment and enqueue its runs. spec: JSON as in `experiments.spec`.

    Raises:
        NotFound, Archived, NotAllowed: as `policy_to_manage`.
        Invalid: a wrong field, or larger than the limits of `experiments.estimate`.
        Conflict: a draft that is published or withdrawn, a log that isn't read yet, or MOST_OPEN_EXPERIMENTS are open.
    """
    policy = policy_to_manage(slug=policy_slug, at=at, actor=actor)
    asked = ask(policy, spec, at=at)
    Policy.all_objects.select_for_update(no_key=True).get(pk=policy.pk)  # so that two requests don't both fit
    _refuse_many(policy)
    experiment = Experiment.objects.create(
        policy=policy,
        name=clean_name(name),
        kind=asked.spec.workload.kind,
        spec=asked.spec.to_json(),
        seed=asked.spec.seed,
        revision_number=policy.head_number,
        release=release_name(),
        estimate=asdict(asked.estimate),
        owner=actor.user,
        owner_name=actor.name,
        created_at=at,
    )
    VariantResult.objects.bulk_create(
        VariantResult(experiment=experiment, index=index) for index in range(asked.spec.n_runs)
    )
    enqueue_preparation(experiment, at=at)
    _record(experiment, "policy.experiment_made", at=at, actor=actor)
    return experiment


def _refuse_many(policy: Policy) -> None:
    waits = Run.objects.filter(state__in=(Run.State.QUEUED, Run.State.RUNNING))
    preparing = set(Experiment.objects.filter(policy=policy, preparing__in=waits).values_list("pk", flat=True))
    running = set(
        VariantResult.objects.filter(experiment__policy=policy, run__in=waits).values_list("experiment", flat=True)
    )
    if len(preparing | running) >= MOST_OPEN_EXPERIMENTS:
        message = _("%(n)s experiments of this policy wait or run: cancel one, or wait until one has ended.")
        raise Conflict(message % {"n": MOST_OPEN_EXPERIMENTS}, code="too_many_experiments")


@transaction.atomic
def cancel_experiment(*, policy_slug: str, experiment_id: int, at: datetime, actor: Actor) -> Experiment:
    """End all its runs: at once those that wait, within a second those that run. Results that are there stay.

    A second cancellation changes nothing, and neither does one after the end.
    """
    policy = policy_to_manage(slug=policy_slug, at=at, actor=actor)
    experiment = experiment_of(policy, experiment_id, is_locked=True)
    runs = open_runs(experiment)
    if not runs or experiment.cancelled_at is not None:
        return experiment
    experiment.cancelled_at, experiment.cancelled_by_name = at, actor.name
    experiment.save(update_fields=["cancelled_at", "cancelled_by_name"])
    for run in runs:
        cancel_run(run_id=run.pk, at=at, actor=SYSTEM)
    _record(experiment, "policy.experiment_cancelled", at=at, actor=actor)
    return experiment


@transaction.atomic
def remove_experiment(*, policy_slug: str, experiment_id: int, at: datetime, actor: Actor) -> None:
    """Delete an experiment with its results; its runs are cancelled.

    Raises Conflict (`is_evidence`) while it is attached to a change set.
    """
    policy = policy_to_manage(slug=policy_slug, at=at, actor=actor)
    experiment = experiment_of(policy, experiment_id, is_locked=True)
    if experiment.change_set_id is not None:
        message = _("It is evidence of change set %(id)s: detach it first.") % {"id": experiment.change_set_id}
        raise Conflict(message, code="is_evidence")
    for run in open_runs(experiment):
        cancel_run(run_id=run.pk, at=at, actor=SYSTEM)
    _record(experiment, "policy.experiment_removed", at=at, actor=actor)
    experiment.delete()


@transaction.atomic
def attach_experiment(
    *, policy_slug: str, experiment_id: int, change_set_id: int | None, at: datetime, actor: Actor
) -> Experiment:
    """Show an experiment as evidence on the review of this change set; None detaches it.

    Raises:
        NotFound: there is no such experiment or change set of this policy.
        Conflict: `decided` where the change set is published or withdrawn, which keeps its evidence as it is;
            `other_tree` where it is an experiment on a shipped scenario.
    """
    policy = policy_to_manage(slug=policy_slug, at=at, actor=actor)
    experiment = experiment_of(policy, experiment_id, is_locked=True)
    if experiment.change_set_id == change_set_id:
        return experiment
    if experiment.change_set is not None:
        _refuse_decided(experiment.change_set.state)
    if change_set_id is not None:
        change_set = get_change_set(id=change_set_id, actor=actor, at=at)
        if change_set.policy_id != policy.pk:
            raise NotFound(_("This policy has no change set %(id)s.") % {"id": change_set_id})
        _refuse_decided(change_set.state)
        if read_spec(experiment.spec).scenario:
            message = _("It simulates the tree of a shipped scenario, so it says nothing of this policy.")
            raise Conflict(message, code="other_tree")
    experiment.change_set_id = change_set_id
    experiment.attached_at, experiment.attached_by_name = (at, actor.name) if change_set_id else (None, "")
    experiment.save(update_fields=["change_set", "attached_at", "attached_by_name"])
    verb = "policy.experiment_attached" if change_set_id else "policy.experiment_detached"
    _record(experiment, verb, at=at, actor=actor, change_set=change_set_id)
    return experiment


def _refuse_decided(state: str) -> None:
    if state in ("published", "withdrawn"):
        raise Conflict(_("The change set is decided: its evidence stays as it is."), code="decided")


def open_runs(experiment: Experiment) -> list[Run]:
    """Its runs that wait or run, the preparation first."""
    waits = Run.objects.filter(state__in=(Run.State.QUEUED, Run.State.RUNNING))
    ids = [*experiment.variants.exclude(run=None).values_list("run", flat=True), experiment.preparing_id]
    return sorted(waits.filter(pk__in=ids), key=lambda run: (run.kind != PREPARE, run.pk))


def _record(experiment: Experiment, verb: str, *, at: datetime, actor: Actor, **details: object) -> None:
    record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=experiment.policy.slug,
        subject=experiment.name,
        details={"experiment": experiment.pk, **details},
    )
