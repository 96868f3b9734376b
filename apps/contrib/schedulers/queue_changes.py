"""Announce each new listing to plug-ins of a queue, with the one before it."""

from __future__ import annotations

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_state import QueueState
from apps.core.plugins import PluginConfig, plugins


def is_followed() -> bool:
    """Whether a plug-in reads listings, so that nothing is unpacked for nobody."""
    return any(type(plugin).queue_changed is not PluginConfig.queue_changed for plugin in plugins())


def announce(scheduler: Scheduler, before: QueueState | None, now: QueueState) -> None:
    """In the transaction that stores the report: what a plug-in writes is stored with the listing, or not at all."""
    for plugin in plugins():
        plugin.queue_changed(scheduler, before, now)
