"""A policy's tree, nested: shares of a revision with the numbers of its snapshot; or changes since a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.http import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actor import Actor
from apps.core.errors import NotFound, TooLarge
from apps.explain.account_path import moment_json
from apps.priorities.selectors import PolicyView, open_view
from apps.priorities.selectors.tree_changes import changed, tag_of_view, view_at
from apps.priorities.selectors.visible_snapshot import moment_of as shown_moment_of
from apps.priorities.selectors.visible_snapshot import require_entry, require_path
from apps.web import bounds
from apps.web.listings.listing import answer_serializer, file_columns, file_rows
from apps.web.listings.tree_listing import TREE, entry_of, rows_below
from apps.web.rest.authentication import POLICIES_READ, SELF_READ, Scopes, actor_of
from apps.web.rest.errors import Refusal
from apps.web.rest.inputs import field_refusal, moment_of, read_query
from apps.web.rest.shapes import (
    TABLE_ANSWERS,
    MomentSerializer,
    ScopeSerializer,
    SentenceSerializer,
    TableFormatField,
    UtcTimeField,
    table_response,
)
from apps.web.rest.views import APIView
from apps.web.texts.rank_use import RANK_USE, rank_use_json

MOST_CHANGED = 20_000
MOST_TREE_ENTRIES = 20_000

TreeSerializer = answer_serializer(
    TREE,
    "Tree",
    policy=serializers.CharField(),
    revision=serializers.IntegerField(),
    snapshot=serializers.IntegerField(allow_null=True),
    as_of=UtcTimeField(allow_null=True),
    moment=MomentSerializer(allow_null=True, help_text="With `at`"),
    compared_by=ScopeSerializer(
        help_text="Scope of usage by which its children are compared, if necessary inherited from above"
    ),
    rank_use=SentenceSerializer(many=True, help_text=RANK_USE),
)


class GoneEntrySerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    path = serializers.CharField(help_text="Its last path")


class TreeChangesSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    revision = serializers.IntegerField()
    snapshot = serializers.IntegerField(allow_null=True, help_text="Send it as `since` next time")
    as_of = UtcTimeField(allow_null=True)
    since = serializers.IntegerField()
    entries = serializers.ListField(
        child=serializers.DictField(),
        help_text="Changed entries as in the tree, without children; parents before children",
    )
    gone = GoneEntrySerializer(many=True, help_text="Entries that are no longer in the tree or not visible")


_ANSWER = PolymorphicProxySerializer(
    component_name="TreeAnswer", serializers=[TreeSerializer, TreeChangesSerializer], resource_type_field_name=None
)


def changes_since(
    view: PolicyView, top: int, since: int, to_json: Callable[[PolicyView, int], dict[str, Any]]
) -> dict[str, Any]:
    """Entries below `top` that differ from the snapshot `since`.

    Raises:
        Refusal: 410 if that snapshot is no longer stored.
        TooLarge: too many entries differ.
    """
    try:
        then = view_at(view, since)
    except NotFound as error:
        message = f"Snapshot {since} is no longer stored: repeat the request without since."
        raise Refusal(message, code="snapshot_gone", status=410) from error
    changed_rows, gone = changed(view, then, top, to_json)
    if len(changed_rows) > MOST_CHANGED:
        raise TooLarge(f"Over {MOST_CHANGED:,} entries have changed: request a path further down, or format=csv.")
    return {
        "policy": view.policy.slug,
        "revision": view.revision,
        "snapshot": view.snapshot.snapshot_id if view.snapshot else None,
        "as_of": view.as_of,
        "since": since,
        "entries": [_without_children(to_json(view, i)) for i in changed_rows],
        "gone": [{"uid": then.tree.uuid(j), "path": then.tree.path(j)} for j in gone],
    }


def _without_children(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "children"}


class TreeFilterSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(
        max_length=bounds.ENTRY, required=False, help_text="Default: the root, or the token's subtree"
    )
    depth = serializers.IntegerField(
        min_value=0,
        max_value=bounds.LEVELS,
        required=False,
        help_text="Number of levels below the entry; default 1, and all for tables and changes",
    )
    at = serializers.CharField(max_length=bounds.INSTANT, required=False, help_text="Revision number or instant")
    since = serializers.IntegerField(
        min_value=0,
        max_value=bounds.ROW,
        required=False,
        help_text="Number of a snapshot that you have: return only changes since then",
    )
    format = TableFormatField()


class TreeView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, SELF_READ})}

    @extend_schema(
        operation_id="get_tree",
        parameters=[TreeFilterSerializer, OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER)],
        responses={(200, "application/json"): _ANSWER, **TABLE_ANSWERS, 304: None, 410: None},
    )
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """An entry with its descendants, `depth` levels deep. A past tree has numbers if their snapshot is stored."""
        query, actor = read_query(TreeFilterSerializer, request), actor_of(request)
        _check(query)
        scope = POLICIES_READ if actor.has_scope(POLICIES_READ) else SELF_READ
        view = open_view(policy_slug=policy, actor=actor, at=moment_of(query.get("at")), scope=scope)
        top = _top(view, query.get("path"), actor)
        if "format" in query:
            rows = file_rows(TREE, rows_below(view, top, query.get("depth")))
            return table_response(f"{view.policy.slug}-tree", file_columns(TREE), rows, query["format"])
        uses = uses_of(view, top)
        tag = tag_of_view(view, top, query.get("depth"), query.get("since"), uses)
        headers = {"ETag": tag}
        if tag in request.headers.get("If-None-Match", ""):
            return Response(status=304, headers=headers)
        if "since" in query:
            return Response(changes_since(view, top, query["since"], entry_of), headers=headers)
        return Response(nested(view, top, query.get("depth", 1), uses), headers=headers)


def _check(query: dict[str, Any]) -> None:
    """Reject parameters that can't be combined with `since`, which compares whole subtrees with the current tree."""
    for name in ("at", "depth", "format"):
        if "since" in query and name in query:
            raise field_refusal("since", f"can't be combined with {name}: it compares with the current tree")


