"""Saved views of the caller's lists, for signed-in sessions only: tokens have no pages."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import saved_views
from apps.api.authentication import Scopes, actor_of
from apps.api.inputs import read_body
from apps.api.shapes import UtcTimeField, list_response, list_schema
from apps.api.views import APIView
from apps.core import clock


class SavedViewSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    page = serializers.CharField(help_text="Path of the list's page, such as /policy/nordgrid/")
    name = serializers.CharField()
    query = serializers.CharField(help_text="Filter, order and columns: the query string of the list")
    default = serializers.BooleanField(source="is_default", help_text="The list opens with this view")
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

    @extend_schema(operation_id="list_saved_views", responses=list_schema(SavedViewSerializer))
    def get(self, request: Request) -> Response:
        """The caller's views of all lists, by list and name."""
        return list_response(SavedViewSerializer(saved_views.list_all_views(actor=actor_of(request)), many=True).data)

    @extend_schema(operation_id="save_view", request=NewSavedViewSerializer, responses={201: SavedViewSerializer})
    def post(self, request: Request) -> Response:
        """Save a view of a list. An existing view of the same name is overwritten."""
        given = read_body(NewSavedViewSerializer, request)
        made = saved_views.save_view(
            **given | {"query": given["query"].removeprefix("?")}, at=clock.now(), actor=actor_of(request)
        )
        return Response(SavedViewSerializer(made).data, status=201)


class SavedViewView(APIView):
    scopes: ClassVar[Scopes] = {}

    @extend_schema(operation_id="change_saved_view", request=SavedViewChangeSerializer, responses=SavedViewSerializer)
    def patch(self, request: Request, view: int) -> Response:
        """Rename a view, or make it the default of its list. A list has at most one default."""
        given, actor = read_body(SavedViewChangeSerializer, request), actor_of(request)
        if "name" in given:
            saved_views.rename_view(id=view, name=given["name"], actor=actor)
        if "default" in given:
            saved_views.set_default(id=view, is_default=given["default"], actor=actor)
        return Response(SavedViewSerializer(saved_views.get_view(id=view, actor=actor)).data)

    @extend_schema(operation_id="delete_saved_view", responses={204: None})
    def delete(self, request: Request, view: int) -> Response:
        """Delete a view. The list itself does not change."""
        saved_views.delete_view(id=view, actor=actor_of(request))
        return Response(status=204)
