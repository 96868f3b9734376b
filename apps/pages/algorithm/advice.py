"""What plug-ins advise about a policy's settings, on the page of its algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.accounts.actor import Actor
from apps.core.plugins import plugins


@dataclass(frozen=True, slots=True)
class SettingsAdvice:
    """template: drawn with `shown`, which is the context."""

    template: str
    context: Mapping[str, Any]


def list_advice(*, policy_slug: str, at: datetime, actor: Actor) -> list[SettingsAdvice]:
    """Of all plug-ins; nothing for readers who may not read it."""
    return [
        each
        for plugin in plugins()
        for each in plugin.settings_advice(policy_slug=policy_slug, at=at, actor=actor)
        if isinstance(each, SettingsAdvice)
    ]