def _top(view: PolicyView, path: str | None, actor: Actor) -> int:
    if path is None and actor.top_uid is not None:
        return require_entry(view, actor.top_uid)
    return require_path(view, path or "/")


def uses_of(view: PolicyView, top: int) -> list[dict[str, Any]]:
    """What schedulers make of the ranks of an entry now; nothing of a past tree."""
    return rank_use_json(view.policy.slug, view.tree.uuid(top)) if view.asked is None else []


def nested(view: PolicyView, top: int, depth: int, uses: list[dict[str, Any]]) -> dict[str, Any]:
    """The entry with its visible descendants, and the revision, snapshot and instant of the numbers.

    uses: of `uses_of`.
    """
    rows = _visible(view, top, depth)
    entries = {i: entry_of(view, i) for i in rows}
    for i in rows[1:]:
        entries[int(view.tree.parent[i])]["children"].append(entries[i])
    scope, sources = view.tree.effective_scope(top)
    return {
        "policy": view.policy.slug,
        "revision": view.revision,
        "snapshot": view.snapshot.snapshot_id if view.snapshot else None,
        "as_of": view.as_of,
        "moment": moment_json(shown_moment_of(view)),
        "compared_by": {"scope": scope, "sources": list(sources)},
        **entries[top],
        "rank_use": uses,
    }


def _visible(view: PolicyView, top: int, depth: int) -> list[int]:
    """Visible entries down to a depth, parents before children; TooLarge beyond `MOST_TREE_ENTRIES`."""
    rows: list[int] = []
    for level in view.tree.subtree(top)[: depth + 1]:
        rows += [i for i in level if view.visibility.may_see(i)]
        if len(rows) > MOST_TREE_ENTRIES:
            raise TooLarge(f"That is over {MOST_TREE_ENTRIES:,} entries: request less depth, or a path further down.")
    return rows
