"""Pending decisions of one user: requests, reviews, scheduled change sets, and grants and shares that end soon.

A request is a change set by which a lead asks for more shares of their group; managers above decide. The tree of a
policy is loaded once for all its change sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid, NotAllowed, NotFound
from apps.policies.access.authority import ActorGuard
from apps.policies.access.role_holders import GrantLine, ending_soon, list_grants
from apps.policies.access.scope import Rights, Verb, Visibility, administers_within_bounds, visible_entries
from apps.policies.changesets.change_sets import ChangeSetAccess, refuse_account_moves, settings_of
from apps.policies.models import ChangeSet, Comment, Policy
from apps.policies.operations.apply import apply_operations
from apps.policies.operations.whole_trees import is_document
from apps.policies.requests.requested_shares import leads, refused, require_room, target_of
from apps.policies.selectors import list_policies
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_archived, load_tree
from apps.policies.tree.terms import Dates
from apps.policies.tree.working_tree import WorkingTree

SOON = timedelta(days=60)
# Most change sets of one kind and policy; older ones are listed after newer ones are decided.
MOST_INBOX_ROWS = 100
State = ChangeSet.State
REQUEST = ChangeSet.Origin.REQUEST

# Ids of policies with undecided change sets, as `_open` finds them.
UNDECIDED_POLICY_IDS = """SELECT DISTINCT policy_id FROM policies_changeset
    WHERE state = 'proposed' OR (state = 'approved' AND effective_at IS NULL)"""

_MATTERS = f"""
SELECT ARRAY({UNDECIDED_POLICY_IDS}),
    ARRAY(SELECT DISTINCT policy_id FROM policies_changeset WHERE state = 'approved' AND effective_at IS NOT NULL),
    ARRAY(SELECT DISTINCT policy_id FROM policies_grant WHERE expires_at <= %s)
"""  # noqa: S608 - constants only


class Decider:
    """What an actor may decide in one policy, on its current head. Nothing is saved, and later checks may differ."""

    def __init__(self, policy: Policy, actor: Actor, at: datetime) -> None:
        self._policy, self._actor, self._at = policy, actor, at
        self.access = ChangeSetAccess(policy, actor, at)

    @cached_property
    def tree(self) -> TreeColumns:
        return load_tree(self._policy)

    @cached_property
    def may_decide_at_all(self) -> bool:
        """Whether the actor may publish or approve anywhere: a cheap test, which fails for most users."""
        return administers_within_bounds(self._actor) or bool(
            Rights(self._policy, self._actor, self._at).at(Verb.PUBLISH, Verb.APPROVE)
        )

    def decides_shares_of(self, uid: UUID) -> bool:
        """Return whether the actor may publish a change of the entry's shares, which takes rights above it."""
        if not self.may_decide_at_all:
            return False
        working = WorkingTree(self.tree)
        node = working.get(uid)
        if node is None or node.parent_uid is None:
            return False
        try:
            self._publishes.may_see(working, node, 0)
            self._publishes.may_change(working, node, 0, Verb.EDIT_SHARES)
        except (NotAllowed, NotFound):
            return False
        return True

    def may_publish(self, change_set: ChangeSet) -> bool:
        return self.may_decide_at_all and self._passes(change_set, self._publishes)

    def may_approve(self, change_set: ChangeSet) -> bool:
        """Return whether the actor may approve it as a second person; never their own change set."""
        own = self._actor.user is not None and change_set.author_id == self._actor.user.pk
        return not own and self.may_decide_at_all and self._passes(change_set, self._approves)

    @cached_property
    def _publishes(self) -> ActorGuard:
        return ActorGuard(
            policy=self._policy, tree=self.tree, actor=self._actor, at=self._at, extra_verbs=(Verb.PUBLISH,)
        )

    @cached_property
    def _approves(self) -> ActorGuard:
        return ActorGuard(
            policy=self._policy, tree=self.tree, actor=self._actor, at=self._at, override_verb=Verb.APPROVE
        )

    @cached_property
    def _settings(self) -> PolicySettings:
        return settings_of(self._policy, self._policy.head_number)

    def _passes(self, change_set: ChangeSet, guard: ActorGuard) -> bool:
        """Return whether the guard allows all operations; those invalid on the head are left to administrators."""
        if not self.access.may_see(change_set):
            return False
        try:
            if is_document(change_set):
                guard.may_set_policy(0)
                return True
            outcome = apply_operations(
                self.tree,
                change_set.operations,
                settings=self._settings,
                guard=guard,
                archived=lambda uid: load_archived(self._policy, uid),
            )
            if guard is self._publishes:
                refuse_account_moves(outcome, policy=self._policy, actor=self._actor, at=self._at)
        except (NotAllowed, NotFound):
            return False
        except DomainError:
            return administers_within_bounds(self._actor)
        return True


