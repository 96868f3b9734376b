"""What plug-ins add to the inbox: matters that wait for the actor, and what the actor has sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from apps.accounts.actor import Actor
from apps.core.plugins import plugins


@dataclass(frozen=True, slots=True)
class InboxItem:
    """One line of the inbox. key: unique and stable, for the tag of the page. state: such as open or granted.

    waits: for the actor's decision; otherwise the actor has sent it. css: of the badge: warn, ok, bad or "".
    """

    key: str
    title: str
    text: str
    url: str
    badge: str
    css: str
    state: str
    at: datetime
    waits: bool


def list_items(*, at: datetime, actor: Actor) -> list[InboxItem]:
    """Items of all plug-ins, newest first."""
    items: list[InboxItem] = [item for plugin in plugins() for item in plugin.inbox_items(at=at, actor=actor)]
    return sorted(items, key=lambda item: item.at, reverse=True)
