"""Bring projects of a portal into a policy: a change set of entries and members, and audited allocations.

Projects are children of one entry, members their children. What is there stays as it is: shares are set here. An
allocation of a project that the change set adds waits until that is published; importing again then adds it, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.actor import Actor
from apps.contrib.allocations.exchange.plan import AllocationPlan, PlannedAllocation, plan_on_tree
from apps.contrib.allocations.exchange.portals import PortalState
from apps.contrib.allocations.exchange.services import ImportOptions, import_allocations
from apps.contrib.allocations.terms import VisibilityOf, deciding
from apps.contrib.allocations.units import policy_units
from apps.core.errors import FieldProblem, Invalid
from apps.policies.access.scope import WRITE, visible_entries
from apps.policies.changesets.change_sets import require_reason_to_publish
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.operations.apply import MOST_APPLIED_OPERATIONS, Operation, tree_after
from apps.policies.records import NewChangeSet
from apps.policies.selectors import get_policy
from apps.policies.services import make_change_set, publish_change_set
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import clean_name, new_uid
from apps.policies.tree.stored import load_tree


@dataclass(frozen=True, kw_only=True)
class PortalOptions:
    """below: path of the entry whose children the projects are. members: whether they become entries, too.

    archive_missing: users below a project who are no members any more are archived.
    """

    below: str = "/"
    members: bool = True
    archive_missing: bool = False


@dataclass(frozen=True)
class PortalPlan:
    """What importing would do: operations of a change set, and allocations of entries that are there.

    waiting: allocations of entries that the operations add. left_out: what the portal shows and isn't imported.
    """

    policy: Policy
    operations: tuple[Operation, ...]
    allocations: AllocationPlan
    waiting: tuple[PlannedAllocation, ...]
    left_out: tuple[str, ...]
    problems: tuple[FieldProblem, ...]

    @property
    def is_empty(self) -> bool:
        return not self.operations and self.allocations.is_empty and not self.waiting

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of entries to be added and archived, and of allocations by action."""
        numbers = {"entries": 0, "archived": 0}
        for operation in self.operations:
            numbers["entries" if operation["op"] == "add" else "archived"] += 1
        allocations = {str(action): n for action, n in self.allocations.counts.items()}
        return {**numbers, **allocations, "waiting": len(self.waiting)}


@dataclass(frozen=True)
class PortalImport:
    """A plan and what became of it: the change set, and its revision if it was published."""

    plan: PortalPlan
    change_set: ChangeSet | None = None
    revision: Revision | None = None


