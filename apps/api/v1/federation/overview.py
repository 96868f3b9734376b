"""The table of peers, and the grid view of an entry: what the pages of the federation show."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_READ, Scopes, actor_of
from apps.api.records import record_serializer, serializer_of
from apps.api.shapes import (
    FIGURE_ANSWERS,
    FigureFilterSerializer,
    UtcTimeField,
    asked,
    figure_response,
    list_of,
    listed,
)
from apps.api.v1.federation.mounts import MANAGE
from apps.api.views import APIView
from apps.core import clock
from apps.federation.grid.peers import Peer, list_peers
from apps.federation.grid.sites import SiteColumn
from apps.federation.grid.totals import MOST_LEVELS, Grid, GridRow, load_grid
from apps.figures.flow import grid_flow


class GridFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)
    entry = serializers.CharField(max_length=9000, default="/", help_text="Its path")
    levels = serializers.IntegerField(min_value=1, max_value=MOST_LEVELS, default=1, help_text="Below the entry")


class GridFlowFilterSerializer(FigureFilterSerializer):
    policy = serializers.CharField(max_length=64)
    entry = serializers.CharField(max_length=9000, default="/", help_text="Its path")


GridSiteSerializer = record_serializer(SiteColumn, name="GridSite", exclude=("subscription_id", "path"))


class GridRowSerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    path = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField()
    depth = serializers.IntegerField()
    target = serializers.FloatField(allow_null=True)
    actual = serializers.FloatField(allow_null=True)
    deviation_points = serializers.FloatField(allow_null=True)
    core_s = serializers.ListField(
        child=serializers.FloatField(), allow_null=True, help_text="By site, in their order; null: hidden"
    )


class GridSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    revision = serializers.IntegerField()
    path = serializers.CharField()
    uid = serializers.UUIDField()
    scope = serializers.ChoiceField(["local", "global"])
    fallback_since = UtcTimeField(allow_null=True, help_text="This site's usage alone counts since then")
    as_of = UtcTimeField(allow_null=True)
    since = UtcTimeField(allow_null=True, help_text="The window's beginning; null: ever")
    sites = GridSiteSerializer(many=True)
    results = GridRowSerializer(many=True)
    n_more = serializers.IntegerField(help_text="Entries that aren't listed")


class PeerListView(APIView):
    scopes = MANAGE

    @extend_schema(operation_id="list_peers", responses=list_of(serializer_of(Peer)))
    def get(self, request: Request) -> Response:
        """Mounted peers, subscribed peers and, for administrators, readers of ours: age, version, state."""
        found = list_peers(at=clock.now(), actor=actor_of(request))
        return listed(serializer_of(Peer)(found, many=True).data)


class GridView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(operation_id="get_grid", parameters=[GridFilterSerializer], responses=GridSerializer)
    def get(self, request: Request) -> Response:
        """Targets against actual shares over all sites, and what each site delivered, of an entry and those below."""
        given = asked(GridFilterSerializer, request)
        found = load_grid(
            policy_slug=given["policy"],
            entry=given["entry"],
            levels=given["levels"],
            at=clock.now(),
            actor=actor_of(request),
        )
        return Response(GridSerializer(_described(found)).data)


class GridFlowView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(operation_id="get_grid_flow", parameters=[GridFlowFilterSerializer], responses=FIGURE_ANSWERS)
    def get(self, request: Request) -> HttpResponseBase:
        """The Sankey diagram of the grid view: core-hours from each site to each child of the entry."""
        given = asked(GridFlowFilterSerializer, request)
        found = load_grid(policy_slug=given["policy"], entry=given["entry"], at=clock.now(), actor=actor_of(request))
        return figure_response(request, grid_flow(found))


def _described(found: Grid) -> dict[str, Any]:
    return {
        "policy": found.policy_slug,
        "revision": found.revision,
        "path": found.path,
        "uid": found.uid,
        "scope": found.scope,
        "fallback_since": found.fallback_since,
        "as_of": found.as_of,
        "since": found.since,
        "sites": found.sites,
        "results": [_row(row) for row in found.rows],
        "n_more": found.n_more,
    }


def _row(row: GridRow) -> dict[str, Any]:
    entry = row.entry
    return {
        "uid": entry.uid,
        "path": entry.path,
        "name": entry.name,
        "kind": entry.kind,
        "depth": row.depth,
        "target": entry.target,
        "actual": entry.actual,
        "deviation_points": entry.deviation_points,
        "core_s": None if row.core_s is None else list(row.core_s),
    }
