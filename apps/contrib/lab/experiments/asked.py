"""An experiment as it was asked for: checked, in canonical form, with what it would need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from django.utils.translation import gettext as _

from apps.contrib.lab.experiments.account_entries import load_entries
from apps.contrib.lab.experiments.estimate import estimate_inputs, estimate_replay, own_jobs
from apps.contrib.lab.experiments.prepare import days_of_replay, prepare
from apps.contrib.lab.experiments.records import Estimate
from apps.contrib.lab.experiments.scenario_base import tree_of_base
from apps.contrib.lab.experiments.spec import LONGEST_EXPERIMENT_NAME, ExperimentSpec, ReplayWorkload, read_spec
from apps.contrib.lab.experiments.variant_trees import load_variant_trees, with_uids
from apps.core.errors import Conflict, FieldProblem, Invalid
from apps.policies.models import Policy
from apps.policies.tree.names import clean_text
from apps.policies.tree.stored import load_tree
from apps.series.days import last_complete_day, site_zone


@dataclass(frozen=True, eq=False)
class Asked:
    spec: ExperimentSpec
    estimate: Estimate


def ask(policy: Policy, spec: object, *, at: datetime) -> Asked:
    """Check a request of an experiment on the policy as published. Nothing is stored.

    Raises Invalid and Conflict as `services.create_experiment`.
    """
    read = read_spec(spec)
    if policy.head_number == 0:
        raise Conflict(_("The policy has no published revision: there is nothing to simulate."), code="no_revision")
    tree = tree_of_base(policy, read)
    read = with_uids(read, tree)
    if isinstance(read.workload, ReplayWorkload):
        workload = _with_last_day(read.workload, at)
        read = replace(read, workload=workload)
        trees = load_variant_trees(policy, policy.head_number, read)
        base = tree if trees[0] is None else trees[0].columns
        days = days_of_replay(workload)
        entries = load_entries(policy, base)
        return Asked(read, estimate_replay(read, days[0].from_at, days[-1].to_at, entries, len(tree)))
    return Asked(read, estimate_inputs(prepare(policy, policy.head_number, read, is_strict=True).inputs))


def clean_name(name: str) -> str:
    """The name as it is stored. Raises Invalid for one that isn't printable or is empty."""
    try:
        cleaned = clean_text(name, LONGEST_EXPERIMENT_NAME)
    except ValueError as error:
        raise Invalid(f"name {error}.", fields=[FieldProblem("name", str(error))]) from None
    if not cleaned:
        message = _("must not be empty")
        raise Invalid(f"name {message}.", fields=[FieldProblem("name", message)])
    return cleaned


def has_own_jobs(policy: Policy, days: int, *, at: datetime) -> bool:
    """Whether jobs of the last days can be replayed on the policy as published."""
    span = days_of_replay(_with_last_day(ReplayWorkload(days), at))
    try:
        own_jobs(span[0].from_at, span[-1].to_at, load_entries(policy, load_tree(policy)))
    except Invalid:
        return False
    return True


def _with_last_day(workload: ReplayWorkload, at: datetime) -> ReplayWorkload:
    last_on = last_complete_day(at, site_zone())
    if workload.until_on is not None and workload.until_on > last_on:
        message = _("must be a day that has ended: %(day)s or before") % {"day": last_on.isoformat()}
        problem = FieldProblem("workload.until_on", message)
        raise Invalid(f"workload.until_on {message}.", code="bad_experiment", fields=[problem])
    return replace(workload, until_on=workload.until_on or last_on)
