"""Give, change, extend and end grants. Givers can't delegate more rights than they hold, nor for longer.

A grant can be changed by its giver or by managers above its entry; its holder may always reduce it. Every service locks
the policy, so that a right can't be withdrawn while its holder delegates it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal
from uuid import UUID

from django.db import transaction

from apps.accounts.actor import Actor
from apps.accounts.audit_log import log_refusals, record
from apps.accounts.models import User
from apps.accounts.people import normalise_group
from apps.accounts.selectors import groups_of
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid, NotAllowed, NotFound, Stale
from apps.policies.access.authority import (
    FOREVER,
    UNSET,
    VERBS_OF_ROLE,
    GrantChange,
    GrantDependencies,
    GrantedRights,
    GrantTerms,
    Lineages,
    until_of,
)
from apps.policies.access.scope import (
    EVERYBODY,
    WRITE,
    Verb,
    administers_within_bounds,
    grants_of,
    require_scope,
    visible_entries,
)
from apps.policies.changesets.change_sets import require_reason
from apps.policies.models import Grant, Policy
from apps.policies.publishing.revisions import lock_policy
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree

DAYS = 365
SUGGESTED = timedelta(days=DAYS)
LONGEST_GRANT_REASON = 512
GivenOn = Literal["keep", "end"]
_SEES_NAMES = (Verb.VIEW_AGGREGATE, Verb.VIEW_MEMBERS)


@dataclass(frozen=True)
class GrantContext:
    """A policy, its tree, and the actor's rights in it, at the instant of a decision."""

    policy: Policy
    lineages: Lineages
    holding: GrantedRights
    actor: Actor
    at: datetime

    @classmethod
    def of(cls, policy: Policy, actor: Actor, at: datetime) -> GrantContext:
        lineages = Lineages(policy, load_tree(policy))
        return cls(policy, lineages, GrantedRights.of_actor(policy, actor, at), actor, at)

    @property
    def rules(self) -> bool:
        return administers_within_bounds(self.actor)

    def may_change(self, grant: Grant) -> bool:
        """Return whether the actor may change the grant: its giver, while still able to give it, or managers above its
        entry."""
        lineage = self.lineages.of(grant.entry_uid)
        if self.is_own(grant) and not self.rules:
            return False
        gave = self.actor.user is not None and grant.granted_by_id == self.actor.user.pk
        from_here = self.rules or gave
        _, missing = self.holding.limit(grant.verbs, lineage if from_here else lineage[:-1])
        return not missing

    def is_own(self, grant: Grant) -> bool:
        """Return whether the actor holds this grant, personally or through a group."""
        user = self.actor.user
        if user is None:
            return False
        return grant.user_id == user.pk or (grant.user_id is None and grant.people in self._groups)

    def may_know(self, grant: Grant) -> bool:
        """Return whether the actor may read the grant: its holder, its giver, and managers who delegate or see names
        there."""
        if self.is_own(grant) or self.may_change(grant):
            return True
        gave = self.actor.user is not None and grant.granted_by_id == self.actor.user.pk
        lineage = self.lineages.of(grant.entry_uid)
        return gave or any(self.holding.until(verb, lineage) for verb in (Verb.DELEGATE, Verb.VIEW_MEMBERS))

    @property
    def _groups(self) -> set[str]:
        return set(groups_of(self.actor.user)) if self.actor.user else set()


