"""A change set with what a variant changes of the policy, so that it can be reviewed and published as any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.changed import title_of
from apps.contrib.lab.experiments.permissions import policy_to_manage
from apps.contrib.lab.experiments.selectors import experiment_of, no_variant
from apps.contrib.lab.experiments.services import attach_experiment
from apps.contrib.lab.experiments.spec import Changes, ExperimentSpec, read_spec
from apps.contrib.lab.experiments.variant_trees import entry_named
from apps.core.errors import Conflict
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import ChangeSet, Policy
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree

Operations = list[dict[str, Any]]


@dataclass(frozen=True)
class PolicyPart:
    """What of a variant is part of a policy: operations. has_more: it also changes what no policy has, such as jobs.

    draft: the change set that it simulates, whose operations are not repeated here.
    """

    operations: Operations
    has_more: bool
    draft: int | None

    @property
    def can_be_made(self) -> bool:
        return bool(self.operations) and self.draft is None


def policy_part(policy: Policy, spec: ExperimentSpec, index: int) -> PolicyPart:
    """Of the variant at this index, on the policy as published now. A variant of a shipped scenario has none."""
    if spec.scenario:
        return PolicyPart([], has_more=False, draft=None)
    setup = spec.setup(index)
    operations = [*_settings_operations(policy, setup), *_share_operations(policy, setup)]
    return PolicyPart(operations, _has_more(setup), setup.change_set)


def _settings_operations(policy: Policy, setup: Changes) -> Operations:
    """Those settings alone that differ from the published ones."""
    published = settings_of(policy, policy.head_number)
    wanted = PolicySettings.from_json(setup.settings, base=published)
    changed: dict[str, Any] = {}
    for part in setup.settings:
        before, after = getattr(published, part), getattr(wanted, part)
        if before != after:
            changed[part] = _difference(part, before, after)
    return [{"op": "set_policy", "settings": changed}] if changed else []


def _difference(part: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Another algorithm, and another decay function, has parameters of its own."""
    if any(before.get(name) != after.get(name) for name in ("name", "aging")):
        return dict(after)
    return {name: value for name, value in after.items() if before.get(name) != value}


def _share_operations(policy: Policy, setup: Changes) -> Operations:
    tree, times = load_tree(policy), dict[int, float]()
    for change in setup.entries:
        i = entry_named(tree, change.entry)
        if i is not None and change.shares_times != 1.0 and not tree.inherit[i]:
            times[i] = times.get(i, 1.0) * change.shares_times
    return [
        {"op": "set_shares", "entry": str(tree.uuid(i)), "shares": float(tree.shares[i]) * factor}
        for i, factor in times.items()
        if factor != 1.0
    ]


def _has_more(setup: Changes) -> bool:
    alone = Changes(name=setup.name, settings=setup.settings, change_set=setup.change_set)
    has_jobs = any(change.jobs_times != 1.0 for change in setup.entries)
    return has_jobs or Changes(**{**vars(setup), "entries": ()}) != alone


@transaction.atomic
def make_change_set_of_variant(
    *, policy_slug: str, experiment_id: int, index: int, at: datetime, actor: Actor
) -> ChangeSet:
    """Make a draft of the actor with what this variant changes, and show the experiment on its review.

    An experiment that is evidence of another change set stays there.

    Raises:
        NotFound: there is no such experiment or variant.
        Conflict: `nothing_to_change` where it changes nothing of the policy, `is_draft` where it is a draft already;
            and as `make_change_set`.
    """
    policy = policy_to_manage(slug=policy_slug, at=at, actor=actor)
    experiment = experiment_of(policy, experiment_id, is_locked=True)
    spec = read_spec(experiment.spec)
    if not 0 <= index < spec.n_runs:
        raise no_variant(index)
    part = policy_part(policy, spec, index)
    if part.draft is not None:
        raise Conflict(_("This variant is change set %(id)s already.") % {"id": part.draft}, code="is_draft")
    if not part.operations:
        raise Conflict(_("This variant changes nothing of the policy."), code="nothing_to_change")
    reason = _("%(title)s\n– tried in the lab: experiment %(id)s, “%(name)s”") % {
        "title": title_of(policy, experiment.revision_number, spec, index),
        "id": experiment.pk,
        "name": experiment.name,
    }
    new = NewChangeSet(operations=part.operations, reason=reason)
    change_set = make_change_set(policy_slug=policy_slug, new=new, at=at, actor=actor)
    if experiment.change_set_id is None:
        attach_experiment(
            policy_slug=policy_slug, experiment_id=experiment.pk, change_set_id=change_set.pk, at=at, actor=actor
        )
    return change_set
