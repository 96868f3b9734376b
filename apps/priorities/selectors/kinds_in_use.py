"""Kinds of resources that records name, and those of them that count by a default weight."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from apps.core.resource_kinds import sum_of
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Policy
from apps.usage.kinds import load_kind_ids


def kinds_in_use() -> list[str]:
    """Names of all kinds that a record has named, in their order."""
    return list(load_kind_ids())


def kinds_by_default(weights: Mapping[str, float], kinds: Collection[str]) -> list[str]:
    """Those of these kinds that count by the weight of their sum, where others of the sum have a weight of their own.

    So a new type of GPU is one, and none is where all GPUs count alike.
    """
    sums = {resource for kind in weights if (resource := sum_of(kind)) and weights.get(resource)}
    return sorted(kind for kind in kinds if kind not in weights and sum_of(kind) in sums)


def kinds_by_default_of_policies() -> dict[str, list[str]]:
    """By slug of a policy, the kinds in use that count by a default in its metric or in one of its units."""
    kinds = kinds_in_use()
    by_policy: dict[str, list[str]] = {}
    for policy in Policy.objects.exclude(head_number=0).order_by("slug") if kinds else ():
        settings = settings_of(policy, policy.head_number)
        all_weights = [settings.metric["weights"], *(unit["weights"] for unit in settings.units)]
        names = {kind for weights in all_weights for kind in kinds_by_default(weights, kinds)}
        if names:
            by_policy[policy.slug] = sorted(names)
    return by_policy
