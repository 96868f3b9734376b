"""Priorities of jobs, term by term: a pure function of the request, without data of the site."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import orjson
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import ANY, POLICIES_READ, PRIORITIES_READ, Scopes, actor_of
from apps.api.parsing import StrictJSONParser
from apps.api.shapes import asked
from apps.api.views import APIView
from apps.core import clock
from apps.engine.jobs import all_job_algorithms
from apps.priorities.jobs import MOST_CASES, MOST_JOBS, explain_jobs, refuse_many, sam_case


class SamCaseFilterSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(
        max_length=4096,
        required=False,
        default="/",
        help_text="The entry whose children are the groups; / unless given",
    )


class SamAlgorithmSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    benefit = serializers.DictField(
        child=serializers.FloatField(),
        required=False,
        help_text="The metric's weights; absent: jobs give their benefit",
    )


class SamCaseSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    algorithm = SamAlgorithmSerializer()
    shares = serializers.DictField(child=serializers.FloatField(), help_text="Targets by group")
    benefit = serializers.DictField(child=serializers.FloatField(), help_text="Usage by group, in the policy's metric")
    jobs = serializers.ListField(child=serializers.DictField(), help_text="Empty: put yours here")


class SamCaseView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({PRIORITIES_READ, POLICIES_READ})}

    @extend_schema(operation_id="get_sam_case", parameters=[SamCaseFilterSerializer], responses=SamCaseSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Shares and usage of the entries below one, as a case of SAM's queue that lacks only its jobs."""
        given = asked(SamCaseFilterSerializer, request)
        return Response(sam_case(policy_slug=policy, path=given["path"], actor=actor_of(request), at=clock.now()))


def _case_schema() -> dict[str, Any]:
    algorithm = {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": list(all_job_algorithms())}},
        "required": ["name"],
        "description": "May be left out where `config` holds Grid Engine's weights",
    }
    jobs = {"type": "array", "items": {"type": "object"}, "maxItems": MOST_JOBS}
    properties = {"id": {"type": "string"}, "algorithm": algorithm, "jobs": jobs}
    return {"type": "object", "properties": properties, "required": ["jobs"]}


_ANSWER = {
    "type": "object",
    "properties": {
        "id": {"nullable": True, "description": "As the case has it"},
        "jobs": {"type": "object", "additionalProperties": {"type": "object"}, "description": "By the job's id"},
        "pending_order": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Grid Engine: ids of waiting jobs in the order in which they would start; held ones last",
        },
        "totals": {
            "type": "object",
            "additionalProperties": {"type": "object", "additionalProperties": {"type": "number"}},
            "description": "Grid Engine: sums of tckts, otckt, ftckt and stckt over running and over pending jobs",
        },
        "beyond_limit": {
            "type": "object",
            "properties": {
                "setting": {"type": "string"},
                "limit": {"type": "integer"},
                "n_jobs": {"type": "integer"},
                "jobs": {"type": "array", "items": {"type": "string"}},
            },
            "description": "Grid Engine, where max_functional_jobs_to_schedule cut: the jobs beyond it",
        },
        "ledger": {
            "type": "object",
            "properties": {
                "unit": {"type": "string", "description": "Of the benefit function; empty where jobs give theirs"},
                "total": {"type": "number"},
                "groups": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "properties": {
                            **{name: {"type": "number"} for name in ("share", "before", "booked", "after", "owed")},
                            "fraction": {"type": "number", "nullable": True},
                        },
                    },
                },
                "next": {"type": "object", "description": "The field with which the next case goes on"},
            },
            "description": "SAM: benefit of each fair-share group before, booked by and after the case",
        },
        "notes": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Sentences about the case as a whole: automatic users, jobs beyond a limit, queues of SAM",
        },
    },
    "required": ["id", "jobs"],
}
_CASES = {"oneOf": [_case_schema(), {"type": "array", "items": _case_schema(), "maxItems": MOST_CASES}]}
_ANSWERS = {"oneOf": [_ANSWER, {"type": "array", "items": _ANSWER}]}


class JobCaseParser(StrictJSONParser):
    """Counts with the fast reader first: an oversized case isn't read strictly, which takes ten times as long."""

    def load(self, body: bytes) -> Any:
        with contextlib.suppress(ValueError):  # the strict reader names the place
            found = orjson.loads(body)
            refuse_many(found if isinstance(found, list) else [found])
        return super().load(body)


class JobExplanationView(APIView):
    scopes: ClassVar[Scopes] = {"POST": ANY}
    on_repeat = "work"
    parser_classes = (JobCaseParser,)

    @extend_schema(
        operation_id="explain_jobs",
        request={"application/json": _CASES},
        responses={(200, "application/json"): _ANSWERS},
    )
    def post(self, request: Request) -> Response:
        """One case or a list, as `manage.py jobs` accepts them; every term of every job, and the lines that add up.

        An invalid case rejects the request as a whole, with its location.
        """
        given: Any = request.data
        return Response(explain_jobs(given) if isinstance(given, list) else explain_jobs([given])[0])
