"""What of a tree is other than in the snapshot that the caller has, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework import serializers

from apps.api.errors import Refusal
from apps.core.errors import NotFound, TooLarge
from apps.priorities.selectors import PolicyView
from apps.priorities.selectors.tree_changes import changed, view_at

MOST_CHANGED = 20_000


class GoneEntrySerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    path = serializers.CharField(help_text="Where it was")


class TreeChangesSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    revision = serializers.IntegerField()
    snapshot = serializers.IntegerField(allow_null=True, help_text="What to send as `since` the next time")
    as_of = serializers.DateTimeField(allow_null=True)
    since = serializers.IntegerField()
    entries = serializers.ListField(
        child=serializers.DictField(), help_text="Entries of the form of the tree, without children, parents first"
    )
    gone = GoneEntrySerializer(many=True)


def changes_since(
    view: PolicyView, top: int, since: int, said: Callable[[PolicyView, int], dict[str, Any]]
) -> dict[str, Any]:
    """Raises Refusal 410 where that snapshot is no longer kept: read the tree again."""
    try:
        then = view_at(view, since)
    except NotFound as error:
        message = f"Snapshot {since} is no longer kept: ask again without since."
        raise Refusal(message, code="snapshot_gone", status=410) from error
    found, gone = changed(view, then, top, said)
    if len(found) > MOST_CHANGED:
        raise TooLarge(f"Over {MOST_CHANGED:,} entries have changed: ask for a path further down, or format=csv.")
    return {
        "policy": view.policy.slug,
        "revision": view.revision,
        "snapshot": view.snapshot.snapshot_id if view.snapshot else None,
        "as_of": view.as_of,
        "since": since,
        "entries": [_without_children(said(view, i)) for i in found],
        "gone": [{"uid": then.tree.uuid(j), "path": then.tree.path(j)} for j in gone],
    }


def _without_children(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "children"}
