"""The settings of a slurm.conf, read and mapped to those of a policy."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agent import site_commands
from apps.contrib.onboarding import bounds as of_onboarding
from apps.priorities.slurm_config import ConfigLine, SlurmConfig, read_slurm_config
from apps.web.rest.authentication import POLICIES_WRITE, Scopes
from apps.web.rest.inputs import read_body
from apps.web.rest.records import record_serializer, serializer_of
from apps.web.rest.views import APIView


class SlurmConfigSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(
        max_length=of_onboarding.SLURM_CONFIG,
        trim_whitespace=False,
        help_text=f"Outputs of {site_commands.listed(*site_commands.OF_SETTINGS)}",
    )


ConfigLineSerializer = serializer_of(ConfigLine)


ReadConfigSerializer = record_serializer(
    SlurmConfig,
    component="ReadConfig",
    settings=serializers.DictField(help_text="Parts of a policy's settings, as for the operation `set_policy`"),
    billing_weights=serializers.DictField(help_text="The same of the usage source that has the records"),
)


class SlurmConfigView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="read_slurm_config", request=SlurmConfigSerializer, responses=ReadConfigSerializer)
    def post(self, request: Request) -> Response:
        """Read algorithm, decay, metric and approach from Slurm's outputs, for a change set. Nothing is stored."""
        config = read_slurm_config(read_body(SlurmConfigSerializer, request)["text"])
        return Response(ReadConfigSerializer(config).data)
