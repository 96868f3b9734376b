"""The registries of a policy's settings, and what operators and resolution do to its tree."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.analytics.operators.records import (
    BOUNDS,
    COUNTS,
    NAMES,
    READINGS,
    REGIONS,
    Column,
    OperatorChoice,
    TreeCheck,
    read_query,
)
from apps.analytics.operators.selectors import get_figure, get_operators_page
from apps.api.authentication import ANY, POLICIES_READ, SELF_READ, Scopes, actor_of
from apps.api.records import record_serializer, serializer_of
from apps.api.shapes import asked, list_of, listed
from apps.api.views import APIView
from apps.engine.algorithms import Algorithm, Parameter, algorithms_of_packages, all_algorithms, read_algorithm
from apps.engine.analysis.properties import Measured, measured_algorithms, measured_operators
from apps.engine.decay import DECAY_FUNCTIONS
from apps.engine.decay_function import DecayFunction
from apps.engine.operators import Operator, Properties, all_operators, operators_of_packages

# --- Registries -------------------------------------------------------------------------------------------------------
READ: Scopes = {"GET": ANY}


PropertiesSerializer = serializer_of(Properties)
MeasuredSerializer = record_serializer(
    Measured, doc="What a trial on fixed points found when the package was loaded, beside what it declares."
)


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]})
class AnyValueField(serializers.Field[Any, Any, Any, Any]):
    """A text or a number, as the parameter has it; null for one that has to be given."""

    def to_representation(self, value: Any) -> Any:
        return value


class ParameterSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]  # a field of the answer, not of this class
    default = AnyValueField()
    unit = serializers.CharField(allow_blank=True, help_text="s, h; empty for a plain number or a word")
    allowed = serializers.CharField(help_text="In words")
    condition = serializers.CharField(allow_blank=True, help_text="When it applies; empty for always")
    minimum = serializers.FloatField(allow_null=True)
    maximum = serializers.FloatField(allow_null=True)
    choices = serializers.ListField(child=serializers.CharField(), help_text="Empty where any of `allowed` is accepted")


class AlgorithmSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    formula = serializers.CharField()
    component = serializers.CharField(help_text="What a priority of one level is, in words")
    reference = serializers.CharField()
    parameters = ParameterSerializer(many=True)
    fields = serializers.ListField(child=serializers.CharField(), help_text="Fields of each entry")  # type: ignore[assignment]
    takes_inherit = serializers.BooleanField(help_text="Whether shares may be inherited")
    properties = PropertiesSerializer(help_text="What is declared to hold with the defaults")
    measured = PropertiesSerializer(
        allow_null=True, help_text="What no small tree disproved, with the defaults; null for one of ours"
    )
    package = serializers.CharField(allow_null=True, help_text="That brings it; null for one of ours")


class OperatorSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    formula = serializers.CharField()
    reference = serializers.CharField()
    range = serializers.ListField(child=serializers.FloatField(), min_length=2, max_length=2)
    parameters = serializers.DictField(child=serializers.FloatField())
    properties = PropertiesSerializer()
    measured = MeasuredSerializer(allow_null=True, help_text="Of an operator that a package brings: what a trial found")
    package = serializers.CharField(allow_null=True)


class AgingLawSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="`aging` of a policy's window")
    label = serializers.CharField()  # type: ignore[assignment]
    formula = serializers.CharField(help_text="Weight of usage, 0 to 1")
    reference = serializers.CharField()
    parameters = ParameterSerializer(many=True, help_text="Members of a policy's window, with the scheduler's defaults")


class AlgorithmListView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="list_algorithms", responses=list_of(AlgorithmSerializer))
    def get(self, request: Request) -> Response:
        """Every algorithm that a policy can have, with its parameters, formula and declared properties."""
        return listed([algorithm_json(algorithm) for algorithm in all_algorithms().values()])


class OperatorListView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="list_operators", responses=list_of(OperatorSerializer))
    def get(self, request: Request) -> Response:
        """Every operator for `aequus`; of the families `relative-N` and `sigmoid-N` those with N = 2 and 3."""
        return listed([operator_json(operator) for operator in all_operators()])


class AgingLawListView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="list_aging_laws", responses=list_of(AgingLawSerializer))
    def get(self, request: Request) -> Response:
        """Every law by which usage can fade in a policy's window, those of schedulers under their own names."""
        return listed([law_json(law) for law in DECAY_FUNCTIONS.values()])


def law_json(law: DecayFunction) -> dict[str, Any]:
    told = {name: getattr(law, name) for name in ("name", "label", "formula", "reference")}
    return {**told, "parameters": [_parameter_json(parameter) for parameter in law.parameters]}


def algorithm_json(algorithm: Algorithm) -> dict[str, Any]:
    properties = algorithm.properties(read_algorithm(algorithm.name))
    measured = measured_algorithms().get(algorithm.name)
    return {
        **{name: getattr(algorithm, name) for name in ("name", "label", "formula", "component", "reference")},
        "parameters": [_parameter_json(parameter) for parameter in algorithm.parameters],
        "fields": list(algorithm.fields),
        "takes_inherit": algorithm.takes_inherit,
        "properties": PropertiesSerializer(properties).data,
        "measured": None if measured is None else PropertiesSerializer(measured).data,
        "package": algorithms_of_packages().package.get(algorithm.name),
    }


def operator_json(operator: Operator) -> dict[str, Any]:
    measured = measured_operators().get(operator.name)
    return {
        **{name: getattr(operator, name) for name in ("name", "label", "formula", "reference")},
        "range": list(operator.range),
        "parameters": dict(operator.parameters),
        "properties": PropertiesSerializer(operator.properties).data,
        "measured": None if measured is None else MeasuredSerializer(measured).data,
        "package": operators_of_packages().package.get(operator.name),
    }


def _parameter_json(parameter: Parameter) -> dict[str, Any]:
    names = ("name", "label", "default", "unit", "allowed", "condition", "minimum", "maximum")
    return {**{name: getattr(parameter, name) for name in names}, "choices": list(parameter.choices)}


# --- Operators and resolution -----------------------------------------------------------------------------------------
READ_TREE: Scopes = {"GET": frozenset({POLICIES_READ, SELF_READ})}
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


class OperatorFigureSerializer(serializers.Serializer[Any]):
    figure = serializers.CharField()
    title = serializers.CharField()
    unit = serializers.CharField()
    reference = serializers.CharField(help_text="Where the figure comes from")
    sentence = serializers.CharField(help_text="The finding")
    columns = record_serializer(Column, name="FigureColumn")(many=True)
    rows = serializers.ListField(child=serializers.DictField(), help_text="Objects with the members of `columns`")


class OperatorsView(APIView):
    scopes: ClassVar[Scopes] = READ_TREE

    @extend_schema(
        operation_id="get_policy_operators", parameters=[OperatorQuerySerializer], responses=OperatorsPageSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """What operator and resolution do to this tree, which operators there are, and which figures."""
        query = read_query(asked(OperatorQuerySerializer, request))
        found = get_operators_page(policy_slug=policy, query=query, actor=actor_of(request))
        return Response(OperatorsPageSerializer(found.json()).data)


class OperatorFigureView(APIView):
    scopes: ClassVar[Scopes] = READ_TREE

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
