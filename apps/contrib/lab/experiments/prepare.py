"""Read what an experiment needs from the database, once, so that its simulations need nothing but this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from apps.contrib.lab.experiments.inputs import NO_PAST, Inputs, PastUsage, VariantInputs
from apps.contrib.lab.experiments.outcome import Outcome
from apps.contrib.lab.experiments.records import LeftOut
from apps.contrib.lab.experiments.simulated_tree import I8, simulated_part
from apps.contrib.lab.experiments.spec import ExperimentSpec, SyntheticWorkload
from apps.contrib.lab.experiments.variant_trees import (
    VariantTree,
    chosen_leaves,
    entries_of_uids,
    load_variant_trees,
    place_of,
    refuse_without_shares,
)
from apps.policies.models import Policy

MOST_USERS = 2_000  # leaves with jobs, of a workload that has all users


@dataclass(frozen=True, eq=False)
class Prepared:
    """history: of a replay, what happened in fact."""

    inputs: Inputs
    left_out: tuple[LeftOut, ...] = ()
    history: Outcome | None = None
    notes: dict[str, float] = field(default_factory=dict)


def prepare(policy: Policy, revision: int, spec: ExperimentSpec) -> Prepared:
    """Raises Invalid and Conflict for what can't be simulated."""
    trees = load_variant_trees(policy, revision, spec)
    workload = spec.workload
    if not isinstance(workload, SyntheticWorkload):
        raise NotImplementedError(workload.kind)
    return Prepared(prepare_drawn(spec, workload, trees))


def prepare_drawn(spec: ExperimentSpec, workload: SyntheticWorkload, trees: Sequence[VariantTree]) -> Inputs:
    """The inputs of drawn jobs."""
    base = trees[0]
    if workload.all_users is None:
        uids = [stream.entry for stream in workload.streams]
    else:
        uids = [str(base.columns.uuid(i)) for i in chosen_leaves(base.whole, MOST_USERS).tolist()]
    variants = []
    for index, tree in enumerate(trees):
        entries = entries_of_uids(tree.columns, uids)
        refuse_without_shares(tree.whole, entries, place_of(index))
        variants.append(variant_inputs(tree, entries, NO_PAST))
    return Inputs(spec, workload.hours, workload.sites, variants, day_ends_s=day_ends(workload.hours))


def variant_inputs(tree: VariantTree, entry_of_who: I8, past: PastUsage) -> VariantInputs:
    """The part of a tree that takes part. past: of entries of the whole tree."""
    takes_part = np.zeros(len(tree.whole), dtype=np.bool_)
    takes_part[entry_of_who[entry_of_who >= 0]] = True
    usage = np.bincount(past.entry, past.amount, minlength=len(tree.whole))
    part, place, _usage = simulated_part(tree.whole, takes_part, usage)
    return VariantInputs(part, np.where(entry_of_who >= 0, place[entry_of_who], -1), NO_PAST, tree.settings)


def day_ends(hours: float) -> tuple[float, ...]:
    """Ends of days of 24 hours from the start, the last one shorter, in seconds."""
    whole = np.arange(24.0, hours, 24.0).tolist()
    return tuple(3600.0 * each for each in [*whole, hours])
