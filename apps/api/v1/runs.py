"""Background work, as its owner and administrators see it."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import ANY, Scopes, actor_of
from apps.api.shapes import UtcTimeField
from apps.api.views import APIView
from apps.runs import selectors
from apps.runs.models import Run


class ProgressSerializer(serializers.Serializer[Any]):
    done = serializers.IntegerField()
    total = serializers.IntegerField(allow_null=True)
    message = serializers.CharField(allow_blank=True)


class RunErrorSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()


class RunSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    kind = serializers.CharField()
    subject = serializers.CharField()
    state = serializers.ChoiceField(Run.State.choices)
    progress = serializers.SerializerMethodField()
    counts = serializers.DictField()
    result = serializers.DictField()
    error = serializers.SerializerMethodField()
    attempts = serializers.IntegerField()
    created_at = UtcTimeField()
    started_at = UtcTimeField(allow_null=True)
    finished_at = UtcTimeField(allow_null=True)

    @extend_schema_field(ProgressSerializer)
    def get_progress(self, run: Run) -> dict[str, Any]:
        return {"done": run.progress_done, "total": run.progress_total, "message": run.message}

    @extend_schema_field(RunErrorSerializer(allow_null=True))
    def get_error(self, run: Run) -> dict[str, str] | None:
        return {"code": run.error_code, "message": run.error} if run.error_code else None


class RunDetailView(APIView):
    scopes: ClassVar[Scopes] = {"GET": ANY}

    @extend_schema(operation_id="get_run", responses=RunSerializer)
    def get(self, request: Request, run: int) -> Response:
        """State, progress, counts and error."""
        return Response(RunSerializer(selectors.get_run(run_id=run, actor=actor_of(request))).data)
