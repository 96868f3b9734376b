"""What waits for one person: requests from below, changes to decide, what is scheduled or held, what ends soon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts.actor import Actor
from apps.core.errors import NotFound
from apps.policies.access.holders import GrantLine, ending_soon, list_grants
from apps.policies.access.scope import Visibility, visible_entries
from apps.policies.changesets.decisions import Decider
from apps.policies.models import ChangeSet, Comment, Policy
from apps.policies.requests.request_rules import OPEN
from apps.policies.selectors import list_policies
from apps.policies.tree.terms import Dates

SOON = timedelta(days=60)
MOST = 100  # of one kind in one policy; older ones wait until newer ones are decided
State = ChangeSet.State
REQUEST = ChangeSet.Origin.REQUEST


@dataclass(frozen=True, slots=True)
class EndingShares:
    """An entry whose shares end within 60 days, or have ended and were kept."""

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
    """Newest first in each list. `requests` and `reviews` wait for this person's decision."""

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
    """Of every policy that the actor knows of."""
    found = Inbox()
    for policy in list_policies(actor=actor):
        decider = Decider(policy, actor, at)
        for change_set in _waiting(policy, decider, actor):
            (found.requests if change_set.origin == REQUEST else found.reviews).append(change_set)
        found.scheduled += [each for each in _open(policy, scheduled=True)[:MOST] if decider.access.may_see(each)]
        found.grants += _ending_grants(policy, actor, at)
        found.shares += _ending_shares(policy, decider, actor, at)
    found.drafts, found.sent = _own(actor)
    return found


def count_waiting(*, at: datetime, actor: Actor) -> int:
    """How many decisions wait for the actor: asked for on every page."""
    ids = set(_open().order_by().values_list("policy_id", flat=True).distinct())
    policies = [policy for policy in list_policies(actor=actor) if policy.pk in ids] if ids else []
    return sum(len(list(_waiting(policy, Decider(policy, actor, at), actor))) for policy in policies)


def last_words(change_sets: Iterable[ChangeSet]) -> dict[int, Comment]:
    """The newest comment on each, by change set."""
    newest = Comment.objects.filter(change_set__in=[each.pk for each in change_sets])
    return {each.change_set_id: each for each in newest.order_by("change_set_id", "pk")}


def _open(policy: Policy | None = None, *, scheduled: bool = False) -> QuerySet[ChangeSet]:
    """Sent and undecided; or decided, for a time to come."""
    when = Q(state=State.APPROVED, effective_at__isnull=False)
    found = ChangeSet.objects.filter(when) if scheduled else ChangeSet.objects.filter(state__in=OPEN).exclude(when)
    found = found.select_related("policy").order_by("-pk")
    return found if policy is None else found.filter(policy=policy)


def _waiting(policy: Policy, decider: Decider, actor: Actor) -> Iterator[ChangeSet]:
    if not decider.may_decide_at_all:
        return
    for change_set in _open(policy)[:MOST]:
        if change_set.origin == REQUEST and change_set.asks_entry_uid is not None:
            if decider.decides_shares_of(change_set.asks_entry_uid):
                yield change_set
        elif not _is_own_and_sent(change_set, actor) and (
            decider.may_approve(change_set) or decider.may_publish(change_set)
        ):
            yield change_set


def _is_own_and_sent(change_set: ChangeSet, actor: Actor) -> bool:
    """Another person has to decide; once approved, or held when it was due, it is the author's turn again."""
    own = actor.user is not None and change_set.author_id == actor.user.pk
    return own and change_set.state == State.PROPOSED and not change_set.held_for


def _own(actor: Actor) -> tuple[list[ChangeSet], list[ChangeSet]]:
    """(drafts, what was sent and is neither withdrawn by its author nor an ordinary publish)."""
    if actor.user is None:
        return [], []
    own = ChangeSet.objects.filter(author=actor.user).select_related("policy", "revision").order_by("-pk")
    if actor.token is not None and actor.token.policy_slug:
        own = own.filter(policy__slug=actor.token.policy_slug)
    drafts = list(own.filter(state=State.DRAFT)[:MOST])
    asked = Q(origin=REQUEST) & ~Q(state=State.DRAFT)
    sent = own.filter(asked | Q(state__in=OPEN))
    return drafts, list(sent.defer("revision__tree", "revision__settings")[:MOST])


def _ending_grants(policy: Policy, actor: Actor, at: datetime) -> list[EndingGrant]:
    try:
        lines = list_grants(policy_slug=policy.slug, at=at, actor=actor)
    except NotFound:
        return []
    mine = [line for line in lines if line.is_own or line.may_change]
    return [EndingGrant(policy, line) for line in ending_soon(mine)]


def _ending_shares(policy: Policy, decider: Decider, actor: Actor, at: datetime) -> Sequence[EndingShares]:
    tree, today = decider.tree, timezone.localdate(at)
    due = [(i, dates) for i, dates in tree.dates.items() if _ends_soon(dates, today)]
    if not due:
        return []
    sees = visible_entries(policy=policy, tree=tree, actor=actor, at=at)
    found = [
        EndingShares(
            policy, tree.uuid(i), tree.name[i], tree.path(i), None if tree.inherit[i] else float(tree.shares[i]), dates
        )
        for i, dates in due
        if _concerns(sees, i)
    ]
    return sorted(found, key=lambda each: (each.dates.ends_on or date.max, each.path))


def _ends_soon(dates: Dates, today: date) -> bool:
    return dates.ends_on is not None and dates.ends_on <= today + SOON


def _concerns(sees: Visibility, i: int) -> bool:
    """Managers of the group it is in, or of what lies below it."""
    parent = int(sees.tree.parent[i])
    return sees.may_see(i) and (sees.may_divide(i) or (parent >= 0 and sees.may_divide(parent)))
