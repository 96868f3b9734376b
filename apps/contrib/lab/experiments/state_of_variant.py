"""The tree and settings that a policy would have if a variant was published now."""

from __future__ import annotations

from typing import NamedTuple

from apps.contrib.lab.experiments.change_set_of_variant import policy_part
from apps.contrib.lab.experiments.spec import ExperimentSpec
from apps.core.errors import DomainError
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import ChangeSet, Policy
from apps.policies.operations.apply import apply_operations
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import archived_lookup, load_tree
from apps.series.back_test_runs import draft_state, is_decided


class PublishedVariant(NamedTuple):
    tree: TreeColumns
    settings: PolicySettings


def variant_if_published(policy: Policy, spec: ExperimentSpec, index: int) -> PublishedVariant | None:
    """None where it changes nothing of the policy, is a draft that is decided, or can't be published any more."""
    try:
        part = policy_part(policy, spec, index)
        if part.draft is not None:
            draft = ChangeSet.objects.select_related("policy").filter(pk=part.draft, policy=policy).first()
            state = None if draft is None or is_decided(draft) else draft_state(draft, policy)
            return None if state is None else PublishedVariant(state.tree, state.settings)
        if not part.operations:
            return None
        settings = settings_of(policy, policy.head_number)
        lookup = archived_lookup(policy)
        outcome = apply_operations(load_tree(policy), part.operations, settings=settings, archived=lookup)
    except DomainError:
        return None
    return PublishedVariant(outcome.tree, outcome.settings)
