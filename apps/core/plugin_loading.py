"""Plug-ins of other packages: one that fails when it is imported is named and left out, and the site serves without it.

Those of this repository are part of the product: their failures are raised.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

logger = logging.getLogger(__name__)
foreign: set[str] = set()  # names of the apps that the settings name
failures: dict[str, str] = {}  # why one doesn't run, by the name of its app


def load_plugins(names: Sequence[str]) -> list[str]:
    """The names of those whose app can be imported, for INSTALLED_APPS."""
    foreign.update(names)
    for name in names:
        with guarded(name):
            import_module(name)
            import_module(f"{name}.apps")
    return [name for name in dict.fromkeys(names) if name not in failures]


@contextmanager
def guarded(name: str) -> Iterator[None]:
    """Record what a plug-in of another package raises; errors of others pass."""
    try:
        yield
    except Exception as error:
        if name not in foreign:
            raise
        failures.setdefault(name, f"{type(error).__name__}: {error}")
        logger.error("The plug-in %s fails when it is imported and is left out: %s", name, failures[name])
