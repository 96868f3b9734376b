"""Checks of the installed plug-ins: what they require is there, and no two of them claim one entry of a slot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error

from apps.core.plugins import KEYED_SLOTS, plugins


def check_required_plugins(app_configs: Any, **_kwargs: Any) -> list[CheckMessage]:
    """An error for each plug-in that is required and isn't installed."""
    return [
        Error(
            f"{plugin.name} requires {name}, which is not installed.",
            hint=f"Add {name} to INSTALLED_APPS, or take {plugin.name} out.",
            id="fairshare.plugin_required",
        )
        for plugin in plugins()
        for name in plugin.requires
        if not apps.is_installed(name)
    ]


def check_claimed_entries(app_configs: Any, **_kwargs: Any) -> list[CheckMessage]:
    """An error for each entry of a slot that two plug-ins claim."""
    return [
        Error(
            f"{first} and {second} both declare {key!r} in {name}; only that of {first} is used.",
            hint="Take one of them out of INSTALLED_APPS.",
            id="fairshare.plugin_claimed",
        )
        for name in KEYED_SLOTS
        for key, first, second in _claimed_twice(name)
    ]


def _claimed_twice(name: str) -> Iterator[tuple[str, str, str]]:
    owners: dict[str, str] = {}
    for plugin in plugins():
        for key in getattr(plugin, name)():
            if key in owners:
                yield key, owners[key], plugin.name
            owners.setdefault(key, plugin.name)
