"""Plug-ins: what an installed app adds to the core, in declared slots.

The core reads slots and imports no plug-in. A slot is a method that adds nothing unless a plug-in overrides it, and is
read in one place, which its docstring names. Plug-ins import their modules inside these methods: Django asks for the
class before it loads models.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, ClassVar

from django.apps import AppConfig, apps


class PluginConfig(AppConfig):
    """The app of a plug-in. Its `urls` hold `urlpatterns` (pages and fragments) and `rest` (below /api/v1).

    requires: names of the apps of plug-ins whose code it uses. extends: of those whose slots it fills while they are
    installed.
    """

    default = False  # Django looks for one class in `apps`, and this one is imported there

    requires: ClassVar[Sequence[str]] = ()
    extends: ClassVar[Sequence[str]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.default = True

    def metrics(self) -> Iterable[Any]:
        """Metric families of /metrics. Read by `pages.monitoring.exposition`."""
        return ()

    def degradations(self) -> Iterable[Mapping[str, str]]:
        """What limits the site now: code, subject and message of each. Read by /readyz, `pages.monitoring.views`."""
        return ()

    def attention_items(self, *, at: datetime, actor: Any) -> Iterable[Any]:
        """What needs attention on the overview: `AttentionItem` of `pages.overview.attention`, which reads them."""
        return ()

    def notice_kinds(self) -> Mapping[str, Any]:
        """Kinds of notices by name: `Kind` of the plug-in of notices, which reads them in its `kinds`."""
        return {}


KEYED_SLOTS = ("notice_kinds",)


def plugins() -> Iterator[PluginConfig]:
    """Installed plug-ins in the order of INSTALLED_APPS."""
    return (config for config in apps.get_app_configs() if isinstance(config, PluginConfig))


def keyed(slot: str) -> dict[str, Any]:
    """What the installed plug-ins add to a slot of KEYED_SLOTS, by key. Of two with one key the first stays."""
    added: dict[str, Any] = {}
    for plugin in plugins():
        added |= {key: entry for key, entry in getattr(plugin, slot)().items() if key not in added}
    return added


def route_modules() -> Iterator[ModuleType]:
    """The `urls` of each plug-in that has some."""
    for plugin in plugins():
        name = f"{plugin.name}.urls"
        if find_spec(name) is not None:
            yield import_module(name)
