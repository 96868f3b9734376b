"""Names under which this site publishes: no two that readers could confuse."""

from __future__ import annotations

from collections.abc import Iterable

from apps.core.errors import Conflict, FieldProblem, Invalid
from apps.policies.tree.look_alikes import skeleton
from apps.policies.tree.terms import clean_authority


def refuse_name(name: str) -> None:
    """Raises Invalid for what can't be a name of a publication or a feed: says which character, and what to do."""
    try:
        clean_authority(name)
    except ValueError as error:
        raise Invalid(f"The name {error}.", fields=[FieldProblem("name", str(error))]) from error


def refuse_look_alike(name: str, others: Iterable[str]) -> None:
    """Raises Conflict where one of the other names looks alike, as vo-1 and vo-l do."""
    alike = next((other for other in others if other != name and skeleton(other) == skeleton(name)), None)
    if alike is not None:
        message = f"looks like {alike!r}, which is published already: choose one that can't be taken for it"
        raise Conflict(f"The name {name!r} {message}.", code="name_taken", fields=[FieldProblem("name", message)])
