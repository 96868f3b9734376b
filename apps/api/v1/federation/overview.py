"""The table of peers, and the grid view of an entry: what the pages of the federation show."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_READ, Scopes, actor_of
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
from apps.federation.grid.peers import Direction, list_peers
from apps.federation.grid.sites import Unasked
from apps.federation.grid.totals import MOST_LEVELS, Grid, GridRow, load_grid
from apps.federation.staleness import Condition
from apps.figures.flow import grid_flow


class PeerSerializer(serializers.Serializer[Any]):
    direction = serializers.ChoiceField([one.value for one in Direction])
    id = serializers.IntegerField(help_text="Of the mount, the subscription, or the publication or feed that is read")
    name = serializers.CharField(help_text="The authority, or the name of the reader's token")
    what = serializers.CharField()
    policy = serializers.CharField(source="policy_slug")
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.CharField(source="entry_path")
    condition = serializers.ChoiceField([one.value for one in Condition])
    age_s = serializers.FloatField(allow_null=True, help_text="Since the last successful fetch; null before the first")
    allowed_s = serializers.FloatField()
    theirs = serializers.IntegerField(help_text="The newest published version, or number of a feed")
    in_force = serializers.IntegerField(help_text="The one that holds on the side that reads")
    fingerprint = serializers.CharField()
    effect = serializers.FloatField(allow_null=True, help_text="Target of the entry, of the whole tree")
    error = serializers.CharField()
    stale_action = serializers.CharField()
    took_s = serializers.FloatField(
        allow_null=True, help_text="Duration of the last fetch; null before the first, and for readers"
    )


class GridFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64)
    entry = serializers.CharField(max_length=9000, default="/", help_text="Its path")
    levels = serializers.IntegerField(min_value=1, max_value=MOST_LEVELS, default=1, help_text="Below the entry")


class GridFlowFilterSerializer(FigureFilterSerializer):
    policy = serializers.CharField(max_length=64)
    entry = serializers.CharField(max_length=9000, default="/", help_text="Its path")


class GridSiteSerializer(serializers.Serializer[Any]):
    origin = serializers.CharField(help_text='"" is this site')
    name = serializers.CharField()
    state = serializers.ChoiceField(
        [one.value for one in (*Unasked, *Condition)],
        help_text="A condition as peers have it; here: this site; untold: its records come without a subscription",
    )
    capacity_cores = serializers.FloatField(allow_null=True)
    reported_capacity_cores = serializers.FloatField(allow_null=True, help_text="As declared now, if it is larger")
    core_s = serializers.FloatField(allow_null=True, help_text="Delivered to the entry; null: hidden")
    possible_core_s = serializers.FloatField(allow_null=True)
    last_contact_at = UtcTimeField(allow_null=True)
    max_age_s = serializers.IntegerField(allow_null=True)
    enforced = serializers.IntegerField(
        allow_null=True, help_text="Version of the entry's document that is active there"
    )
    published = serializers.IntegerField(allow_null=True, help_text="The newest version")
    published_at = UtcTimeField(allow_null=True)
    held_hours = serializers.IntegerField(source="n_held")
    held_core_s = serializers.FloatField()
    running_held = serializers.BooleanField()


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


_PEERS = list_of(PeerSerializer)


class PeerListView(APIView):
    scopes = MANAGE

    @extend_schema(operation_id="list_peers", responses=_PEERS)
    def get(self, request: Request) -> Response:
        """Mounted peers, subscribed peers and, for administrators, readers of ours: age, version, state."""
        found = list_peers(at=clock.now(), actor=actor_of(request))
        return listed(PeerSerializer(found, many=True).data)


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
        "sites": [asdict(site) for site in found.sites],
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