def plan_portal(
    *,
    policy_slug: str,
    state: PortalState,
    options: PortalOptions,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> PortalPlan:
    """Compare what a portal shows with a policy. Raises Invalid if there is no such entry to put the projects below."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    tree = load_tree(policy)
    visible = visibility(policy=policy, tree=tree, actor=actor, at=at)
    below = tree.index_of_path(options.below)
    if below is None or not visible.may_see(below):
        problem = FieldProblem("below", f"there is no entry {options.below[:200]!r}: name one for the projects")
        raise Invalid(f"{problem.where}: {problem.message}.", fields=[problem])
    planner = _Planner(tree, below, options)
    planner.plan(state)
    after = tree_after(tree, planner.operations) if planner.operations and not planner.is_too_much else tree

    def may_see(i: int) -> bool:
        before = tree.index_of_uid(after.uuid(i))
        return before is None or visible.may_see(before)

    planned = plan_on_tree(
        policy=policy,
        tree=after,
        units=[unit.symbol for unit in policy_units(policy)],
        file=state.file(options.below),
        may_see=may_see,
        may_decide=deciding(policy=policy, tree=after, at=at, actor=actor),
    )
    added = {row.entry_uid for row in planned.rows if tree.index_of_uid(row.entry_uid) is None}
    waiting = tuple(row for row in planned.rows if row.entry_uid in added)
    here = replace(planned, rows=tuple(row for row in planned.rows if row.entry_uid not in added))
    problems = planner.problems if planner.is_too_much else (*planner.problems, *planned.problems)
    return PortalPlan(policy, tuple(planner.operations), here, waiting, tuple(state.left_out), tuple(problems))


def import_portal(
    *,
    policy_slug: str,
    state: PortalState,
    options: PortalOptions,
    publish: bool = False,
    reason: str,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> PortalImport:
    """Make the change set and import the allocations; with `publish`, also publish it and import those that waited.

    A draft that an earlier import made for the same entries is used again.

    Raises:
        Invalid: with all problems; nothing was imported.
    """
    reason = require_reason_to_publish(reason)
    whole: dict[str, Any] = {"policy_slug": policy_slug, "at": at, "actor": actor}
    with transaction.atomic():
        plan = plan_portal(**whole, state=state, options=options, visibility=visibility)
        if plan.problems:
            first = plan.problems[0]
            raise Invalid(f"{first.where} {first.message}.", code="bad_portal", fields=plan.problems)
        change_set = _change_set(plan, reason, at, actor)
        revision = None
        if publish and change_set is not None:
            revision = publish_change_set(
                id=change_set.pk, version=change_set.version, reason=reason, at=at, actor=actor
            )
        file = state.file(options.below)
        if revision is None:
            waits = {row.place for row in plan.waiting}
            file = replace(file, lines=tuple(line for line in file.lines if line.place not in waits))
        import_allocations(**whole, file=file, options=ImportOptions(reason=reason), visibility=visibility)
    return PortalImport(plan, change_set, revision)


def _change_set(plan: PortalPlan, reason: str, at: datetime, actor: Actor) -> ChangeSet | None:
    """The draft with the plan's operations: the actor's one of an earlier import, or a new one; None without any."""
    if not plan.operations:
        return None
    drafts = ChangeSet.objects.filter(
        policy=plan.policy,
        state=ChangeSet.State.DRAFT,
        origin=ChangeSet.Origin.IMPORT,
        base_number=plan.policy.head_number,
        author=actor.user,
    )
    wanted = _without_uids(plan.operations)
    for draft in drafts.order_by("-pk")[:20]:
        if _without_uids(draft.operations) == wanted:
            return draft
    new = NewChangeSet(
        base_revision=plan.policy.head_number,
        operations=plan.operations,
        reason=reason,
        origin=ChangeSet.Origin.IMPORT,
    )
    return make_change_set(policy_slug=plan.policy.slug, new=new, at=at, actor=actor)


def _without_uids(operations: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """What operations do, with names in place of the uids of entries that they add."""
    names = {str(each["uid"]): str(each["name"]) for each in operations if each.get("op") == "add"}

    def named(value: object) -> str:
        return names.get(str(value), str(value))

    return [
        (str(each["op"]), named(each.get("parent")), str(each.get("name", "")), named(each.get("entry", "")))
        for each in operations
    ]


class _Planner:
    def __init__(self, tree: TreeColumns, below: int, options: PortalOptions) -> None:
        self.operations: list[Operation] = []
        self.problems: list[FieldProblem] = []
        self._tree, self._below, self._options = tree, below, options

    def plan(self, state: PortalState) -> None:
        for group in state.groups.values():
            name = self._name(group.name, group.place)
            if name is None:
                continue
            i = self._tree.child_named(self._below, name)
            parent = self._tree.uuid(i) if i is not None else self._add(self._tree.uuid(self._below), name, "project")
            if not self._options.members:
                continue
            members = {member for user in group.members if (member := self._name(user, group.place)) is not None}
            present = set() if i is None else {self._tree.name[child] for child in self._tree.children(i)}
            for member in sorted(members - present):
                self._add(parent, member, "user")
            if self._options.archive_missing and i is not None:
                self._archive_others(i, members)
        if self.is_too_much:
            message = f"makes {len(self.operations):,} changes, and a change set holds {MOST_APPLIED_OPERATIONS:,}"
            self.problems.append(FieldProblem("projects", f"{message}: import it in parts, or without members"))

    @property
    def is_too_much(self) -> bool:
        """Whether a change set can't hold the operations."""
        return len(self.operations) > MOST_APPLIED_OPERATIONS

    def _add(self, parent: UUID, name: str, kind: str) -> UUID:
        uid = new_uid()
        is_group = kind != "user"
        self.operations.append(
            {"op": "add", "parent": str(parent), "name": name, "kind": kind, "is_group": is_group, "uid": str(uid)}
        )
        return uid

    def _archive_others(self, i: int, members: set[str]) -> None:
        for child in self._tree.children(i):
            is_user = self._tree.kind[child] == "user" and not self._tree.is_group[child]
            if is_user and self._tree.name[child] not in members:
                self.operations.append({"op": "archive", "entry": str(self._tree.uuid(child))})

    def _name(self, text: str, place: str) -> str | None:
        """The name as that of an entry; None, with a problem, if an entry can't have it."""
        try:
            return clean_name(text)
        except ValueError as error:
            message = f"{str(error)[:300]}: rename it in the portal, or set slurm_account_name or backend_id there"
            self.problems.append(FieldProblem(place, message))
            return None
