"""List grants, and explain which rights a user holds at an entry and by which grants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core.errors import NotAllowed, NotFound
from apps.policies.access.authority import until_of
from apps.policies.access.delegation import GrantContext, get_grant, tag_of
from apps.policies.access.scope import (
    EVERYBODY,
    Rights,
    Verb,
    Visibility,
    administers_within_bounds,
    grants_of,
    visible_entries,
)
from apps.policies.models import Grant, Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import TreeColumns

SOON = timedelta(days=60)
VisibilityOf = Callable[..., Visibility]
_DIVIDES = (Verb.EDIT_SHARES, Verb.EDIT_STRUCTURE)


class GrantState(StrEnum):
    ACTIVE = "active"
    SOON = "ends_soon"
    EXPIRED = "expired"
    # The entry is archived; the grant has no effect unless the entry is restored.
    DORMANT = "dormant"


@dataclass(frozen=True, slots=True)
class GrantLine:
    """A grant as listed. path and entry_name are "" if the entry is archived and its last name is unknown."""

    grant: Grant
    path: str
    entry_name: str
    state: GrantState
    tag: str
    may_change: bool
    is_own: bool


@dataclass(frozen=True, slots=True)
class GrantBasis:
    """A grant by which a verb is held, and the entry where it was given."""

    grant: Grant
    path: str
    entry_name: str
    is_inherited: bool


@dataclass(frozen=True, slots=True)
class VerbStatus:
    verb: str
    label: str
    is_held: bool
    # Expiry of the grant that lasts longest; None for no end.
    until: datetime | None
    grounds: Sequence[GrantBasis]


@dataclass(frozen=True, slots=True)
class Step:
    """One ancestor of an entry (or the entry itself), with the user's grants there."""

    uid: UUID
    name: str
    path: str
    grants: Sequence[Grant]


@dataclass(frozen=True, slots=True)
class Access:
    """What one user may do at one entry: each verb with its grants, and the lineage with the grants at each step."""

    policy_slug: str
    person: User
    entry_uid: UUID
    entry_name: str
    path: str
    is_admin: bool
    is_open: Annotated[bool, "The policy shows its tree to everyone who signs in"]
    may_see: bool
    may_divide: Annotated[bool, "May change entries below this one"]
    may_change_own: Annotated[bool, "May change the entry's own shares, which managers above it decide"]
    verbs: Sequence[VerbStatus]
    steps: Sequence[Step]


def list_grants(
    *,
    policy_slug: str,
    entry_uid: UUID | None = None,
    below: bool = False,
    username: str = "",
    at: datetime,
    actor: Actor,
) -> list[GrantLine]:
    """List the grants that the actor may know of, by path and name. entry_uid: only at that entry; below: also below
    it."""
    policy = get_policy(slug=policy_slug, actor=actor)
    setting = GrantContext.of(policy, actor, at)
    grants = Grant.objects.filter(policy=policy).select_related("user", "granted_by", "policy")
    if username:
        person = User.objects.filter(username=username).first() if "\0" not in username else None
        grants = grants.filter(user=person) if person else grants.none()
    lines = []
    for grant in grants:
        lineage = setting.lineages.of(grant.entry_uid)
        wanted = entry_uid is None or (entry_uid in lineage if below else entry_uid == grant.entry_uid)
        if wanted and actor.reaches_entry(lineage) and setting.may_know(grant):
            lines.append(_line(setting, grant))
    return sorted(lines, key=lambda line: (line.path, name_of(line.grant), line.grant.pk))


def get_grant_line(*, policy_slug: str, grant_id: int, at: datetime, actor: Actor) -> GrantLine:
    """Return one grant as listed; NotFound if the actor may not know of it."""
    grant = get_grant(policy_slug=policy_slug, grant_id=grant_id, at=at, actor=actor)
    return _line(GrantContext.of(grant.policy, actor, at), grant)


def ending_soon(lines: Sequence[GrantLine]) -> list[GrantLine]:
    """Select grants that end within 60 days or have ended, soonest first."""
    ending = [line for line in lines if line.state in (GrantState.SOON, GrantState.EXPIRED)]
    return sorted(ending, key=lambda line: (until_of(line.grant), line.grant.pk))


def name_of(grant: Grant) -> str:
    """Return the display name of the grant's user or group."""
    if grant.user is None and grant.people == EVERYBODY:
        return str(_("all signed-in users"))
    return str(grant.user) if grant.user else grant.people