def create_grant(*, policy_slug: str, entry_uid: UUID, terms: GrantTerms, at: datetime, actor: Actor) -> Grant:
    """Give a role to a user or sign-in group at an entry and below it."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    event = {"policy_slug": policy.slug, "entry_uid": entry_uid, "subject": terms.username or terms.people}
    with log_refusals("grant.given", actor, at, **event), transaction.atomic():
        setting = GrantContext.of(lock_policy(policy.pk), actor, at)
        # The lineage of an entry; raise NotFound if it is archived or hidden from the actor.
        tree = setting.lineages.tree
        sees = visible_entries(policy=setting.policy, tree=tree, actor=setting.actor, at=setting.at)
        sees.require(tree.index_of_uid(entry_uid))
        lineage = setting.lineages.of(entry_uid)
        grant = Grant(policy=policy, entry_uid=entry_uid, role=terms.role, created_at=at, granted_by=actor.user)
        grant.user, grant.people = _subject(terms.username, terms.people)
        grant.reason, grant.verbs = _reason(terms.reason), _verbs(terms.role, terms.verbs)
        if setting.is_own(grant) and not setting.rules:
            raise NotAllowed("You can't assign a role to yourself: ask a manager above.", code="own_grant")
        _refuse_open_grant(setting, grant)
        end, missing = setting.holding.limit(grant.verbs, lineage)
        _refuse_missing(missing)
        grant.expires_at = _end(suggested_end(end, at) if terms.expires_at is UNSET else terms.expires_at, end, at)
        _refuse_duplicate(grant)
        grant.save()
        _log("grant.given", grant, actor, at)
    return grant


def change_grant(
    *,
    policy_slug: str,
    grant_id: int,
    tag: str,
    change: GrantChange,
    given_on: GivenOn = "end",
    at: datetime,
    actor: Actor,
) -> Grant:
    """Change the given fields of a grant. `tag` is that of the grant the caller loaded. given_on: see `end_grant`."""
    with _on_record("grant.changed", policy_slug, grant_id, actor, at), transaction.atomic():
        setting, grant = _locked(policy_slug, grant_id, tag, actor, at)
        before = copy(grant)
        if change.role is not None or change.verbs is not None:
            grant.verbs = _verbs(change.role or grant.role, change.verbs)
            grant.role = change.role or grant.role
        grant.reason = grant.reason if change.reason is None else _reason(change.reason)
        if change.expires_at is not UNSET:
            grant.expires_at = change.expires_at
        if tag_of(grant) == tag_of(before):
            return before
        _refuse_change(setting, before, grant)
        _refuse_open_grant(setting, grant)
        if grant.role != before.role:
            _refuse_duplicate(grant)
        extends = until_of(grant) != until_of(before) and grant.verbs == before.verbs
        _end_or_adopt_dependents(setting, before, grant, given_on)
        grant.save()
        _log("grant.extended" if extends else "grant.changed", grant, actor, at, before)
    return grant


def end_grant(
    *,
    policy_slug: str,
    grant_id: int,
    tag: str,
    reason: str = "",
    given_on: GivenOn = "end",
    at: datetime,
    actor: Actor,
) -> None:
    """End the grant now. given_on: dependent grants given by its holder end too, or are kept in the actor's name."""
    with _on_record("grant.ended", policy_slug, grant_id, actor, at), transaction.atomic():
        setting, grant = _locked(policy_slug, grant_id, tag, actor, at)
        if not (setting.is_own(grant) or setting.may_change(grant)):
            raise _not_allowed()
        _end_or_adopt_dependents(setting, grant, None, given_on)
        _end_one(grant, setting, reason)


def list_dependent_grants(*, policy_slug: str, grant_id: int, at: datetime, actor: Actor) -> list[Grant]:
    """Return the grants that depend on this one: they end with it, unless the actor adopts them."""
    setting, grant = _found(policy_slug, grant_id, actor, at)
    return [each for each in _grant_dependencies(setting).depending_on(grant) if setting.may_know(each)]


def get_grant(*, policy_slug: str, grant_id: int, at: datetime, actor: Actor) -> Grant:
    return _found(policy_slug, grant_id, actor, at)[1]


def tag_of(grant: Grant) -> str:
    """Return the version tag of a grant, which editors send back so that concurrent changes are detected."""
    state = [str(grant.role), sorted(map(str, grant.verbs)), grant.reason, until_of(grant).timestamp()]
    return f"{grant.pk}-{sha256(repr(state).encode()).hexdigest()[:12]}"


def suggested_end(limit: datetime, at: datetime) -> datetime:
    """Return the suggested expiry: in a year, or when the giver's own right expires."""
    return min(at + SUGGESTED, limit)


def _found(policy_slug: str, grant_id: int, actor: Actor, at: datetime) -> tuple[GrantContext, Grant]:
    policy = get_policy(slug=policy_slug, actor=actor)
    grants = Grant.objects.select_related("user", "granted_by", "policy")
    grant = grants.filter(policy=policy, pk=grant_id).first() if 0 < grant_id < 2**63 else None
    setting = GrantContext.of(policy, actor, at)
    if (
        grant is None
        or not setting.actor.reaches_entry(setting.lineages.of(grant.entry_uid))
        or not setting.may_know(grant)
    ):
        raise NotFound("There is no such grant.")
    return setting, grant


