"""Hints for look-ups that find no entry or several.

They are made from rules only, never from entries, so that a missing entry and one that is hidden from the caller get
the same hint.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from apps.core.code_paths import command_name
from apps.priorities.serving.lookup import LookupIndex, Query

Json = dict[str, Any]
_FIELDS = ("user", "group", "namespace", "dn", "fqan", "project")
_MOST_NAMESPACES = 20
_PLACES = (
    "check the spelling, send other fields of the account, or attach it to an entry on the page Accounts "
    "(POST /api/v1/policies/{policy}/mappings)"
)
_NO_RULES = (
    "The policy has no mapping rule for such accounts: make one on the page Accounts, or with "
    f"{command_name('import_policy')} --map."
)


class Hints:
    """Hints for look-ups in one index."""

    def __init__(self, index: LookupIndex, policy_slug: str) -> None:
        self._index = index
        self._places = _PLACES.format(policy=policy_slug)

    def unmapped(self, query: Query, *, is_restricted: bool) -> Json:
        """Fields `tried` (accounts that rules were applied to) and `hint`. is_restricted: leave out namespaces."""
        fields = _given_fields(query)
        names = () if is_restricted or "namespace" in fields else self._index.named.namespaces[:_MOST_NAMESPACES]
        tried = [{**fields, "namespace": name} for name in names] or [fields]
        if is_restricted:
            hint = f"None of the entries that you see has this name: {self._places}."
        elif not self._needed:
            hint = _NO_RULES
        elif (namespace := fields.get("namespace")) and not self._index.knows_namespace(namespace):
            hint = f"No account and no mapping rule has the namespace {namespace[:80]!r}: {self._of_namespaces}."
        elif missing := [name for name in self._needed if name not in fields and name not in ("user", "namespace")]:
            hint = f"Send {' and '.join(missing)} too: mapping rules ask for it. Else {self._places}."
        else:
            hint = f"No mapping rule leads this account to an entry: {self._places}."
        return {"tried": tried, "hint": hint}

    def without_own_entry(self, group: str) -> str:
        """group: its path; "" for a reader who sees a part."""
        where = f" in {group}" if group else ""
        return (
            f"This account has no entry of its own{where}, so the numbers are not its own. Import the users and shares "
            f"of the scheduler again, or add the user to the group; else {self._places}."
        )

    def ambiguous(self, choices: list[Json]) -> Json:
        names = list(dict.fromkeys(choice["namespace"] for choice in choices))
        shown = " or ".join(names[:_MOST_NAMESPACES])
        hint = f"This name has different entries in different namespaces. Send the namespace: {shown}."
        return {"choices": choices, "hint": hint}

    @cached_property
    def _needed(self) -> tuple[str, ...]:
        """Account fields that some rule reads."""
        fields: dict[str, None] = {}
        for rule in self._index.places.rules:
            fields["user"] = None
            if rule.group_pattern or rule.kind == "association" or "{group}" in rule.suffix:
                fields["group"] = None
            if "{project}" in rule.suffix or rule.kind == "share_tree":
                fields["project"] = None
            if rule.fqan_pattern:
                fields["fqan"] = None
            if rule.namespace:
                fields["namespace"] = None
        return tuple(fields)

    @cached_property
    def _of_namespaces(self) -> str:
        names = self._index.namespaces[:_MOST_NAMESPACES]
        return f"send namespace {' or '.join(names)}, or none" if names else "send none"


def _given_fields(query: Query) -> Json:
    if isinstance(query, str):
        return {"user": query}
    return {name: text for name in _FIELDS if (text := getattr(query, name))}
