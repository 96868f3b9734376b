"""Background runs, for the person who started them and for administrators."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.runs import selectors
from apps.runs.models import Run
from apps.runs.waiting import RunWaiting, waiting_of
from apps.web.rest.authentication import ANY, Scopes, actor_of
from apps.web.rest.records import serializer_of
from apps.web.rest.shapes import ProblemCodeSerializer, UtcTimeField
from apps.web.rest.views import APIView

RunWaitingSerializer = serializer_of(RunWaiting)


class ProgressSerializer(serializers.Serializer[Any]):
    done = serializers.IntegerField(source="progress_done")
    total = serializers.IntegerField(source="progress_total", allow_null=True, help_text="null: not known")
    message = serializers.CharField(allow_blank=True)


class RunSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    kind = serializers.CharField()
    subject = serializers.CharField()
    state = serializers.ChoiceField(Run.State.choices)
    progress = ProgressSerializer(source="*")
    counts = serializers.DictField(help_text="Numbers of processed objects, by name")
    result = serializers.DictField()
    error = serializers.SerializerMethodField(help_text="null: no error")
    waiting = serializers.SerializerMethodField(help_text="Behind what it waits; null: it doesn't")
    attempts = serializers.IntegerField(help_text="How often the run was started")
    created_at = UtcTimeField()
    started_at = UtcTimeField(allow_null=True)
    finished_at = UtcTimeField(allow_null=True)

    @extend_schema_field(ProblemCodeSerializer(allow_null=True))
    def get_error(self, run: Run) -> dict[str, str] | None:
        return {"code": run.error_code, "message": run.error} if run.error_code else None

    @extend_schema_field(RunWaitingSerializer(allow_null=True))
    def get_waiting(self, run: Run) -> Any:
        waiting = waiting_of(run, at=clock.now())
        return None if waiting is None else RunWaitingSerializer(waiting).data


class AskedRunSerializer(serializers.Serializer[Any]):
    run = serializers.IntegerField()


class RunDetailView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": ANY}

    @extend_schema(operation_id="get_run", responses=RunSerializer)
    def get(self, request: Request, run: int) -> Response:
        """State, progress, counts and error of a background run."""
        return Response(RunSerializer(selectors.get_run(run_id=run, actor=actor_of(request))).data)
