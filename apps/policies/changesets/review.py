"""A change set with its outcome, targets and conflicts, as reviews show it; and lists of change sets.

Effects are of two kinds: what the change set states, and other targets that change as a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal, cast, get_args
from uuid import UUID

import orjson
from django.db.models import Q, QuerySet

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core.derived_state import in_memory
from apps.core.errors import DomainError, NotAllowed
from apps.core.kept_briefly import KeptBriefly
from apps.policies.access.authority import ActorGuard
from apps.policies.access.scope import Verb
from apps.policies.changesets.change_sets import (
    AccountMoves,
    ChangeSetAccess,
    account_moves,
    conflicts_with_head,
    refuse_account_moves,
    settings_of,
)
from apps.policies.changesets.conflicts import FieldConflict
from apps.policies.models import ChangeSet, Grant, Policy, Revision
from apps.policies.operations.apply import Outcome, added_uids, apply_operations, digest_of_operations
from apps.policies.operations.whole_trees import document_outcome, is_document
from apps.policies.publishing.size_guard import ProposedChange, Size, measure
from apps.policies.selectors import get_change_set, list_change_sets
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.revision_diff import TargetChanges, compare_targets
from apps.policies.tree.stored import archived_lookup, load_tree
from apps.policies.tree.working_tree import Changes

DERIVED_STATE = (
    in_memory(
        "_outcomes",
        "_moves",
        holds="outcomes of large change sets",
        key="content of the change set, revision, identity of the tree",
        inputs="those",
        range="one review",
        ends="a minute",
    ),
)

_MANY_ENTRIES = 20_000  # from which on outcomes are kept between requests
_MOST_KEPT_OUTCOME_ENTRIES = 1_500_000  # entries, of up to 200 bytes
_outcomes: KeptBriefly[Outcome | None] = KeptBriefly(_MOST_KEPT_OUTCOME_ENTRIES)
_moves: KeptBriefly[TargetChanges] = KeptBriefly(_MOST_KEPT_OUTCOME_ENTRIES)

# Users named in a review who may publish or approve it.
MOST_NAMED_DECIDERS = 4
# Above this size, such users are not searched, because every operation is checked for each of them.
_MOST_OPERATIONS_FOR_NAMES = 500
_OPEN = (ChangeSet.State.DRAFT, ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)
Which = Literal["open", "mine", "waiting", "withdrawn"]
WHICH: tuple[Which, ...] = get_args(Which)
_REQUESTED = (ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)
_UNDECIDED = (ChangeSet.State.DRAFT, *_REQUESTED)


@dataclass(frozen=True, eq=False)
class Review:
    """A change set compared with revision `number`: the head if it can be merged with it, otherwise its base.

    outcome: None for a draft without edits, and if it is invalid. problem: why it can't be based on the head.
    conflicts: all of them, not filtered by rights.
    """

    change_set: ChangeSet
    policy: Policy
    number: int
    settings: PolicySettings
    outcome: Outcome | None
    problem: str
    conflicts: tuple[FieldConflict, ...]
    at: datetime

    @property
    def is_open(self) -> bool:
        return self.change_set.state in _OPEN

    @property
    def is_whole(self) -> bool:
        """Whether it replaces the whole tree."""
        return is_document(self.change_set)

    @property
    def before(self) -> TreeColumns:
        return load_tree(self.policy, self.number)

    @property
    def after(self) -> TreeColumns:
        return self.before if self.outcome is None else self.outcome.tree

    @property
    def wanted(self) -> PolicySettings:
        return self.settings if self.outcome is None else self.outcome.settings

    @property
    def changed_settings(self) -> list[str]:
        before, after = self.settings.parts(), self.wanted.parts()
        return [part for part in after if before[part] != after[part]]

    @cached_property
    def rewritten_siblings(self) -> dict[int, list[Node]]:
        """Siblings whose shares an operation reduces to pay for a percentage, by the operation's index.

        A sibling that another operation changes is only listed there.
        """
        changes: Changes = {} if self.outcome is None else self.outcome.changes
        operations = self.change_set.operations
        listed, siblings = {str(each.get("entry")) for each in operations}, {}
        for index, operation in enumerate(operations):
            shares = operation.get("shares")
            if operation["op"] != "set_shares" or not isinstance(shares, dict) or "from" not in shares:
                continue
            edited = changes.get(UUID(str(operation["entry"])), (None, None))[1]
            siblings[index] = [
                after
                for before, after in changes.values()
                if edited and before and after and after.parent_uid == edited.parent_uid
                if after.shares != before.shares and str(after.uid) not in listed
            ]
            listed |= {str(each.uid) for each in siblings[index]}
        return siblings

    @cached_property
    def moves(self) -> TargetChanges:
        if not self.content:
            return compare_targets(self.before, self.after)
        kept = _moves.get(self.content, lambda: compare_targets(self.before, self.after), size=len(self.after))
        return kept if kept.after is self.after else compare_targets(self.before, self.after)

    @cached_property
    def content(self) -> str:
        """Names what is compared, of a large tree: equal for equal trees after the change."""
        return "" if self.outcome is None else _content(self.change_set, self.policy, self.before)

    def size(self, actor: Actor) -> Size:
        """Return the size of the change as far as the actor may know it."""
        active = settings_of(self.policy, self.policy.head_number)
        proposed = (
            ProposedChange(self.before, self.settings)
            if self.outcome is None
            else ProposedChange.of_outcome(self.outcome)
        )
        return measure(self.policy, self.before, active, proposed, actor=actor, at=self.at, moves=self.moves)

    def why_not_publish(self, actor: Actor) -> NotAllowed | None:
        """Return the error that the actor would get for lack of a right on publishing, or None."""
        return self._refusal(actor, extra_verbs=(Verb.PUBLISH,))

    def why_not_approve(self, actor: Actor) -> NotAllowed | None:
        """Return the error that the actor would get on approving, or None."""
        if actor.user is not None and actor.user.pk == self.change_set.author_id:
            return NotAllowed("You can't approve your own change set: ask a second person.", code="own_change_set")
        return self._refusal(actor, override_verb=Verb.APPROVE)

    def people_who_may(self, verb: str) -> list[User]:
        """Up to MOST_NAMED_DECIDERS users, without the author, with the rights to publish or approve all of it."""
        if len(self.change_set.operations) > _MOST_OPERATIONS_FOR_NAMES:
            return []
        ask = self.why_not_publish if verb == Verb.PUBLISH else self.why_not_approve
        people = []
        for user in _candidates(self.policy, verb, self.at)[: 6 * MOST_NAMED_DECIDERS]:
            if user.pk == self.change_set.author_id:
                continue

            if ask(Actor(user=user, via="worker")) is None:
                people.append(user)
            if len(people) == MOST_NAMED_DECIDERS:
                break
        return people

    def _refusal(
        self, actor: Actor, *, extra_verbs: tuple[str, ...] = (), override_verb: str | None = None
    ) -> NotAllowed | None:
        try:
            guard = ActorGuard(
                policy=self.policy,
                tree=self.before,
                actor=actor,
                at=self.at,
                extra_verbs=extra_verbs,
                override_verb=override_verb,
            )
            if self.is_whole:
                guard.may_set_policy(0)
            elif self.change_set.operations:
                outcome = self._compute_outcome(guard)
                if override_verb is None:
                    refuse_account_moves(outcome, policy=self.policy, actor=actor, at=self.at)
        except NotAllowed as error:
            return error
        except DomainError as error:  # for example, an entry that this user can't see
            return NotAllowed(error.message)
        return None

    def account_moves(self, actor: Actor) -> AccountMoves:
        """Return its effects on accounts if this actor publishes it; none if it has no outcome."""
        if self.outcome is None or self.is_whole or not self.change_set.operations:
            return AccountMoves()
        try:
            guard = ActorGuard(policy=self.policy, tree=self.before, actor=actor, at=self.at, only_see=True)
            outcome = self._compute_outcome(guard)
        except DomainError:
            return AccountMoves()
        return account_moves(outcome, policy=self.policy, actor=actor, at=self.at)

    def _compute_outcome(self, guard: ActorGuard) -> Outcome:
        number = None if self.number == self.policy.head_number else self.number
        return apply_operations(
            self.before,
            self.change_set.operations,
            settings=self.settings,
            guard=guard,
            archived=archived_lookup(self.policy, number, new_uids=added_uids(self.change_set.operations)),
        )


def open_review(*, id: int, actor: Actor, at: datetime) -> Review:
    """Review a change set that the actor may see."""
    return review_of(get_change_set(id=id, actor=actor, at=at), at=at)


def review_of(change_set: ChangeSet, *, at: datetime) -> Review:
    """Build the review on the head if the open change set merges with it, or on the revision that it was published on.

    Otherwise it is built on its base.
    """
    policy = Policy.all_objects.get(pk=change_set.policy_id)
    number, problem, conflicts = _follows(change_set), "", cast("Sequence[FieldConflict]", ())
    if not number:  # the first revision of the policy has no predecessor
        return Review(change_set, policy, 1, settings_of(policy, 1), None, "", (), at)
    if change_set.state in _OPEN and number != policy.head_number and change_set.operations:
        number, problem, conflicts = _place(change_set, policy)
    settings = settings_of(policy, number)
    outcome = None if not change_set.operations else _outcome(change_set, policy, number, settings)
    return Review(change_set, policy, number, settings, outcome, problem, tuple(conflicts), at)


def _follows(change_set: ChangeSet) -> int:
    """Return the revision that it was published on, which may be later than its base; 0 for the first revision."""
    if change_set.state != ChangeSet.State.PUBLISHED:
        return change_set.base_number
    number = Revision.objects.filter(change_set=change_set).values_list("number", flat=True).first()
    return change_set.base_number if number is None else number - 1


def _place(change_set: ChangeSet, policy: Policy) -> tuple[int, str, Sequence[FieldConflict]]:
    """Return the revision to compare with, why it can't be the head, and conflicts with the head."""
    if is_document(change_set):
        moved = f"It replaces the tree of revision {change_set.base_number}, and {policy.head_number} is current now."
        return change_set.base_number, moved, ()
    conflicts = conflicts_with_head(change_set, policy)
    if conflicts:
        return change_set.base_number, "", conflicts
    return policy.head_number, "", ()


