"""Every kind of notice, found by listing this folder: adding one is one file and one test."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from apps.core.errors import NotFound
from apps.notices.kinds.base import Kind
from apps.notices.models import Notice
from apps.notices.visibility import Reader


@cache
def kinds() -> Mapping[str, Kind]:
    """By name, in the order of the names."""
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
    """Whether the notice is for this reader. Notices of a removed kind are for no one."""
    kind = kinds().get(notice.kind)
    if kind is None or (reader.actor.user is not None and not reader.actor.user.is_active):
        return False
    return kind.is_for(reader, notice)
