"""An experiment as it was asked for: checked, in canonical form, with what it would need."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from apps.contrib.lab.experiments.estimate import estimate_inputs
from apps.contrib.lab.experiments.prepare import prepare
from apps.contrib.lab.experiments.records import Estimate
from apps.contrib.lab.experiments.spec import ExperimentSpec, read_spec
from apps.contrib.lab.experiments.variant_trees import with_uids
from apps.core.errors import Conflict
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree


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
    read = with_uids(read, load_tree(policy))
    prepared = prepare(policy, policy.head_number, read)
    return Asked(read, estimate_inputs(prepared.inputs))