def _outcome(change_set: ChangeSet, policy: Policy, number: int, settings: PolicySettings) -> Outcome | None:
    base = load_tree(policy, number)

    def compute() -> Outcome | None:
        try:
            if is_document(change_set):
                return document_outcome(change_set, policy, base, number)
            return apply_operations(
                base,
                change_set.operations,
                settings=settings,
                archived=archived_lookup(policy, new_uids=added_uids(change_set.operations)),
                is_stored=change_set.state not in _OPEN,
            )
        except DomainError:
            return None

    content = _content(change_set, policy, base)
    if not content:
        return compute()
    key = content, change_set.state in _OPEN, orjson.dumps(settings.to_json(), option=orjson.OPT_SORT_KEYS)
    kept = _outcomes.get(key, compute, size=len(base))
    return kept if kept is None or kept.base is base else compute()


def _content(change_set: ChangeSet, policy: Policy, base: TreeColumns) -> str:
    """Names the trees that a change set leads between; empty for those that are computed faster than kept."""
    if len(base) < _MANY_ENTRIES or not base.digest:
        return ""
    operations = digest_of_operations(change_set.operations)
    return f"{policy.pk} {policy.head_number} {base.digest} {change_set.pk} {change_set.version} {operations}"


def _candidates(policy: Policy, verb: str, at: datetime) -> QuerySet[User]:
    """Query administrators, and users who hold the verb anywhere in the policy."""
    lasting = Q(expires_at=None) | Q(expires_at__gt=at)
    grants = Grant.objects.filter(lasting, policy=policy, verbs__contains=[verb])
    people = grants.exclude(people="").values("people")
    wanted = Q(is_superuser=True) | Q(pk__in=grants.exclude(user=None).values("user")) | Q(groups__name__in=people)
    return User.objects.filter(wanted, is_active=True).distinct().order_by("is_superuser", "username")