def _locked(policy_slug: str, grant_id: int, tag: str, actor: Actor, at: datetime) -> tuple[GrantContext, Grant]:
    require_scope(actor, WRITE)
    lock_policy(get_policy(slug=policy_slug, actor=actor).pk)
    setting, grant = _found(policy_slug, grant_id, actor, at)
    if tag != tag_of(grant):
        raise Stale("Another person changed this grant: load it again.")
    return setting, grant


def _subject(username: str, people: str) -> tuple[User | None, str]:
    if bool(username) == bool(people):
        raise _invalid("username", "name a person, or a group of people, and not both")
    if people.strip() == EVERYBODY:
        return None, EVERYBODY
    if people:
        try:
            return None, normalise_group(people)
        except ValueError as error:
            raise _invalid("people", str(error)) from None
    user = User.objects.filter(username=username, is_active=True).first() if "\0" not in username else None
    if user is None:
        raise _invalid("username", "has never signed in here; groups may be named before they have members")
    return user, ""


def _refuse_open_grant(setting: GrantContext, grant: Grant) -> None:
    """Restrict grants for all signed-in users: only administrators give them, and only rights to see."""
    if grant.people != EVERYBODY:
        return
    if not setting.rules:
        raise NotAllowed("Only an administrator can open a part of a policy to all signed-in users.", code="site_only")
    if more := [verb for verb in grant.verbs if verb not in _SEES_NAMES]:
        raise _invalid("verbs", f"may only let all users see it (view_aggregate, view_members), not {more[0]}")


def _verbs(role: str, chosen: Sequence[str] | None) -> list[str]:
    if role not in Grant.Role.values:
        raise _invalid("role", f"must be one of {', '.join(Grant.Role.values)}")
    wanted = VERBS_OF_ROLE[role] if chosen is None else chosen
    if unknown := sorted(set(wanted) - set(Verb.values)):
        raise _invalid("verbs", f"does not know {unknown[0][:40]!r}; known: {', '.join(Verb.values)}")
    if not wanted:
        raise _invalid("verbs", "must name at least one right")
    return [verb for verb in Verb.values if verb in set(wanted)]


def _reason(text: str) -> str:
    reason = require_reason(text)
    if len(reason) > LONGEST_GRANT_REASON:
        raise _invalid("reason", f"has at most {LONGEST_GRANT_REASON} characters")
    return reason


def _end(wanted: datetime | None, limit: datetime, at: datetime) -> datetime | None:
    if wanted is not None and wanted <= at:
        raise _invalid("expires_at", "must be in the future")
    if (wanted or FOREVER) > limit:
        own = f"your own right ends on {limit:%Y-%m-%d}"
        raise NotAllowed(f"You can't grant a right for longer than you hold it: {own}.", code="longer_than_own")
    return wanted


def _refuse_missing(missing: Collection[str]) -> None:
    if Verb.DELEGATE in missing:
        raise NotAllowed("You may not give roles at this entry: it takes the right to delegate, there or above.")
    if missing:
        rights = ", ".join(f"“{Verb(verb).label}”" for verb in missing)
        raise NotAllowed(f"You can't grant more than you hold; you lack at this entry: {rights}.", code="more_than_own")


def _refuse_duplicate(grant: Grant) -> None:
    twins = Grant.objects.filter(policy_id=grant.policy_id, entry_uid=grant.entry_uid, role=grant.role)
    if twins.filter(user=grant.user, people=grant.people).exclude(pk=grant.pk).exists():
        raise Conflict(
            "This user or group already has this role at this entry: change or extend that grant.", code="grant_exists"
        )


