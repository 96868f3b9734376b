"""The formats of usage that can be read, as they describe themselves."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.api.authentication import ANY, Scopes
from apps.api.v1.lists import list_of, listed
from apps.usage.parsers.registry import list_formats


class FormatFieldSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="As the format calls it")
    meaning = serializers.CharField(help_text="What it becomes in a record")


class UsageFormatSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]  # a field of the answer, not of this class
    reference = serializers.CharField(help_text="Where the format is described")
    needs_zone = serializers.BooleanField(help_text="Its times are local: the source, or the import, needs a zone")
    is_listing = serializers.BooleanField(help_text="Names every job that runs or waits now")
    sample = serializers.CharField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {**super().get_fields(), "fields": FormatFieldSerializer(many=True)}  # a word of Django's own


class UsageFormatListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": ANY}

    @extend_schema(operation_id="list_usage_formats", responses=list_of(UsageFormatSerializer))
    def get(self, request: Request) -> Response:
        """Every format of job accounting that files, commands and pushes may have."""
        return listed(UsageFormatSerializer(list_formats(), many=True).data)
