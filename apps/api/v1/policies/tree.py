"""A policy's tree, nested: the shares of a revision, and the numbers of the snapshot that goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.http import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actor import Actor
from apps.api.authentication import POLICIES_READ, SELF_READ, Scopes, actor_of
from apps.api.errors import Refusal
from apps.api.shapes import (
    TABLE_ANSWERS,
    MomentSerializer,
    ScopeSerializer,
    TableFormatField,
    UtcTimeField,
    asked,
    moment_of,
    table_response,
)
from apps.api.v1.priorities import NumberField
from apps.api.views import APIView
from apps.core import clock
from apps.core.errors import FieldProblem, NotFound, TooLarge
from apps.explain.account_walk import moment_json
from apps.federation.mounts.selectors import provenance_of_mount
from apps.priorities.metering import CORE_S, UNITS
from apps.priorities.selectors import PolicyView, open_view
from apps.priorities.selectors.tree_changes import ENTRY_COLUMNS, changed, entry_rows, tag_of_view, view_at
from apps.priorities.selectors.visible_snapshot import moment_of as shown_moment_of
from apps.priorities.selectors.visible_snapshot import require_entry, require_path
from apps.priorities.snapshots import json_number

MOST_CHANGED = 20_000


class GoneEntrySerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    path = serializers.CharField(help_text="Where it was")


class TreeChangesSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    revision = serializers.IntegerField()
    snapshot = serializers.IntegerField(allow_null=True, help_text="What to send as `since` the next time")
    as_of = UtcTimeField(allow_null=True)
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


MOST_ENTRIES = 20_000
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


class TreeFilterSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(max_length=8_400, required=False, help_text="The root, or the token's subtree")
    depth = serializers.IntegerField(
        min_value=0, max_value=64, required=False, help_text="Levels below; 1, in tables and changes all"
    )
    at = serializers.CharField(max_length=40, required=False, help_text="A revision's number, or a time")
    since = serializers.IntegerField(
        min_value=0, max_value=2**63 - 1, required=False, help_text="A snapshot that you have: only what is other now"
    )
    format = TableFormatField()


class MountedSerializer(serializers.Serializer[Any]):
    issuer = serializers.CharField(help_text="The authority that maintains what lies below")
    publication = serializers.CharField()
    version = serializers.IntegerField(allow_null=True, help_text="The current one; null: none yet, or of the past")
    age_s = serializers.FloatField(
        allow_null=True,
        help_text="Since it was last confirmed, at the time of this answer; null: never, or of the past",
    )


class EntrySerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    name = serializers.CharField()
    path = serializers.CharField()
    kind = serializers.CharField()
    shares = serializers.FloatField(allow_null=True, help_text="null: inherit")
    target = serializers.FloatField(allow_null=True)
    target_global = serializers.FloatField(allow_null=True)
    actual = serializers.FloatField(allow_null=True)
    priority = NumberField(allow_null=True)
    rank = serializers.IntegerField(allow_null=True)
    factor = serializers.FloatField(allow_null=True)
    columns = serializers.DictField(
        child=NumberField(allow_null=True), help_text="What the algorithm has of its own, by its scheduler's names"
    )
    usage = serializers.FloatField(allow_null=True, help_text="What counts now, in usage_unit; null: hidden")
    usage_unit = serializers.ChoiceField(UNITS, help_text="In which the policy’s metric counts")
    usage_core_s = serializers.FloatField(allow_null=True, help_text="null: hidden, or counted in another unit")
    state = serializers.ChoiceField(STATES)
    suppressed = serializers.BooleanField(
        help_text="Its usage, and what follows from it, is hidden from you: fewer than five active members, one who "
        "used more than four fifths, or a difference of shown numbers that would be as small"
    )
    scope = serializers.CharField(
        allow_blank=True, help_text="By whose usage its children are compared; empty: as above"
    )
    scope_sources = serializers.ListField(
        child=serializers.CharField(), help_text="By these sources alone; empty: by all of the scope"
    )
    mount = MountedSerializer(allow_null=True, help_text="Of entries that a document of others is mounted at")
    locked = serializers.BooleanField()
    n_children = serializers.IntegerField()
    hidden_children = serializers.IntegerField(help_text="Children that you may not see")
    children = serializers.ListField(child=serializers.DictField(), help_text="Entries of the same form, to `depth`")


class TreeSerializer(EntrySerializer):
    policy = serializers.CharField()
    revision = serializers.IntegerField()
    snapshot = serializers.IntegerField(allow_null=True)
    as_of = UtcTimeField(allow_null=True)
    moment = MomentSerializer(allow_null=True, help_text="With `at`")
    compared_by = ScopeSerializer(
        help_text="Whose usage its children are compared by, also where that comes from above"
    )


_ANSWER = PolymorphicProxySerializer(
    component_name="TreeAnswer", serializers=[TreeSerializer, TreeChangesSerializer], resource_type_field_name=None
)


class TreeView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="get_tree",
        parameters=[TreeFilterSerializer, OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER)],
        responses={(200, "application/json"): _ANSWER, **TABLE_ANSWERS, 304: None, 410: None},
    )
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """An entry with what is below it, `depth` levels deep; the past with the snapshot of then, if it is kept."""
        given, actor = asked(TreeFilterSerializer, request), actor_of(request)
        _check(given)
        scope = POLICIES_READ if actor.has_scope(POLICIES_READ) else SELF_READ
        view = open_view(policy_slug=policy, actor=actor, at=moment_of(given.get("at")), scope=scope)
        top = _top(view, given.get("path"), actor)
        if "format" in given:
            rows = entry_rows(view, top, given.get("depth"))
            return table_response(f"{view.policy.slug}-tree", ENTRY_COLUMNS, rows, given["format"])
        tag = tag_of_view(view, top, given.get("depth"), given.get("since"))
        headers = {"ETag": tag}
        if tag in request.headers.get("If-None-Match", ""):
            return Response(status=304, headers=headers)
        if "since" in given:
            return Response(changes_since(view, top, given["since"], entry_of), headers=headers)
        return Response(nested(view, top, given.get("depth", 1)), headers=headers)


def _check(given: dict[str, Any]) -> None:
    """`since` compares the whole of a part of the tree with the present one."""
    for name in ("at", "depth", "format"):
        if "since" in given and name in given:
            message = f"goes not with {name}: it tells what of the present tree is other than in a snapshot"
            raise Refusal(f"since {message}.", code="invalid", fields=[FieldProblem("since", message)])


def _top(view: PolicyView, path: str | None, actor: Actor) -> int:
    if path is None and actor.token is not None and actor.token.subtree_uid is not None:
        return require_entry(view, actor.token.subtree_uid)
    return require_path(view, path or "/")


def nested(view: PolicyView, top: int, depth: int) -> dict[str, Any]:
    """The entry with its visible descendants, and which state of affairs this is."""
    rows = _visible(view, top, depth)
    found = {i: entry_of(view, i) for i in rows}
    for i in rows[1:]:
        found[int(view.tree.parent[i])]["children"].append(found[i])
    return {
        "policy": view.policy.slug,
        "revision": view.revision,
        "snapshot": view.snapshot.snapshot_id if view.snapshot else None,
        "as_of": view.as_of,
        "moment": moment_json(shown_moment_of(view)),
        "compared_by": _compared_by(view, top),
        **found[top],
    }


def _compared_by(view: PolicyView, top: int) -> dict[str, Any]:
    scope, sources = view.tree.effective_scope(top)
    return {"scope": scope, "sources": list(sources)}


def _visible(view: PolicyView, top: int, depth: int) -> list[int]:
    """Parents before children."""
    rows: list[int] = []
    for level in view.tree.subtree(top)[: depth + 1]:
        rows += [i for i in level if view.visibility.may_see(i)]
        if len(rows) > MOST_ENTRIES:
            raise TooLarge(f"That is over {MOST_ENTRIES:,} entries: ask for less depth, or for a path further down.")
    return rows


def entry_of(view: PolicyView, i: int) -> dict[str, Any]:
    """One entry by itself, without its children."""
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
    found = provenance_of_mount(view.policy, view.tree, i, at=clock.now())
    if found is None:
        return None
    is_now = view.revision == view.policy.head_number
    return {
        "issuer": found.issuer,
        "publication": found.publication,
        "version": found.version if is_now and found.version else None,
        "age_s": found.age_s if is_now else None,
    }
