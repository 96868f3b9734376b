"""Slurm's own fair share, read from its configuration: settings to propose for a policy. Nothing is stored."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_WRITE, Scopes
from apps.api.v1.shapes import sent
from apps.api.views import APIView
from apps.onboarding.slurm_config import read_slurm_config

_MOST_CHARACTERS = 1_000_000


class SlurmConfigSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(
        max_length=_MOST_CHARACTERS,
        trim_whitespace=False,
        help_text="What scontrol show config and scontrol show partition print",
    )


class ConfigLineSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    value = serializers.CharField()
    meaning = serializers.CharField(help_text="What it became")
    is_carried = serializers.BooleanField(help_text="false: a policy has nothing like it")


class ReadConfigSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    settings = serializers.DictField(help_text="Parts of a policy's settings, as `set_policy` takes them")
    lines = ConfigLineSerializer(many=True)


class SlurmConfigView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="read_slurm_config", request=SlurmConfigSerializer, responses=ReadConfigSerializer)
    def post(self, request: Request) -> Response:
        """Algorithm, decay and metric as Slurm has them; nothing is stored: propose them in a change set."""
        found = read_slurm_config(sent(SlurmConfigSerializer, request)["text"])
        lines = [line.to_json() for line in found.lines]
        return Response({"cluster": found.cluster, "settings": found.settings, "lines": lines})
