"""Tokens of agents: bound to one scheduler of one policy, and only what its agent asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.accounts.services import MOST_TOKEN_DAYS, NewToken, allowed_scopes, make_token, revoke_tokens_of_scheduler
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.services import connect_scheduler, find_to_change, lock_to_change, refusals_of
from apps.core.errors import NotAllowed

AGENT_SCOPES = (Token.Scope.SCHEDULERS.value, Token.Scope.PRIORITIES_READ.value)


@dataclass(frozen=True, slots=True)
class MadeToken:
    """A scheduler with a new token of its agent; text: the token, which is not stored."""

    scheduler: Scheduler
    token: Token
    text: str


def may_make_tokens(actor: Actor) -> bool:
    """Whether the actor may give a token what an agent needs: administrators do."""
    return set(AGENT_SCOPES) <= set(allowed_scopes(actor))


def connect_with_token(
    *, policy_slug: str, name: str, settings: Mapping[str, Any], at: datetime, actor: Actor
) -> MadeToken:
    """Connect a scheduler, and make the token of its agent: both, or neither. Raises as the two do."""
    with refusals_of("scheduler.connected", actor, at, policy_slug, name), transaction.atomic():
        scheduler = connect_scheduler(policy_slug=policy_slug, name=name, settings=settings, at=at, actor=actor)
        return _make(scheduler, at, actor)


def make_agent_token(*, name: str, at: datetime, actor: Actor) -> MadeToken:
    """Another token for the scheduler's agent. Earlier ones that nobody has used yet are revoked; a running agent
    keeps its own.

    Raises:
        NotFound: there is no such scheduler, or the actor doesn't manage its policy.
        NotAllowed: the actor is no administrator.
    """
    unlocked = find_to_change(name, actor, at)
    with refusals_of("token.made", actor, at, unlocked.policy.slug, name), transaction.atomic():
        scheduler = lock_to_change(unlocked, actor, at)
        revoke_tokens_of_scheduler(name=name, unused_only=True, at=at, actor=actor)
        return _make(scheduler, at, actor)


def _make(scheduler: Scheduler, at: datetime, actor: Actor) -> MadeToken:
    if actor.user is None:
        raise NotAllowed(_("A token needs an owner: sign in."))
    new = NewToken(
        name=_("Agent of %(name)s") % {"name": scheduler.name},
        scopes=AGENT_SCOPES,
        user=actor.user,
        policy_slug=scheduler.policy.slug,
        scheduler_name=scheduler.name,
        days=MOST_TOKEN_DAYS,
    )
    token, text = make_token(new, at=at, actor=actor)
    return MadeToken(scheduler, token, text)


def last_asked_at(scheduler: Scheduler) -> datetime | None:
    """When an agent last used a token of this scheduler, to the minute; None before the first time."""
    used = Token.objects.filter(scheduler_name=scheduler.name, revoked_at=None).exclude(last_used_at=None)
    newest: datetime | None = used.order_by("-last_used_at").values_list("last_used_at", flat=True).first()
    return newest
