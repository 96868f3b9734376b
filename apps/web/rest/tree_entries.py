"""One entry of a tree with its numbers, as routes answer it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.core import clock
from apps.federation.mounts.selectors import provenance_of_mount
from apps.priorities.entry_order import json_number
from apps.priorities.metering import CORE_S, UNITS
from apps.priorities.selectors import PolicyView
from apps.web.rest.priority_fields import NumberField

STATES = ("over", "under", "on", "idle", "unknown")
_COLUMNS = (
    "uid",
    "name",
    "path",
    "kind",
    "shares",
    "target",
    "target_global",
    "actual",
    "priority",
    "rank",
    "factor",
    "usage",
    "state",
    "suppressed",
    "locked",
    "n_children",
    "hidden_children",
)


class MountedSerializer(serializers.Serializer[Any]):
    issuer = serializers.CharField(help_text="Authority that maintains the subtree")
    publication = serializers.CharField()
    version = serializers.IntegerField(allow_null=True, help_text="Current version; null: none yet, or a past tree")
    age_s = serializers.FloatField(
        allow_null=True,
        help_text="Seconds since it was last confirmed, at the time of this answer; null: never, or a past tree",
    )


class EntrySerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    name = serializers.CharField()
    path = serializers.CharField()
    kind = serializers.CharField()
    shares = serializers.FloatField(allow_null=True, help_text="null: inherited")
    target = serializers.FloatField(allow_null=True)
    target_global = serializers.FloatField(allow_null=True)
    actual = serializers.FloatField(allow_null=True)
    priority = NumberField(allow_null=True)
    rank = serializers.IntegerField(allow_null=True)
    factor = serializers.FloatField(allow_null=True)
    columns = serializers.DictField(
        child=NumberField(allow_null=True),
        help_text="The algorithm's own numbers, under the names that its scheduler uses",
    )
    usage = serializers.FloatField(allow_null=True, help_text="Current usage in usage_unit; null: hidden")
    usage_unit = serializers.ChoiceField(UNITS, help_text="Unit of the policy's metric")
    usage_core_s = serializers.FloatField(allow_null=True, help_text="Core-seconds; null: hidden, or another unit")
    state = serializers.ChoiceField(STATES)
    suppressed = serializers.BooleanField(
        help_text="Its usage and all numbers that depend on it are hidden: it has fewer than five active members, one "
        "member has more than four fifths of the usage, or differences of visible numbers would reveal such a group"
    )
    scope = serializers.CharField(
        allow_blank=True, help_text="Scope of usage by which its children are compared; empty: that of its parent"
    )
    scope_sources = serializers.ListField(
        child=serializers.CharField(), help_text="Usage sources to which the scope is limited; empty: all"
    )
    mount = MountedSerializer(allow_null=True, help_text="The mounted publication; null: none")
    locked = serializers.BooleanField(help_text="Only managers above the entry may change it")
    n_children = serializers.IntegerField()
    hidden_children = serializers.IntegerField(help_text="Number of children that the caller may not see")
    children = serializers.ListField(
        child=serializers.DictField(), help_text="Entries of the same form, down to `depth`"
    )


def entry_of(view: PolicyView, i: int) -> dict[str, Any]:
    """One entry, with an empty list of children."""
    row = view.row(i, position=(1, 1))
    return {
        "usage_unit": view.usage_unit,
        "usage_core_s": row.usage if view.usage_unit == CORE_S else None,
        **{name: getattr(row, name) for name in _COLUMNS},
        "priority": json_number(row.priority),
        "columns": {name: json_number(value) for name, value in row.columns.items()},
        "scope": row.scope,
        "scope_sources": list(row.scope_sources),
        "mount": _mounted(view, i),
        "children": [],
    }


def _mounted(view: PolicyView, i: int) -> dict[str, Any] | None:
    provenance = provenance_of_mount(view.policy, view.tree, i, at=clock.now())
    if provenance is None:
        return None
    is_now = view.revision == view.policy.head_number
    return {
        "issuer": provenance.issuer,
        "publication": provenance.publication,
        "version": provenance.version if is_now and provenance.version else None,
        "age_s": provenance.age_s if is_now else None,
    }
