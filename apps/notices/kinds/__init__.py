"""All kinds of notices, found by listing this folder: a new kind is one file and one test."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from apps.core.errors import NotFound
from apps.engine.installed import Installed
from apps.notices.kinds.base import Kind
from apps.notices.kinds.packages import package_kinds
from apps.notices.models import Notice
from apps.notices.visibility import Reader


@cache
def kinds() -> Mapping[str, Kind]:
    """Built-in kinds by name in alphabetical order, then those of packages."""
    found = _ours()
    return {**found, **package_kinds(tuple(found)).found}


def installed_kinds() -> Installed[Kind]:
    """Kinds of packages (entry points `fairshare.notice_kinds`), and rejected ones."""
    return package_kinds(tuple(_ours()))


def _ours() -> dict[str, Kind]:
    found: dict[str, Kind] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        kind = getattr(importlib.import_module(f"{__name__}.{module.name}"), "KIND", None)
        if isinstance(kind, Kind):
            found[kind.name] = kind
    return found


def kind_of(name: str) -> Kind:
    if name not in kinds():
        raise NotFound(f"There is no kind of notice {name[:40]!r}; known: {', '.join(kinds())}.")
    return kinds()[name]


def is_visible(reader: Reader, notice: Notice) -> bool:
    """Whether the reader may see the notice. Notices of a removed kind are visible to no one."""
    kind = kinds().get(notice.kind)
    if kind is None or (reader.actor.user is not None and not reader.actor.user.is_active):
        return False
    return kind.is_for(reader, notice)
