"""Plug-ins: what an installed app adds to the core, in declared slots.

The core reads slots and imports no plug-in; each slot is read in one place, which its comment names.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from django.apps import AppConfig, apps


class PluginConfig(AppConfig):
    """The app of a plug-in. Its `urls` hold `urlpatterns` (pages and fragments) and `rest` (below /api/v1)."""

    default = False  # Django looks for one class in `apps`, and this one is imported there

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.default = True


def plugins() -> Iterator[PluginConfig]:
    """Installed plug-ins in the order of INSTALLED_APPS."""
    return (config for config in apps.get_app_configs() if isinstance(config, PluginConfig))


def route_modules() -> Iterator[ModuleType]:
    """The `urls` of each plug-in that has some."""
    for plugin in plugins():
        name = f"{plugin.name}.urls"
        if find_spec(name) is not None:
            yield import_module(name)
