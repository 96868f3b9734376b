"""Measure the size of a change, and require approval by a second person for large ones, by the policy's limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from apps.accounts.actor import Actor
from apps.core.counts import counted
from apps.core.errors import Conflict, DomainError
from apps.policies.access.authority import ActorGuard
from apps.policies.access.scope import Verb, visible_entries
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Approval, ChangeSet, Policy
from apps.policies.operations.adjustment_edits import AdjustmentChange
from apps.policies.operations.apply import Outcome, added_uids, apply_operations
from apps.policies.operations.dated_shares import future_trees
from apps.policies.operations.whole_trees import is_document
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.revision_diff import TargetChanges, compare_targets
from apps.policies.tree.stored import archived_lookup, load_tree
from apps.policies.tree.working_tree import Changes


@dataclass(frozen=True, eq=False)
class ProposedChange:
    """The tree and settings to be published, with the changed entries and usage adjustments."""

    tree: TreeColumns
    settings: PolicySettings
    changes: Changes = field(default_factory=dict)
    adjusting: Sequence[AdjustmentChange] = ()

    @classmethod
    def of_outcome(cls, outcome: Outcome) -> ProposedChange:
        return cls(outcome.tree, outcome.settings, outcome.changes, outcome.adjusting)


@dataclass(frozen=True, slots=True)
class RankMoves:
    """Number of leaves whose rank changes, by the usage that an actor may see; hidden usage counts in steps.

    is_exact: the actor sees the numbers of all entries.
    """

    n: int
    is_exact: bool


# As of an instant, for an actor; None while no ranks are known.
RankCount = Callable[[Policy, ProposedChange, Actor, datetime], RankMoves | None]
_rank_counts: list[RankCount] = []


def register_rank_count(count: RankCount) -> None:
    """Register the rank count of the room above, which knows ranks; replaces an earlier one."""
    _rank_counts[:] = [count]


@dataclass(frozen=True)
class Size:
    """Size of a change, in percentage points of targets, for one reader.

    points: of the entries that the reader sees. users: leaves that change rank, by the usage that the reader may see;
    None if not needed. shows_numbers: the reader sees all entries that are counted; others learn only that the limit is
    exceeded.
    """

    points: float
    # Number of entries whose target changes by more points than one person may change.
    n_beyond: int
    users: int | None
    # The change raises or removes a limit.
    loosens: bool
    limits: dict[str, Any]
    shows_numbers: bool = True

    @property
    def is_guarded(self) -> bool:
        return any(limit is not None for limit in self.limits.values())

    @property
    def reasons(self) -> list[str]:
        """Sentences on why a second person is needed; empty if not."""
        points, users = self.limits["points"], self.limits["users"]
        reasons = []
        if points is not None and self.n_beyond:
            moved = counted(self.n_beyond, "entry moves", "entries move") if self.shows_numbers else "Entries move"
            reasons.append(f"{moved} more than {points:g} points.")
        if users is not None and self.users is not None and self.users > users:
            moved = counted(self.users, "leaf changes", "leaves change") if self.shows_numbers else "More leaves change"
            reasons.append(f"{moved} rank; one person may change {users:,}.")
        if self.loosens:
            reasons.append("It raises the limit above which a second person is needed.")
        return reasons


def measure(
    policy: Policy,
    before: TreeColumns,
    settings: PolicySettings,
    proposed: ProposedChange,
    *,
    actor: Actor,
    at: datetime,
    moves: TargetChanges | None = None,
) -> Size:
    """Measure a change, including the later effects of its dates. moves: to the proposed tree, from who has compared.

    A change is tried again and again by who may make one. So nothing that follows from hidden usage decides or shows
    it: neither whether the limit of ranks is exceeded nor by how much. Targets of hidden entries decide, or one person
    could move what others don't see, but no figure or count of them is shown.
    """
    limits = settings.review
    later = [compare_targets(before, tree) for tree in future_trees(proposed.tree, proposed.changes)]
    comparisons = [compare_targets(before, proposed.tree) if moves is None else moves, *later]
    points = limits["points"]
    ranks = None if limits["users"] is None else _rank_moves(policy, proposed, comparisons[0], actor, at)
    sees = visible_entries(policy=policy, tree=before, actor=actor, at=at)
    return Size(
        points=max(moves.furthest_seen(sees.mask) for moves in comparisons),
        n_beyond=0 if points is None else max(moves.count_beyond(points) for moves in comparisons),
        users=None if ranks is None else ranks.n,
        loosens=_loosens(limits, proposed.settings.review),
        limits=limits,
        shows_numbers=sees.all_visible and (ranks is None or ranks.is_exact),
    )


def require_second_person(
    change_set: ChangeSet,
    policy: Policy,
    proposed: ProposedChange,
    settings: PolicySettings,
    actor: Actor,
    at: datetime,
) -> None:
    """Raise Conflict (`needs_approval`) for a change that one person may not publish alone.

    Exempt are changes without a user: membership rules and dates, which people published, and the command line.
    """
    if actor.user is None or all(limit is None for limit in settings.review.values()):
        return
    size = measure(policy, load_tree(policy), settings, proposed, actor=actor, at=at)
    if size.reasons and not second_persons(change_set, at):
        raise Conflict(
            f"A second person must approve it. {' '.join(size.reasons)} Submit it for approval.",
            code="needs_approval",
        )


def second_persons(change_set: ChangeSet, at: datetime) -> list[Approval]:
    """Return valid approvals of the current version: not the author's, and by users who may still approve it."""
    approvals = change_set.approvals.filter(version=change_set.version, user__is_active=True).select_related("user")
    return [each for each in approvals if each.user_id != change_set.author_id and _may_still(change_set, each, at)]


def _may_still(change_set: ChangeSet, approval: Approval, at: datetime) -> bool:
    if approval.user is None:
        return False
    try:
        require_approver(change_set, Actor(user=approval.user, via="worker"), at)
    except DomainError:
        return False
    return True


def require_approver(change_set: ChangeSet, actor: Actor, at: datetime) -> None:
    """Raise NotAllowed unless the actor may now approve each operation of the change set."""
    policy = change_set.policy
    base = load_tree(policy, change_set.base_number)
    guard = ActorGuard(policy=policy, tree=base, actor=actor, at=at, override_verb=Verb.APPROVE)
    if is_document(change_set):
        guard.may_set_policy(0)
        return
    apply_operations(
        base,
        change_set.operations,
        settings=settings_of(policy, change_set.base_number),
        guard=guard,
        archived=archived_lookup(policy, change_set.base_number, new_uids=added_uids(change_set.operations)),
    )


def _rank_moves(
    policy: Policy, proposed: ProposedChange, moves: TargetChanges, actor: Actor, at: datetime
) -> RankMoves:
    """Count leaves that change rank; while no ranks are known, leaves whose target changes."""
    for count in _rank_counts:
        known = count(policy, proposed, actor, at)
        if known is not None:
            return known
    return RankMoves(int((proposed.tree.engine_tree().is_ranked & (moves.distance > 0)).sum()), is_exact=True)


def _loosens(limits: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return any(limit is not None and (wanted[name] is None or wanted[name] > limit) for name, limit in limits.items())