def list_of_change_sets(*, policy: Policy, which: Which, actor: Actor, at: datetime) -> list[ChangeSet]:
    """List change sets, newest first, of the newest 200. `waiting`: those that the actor may approve or publish."""
    if which == "withdrawn":
        return list_change_sets(policy=policy, actor=actor, at=at, states=[ChangeSet.State.WITHDRAWN])
    if which == "waiting":
        asked = list_change_sets(policy=policy, actor=actor, at=at, states=_REQUESTED)
        return [change_set for change_set in asked if waits_for(change_set, actor=actor, at=at)]
    change_sets = list_change_sets(policy=policy, actor=actor, at=at, states=_UNDECIDED)
    if which == "mine":
        return [each for each in change_sets if actor.user is not None and each.author_id == actor.user.pk]
    return change_sets


def waits_for(change_set: ChangeSet, *, actor: Actor, at: datetime) -> bool:
    """Return whether the actor may decide about a proposed, unscheduled change set of another user, and hasn't yet."""
    is_set = change_set.state == ChangeSet.State.APPROVED and change_set.effective_at is not None
    if (
        change_set.state not in _REQUESTED
        or is_set
        or not ChangeSetAccess(change_set.policy, actor, at).may_see(change_set)
    ):
        return False
    if actor.user is None or change_set.author_id == actor.user.pk:
        return False
    review = review_of(change_set, at=at)
    if review.why_not_publish(actor) is None:
        return True
    approved = change_set.approvals.filter(version=change_set.version, user=actor.user).exists()
    return not approved and review.why_not_approve(actor) is None
