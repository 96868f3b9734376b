"""What plug-ins know about an account, for the sentences of its explanation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from apps.accounts.actor import Actor
from apps.core.plugins import plugins
from apps.explain.my_priority import MyPriority
from apps.explain.verdict import AccountFacts


def facts_about(actor: Actor, at: datetime, *, is_past: bool = False) -> Callable[[MyPriority], AccountFacts]:
    """What else is known about an account of the actor, such as a forecast and its queue. Nothing for the past."""

    def facts_of(priority: MyPriority) -> AccountFacts:
        facts: dict[str, Any] = {}
        if not is_past and not priority.error:
            for plugin in plugins():
                facts |= plugin.account_facts(priority, actor=actor, at=at)
        return AccountFacts(**facts)

    return facts_of
