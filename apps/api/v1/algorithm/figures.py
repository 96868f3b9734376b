"""Figures of a policy's settings by REST: its decay function, and its operator."""

from __future__ import annotations

from typing import ClassVar

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.analytics.comparison import get_algorithm_page
from apps.api.authentication import POLICIES_READ, Scopes, actor_of
from apps.api.figures import FIGURE_ANSWERS, FigureFilterSerializer, figure_response
from apps.api.v1.lists import asked
from apps.core import clock
from apps.figures.decay import decay_of
from apps.figures.operator_profile import profile_of

_READ: Scopes = {"GET": frozenset({POLICIES_READ})}


class DecayFilterSerializer(FigureFilterSerializer):
    age = serializers.CharField(max_length=8, required=False, help_text="Days back: 7, 30, 90 or 365")
    law = serializers.ListField(
        child=serializers.CharField(max_length=32),
        required=False,
        help_text="Decay functions beside the policy's own; `own` for that alone",
    )


class OperatorFilterSerializer(FigureFilterSerializer):
    profile_target = serializers.CharField(
        max_length=16, required=False, help_text="Percent above 0 and below 100; 20 unless given"
    )
    profile = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        help_text="Operators beside the policy's own; `own` for that alone",
    )


class DecayFigureView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(operation_id="get_decay_figure", parameters=[DecayFilterSerializer], responses=FIGURE_ANSWERS)
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """What is left of usage over its age, in percent."""
        asked(DecayFilterSerializer, request)
        current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
        figure = decay_of(current.settings, policy, request.query_params, as_of_s=clock.now().timestamp())
        return figure_response(request, figure)


class OperatorFigureView(APIView):
    scopes: ClassVar[Scopes] = _READ

    @extend_schema(operation_id="get_operator_figure", parameters=[OperatorFilterSerializer], responses=FIGURE_ANSWERS)
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """Priority over the actual share, for one target."""
        asked(OperatorFilterSerializer, request)
        current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
        return figure_response(request, profile_of(current.settings.algorithm, policy, request.query_params))
