"""The table of peers, and the grid view: one entry's targets, actual shares and deliveries at all sites."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.federation.grid.peers import Peer, list_peers
from apps.federation.grid.sites import SiteColumn
from apps.federation.grid.totals import MOST_GRID_LEVELS, Grid, GridRow, load_grid
from apps.pages.federation.api.remotes import MANAGE
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.records import record_serializer, serializer_of
from apps.web.rest.shapes import list_response, list_schema
from apps.web.rest.views import APIView


class GridFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG)
    entry = serializers.CharField(max_length=bounds.ENTRY, default="/", help_text="Path")
    levels = serializers.IntegerField(
        min_value=1, max_value=MOST_GRID_LEVELS, default=1, help_text="Number of levels below the entry"
    )


GridSiteSerializer = record_serializer(SiteColumn, component="GridSite", exclude=("subscription_id", "path"))


_OF_ENTRY = ("path", "name", "kind", "target", "actual", "deviation_points")
GridRowSerializer = record_serializer(
    GridRow,
    only="entry path name kind depth target actual deviation_points core_s",
    renamed={"entry": "entry.uid", **{name: f"entry.{name}" for name in _OF_ENTRY}},
    texts={"core_s": "Delivered core-seconds by site, in the order of `sites`; null: hidden"},
)
GridSerializer = record_serializer(
    Grid,
    only="policy revision path entry scope fallback_since as_of since sites results n_more",
    renamed={"policy": "policy_slug", "entry": "uid"},
    texts={
        "fallback_since": "Local-only fallback since then; null: usage of all sites counts",
        "since": "Start of the window; null: unlimited",
        "n_more": "Number of entries that are not listed",
    },
    scope=serializers.ChoiceField(["local", "global"]),
    sites=GridSiteSerializer(many=True),
    results=GridRowSerializer(source="rows", many=True),
)


class PeerListView(APIView):
    reach = "objects"
    scopes = MANAGE

    @extend_schema(operation_id="list_peers", responses=list_schema(serializer_of(Peer)))
    def get(self, request: Request) -> Response:
        """Peers with age, version and state: mounts, subscriptions and, for administrators, readers."""
        peers = list_peers(at=clock.now(), actor=actor_of(request))
        return list_response(serializer_of(Peer)(peers, many=True).data)


class GridView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ})}

    @extend_schema(operation_id="get_grid", parameters=[GridFilterSerializer], responses=GridSerializer)
    def get(self, request: Request) -> Response:
        """Targets, actual shares over all sites, and core-seconds by site, of an entry and the entries below it."""
        query = read_query(GridFilterSerializer, request)
        grid = load_grid(
            policy_slug=query["policy"],
            entry=query["entry"],
            levels=query["levels"],
            at=clock.now(),
            actor=actor_of(request),
        )
        return Response(GridSerializer(grid).data)