OPEN = (ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)
_ASKS = ("set_shares", "set_dates")


def require_request(change_set: ChangeSet, actor: Actor, at: datetime) -> None:
    """Refuse a request unless it asks more shares of an entry that the actor leads, within the open-request limit."""
    policy, uid = change_set.policy, change_set.asks_entry_uid
    tree = load_tree(policy)
    i = None if uid is None else tree.index_of_uid(uid)
    if uid is None or i is None:
        raise Conflict("The entry that the request is for is archived.", code="entry_archived")
    if i == 0:
        raise refused("The root has all resources: it can't get more.")
    if not leads(policy, tree, uid, actor, at):
        raise NotAllowed("Only managers of an entry can request a larger share for it.", code="not_your_group")
    for index, operation in enumerate(change_set.operations):
        if operation["op"] not in _ASKS or operation.get("entry") != str(uid):
            where = FieldProblem(f"operations[{index}]", "may only be set_shares or set_dates of the entry it asks for")
            raise Invalid(f"{where.where} {where.message}.", code="not_a_request", fields=[where])
    if Decider(policy, actor, at).decides_shares_of(uid):
        raise Conflict("You can change its shares yourself: no request is needed.", code="own_decision")
    after = apply_operations(tree, change_set.operations, settings=settings_of(policy, policy.head_number)).tree
    if not _is_more(tree, after, uid):
        raise refused("The request must ask for a larger share than the entry has.")
    waiting = ChangeSet.objects.filter(origin=ChangeSet.Origin.REQUEST, state__in=OPEN).exclude(pk=change_set.pk)
    require_room(waiting.filter(policy=policy, asks_entry_uid=uid), waiting, actor)


def _is_more(before: TreeColumns, after: TreeColumns, uid: UUID) -> bool:
    was, wanted = target_of(before, uid), target_of(after, uid)
    if was is None or wanted is None:
        return _shares(after, uid) > _shares(before, uid)
    return wanted > was * (1 + 1e-12)


def _shares(tree: TreeColumns, uid: UUID) -> float:
    i = tree.index_of_uid(uid)
    return 0.0 if i is None else float(tree.shares[i])


@dataclass(frozen=True, slots=True)
class EndingShares:
    """An entry whose shares end within 60 days, or have ended without a change."""

    policy: Policy
    uid: UUID
    name: str
    path: str
    shares: float | None
    dates: Dates


@dataclass(frozen=True, slots=True)
class EndingGrant:
    policy: Policy
    line: GrantLine


@dataclass
class Inbox:
    """Pending items, newest first in each list; each change set is in one list.

    `requests` and `reviews` wait for this user's decision. `scheduled`: of others.
    """

    requests: list[ChangeSet] = field(default_factory=list)
    reviews: list[ChangeSet] = field(default_factory=list)
    scheduled: list[ChangeSet] = field(default_factory=list)
    drafts: list[ChangeSet] = field(default_factory=list)
    sent: list[ChangeSet] = field(default_factory=list)
    grants: list[EndingGrant] = field(default_factory=list)
    shares: list[EndingShares] = field(default_factory=list)

    @property
    def n_waiting(self) -> int:
        return len(self.requests) + len(self.reviews)

    @property
    def is_empty(self) -> bool:
        return not (self.n_waiting or self.scheduled or self.drafts or self.sent or self.grants or self.shares)


def get_inbox(*, at: datetime, actor: Actor) -> Inbox:
    """Collect the inbox over all policies that the actor may know of."""
    inbox = Inbox()
    deciders: dict[int, Decider] = {}
    policies = list_policies(actor=actor)
    undecided, scheduled, with_ending_grants = _policies_with_matters(at) if policies else ((), (), ())
    for policy in policies:
        decider = deciders[policy.pk] = Decider(policy, actor, at)
        if policy.pk in undecided:
            for change_set in _waiting(policy, decider, actor):
                (inbox.requests if change_set.origin == REQUEST else inbox.reviews).append(change_set)
        if policy.pk in scheduled:
            inbox.scheduled += [
                each for each in _open(policy, scheduled=True)[:MOST_INBOX_ROWS] if decider.access.may_see(each)
            ]
        if policy.pk in with_ending_grants:
            inbox.grants += _ending_grants(policy, actor, at)
        inbox.shares += _ending_shares(policy, decider, actor, at)
    inbox.drafts, sent = _own(actor)
    if actor.is_bound:
        inbox.drafts, sent = (
            [each for each in own if each.policy_id in deciders and deciders[each.policy_id].access.may_see(each)]
            for own in (inbox.drafts, sent)
        )
    inbox.sent = [each for each in sent if each not in inbox.requests and each not in inbox.reviews]
    inbox.scheduled = [each for each in inbox.scheduled if each not in inbox.sent]
    return inbox


