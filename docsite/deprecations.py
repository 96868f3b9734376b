"""The appendix renamed-fields.md: fields of REST that have another name now."""

from __future__ import annotations

from collections.abc import Iterator

from apps.web.rest import deprecations
from apps.web.rest.deprecations import PREFIX, braced_route
from docsite.markdown import code, table


def renamed_fields() -> str:
    """A row for each route, with all its names."""
    return table((f"answers below `/{PREFIX}`", "old name → name", "both until"), _rows())


def _rows() -> Iterator[tuple[str, str, str]]:
    names: dict[tuple[str, str], dict[str, str]] = {}
    for renamed in deprecations.renamed_fields():
        for place in renamed.where:
            route = braced_route(place.partition(" ")[2])
            names.setdefault((route, f"{renamed.ends_on}"), {}).update(renamed.names)
    for (route, ends_on), by_old in names.items():
        yield code(route), ", ".join(f"{code(old)} → {code(name)}" for old, name in by_old.items()), ends_on
