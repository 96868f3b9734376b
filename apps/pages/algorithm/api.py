"""Registries of algorithms, operators and decay functions."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.engine.algorithms import Algorithm, Parameter, algorithms_of_packages, all_algorithms, read_algorithm
from apps.engine.analysis.properties import Measured, measured_algorithms, measured_operators
from apps.engine.decay_functions import DECAY_FUNCTIONS, DecayFunction
from apps.engine.operators import Operator, Properties, all_operators, operators_of_packages
from apps.web.rest.authentication import ANY, Scopes
from apps.web.rest.records import record_serializer, serializer_of
from apps.web.rest.shapes import list_response, list_schema
from apps.web.rest.views import APIView

READ: Scopes = {"GET": ANY}


PropertiesSerializer = serializer_of(Properties)
MeasuredSerializer = record_serializer(
    Measured, doc="Properties found by a trial on fixed points when the package was loaded, beside the declared ones."
)


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "number"}], "nullable": True})
class AnyValueField(serializers.Field[Any, Any, Any, Any]):
    """A text or a number, depending on the parameter; null for a required parameter."""

    def to_representation(self, value: Any) -> Any:
        return value


class BoundField(serializers.FloatField):
    """A bound as declared: whole for a parameter that takes whole numbers."""

    def to_representation(self, value: Any) -> Any:
        return value


ParameterSerializer = record_serializer(
    Parameter,
    only="name label default unit allowed condition minimum maximum choices",
    texts={
        "unit": "s or h; empty for a plain number or a word",
        "allowed": "Allowed values, in words",
        "condition": "When the parameter applies; empty: always",
        "choices": "Empty: any value that `allowed` describes",
    },
    default=AnyValueField(),
    minimum=BoundField(allow_null=True),
    maximum=BoundField(allow_null=True),
)


class AlgorithmSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    formula = serializers.CharField()
    component = serializers.CharField(help_text="Meaning of one level's priority, in words")
    reference = serializers.CharField()
    parameters = ParameterSerializer(many=True)
    fields = serializers.ListField(  # type: ignore[assignment]
        child=serializers.CharField(), help_text="Names of the algorithm's own numbers for each entry"
    )
    takes_inherit = serializers.BooleanField(help_text="Whether shares may be inherited")
    properties = PropertiesSerializer(help_text="Properties that are declared to hold with the defaults")
    measured = PropertiesSerializer(
        allow_null=True,
        help_text="Properties that no small tree disproved, with the defaults; null for a built-in algorithm",
    )
    package = serializers.CharField(
        allow_null=True, help_text="Python package that provides the algorithm; null for a built-in one"
    )


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


DecayFunctionSerializer = record_serializer(
    DecayFunction,
    only="name label formula reference parameters",
    texts={"name": "`aging` of a policy's window", "formula": "Weight of usage, 0 to 1"},
    parameters=ParameterSerializer(many=True, help_text="Members of a policy's window, with the scheduler's defaults"),
)


class AlgorithmListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="list_algorithms", responses=list_schema(AlgorithmSerializer))
    def get(self, request: Request) -> Response:
        """All algorithms, with parameters, formula and declared properties."""
        return list_response([algorithm_json(algorithm) for algorithm in all_algorithms().values()])


class OperatorListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="list_operators", responses=list_schema(OperatorSerializer))
    def get(self, request: Request) -> Response:
        """All operators of the algorithm `aequus`; of the families `relative-N` and `sigmoid-N` those with N = 2, 3."""
        return list_response([operator_json(operator) for operator in all_operators()])


class DecayFunctionListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="list_decay_functions", responses=list_schema(DecayFunctionSerializer))
    def get(self, request: Request) -> Response:
        """All decay functions of a policy's window; functions of schedulers have the scheduler's name for them."""
        return list_response(DecayFunctionSerializer(DECAY_FUNCTIONS.values(), many=True).data)


def algorithm_json(algorithm: Algorithm) -> dict[str, Any]:
    properties = algorithm.properties(read_algorithm(algorithm.name))
    measured = measured_algorithms().get(algorithm.name)
    return {
        **{name: getattr(algorithm, name) for name in ("name", "label", "formula", "component", "reference")},
        "parameters": ParameterSerializer(algorithm.parameters, many=True).data,
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
