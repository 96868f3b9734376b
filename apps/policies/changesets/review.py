"""A change set laid over the revision it is to follow: what a review, its checks and its lists are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import cast

from django.db.models import Q, QuerySet

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core.errors import DomainError, NotAllowed
from apps.policies.access.authority import ActorGuard
from apps.policies.access.scope import Verb
from apps.policies.changesets.account_moves import AccountMoves, account_moves, refuse_account_moves
from apps.policies.changesets.change_sets import conflicts_with_head, settings_of
from apps.policies.changesets.conflicts import FieldConflict
from apps.policies.models import ChangeSet, Grant, Policy, Revision
from apps.policies.operations.apply import Outcome, work_out
from apps.policies.operations.whole_trees import document_outcome, is_document
from apps.policies.publishing.size_guard import Proposed, Size, measure
from apps.policies.selectors import get_change_set
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_archived, load_tree
from apps.policies.tree.target_moves import TargetMoves, target_moves

MOST_PEOPLE = 4  # people to ask are searched up to this many, plus one that shows there are more
_MOST_OPERATIONS = 500  # of which it is asked for each person whether they may
_OPEN = (ChangeSet.State.DRAFT, ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)


@dataclass(frozen=True, eq=False)
class Review:
    """`number` is the revision that it is laid over: the head while it merges with that, else its base.

    outcome: None for a draft without edits. problem: why it can't follow the head. conflicts: all, unfiltered by
    rights.
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
        """It replaces the whole tree."""
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
        before, after = self.settings.to_json(), self.wanted.to_json()
        return [part for part in after if before[part] != after[part]]

    @cached_property
    def moves(self) -> TargetMoves:
        return target_moves(self.before, self.after)

    @cached_property
    def size(self) -> Size:
        in_force = settings_of(self.policy, self.policy.head_number)
        proposed = Proposed(self.before, self.settings) if self.outcome is None else Proposed.of_outcome(self.outcome)
        return measure(self.policy, self.before, in_force, proposed)

    def why_not_publish(self, actor: Actor) -> NotAllowed | None:
        """The refusal that publishing it would meet for lack of a right."""
        return self._refusal(actor, besides=(Verb.PUBLISH,))

    def why_not_approve(self, actor: Actor) -> NotAllowed | None:
        """The refusal that approving it would meet."""
        if actor.user is not None and actor.user.pk == self.change_set.author_id:
            return NotAllowed("You can't approve your own change set: ask a second person.", code="own_change_set")
        return self._refusal(actor, instead=Verb.APPROVE)

    def people_who_may(self, verb: str) -> list[User]:
        """Some people, besides the author, who have the rights to publish or approve all of it."""
        if len(self.change_set.operations) > _MOST_OPERATIONS:
            return []
        ask = self.why_not_publish if verb == Verb.PUBLISH else self.why_not_approve
        found = []
        for user in _candidates(self.policy, verb, self.at)[: 6 * MOST_PEOPLE]:
            if user.pk == self.change_set.author_id:
                continue

            if ask(Actor(user=user, via="worker")) is None:
                found.append(user)
            if len(found) == MOST_PEOPLE:
                break
        return found

    def _refusal(self, actor: Actor, *, besides: tuple[str, ...] = (), instead: str | None = None) -> NotAllowed | None:
        try:
            guard = ActorGuard(
                policy=self.policy, tree=self.before, actor=actor, at=self.at, besides=besides, instead=instead
            )
            if self.is_whole:
                guard.may_set_policy(0)
            elif self.change_set.operations:
                outcome = self._work_out(guard)
                if instead is None:
                    refuse_account_moves(outcome, policy=self.policy, actor=actor, at=self.at)
        except NotAllowed as error:
            return error
        except DomainError as error:  # an entry that this person doesn't even see
            return NotAllowed(error.message)
        return None

    def account_moves(self, actor: Actor) -> AccountMoves:
        """What it does to accounts when this actor publishes it; nothing where it can't be worked out."""
        if self.outcome is None or self.is_whole or not self.change_set.operations:
            return AccountMoves()
        try:
            guard = ActorGuard(policy=self.policy, tree=self.before, actor=actor, at=self.at, only_see=True)
            outcome = self._work_out(guard)
        except DomainError:
            return AccountMoves()
        return account_moves(outcome, policy=self.policy, actor=actor, at=self.at)

    def _work_out(self, guard: ActorGuard) -> Outcome:
        number = None if self.number == self.policy.head_number else self.number
        return work_out(
            self.before,
            self.change_set.operations,
            settings=self.settings,
            guard=guard,
            archived=lambda uid: load_archived(self.policy, uid, number),
        )


def open_review(*, id: int, actor: Actor, at: datetime) -> Review:
    """For actors who may see the change set."""
    return review_of(get_change_set(id=id, actor=actor, at=at), at=at)


def review_of(change_set: ChangeSet, *, at: datetime) -> Review:
    """On the head if it is open and follows it, on what it followed if it is published, else on its base."""
    policy = Policy.objects.get(pk=change_set.policy_id)
    number, problem, conflicts = _follows(change_set), "", cast("Sequence[FieldConflict]", ())
    if not number:  # it began the policy: there is nothing to lay it over
        return Review(change_set, policy, 1, settings_of(policy, 1), None, "", (), at)
    if change_set.state in _OPEN and number != policy.head_number and change_set.operations:
        number, problem, conflicts = _place(change_set, policy)
    settings = settings_of(policy, number)
    outcome = None if not change_set.operations else _outcome(change_set, policy, number, settings)
    return Review(change_set, policy, number, settings, outcome, problem, tuple(conflicts), at)


def _follows(change_set: ChangeSet) -> int:
    """The revision it was published upon, which may be later than its base; 0 for none."""
    if change_set.state != ChangeSet.State.PUBLISHED:
        return change_set.base_number
    number = Revision.objects.filter(change_set=change_set).values_list("number", flat=True).first()
    return change_set.base_number if number is None else number - 1


def _place(change_set: ChangeSet, policy: Policy) -> tuple[int, str, Sequence[FieldConflict]]:
    """Over which revision, and its conflicts with the head."""
    if is_document(change_set):
        moved = f"It replaces the tree of revision {change_set.base_number}, and {policy.head_number} is current now."
        return change_set.base_number, moved, ()
    found = conflicts_with_head(change_set, policy)
    if found:
        return change_set.base_number, "", found
    return policy.head_number, "", ()


def _outcome(change_set: ChangeSet, policy: Policy, number: int, settings: PolicySettings) -> Outcome | None:
    base = load_tree(policy, number)
    try:
        if is_document(change_set):
            return document_outcome(change_set, policy, base, number)
        return work_out(
            base,
            change_set.operations,
            settings=settings,
            archived=lambda uid: load_archived(policy, uid),
            is_stored=change_set.state not in _OPEN,
        )
    except DomainError:
        return None


def _candidates(policy: Policy, verb: str, at: datetime) -> QuerySet[User]:
    """Administrators, and holders of the verb anywhere in the policy."""
    lasting = Q(expires_at=None) | Q(expires_at__gt=at)
    grants = Grant.objects.filter(lasting, policy=policy, verbs__contains=[verb])
    people = grants.exclude(people="").values("people")
    wanted = Q(is_superuser=True) | Q(pk__in=grants.exclude(user=None).values("user")) | Q(groups__name__in=people)
    return User.objects.filter(wanted, is_active=True).distinct().order_by("is_superuser", "username")
