"""Whom to ask about an account, and what plug-ins know of it, for the sentences of its explanation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from apps.accounts.actor import Actor
from apps.core.plugins import plugins
from apps.explain.my_priority import MyPriority
from apps.explain.verdict import AccountFacts
from apps.policies.access.leads import names_of_leads


def facts_about(actor: Actor, at: datetime, *, is_past: bool = False) -> Callable[[MyPriority], AccountFacts]:
    """What else is known about an account of the actor, such as its leads, forecast and queue. Nothing for the past."""

    def facts_of(priority: MyPriority) -> AccountFacts:
        facts: dict[str, Any] = {}
        if not is_past and not priority.error:
            groups = [step.uid for step in priority.walk]
            facts["leads"] = partial(names_of_leads, policy_slug=priority.policy_slug, uids=groups, at=at, actor=actor)
            for plugin in plugins():
                facts |= plugin.account_facts(priority, actor=actor, at=at)
        return AccountFacts(**facts)

    return facts_of
