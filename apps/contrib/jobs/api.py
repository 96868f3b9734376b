"""Job priorities, term by term, computed from the request alone; and a policy's shares as a case for SAM."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import orjson
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.jobs.algorithms import all_job_algorithms
from apps.contrib.jobs.job_cases import MOST_CASE_JOBS, MOST_CASES, explain_jobs, refuse_many
from apps.contrib.jobs.sam_cases import sam_case
from apps.core import clock
from apps.web import bounds
from apps.web.rest.authentication import ANY, POLICIES_READ, PRIORITIES_READ, Scopes, actor_of
from apps.web.rest.inputs import read_query
from apps.web.rest.parsing import StrictJSONParser
from apps.web.rest.views import APIView

ANSWER = {
    "type": "object",
    "properties": {
        "id": {"nullable": True, "description": "The id of the case"},
        "jobs": {
            "type": "object",
            "additionalProperties": {"type": "object"},
            "description": "Terms by job id. SAM: `group`, `benefit`, `booked`, `queue`, `priority`, `fraction_after`, "
            "`parts` of the benefit function, and `explain`, the steps of the decision. HTCondor: `submitter`, `real`, "
            "`factor`, `effective`, `slice` of the pool, `job_prio` and `explain`",
        },
        "pending_order": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Grid Engine: ids of waiting jobs in the order in which they would start; held jobs last. "
            "HTCondor: in the order in which the negotiator considers them",
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
            "description": "Grid Engine: jobs that max_functional_jobs_to_schedule leaves out",
        },
        "ledger": {
            "type": "object",
            "properties": {
                "unit": {
                    "type": "string",
                    "description": "Unit of the benefit function; empty if jobs state their benefit",
                },
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
                "next": {"type": "object", "description": "`benefit` of the next case, after this one"},
            },
            "description": "SAM: benefit of each fair-share group before, booked by and after the case",
        },
        "submitters": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {
                    **{name: {"type": "number"} for name in ("real", "factor", "effective")},
                    "slice": {"type": "number", "nullable": True},
                },
            },
            "description": "HTCondor: every submitter, best first; `slice` is null without a job or a core",
        },
        "notes": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Remarks about the whole case: automatic users, jobs beyond a limit, queues of SAM, ties",
        },
    },
    "required": ["id", "jobs"],
}
_ANSWERS = {"oneOf": [ANSWER, {"type": "array", "items": ANSWER}]}


class SamCaseFilterSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(
        max_length=bounds.ENTRY,
        required=False,
        default="/",
        help_text="Path of the entry whose children are the groups; default /",
    )


class SamAlgorithmSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    benefit = serializers.DictField(
        child=serializers.FloatField(),
        required=False,
        help_text="Weights of the policy's metric; absent: jobs state their benefit",
    )


class SamCaseSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    algorithm = SamAlgorithmSerializer()
    shares = serializers.DictField(child=serializers.FloatField(), help_text="Target of each group")
    benefit = serializers.DictField(
        child=serializers.FloatField(), help_text="Usage of each group in the policy's metric"
    )
    jobs = serializers.ListField(child=serializers.DictField(), help_text="Empty: insert the jobs to be decided")


class SamCaseView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({PRIORITIES_READ, POLICIES_READ})}

    @extend_schema(operation_id="get_sam_case", parameters=[SamCaseFilterSerializer], responses=SamCaseSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Targets and usage of an entry's children as a case of SAM's queue, complete but for its jobs."""
        query = read_query(SamCaseFilterSerializer, request)
        return Response(sam_case(policy_slug=policy, path=query["path"], actor=actor_of(request), at=clock.now()))


def _case_schema() -> dict[str, Any]:
    algorithm = {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": list(all_job_algorithms())}},
        "required": ["name"],
        "description": "May be omitted if `config` contains Grid Engine's weights",
    }
    jobs = {"type": "array", "items": {"type": "object"}, "maxItems": MOST_CASE_JOBS}
    properties = {"id": {"type": "string"}, "algorithm": algorithm, "jobs": jobs}
    return {"type": "object", "properties": properties, "required": ["jobs"]}


_CASES = {"oneOf": [_case_schema(), {"type": "array", "items": _case_schema(), "maxItems": MOST_CASES}]}


class JobCaseParser(StrictJSONParser):
    """Count jobs with a fast parser first, so that an oversized case is rejected before strict parsing, which takes
    ten times as long.
    """

    def load(self, body: bytes) -> Any:
        with contextlib.suppress(ValueError):  # strict parsing reports the location
            document = orjson.loads(body)
            refuse_many(document if isinstance(document, list) else [document])
        return super().load(body)


class JobExplanationView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"POST": ANY}
    on_repeat = "work"
    parser_classes = (JobCaseParser,)

    @extend_schema(
        operation_id="explain_jobs",
        request={"application/json": _CASES},
        responses={(200, "application/json"): _ANSWERS},
    )
    def post(self, request: Request) -> Response:
        """Explain the priority of each job: every term, and the sums.

        The body is one case or a list, as for `manage.py jobs`. One invalid case rejects the whole request and is
        named in the problem.
        """
        body: Any = request.data
        return Response(explain_jobs(body) if isinstance(body, list) else explain_jobs([body])[0])
