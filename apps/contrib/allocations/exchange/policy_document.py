"""Allocations in the document of a policy: exported with the tree, and imported as operations of the change set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from apps.contrib.allocations.exchange.document import read_values, values_of
from apps.contrib.allocations.exchange.lines import AllocationFile
from apps.contrib.allocations.exchange.plan import PlannedAllocation, plan_on_tree, refuse_problems
from apps.contrib.allocations.services import allocations_of
from apps.contrib.allocations.terms import deciding
from apps.policies.files.sections import DocumentSection, SectionImport
from apps.policies.models import Allocation, Policy
from apps.policies.operations.allocation_edits import AllocationEdit
from apps.policies.tree.columns import TreeColumns
from apps.policies.units import units_of


def document_values(policy: Policy, tree: TreeColumns) -> Sequence[Mapping[str, Any]]:
    """Allocations that people made to entries of the tree, by path and first day."""
    rows = [
        (tree.path(i), row)
        for row in allocations_of(policy)
        if row.carried_from is None and (i := tree.index_of_uid(row.entry_uid)) is not None
    ]
    ordered = sorted(rows, key=lambda each: (each[0], each[1].starts_on, each[1].pk))
    return [values_of(row, path) for path, row in ordered]


def document_operations(wanted: SectionImport) -> list[dict[str, Any]]:
    """Operations that add and change allocations, so that the policy has those of the document; others stay.

    Raises:
        Invalid: with all problems, at their places in the list.
    """
    file = _without_withdrawn_uids(wanted.policy, read_values(wanted.values))
    planned = plan_on_tree(
        policy=wanted.policy,
        tree=wanted.tree,
        units=[unit.symbol for unit in units_of(wanted.settings.units)],
        may_see=lambda i: True,  # an import needs a view of the whole tree
        may_decide=deciding(policy=wanted.policy, tree=wanted.tree, at=wanted.at, actor=wanted.actor),
        file=file,
    )
    refuse_problems(planned.problems)
    changed = [row.uid for row in planned.changes if row.action == "change"]
    current = Allocation.objects.in_bulk(changed, field_name="uid")
    return [operation for row in planned.changes for operation in _operations(row, current)]


def _without_withdrawn_uids(policy: Policy, file: AllocationFile) -> AllocationFile:
    """The file without uids of withdrawn allocations: each is found by its values, as one without a uid.

    Other days end an allocation and make a new one, while the document in a repository has the uid of the first.
    """
    uids = [line.uid for line in file.lines if line.uid is not None]
    ended = set(
        Allocation.objects.filter(policy=policy, uid__in=uids).exclude(withdrawn_at=None).values_list("uid", flat=True)
    )
    return replace(file, lines=tuple(replace(line, uid=None) if line.uid in ended else line for line in file.lines))


def _operations(row: PlannedAllocation, current: Mapping[UUID, Allocation]) -> list[dict[str, Any]]:
    """The operations for one allocation: one, or two for other days, which end it and make another one."""
    new = AllocationEdit(
        uid=row.uid or uuid4(),
        entry_uid=row.entry_uid,
        was=None,
        amount=row.amount,
        unit=row.unit,
        starts_on=row.starts_on,
        ends_on=row.ends_on,
    )
    edits = [new]
    if row.action == "change":
        standing = current[new.uid]
        amount = max(0.0, row.amount + standing.by_rules)
        if (standing.starts_on, standing.ends_on) == (row.starts_on, row.ends_on):
            edits = [AllocationEdit(new.uid, row.entry_uid, standing.amount, amount)]
        else:
            edits = [AllocationEdit(new.uid, row.entry_uid, standing.amount, None), replace(new, uid=uuid4())]
    return [{"op": "allocate", **_without_nothing(edit.to_json())} for edit in edits]


def _without_nothing(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "")}


SECTION = DocumentSection(values=document_values, operations=document_operations)
