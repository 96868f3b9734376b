"""Tables of experiments (what was asked, what the simulations read, what each of them gave) and of advice.

Nothing here is read by the computation of priorities, and no row refers to usage.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.core.derived_state import in_tables
from apps.policies.models import ChangeSet, Policy

DERIVED_STATE = (
    in_tables(
        "ExperimentInputs",
        "VariantResult",
        holds="inputs and results of an experiment",
        key="experiment, variant",
        inputs="its specification, traces, and the usage that was read when it began",
        range="one experiment",
        ends="the experiment is changed or deleted",
    ),
    in_tables(
        "PolicyAdvice",
        holds="advice on the settings of a policy",
        key="policy; head, month, inputs of the replayed days",
        inputs="the daily series, jobs, the head",
        range="the month before",
        ends="another key makes it stale",
    ),
)


class Experiment(models.Model):
    """A simulation of a policy and of up to four variants of it.

    spec: canonical JSON of `experiments.spec.ExperimentSpec`. revision_number: the policy's revision that the base is.
    release: of the program that made it. estimate: `experiments.records.Estimate` when it was made. preparing: the run
    that stores its `ExperimentInputs` and then enqueues a run for each variant. change_set: the review that it is
    evidence of.
    """

    class Kind(models.TextChoices):
        SYNTHETIC = "synthetic", "Drawn jobs"
        TRACE = "trace", "An uploaded log"
        REPLAY = "replay", "The site's own jobs"

    policy = models.ForeignKey(Policy, models.CASCADE, related_name="+")
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    spec = models.JSONField()
    seed = models.BigIntegerField()
    revision_number = models.PositiveIntegerField()
    release = models.CharField(max_length=64)
    estimate = models.JSONField(default=dict)
    preparing = models.ForeignKey("runs.Run", models.SET_NULL, null=True, related_name="+")
    change_set = models.ForeignKey(ChangeSet, models.SET_NULL, null=True, related_name="+")
    attached_at = models.DateTimeField(null=True)
    attached_by_name = models.CharField(max_length=256, blank=True, default="")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    owner_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()
    cancelled_at = models.DateTimeField(null=True)
    cancelled_by_name = models.CharField(max_length=256, blank=True, default="")

    class Meta:
        indexes = [
            models.Index(fields=["policy", "-id"], name="lab_experiment_newest"),
            models.Index(fields=["change_set"], condition=Q(change_set__isnull=False), name="lab_experiment_evidence"),
        ]

    def __str__(self) -> str:
        return f"experiment {self.pk}"


class ExperimentInputs(models.Model):
    """All that the simulations of an experiment read: jobs, sites and trees, packed by `experiments.inputs`.

    history: of a replay, what the jobs did in fact, packed as the result of a variant.
    """

    experiment = models.OneToOneField(Experiment, models.CASCADE, primary_key=True, related_name="inputs")
    data = models.BinaryField()
    digest = models.CharField(max_length=64)
    history = models.BinaryField(null=True)
    history_digest = models.CharField(max_length=64, blank=True, default="")
    summary = models.JSONField(default=dict)  # numbers of jobs and sites, and what was left out

    def __str__(self) -> str:
        return f"inputs of experiment {self.experiment_id}"


class VariantResult(models.Model):
    """A variant of an experiment, index 0 the base, and what its run gave: a packed `experiments.outcome.Outcome`.

    Its state is that of its run. summary: the few numbers that lists show.
    """

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="variants")
    index = models.PositiveSmallIntegerField()
    run = models.ForeignKey("runs.Run", models.SET_NULL, null=True, related_name="+")
    data = models.BinaryField(null=True)
    digest = models.CharField(max_length=64, blank=True, default="")
    summary = models.JSONField(default=dict)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["experiment", "index"], name="lab_variantresult_once")]

    def __str__(self) -> str:
        return f"variant {self.index} of experiment {self.experiment_id}"


class UploadedTrace(models.Model):
    """A log in Standard Workload Format that was uploaded for experiments.

    data: of one that waits, the bytes as they were sent; of one that is read, its usable jobs, packed by
    `experiments.traces`; empty of one that was refused. digest: of these jobs; empty until they are read. text_digest:
    of the unpacked text, by which an equal upload is known; empty in rows of before it was stored. summary: empty until
    it is read. problem: why it was refused. run: the last one that reads it.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waits to be read"
        READ = "read", "Read"
        REFUSED = "refused", "Refused"

    policy = models.ForeignKey(Policy, models.CASCADE, related_name="+")
    name = models.CharField(max_length=255)
    state = models.CharField(max_length=16, choices=State.choices, default=State.READ, db_default="read")
    data = models.BinaryField()
    digest = models.CharField(max_length=64, blank=True, default="")
    text_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    summary = models.JSONField(default=dict)
    problem_code = models.CharField(max_length=64, blank=True, default="", db_default="")
    problem = models.TextField(blank=True, default="", db_default="")
    run = models.ForeignKey("runs.Run", models.SET_NULL, null=True, related_name="+")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    owner_name = models.CharField(max_length=256)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["policy", "digest"], condition=~Q(digest=""), name="lab_uploadedtrace_once"
            ),
            models.UniqueConstraint(
                fields=["policy", "text_digest"], condition=~Q(text_digest=""), name="lab_uploadedtrace_text_once"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class PolicyAdvice(models.Model):
    """What was measured of a policy, from which its advice follows (`advisor.advise`).

    inputs: what the evidence was computed from (`series.inputs.read_inputs`); it holds for the days that had ended at
    computed_at, and ends with the month. Empty in rows of before they were stored.

    evidence: `advisor.records.Evidence` as JSON, with its digest. recommended: by subject; before_change: what was
    recommended until changed_at, which is when the recommendation last became another one: empty since the first.
    """

    goes_with_owner: ClassVar[bool] = True

    policy = models.OneToOneField(Policy, models.CASCADE, primary_key=True, related_name="+")
    head_number = models.PositiveIntegerField()
    inputs = models.JSONField(default=dict)
    computed_at = models.DateTimeField()
    evidence = models.JSONField()
    digest = models.CharField(max_length=64)
    recommended = models.JSONField(default=dict)
    before_change = models.JSONField(default=dict)
    changed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"advice for policy {self.policy_id}"
