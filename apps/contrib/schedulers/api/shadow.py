"""Shadow mode: comparison with the scheduler's numbers, and switching on."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.schedulers import bounds as of_schedulers
from apps.contrib.schedulers.api.serializers import SchedulerSerializer, scheduler_json
from apps.contrib.schedulers.orders import MOST_JOB_PARTITIONS, orders_of, tag_of
from apps.contrib.schedulers.selectors import Shadow, get_scheduler, get_shadow
from apps.contrib.schedulers.shadow_differences import REASONS, Comparison, Difference
from apps.contrib.schedulers.switch_on import SchedulerScope, switch_on
from apps.core import clock
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedListField
from apps.web.rest.if_match import if_match_header, require_if_match
from apps.web.rest.inputs import read_body
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import with_etag
from apps.web.rest.views import APIView

DifferenceSerializer = record_serializer(
    Difference,
    doc="difference = by_usage + by_tree + by_rule.",
    exclude=("entry",),
    texts={
        "ours": "Factor computed here",
        "theirs": "Factor of the scheduler",
        "difference": "Difference on the scale of the comparison",
    },
    reason=serializers.ChoiceField(
        REASONS, help_text="What predicts the scheduler's number within 1 % of the difference; none if equal"
    ),
)


# Numbers of a comparison by their names here, and their descriptions.
COMPARED = ("n_users", "n_equal", "n_unknown", "scale", "largest")
COMPARED_TEXTS = {
    "n_users": "Number of users in both",
    "n_equal": "Number of users that are equal in the digits that the scheduler prints",
    "n_unknown": "Users of the scheduler without an entry here",
    "scale": "factor for Slurm's algorithms; position in the order, 0 to 1, for others",
    "largest": "Largest absolute difference",
}
FactorComparisonSerializer = record_serializer(
    Comparison,
    component="FactorComparison",
    only=(*COMPARED, "differences"),
    texts=COMPARED_TEXTS,
    differences=DifferenceSerializer(source="ordered", many=True),
)
ShadowSerializer = record_serializer(
    Shadow,
    exclude=("scheduler",),
    texts={"taken_at": "When the agent read the scheduler's values"},
    comparison=FactorComparisonSerializer(allow_null=True),
)


class SwitchOnSerializer(serializers.Serializer[Any]):
    partitions = BoundedListField(
        child=serializers.CharField(max_length=of_schedulers.PARTITION),
        required=False,
        default=list,
        max_length=MOST_JOB_PARTITIONS,
    )
    subtree = serializers.CharField(
        max_length=bounds.ENTRY, required=False, default="", allow_blank=True, help_text="Path of an entry"
    )
    everything = serializers.BooleanField(required=False, default=False)
    reason = serializers.CharField(max_length=bounds.REASON, required=False, default="", allow_blank=True)


READ = frozenset({POLICIES_READ, POLICIES_WRITE})


class DifferencesView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": READ}

    @extend_schema(operation_id="get_scheduler_differences", responses=ShadowSerializer)
    def get(self, request: Request, scheduler: str) -> Response:
        """Factors of the scheduler beside those computed here, the largest difference first, split by reason."""
        shadow = get_shadow(name=scheduler, at=clock.now(), actor=actor_of(request))
        return Response(ShadowSerializer(shadow).data)


class SwitchOnView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(
        operation_id="switch_scheduler_on",
        parameters=[if_match_header("the scheduler")],
        request=SwitchOnSerializer,
        responses=SchedulerSerializer,
    )
    def post(self, request: Request, scheduler: str) -> Response:
        """Leave shadow mode for more partitions, for a subtree, or for everything: the agent sends values there."""
        at, actor = clock.now(), actor_of(request)
        get_scheduler(name=scheduler, at=at, actor=actor)
        tag, body = require_if_match(request, "scheduler"), read_body(SwitchOnSerializer, request)
        reason = body.pop("reason", "")
        switch_on(SchedulerScope(**body), name=scheduler, tag=tag, at=at, actor=actor, reason=reason)
        view = get_scheduler(name=scheduler, at=at, actor=actor)
        tag = tag_of(view.scheduler)
        return with_etag(Response(scheduler_json(view, orders_of(view.scheduler), tag)), tag)
