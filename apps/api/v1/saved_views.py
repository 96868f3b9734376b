"""My saved views of lists: through a signed-in session only, for a view is somebody's own page."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import saved_views
from apps.api.authentication import Scopes, actor_of
from apps.api.shapes import UtcTimeField, list_of, listed, sent
from apps.api.views import APIView
from apps.core import clock


class SavedViewSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    page = serializers.CharField(help_text="Path of the list, such as /policy/nordgrid/.")
    name = serializers.CharField()
    query = serializers.CharField(help_text="Filter, order and columns, as in the list’s address.")
    default = serializers.BooleanField(source="is_default", help_text="The list opens with this view.")
    created_at = UtcTimeField()


class NewSavedViewSerializer(serializers.Serializer[Any]):
    page = serializers.RegexField(r"^/(?!/)[^?#\s]*$", max_length=200)
    name = serializers.CharField(max_length=1_000)
    query = serializers.CharField(max_length=10_000, required=False, default="", allow_blank=True)


class SavedViewChangeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=1_000, required=False)
    default = serializers.BooleanField(required=False)


class SavedViewListView(APIView):
    scopes: ClassVar[Scopes] = {}

    @extend_schema(operation_id="list_saved_views", responses=list_of(SavedViewSerializer))
    def get(self, request: Request) -> Response:
        """My views of all lists, by list and name."""
        return listed(SavedViewSerializer(saved_views.list_all_views(actor=actor_of(request)), many=True).data)

    @extend_schema(operation_id="save_view", request=NewSavedViewSerializer, responses={201: SavedViewSerializer})
    def post(self, request: Request) -> Response:
        """Save a view; one of this name gets the new query."""
        given = sent(NewSavedViewSerializer, request)
        made = saved_views.save_view(
            **given | {"query": given["query"].removeprefix("?")}, at=clock.now(), actor=actor_of(request)
        )
        return Response(SavedViewSerializer(made).data, status=201)


class SavedViewView(APIView):
    scopes: ClassVar[Scopes] = {}

    @extend_schema(operation_id="change_saved_view", request=SavedViewChangeSerializer, responses=SavedViewSerializer)
    def patch(self, request: Request, view: int) -> Response:
        """Another name, or whether the list opens with it. Of a list at most one view is the default."""
        given, actor = sent(SavedViewChangeSerializer, request), actor_of(request)
        if "name" in given:
            saved_views.rename_view(id=view, name=given["name"], actor=actor)
        if "default" in given:
            saved_views.set_default(id=view, is_default=given["default"], actor=actor)
        return Response(SavedViewSerializer(saved_views.get_view(id=view, actor=actor)).data)

    @extend_schema(operation_id="delete_saved_view", responses={204: None})
    def delete(self, request: Request, view: int) -> Response:
        """The list stays as it is."""
        saved_views.delete_view(id=view, actor=actor_of(request))
        return Response(status=204)