def explain_access(
    *,
    policy_slug: str,
    entry_uid: UUID,
    username: str,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> Access:
    """Explain a user's rights at an entry. For other users, the actor needs to delegate or see names there.

    visibility: returns visible entries; rooms above, which know accounts, pass one that adds users' own entries.
    """
    policy = get_policy(slug=policy_slug, actor=actor)
    setting = GrantContext.of(policy, actor, at)
    tree = setting.lineages.tree
    i = visibility(policy=policy, tree=tree, actor=actor, at=at).require(tree.index_of_uid(entry_uid))
    lineage = setting.lineages.of(entry_uid)
    person = _person(username, setting, lineage)
    held = list(grants_of(policy, person, at).select_related("granted_by", "user")) if person.is_active else []
    steps = [_step(setting, uid, held) for uid in lineage]
    rules = person.is_active and person.is_superuser
    verbs = [_answer(verb, steps, rules=rules) for verb in Verb]
    return Access(
        policy.slug,
        person,
        entry_uid,
        *_place(setting, entry_uid),
        rules,
        is_open=policy.visibility == Policy.Visibility.TREE,
        may_see=_sees(visibility, policy, setting, person, i),
        may_divide=rules or _is_held(_DIVIDES, _deciding(tree, i, steps)),
        may_change_own=i > 0 and (rules or _is_held((Verb.EDIT_SHARES,), _deciding(tree, int(tree.parent[i]), steps))),
        verbs=verbs,
        steps=steps,
    )


def _deciding(tree: TreeColumns, i: int, steps: Sequence[Step]) -> Sequence[Step]:
    """The steps at which a right divides among an entry's children: those of one that inherits compete above it."""
    while i > 0 and tree.inherit[i]:
        i = int(tree.parent[i])
    return steps[: len(tree.ancestors(i)) + 1]


def _is_held(verbs: Sequence[Verb], steps: Sequence[Step]) -> bool:
    return any(verb in grant.verbs for step in steps for grant in step.grants for verb in verbs)


def _person(username: str, setting: GrantContext, lineage: Sequence[UUID]) -> User:
    actor = setting.actor
    if actor.user is not None and username in ("", actor.user.username):
        return actor.user
    if not any(setting.holding.until(verb, lineage) for verb in (Verb.DELEGATE, Verb.VIEW_MEMBERS)):
        raise NotAllowed(
            "You can look up your own rights here. For others, you need the right to delegate or to see members."
        )
    person = User.objects.filter(username=username).first() if "\0" not in username else None
    if person is None:
        raise NotFound(f"There is no user {username[:80]!r}.", code="no_such_person")
    return person


def _sees(visibility: VisibilityOf, policy: Policy, setting: GrantContext, person: User, i: int) -> bool:
    if not person.is_active:
        return False
    actor = Actor(user=person, via="page")
    return visibility(policy=policy, tree=setting.lineages.tree, actor=actor, at=setting.at).may_see(i)


def _step(setting: GrantContext, uid: UUID, held: Sequence[Grant]) -> Step:
    name, path = _place(setting, uid)
    return Step(uid, name, path, [grant for grant in held if grant.entry_uid == uid])


def _answer(verb: Verb, steps: Sequence[Step], *, rules: bool) -> VerbStatus:
    grounds = [
        GrantBasis(grant, step.path, step.name, step is not steps[-1])
        for step in steps
        for grant in step.grants
        if verb in grant.verbs
    ]
    ends = [ground.grant.expires_at for ground in grounds]
    until = None if rules or None in ends else max((end for end in ends if end), default=None)
    return VerbStatus(verb.value, str(verb.label), rules or bool(grounds), until, grounds)


def _line(setting: GrantContext, grant: Grant) -> GrantLine:
    name, path = _place(setting, grant.entry_uid)
    own = setting.is_own(grant)
    state = _state(setting, grant)
    return GrantLine(grant, path, name, state, tag_of(grant), setting.may_change(grant), own)


def _state(setting: GrantContext, grant: Grant) -> GrantState:
    if until_of(grant) <= setting.at:
        return GrantState.EXPIRED
    if setting.lineages.is_archived(grant.entry_uid):
        return GrantState.DORMANT
    return GrantState.SOON if until_of(grant) <= setting.at + SOON else GrantState.ACTIVE


def _place(setting: GrantContext, uid: UUID) -> tuple[str, str]:
    tree = setting.lineages.tree
    i = tree.index_of_uid(uid)
    if i is not None:
        # The root is shown as the whole policy.
        return tree.name[i] if i else setting.policy.name, tree.path(i)
    name = setting.lineages.last_name(uid)
    above = [tree.index_of_uid(step) for step in setting.lineages.of(uid)]
    nearest = max((j for j in above if j is not None), default=0)
    return name, f"{tree.path(nearest).rstrip('/')}/…/{name}"


def may_grant(*, policy_slug: str, at: datetime, actor: Actor) -> bool:
    """Return whether the actor may delegate rights anywhere in the policy."""
    policy = get_policy(slug=policy_slug, actor=actor)
    return administers_within_bounds(actor) or bool(Rights(policy, actor, at).at(Verb.DELEGATE))


def longest_end(*, policy_slug: str, entry_uid: UUID, verbs: Sequence[str], at: datetime, actor: Actor) -> datetime:
    """Return until when the actor can delegate these verbs at an entry; FOREVER if without an end."""
    setting = GrantContext.of(get_policy(slug=policy_slug, actor=actor), actor, at)
    return setting.holding.limit(verbs, setting.lineages.of(entry_uid))[0]
