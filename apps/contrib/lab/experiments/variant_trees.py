"""The tree and settings of each variant: of the policy's revision or a draft, with what the experiment changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
from django.utils.translation import gettext as _

from apps.contrib.lab.experiments.scenario_base import queue_of_base, state_of_base
from apps.contrib.lab.experiments.spec import Changes, ExperimentSpec, ReplayWorkload, SyntheticWorkload
from apps.contrib.lab.simulated_tree import I8, SimulatedTree
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid
from apps.engine.algorithms.inputs import prepare
from apps.policies.models import ChangeSet, Policy
from apps.policies.settings import PolicySettings, refuse_unsuitable_tree
from apps.policies.tree.columns import TreeColumns
from apps.series.back_test_runs import draft_state, is_decided
from apps.series.revision_context import PolicyState

Made = TypeVar("Made")
_SETTINGS = ("algorithm", "window", "approach", "metric", "tolerance")


@dataclass(frozen=True, eq=False)
class VariantTree:
    """The whole tree of a variant, before the part that takes part is known, with complete settings."""

    columns: TreeColumns
    whole: SimulatedTree
    settings: Mapping[str, Any]


Problems = dict[int, str]  # why a variant can't be simulated, by its index


def load_variant_trees(
    policy: Policy, revision: int, spec: ExperimentSpec, problems: Problems | None = None
) -> list[VariantTree | None]:
    """Those of the base and of all variants. problems: takes what is wrong with a variant, which is None then.

    Raises Invalid with the field, Conflict (`decided`) for a draft that is published or withdrawn, and as `draft_state`
    for one that can't be applied; of variants only without `problems`.
    """
    published = state_of_base(policy, revision, spec)
    return [
        collected(problems, index, lambda index=index: _of_variant(policy, published, spec, index))  # type: ignore[misc]
        for index in range(spec.n_runs)
    ]


def collected(problems: Problems | None, index: int, make: Callable[[], Made]) -> Made | None:
    """What is made for a variant; None where it is refused and `problems` takes why. The base is never left out."""
    try:
        return make()
    except DomainError as error:
        if problems is None or index == 0:
            raise
        problems[index] = error.message
        return None


def place_of(index: int) -> str:
    """The field of a variant in an experiment."""
    return "base" if index == 0 else f"variants[{index - 1}]"


def _of_variant(policy: Policy, published: PolicyState, spec: ExperimentSpec, index: int) -> VariantTree:
    setup, state = spec.setup(index), published
    if setup.change_set is not None:
        state = _of_draft(policy, setup.change_set, place_of(index))
    settings = _settings(state.settings, setup, place_of(index))
    queue = {} if (queue_of := queue_of_base(spec)) is None else {"queue": queue_of}
    if queue and setup.settings:
        message = _("is for priorities: the queue of this scenario has none")
        where = f"{place_of(index)}.settings"
        raise Invalid(f"{where} {message}.", code="bad_experiment", fields=[FieldProblem(where, message)])
    _refuse_unsuitable(state.tree, settings, place_of(index))
    scope = setup.scope or ("global" if isinstance(spec.workload, ReplayWorkload) else "policy")
    return VariantTree(
        columns=state.tree,
        whole=_whole_tree(state.tree, setup, scope, place_of(index)),
        settings={name: value for name, value in settings.to_json().items() if name in _SETTINGS} | queue,
    )


def _of_draft(policy: Policy, change_set_id: int, place: str) -> PolicyState:
    change_set = ChangeSet.objects.select_related("policy").filter(pk=change_set_id, policy=policy).first()
    if change_set is None:
        message = _("names no change set of this policy")
        raise Invalid(f"{place}.change_set {message}.", fields=[FieldProblem(f"{place}.change_set", message)])
    if is_decided(change_set):
        message = _("Change set %(id)s is published or withdrawn: there is no draft to try.") % {"id": change_set_id}
        raise Conflict(message, code="decided", fields=[FieldProblem(f"{place}.change_set", message)])
    return draft_state(change_set, policy)


def _settings(settings: PolicySettings, setup: Changes, place: str) -> PolicySettings:
    try:
        return PolicySettings.from_json(setup.settings, base=settings)
    except Invalid as error:
        problems = [FieldProblem(f"{place}.{each.where}", each.message) for each in error.fields]
        raise Invalid(f"{place}.{error.message}", code=error.code, fields=problems) from None


def _refuse_unsuitable(tree: TreeColumns, settings: PolicySettings, place: str) -> None:
    try:
        refuse_unsuitable_tree(tree, settings.algorithm)
    except Invalid as error:
        where = f"{place}.settings.algorithm"
        raise Invalid(error.message, code=error.code, fields=[FieldProblem(where, error.message)]) from None


def _whole_tree(tree: TreeColumns, setup: Changes, scope: str, place: str) -> SimulatedTree:
    shares = np.where(tree.inherit, 0.0, tree.shares)
    for number, change in enumerate(setup.entries):
        i = entry_named(tree, change.entry)
        if i is None and setup.change_set is None:
            raise no_entry(f"{place}.entries[{number}].entry", change.entry)
        if i is not None:
            shares[i] *= change.shares_times
    if scope == "policy":
        codes, scopes = tree.effective_scopes()
        is_global = np.array([name == "global" for name, _sources in scopes], dtype=np.bool_)[codes]
    else:
        is_global = np.full(len(tree), scope == "global", dtype=np.bool_)
    return SimulatedTree(
        uid=tree.uid,
        parent=tree.parent.astype(np.int64),
        name=tree.name,
        shares=shares,
        inherits=tree.inherit,
        is_group=tree.is_group,
        is_reserve=tree.is_reserve,
        is_user=np.asarray(tree.engine_tree().is_user),
        is_global=is_global,
        is_rest=np.zeros(len(tree), dtype=np.bool_),
    )


def entry_named(tree: TreeColumns, text: str) -> int | None:
    """The entry at this path, or with this uid; None where there is none."""
    if text.startswith("/"):
        return tree.index_of_path(text)
    try:
        return tree.index_of_uid(UUID(text))
    except ValueError:
        return None


def no_entry(place: str, text: str) -> Invalid:
    message = _("names no entry of the policy: %(entry)s") % {"entry": text[:200]}
    return Invalid(f"{place} {message}.", code="bad_experiment", fields=[FieldProblem(place, message)])


def with_uids(spec: ExperimentSpec, tree: TreeColumns) -> ExperimentSpec:
    """The experiment with uids in place of paths, because entries are moved and renamed.

    Raises Invalid for an entry that the tree doesn't have, or that runs no jobs.
    """
    workload = spec.workload
    if isinstance(workload, SyntheticWorkload):
        named = [
            replace(stream, entry=_uid_of_jobs(tree, stream.entry, f"workload.streams[{i}].entry"))
            for i, stream in enumerate(workload.streams)
        ]
        workload = replace(workload, streams=tuple(named))
    return replace(
        spec,
        workload=workload,
        base=_changes_with_uids(spec.base, tree),
        variants=tuple(_changes_with_uids(each, tree) for each in spec.variants),
    )


def _uid_of_jobs(tree: TreeColumns, text: str, place: str) -> str:
    i = entry_named(tree, text)
    if i is None or i == 0:
        raise no_entry(place, text)
    if tree.is_reserve[i]:
        message = _("is a reserve, which runs no jobs")
        raise Invalid(f"{place} {message}.", code="bad_experiment", fields=[FieldProblem(place, message)])
    return str(tree.uuid(i))


def _changes_with_uids(changes: Changes, tree: TreeColumns) -> Changes:
    """An entry that only a draft has is left as it was sent."""
    entries = []
    for change in changes.entries:
        i = entry_named(tree, change.entry)
        entries.append(change if i is None else replace(change, entry=str(tree.uuid(i))))
    return replace(changes, entries=tuple(entries))


def refuse_without_shares(whole: SimulatedTree, entries: I8, place: str) -> None:
    """Refuse a tree in which no entry with jobs has a target: its priorities would decide nothing."""
    prepared = prepare(whole.engine_tree)
    target = prepared.spread(prepared.target_global)
    if not (target[entries[entries >= 0]] > 0).any():
        message = _("The entries with jobs have no shares, or are in groups whose shares are all 0.")
        raise Invalid(message, code="no_shares", fields=[FieldProblem(place, message)])


def chosen_leaves(whole: SimulatedTree, most: int) -> I8:
    """The ranked leaves with the largest targets, in the order of the tree."""
    tree = whole.engine_tree
    prepared = prepare(tree)
    target = np.where(tree.is_ranked, prepared.spread(prepared.target_global), 0.0)
    order = np.argsort(-target, kind="stable")[:most]
    return np.sort(order[target[order] > 0])


def entries_of_uids(tree: TreeColumns, uids: Sequence[str]) -> I8:
    """The entry of each uid, −1 where the tree has none."""
    indexes = (tree.index_of_uid(UUID(uid)) for uid in uids)
    return np.array([-1 if i is None else i for i in indexes], dtype=np.int64)
