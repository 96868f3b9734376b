"""Scopes of tokens, for docs/rest.md; every route of REST with its methods and scopes, for the appendix routes.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.urls import URLPattern, URLResolver

from apps.accounts.models import Token
from docsite.markdown import code, table

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_GROUPS = {
    "policies/{policy}/priorities": "Priorities",
    "policies/{policy}/changesets": "Change sets",
    "policies/{policy}/allocations": "Core-hours",
    "policies/{policy}/capacities": "Core-hours",
    "policies/{policy}/mappings": "Mapping of accounts",
    "policies/{policy}/why": "Schedulers",
    "policies": "Policies",
    "me": "My priority",
    "usage": "Usage",
    "schedulers": "Schedulers",
    "federation": "Federation",
    "feeds": "Federation",
    "publications": "Federation",
    "notices": "Notices",
    "webhooks": "Notices",
}


def routes() -> Iterator[tuple[str, str, frozenset[str] | None]]:
    """Path below /api/v1/, method, scopes; None for a route that asks for no scope."""
    from fairshare_web.urls import REST

    for path, view in _walk(REST, ""):
        if path.startswith("^"):
            continue
        scopes = getattr(view, "scopes", None)
        for method in _METHODS:
            if scopes is None:
                if method == "GET":
                    yield path, method, None
            elif hasattr(view, method.lower()):
                yield path, method, scopes.get(method, frozenset())


def _walk(patterns: Sequence[URLPattern | URLResolver], before: str) -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        path = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, path)
        else:
            callback: Any = pattern.callback
            path = re.sub(r"\^(\w+)/\?\$", r"\1", path)  # its slash is free
            yield re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", path), getattr(callback, "view_class", callback)


def meanings() -> str:
    """What a token of each scope may."""
    return table(("scope", "a token with it may"), [(code(value), str(label)) for value, label in Token.Scope.choices])


def tables() -> str:
    """A table of routes for each subject."""
    grouped: dict[str, dict[str, dict[str, list[str]]]] = {}
    for path, method, scopes in routes():
        grouped.setdefault(_group(path), {}).setdefault(path, {}).setdefault(_needed(scopes), []).append(method)
    sections = [
        f"## {name}\n\n"
        + table(("route below `/api/v1/`", "GET", "others"), [_row(*each) for each in sorted(by_path.items())])
        for name, by_path in sorted(grouped.items())
    ]
    return "\n\n".join(sections)


def _row(path: str, methods_by_scopes: Mapping[str, Sequence[str]]) -> tuple[str, str, str]:
    reading = [scopes for scopes, methods in methods_by_scopes.items() if "GET" in methods]
    others = [
        f"{', '.join(methods)}: {scopes}"
        for scopes, every in methods_by_scopes.items()
        if (methods := [method for method in every if method != "GET"])
    ]
    return code(path), ", ".join(reading), "; ".join(others)


def _group(path: str) -> str:
    return next((name for prefix, name in _GROUPS.items() if f"{path}/".startswith(f"{prefix}/")), "Other")


def _needed(scopes: frozenset[str] | None) -> str:
    if scopes is None:
        return "none"
    if scopes >= set(Token.Scope.values):
        return "any"
    return ", ".join(map(code, sorted(scopes))) or "no token: sign in"