def _refuse_change(setting: GrantContext, before: Grant, after: Grant) -> None:
    """Allow holders to reduce their own grants, and givers and managers to set what they could give themselves.

    The reason is that of the giver: another person who changes it gives the grant from then on.
    """
    lineage = setting.lineages.of(after.entry_uid)
    reduces = set(after.verbs) <= set(before.verbs) and until_of(after) <= until_of(before)
    if until_of(after) != until_of(before):
        _end(after.expires_at, FOREVER, setting.at)
    if setting.is_own(before) and not setting.rules:
        if not reduces:
            raise NotAllowed("You can't extend your own grant: ask the person who assigned it.", code="own_grant")
        if after.reason != before.reason:
            message = "You can't change the reason of your own grant: it is that of the person who assigned it."
            raise NotAllowed(message, code="own_grant")
        return
    if not setting.may_change(before):
        raise _not_allowed()
    actor = setting.actor.user
    is_giver = before.granted_by_id == (None if actor is None else actor.pk)
    if reduces and (is_giver or after.reason == before.reason):
        return
    end, missing = setting.holding.limit(after.verbs, lineage)
    _refuse_missing(missing)
    _end(after.expires_at, end, setting.at)
    # From now on the grant depends on this actor's rights.
    after.granted_by = setting.actor.user


def _end_or_adopt_dependents(setting: GrantContext, grant: Grant, replacement: Grant | None, given_on: GivenOn) -> None:
    """End grants that lose their basis, or adopt those that the actor could have given, from the root down."""
    while resting := _grant_dependencies(setting).depending_on(grant, replacement):
        kept = _adoptable(setting, grant, resting) if given_on == "keep" else None
        if kept is None:
            for each in resting:
                _end_one(each, setting, f"It depended on another grant that {'changed' if replacement else 'ended'}.")
            return
        kept.granted_by = setting.actor.user
        kept.save(update_fields=["granted_by"])
        _log("grant.adopted", kept, setting.actor, setting.at)


def _adoptable(setting: GrantContext, grant: Grant, resting: Sequence[Grant]) -> Grant | None:
    """Return a dependent grant that the actor could have given without any of these grants, or None.

    It must have been given by the grant's holder, and be neither for the same holder nor for the actor.
    """
    gone = {grant.pk, *(each.pk for each in resting)}
    actor = setting.actor
    own = [] if actor.user is None else grants_of(setting.policy, actor.user, setting.at).exclude(pk__in=gone)
    holding = GrantedRights(own, rules=setting.rules)
    direct = [each for each in resting if each.granted_by_id == grant.user_id or grant.user_id is None]
    for each in direct:
        end, missing = holding.limit(each.verbs, setting.lineages.of(each.entry_uid))
        for_self = setting.is_own(each) and not setting.rules
        if not missing and until_of(each) <= end and not for_self and not _same_people(each, grant):
            return each
    return None


def _end_one(grant: Grant, setting: GrantContext, reason: str) -> None:
    _log("grant.ended", grant, setting.actor, setting.at, reason=reason.strip()[:LONGEST_GRANT_REASON])
    grant.delete()


def _same_people(grant: Grant, other: Grant) -> bool:
    return (grant.user_id, grant.people) == (other.user_id, other.people)


def _grant_dependencies(setting: GrantContext) -> GrantDependencies:
    grants = Grant.objects.filter(policy=setting.policy).select_related("user", "granted_by")
    return GrantDependencies([each for each in grants if until_of(each) > setting.at], setting.lineages)


def _log(
    verb: str, grant: Grant, actor: Actor, at: datetime, before: Grant | None = None, reason: str | None = None
) -> None:
    details = {"grant": grant.pk, "role": grant.role, "verbs": grant.verbs, "expires_at": grant.expires_at}
    if before is not None:
        details["before"] = {"role": before.role, "verbs": before.verbs, "expires_at": before.expires_at}
    record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=grant.policy.slug,
        entry_uid=grant.entry_uid,
        subject=grant.user.username if grant.user else grant.people,
        details=details,
        reason=grant.reason if reason is None else reason,
    )


def _on_record(verb: str, policy_slug: str, grant_id: int, actor: Actor, at: datetime) -> Any:
    return log_refusals(verb, actor, at, policy_slug=policy_slug[:64], subject=f"grant {grant_id}")


def _not_allowed() -> DomainError:
    return NotAllowed(
        "Only the person who assigned a grant, or a manager above its entry, can change it.", code="not_your_grant"
    )


def _invalid(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])
