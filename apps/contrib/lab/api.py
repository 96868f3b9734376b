"""The effect of an operator and a resolution on a policy's tree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.lab.advisor.runs import advice_sentence
from apps.contrib.lab.operators.records import BOUNDS, LONGEST_FIGURE_QUERY, read_query
from apps.contrib.lab.operators.selectors import OperatorsPage, get_operators_page
from apps.core import clock
from apps.web.rest import inputs
from apps.web.rest.authentication import POLICIES_READ, SELF_READ, Scopes, actor_of
from apps.web.rest.records import record_serializer
from apps.web.rest.views import APIView

READ_TREE: Scopes = {"GET": frozenset({POLICIES_READ, SELF_READ})}
_TEXTS = {
    "operator": "Name of an operator as in settings; default: the policy's own",
    "resolution": "{range}; default: the policy's own",
    "k": "{range}; for `combined`; default: the policy's own",
    "job_h": "{range}; default 2,000, as in the paper",
}


class OperatorQuerySerializer(serializers.Serializer[Any]):
    """Plain texts: the shared parser of pages, REST and the command validates them."""

    def get_fields(self) -> dict[str, Any]:
        ranges = {name: f"{low:g} to {high:g}" for name, (low, high) in BOUNDS.items()}
        return {
            name: serializers.CharField(
                required=False,
                allow_blank=True,
                max_length=LONGEST_FIGURE_QUERY,
                help_text=text.format(range=ranges.get(name)),
            )
            for name, text in _TEXTS.items()
        }


OperatorsPageSerializer = record_serializer(
    OperatorsPage,
    only="verdict ranks_by_vectors check operators",
    texts={
        "verdict": "The newest advice; empty without one, and for readers of a part of the numbers",
        "ranks_by_vectors": "The policy ranks by vectors; false: the check shows what `aequus` would do",
    },
)


class OperatorsView(APIView):
    scopes: ClassVar[Scopes] = READ_TREE

    @extend_schema(
        operation_id="get_policy_operators", parameters=[OperatorQuerySerializer], responses=OperatorsPageSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """Effect of operator and resolution on this tree, and all operators."""
        query = read_query(inputs.read_query(OperatorQuerySerializer, request))
        actor = actor_of(request)
        page = get_operators_page(policy_slug=policy, query=query, actor=actor)
        verdict = advice_sentence(policy_slug=policy, at=clock.now(), actor=actor)
        return Response(OperatorsPageSerializer(replace(page, verdict=verdict)).data)