def _policies_with_matters(at: datetime) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Ids of policies with undecided change sets, with scheduled ones, and with grants that end soon or have ended.

    Most policies have none of them, and need no query of their own.
    """
    with connection.cursor() as cursor:
        cursor.execute(_MATTERS, [at + SOON])
        undecided, scheduled, with_ending_grants = cursor.fetchone()
    return undecided, scheduled, with_ending_grants


def count_waiting(*, at: datetime, actor: Actor, ids: Iterable[int] | None = None) -> int:
    """Number of decisions that wait for the actor. ids: of UNDECIDED_POLICY_IDS, if the caller has read them."""
    undecided = set(_open().order_by().values_list("policy_id", flat=True).distinct() if ids is None else ids)
    policies = [policy for policy in list_policies(actor=actor) if policy.pk in undecided] if undecided else []
    return sum(len(list(_waiting(policy, Decider(policy, actor, at), actor))) for policy in policies)


def last_comments(change_sets: Iterable[ChangeSet]) -> dict[int, Comment]:
    """Return the newest comment on each change set."""
    newest = Comment.objects.filter(change_set__in=[each.pk for each in change_sets])
    return {each.change_set_id: each for each in newest.order_by("change_set_id", "pk")}


def _open(policy: Policy | None = None, *, scheduled: bool = False) -> QuerySet[ChangeSet]:
    """Query change sets that are sent and undecided, or scheduled."""
    when = Q(state=State.APPROVED, effective_at__isnull=False)
    change_sets = (
        ChangeSet.objects.filter(when) if scheduled else ChangeSet.objects.filter(state__in=OPEN).exclude(when)
    )
    change_sets = change_sets.select_related("policy").order_by("-pk")
    return change_sets if policy is None else change_sets.filter(policy=policy)


def _waiting(policy: Policy, decider: Decider, actor: Actor) -> Iterator[ChangeSet]:
    if not decider.may_decide_at_all:
        return
    for change_set in _open(policy)[:MOST_INBOX_ROWS]:
        if change_set.origin == REQUEST and change_set.asks_entry_uid is not None:
            if decider.decides_shares_of(change_set.asks_entry_uid):
                yield change_set
        elif not _is_own_and_sent(change_set, actor) and (
            decider.may_approve(change_set) or decider.may_publish(change_set)
        ):
            yield change_set


def _is_own_and_sent(change_set: ChangeSet, actor: Actor) -> bool:
    """Return whether it waits for another user; approved ones, and those held when due, wait for the author again."""
    own = actor.user is not None and change_set.author_id == actor.user.pk
    return own and change_set.state == State.PROPOSED and not change_set.held_for


def _own(actor: Actor) -> tuple[list[ChangeSet], list[ChangeSet]]:
    """Return the actor's drafts, and their sent change sets: all requests, and others while undecided."""
    if actor.user is None:
        return [], []
    own = (
        ChangeSet.objects.filter(author=actor.user, policy__archived_at=None)
        .select_related("policy", "revision")
        .order_by("-pk")
    )
    drafts = list(own.filter(state=State.DRAFT)[:MOST_INBOX_ROWS])
    asked = Q(origin=REQUEST) & ~Q(state=State.DRAFT)
    sent = own.filter(asked | Q(state__in=OPEN))
    return drafts, list(sent.defer("revision__tree", "revision__settings")[:MOST_INBOX_ROWS])


def _ending_grants(policy: Policy, actor: Actor, at: datetime) -> list[EndingGrant]:
    try:
        lines = list_grants(policy_slug=policy.slug, at=at, actor=actor)
    except NotFound:
        return []
    own_lines = [line for line in lines if line.is_own or line.may_change]
    return [EndingGrant(policy, line) for line in ending_soon(own_lines)]


def _ending_shares(policy: Policy, decider: Decider, actor: Actor, at: datetime) -> Sequence[EndingShares]:
    tree, today = decider.tree, timezone.localdate(at)
    due = [(i, dates) for i, dates in tree.dates.items() if dates.ends_on is not None and dates.ends_on <= today + SOON]
    if not due:
        return []
    sees = visible_entries(policy=policy, tree=tree, actor=actor, at=at)
    endings = [
        EndingShares(
            policy, tree.uuid(i), tree.name[i], tree.path(i), None if tree.inherit[i] else float(tree.shares[i]), dates
        )
        for i, dates in due
        if _concerns(sees, i)
    ]
    return sorted(endings, key=lambda each: (each.dates.ends_on or date.max, each.path))


def _concerns(sees: Visibility, i: int) -> bool:
    """Return whether the actor manages the entry's group or the entry itself."""
    parent = int(sees.tree.parent[i])
    return sees.may_see(i) and (sees.may_divide(i) or (parent >= 0 and sees.may_divide(parent)))
