"""Operators and resolution of a policy: the check of its tree, the choices, and every figure as numbers."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.analytics.operators.figure_query import BOUNDS, COUNTS, NAMES, READINGS, REGIONS, read_query
from apps.analytics.operators.records import OperatorChoice, TreeCheck
from apps.analytics.operators.selectors import get_figure, get_operators_page
from apps.api.authentication import POLICIES_READ, SELF_READ, Scopes, actor_of
from apps.api.v1.lists import asked
from apps.api.v1.usage.records import serializer_of

READ: Scopes = {"GET": frozenset({POLICIES_READ, SELF_READ})}
_LONGEST = 4_096
_WORDS = {
    "operator": "As settings name it; the policy's own by default",
    "reading": f"Of figures 14 to 17: {', '.join(READINGS)}",
    "region": f"Of the picture of job sizes: {', '.join(REGIONS)}; rows have all of them",
    "count": f"Of the picture of resolutions: {', '.join(COUNTS)}; rows have all of them",
    "entry": "A path, for `exponent`",
}
_SAYS = {
    "resolution": "the policy's own by default",
    "k": "of `combined`; the policy's own by default",
    "target": "that of the largest entry below the root by default",
    "bits": "of one component in profiles and densities; 3 by default",
    "nodes": "600 by default, the paper's",
    "window_days": "365 by default, the paper's",
    "job_h": "2,000 by default, the paper's",
}


class OperatorQuerySerializer(serializers.Serializer[Any]):
    """Texts: `read_query` reads them as pages and the command do."""

    def get_fields(self) -> dict[str, Any]:
        texts = {name: f"{BOUNDS[name][0]:g} to {BOUNDS[name][1]:g}; {_SAYS[name]}" for name in BOUNDS} | _WORDS
        return {
            name: serializers.CharField(required=False, allow_blank=True, max_length=_LONGEST, help_text=texts[name])
            for name in NAMES
        }


class FigureListedSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    parameters = serializers.ListField(child=serializers.CharField(), help_text="What of the address it reads")


class OperatorsPageSerializer(serializers.Serializer[Any]):
    verdict = serializers.CharField(help_text="What the operators paper concludes")
    ranks_by_vectors = serializers.BooleanField(help_text="false: the check shows what `aequus` would do")
    check = serializer_of(TreeCheck)()
    operators = serializer_of(OperatorChoice)(many=True)
    figures = FigureListedSerializer(many=True)


class FigureColumnSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    text = serializers.CharField(help_text="What it means")


class OperatorFigureSerializer(serializers.Serializer[Any]):
    figure = serializers.CharField()
    title = serializers.CharField()
    unit = serializers.CharField()
    reference = serializers.CharField(help_text="Where the figure comes from")
    sentence = serializers.CharField(help_text="The finding")
    columns = FigureColumnSerializer(many=True)
    rows = serializers.ListField(child=serializers.DictField(), help_text="Objects with the members of `columns`")


class OperatorsView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(
        operation_id="get_policy_operators", parameters=[OperatorQuerySerializer], responses=OperatorsPageSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """What operator and resolution do to this tree, which operators there are, and which figures."""
        query = read_query(asked(OperatorQuerySerializer, request))
        found = get_operators_page(policy_slug=policy, query=query, actor=actor_of(request))
        return Response(OperatorsPageSerializer(found.json()).data)


class OperatorFigureView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(
        operation_id="get_policy_operator_figure",
        parameters=[OperatorQuerySerializer],
        responses=OperatorFigureSerializer,
    )
    def get(self, request: Request, policy: str, figure: str) -> Response:
        """One figure of operators and resolution: its sentence, its columns and its rows."""
        query = read_query(asked(OperatorQuerySerializer, request))
        found = get_figure(policy_slug=policy, figure=figure, query=query, actor=actor_of(request))
        return Response(found.json())
