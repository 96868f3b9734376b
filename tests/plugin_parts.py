"""What the tests of installed plug-ins add to tables of the core's tests, such as rows of the rights matrix."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from apps.core.code_paths import REPOSITORY
from apps.core.plugins import plugins


def parts(name: str) -> Iterator[ModuleType]:
    """The module of this name of each installed plug-in of the product that has one: tests/contrib/<plug-in>/<name>."""
    for plugin in plugins():
        module = f"tests.contrib.{plugin.name.rpartition('.')[2]}.{name}"
        if plugin.name.startswith("apps.contrib.") and find_spec(module) is not None:
            yield import_module(module)


def added(module: str, table: str) -> list[Any]:
    """The rows that they add to a table, in the order of INSTALLED_APPS."""
    return [row for part in parts(module) for row in getattr(part, table, ())]


def installed_modules(*rooms: str) -> list[Path]:
    """Modules of our apps, or of some of their rooms, without those of plug-ins that aren't installed."""
    apps, names = REPOSITORY / "apps", {plugin.name for plugin in plugins()}
    return [
        path
        for room in rooms or (".",)
        for path in sorted((apps / room).rglob("*.py"))
        if (parts := path.relative_to(apps).parts)[0] != "contrib"
        or len(parts) < 3
        or f"apps.contrib.{parts[1]}" in names
    ]
