"""Experiments by REST: estimate, make, read, cancel, attach and remove them, and read results as JSON or as a table."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.lab.experiments import selectors, services
from apps.contrib.lab.experiments.group_waits import GroupWait
from apps.contrib.lab.experiments.permissions import policy_to_manage
from apps.contrib.lab.experiments.presets import Preset, list_presets
from apps.contrib.lab.experiments.records import Estimate, ExperimentDetail, ExperimentRow, TraceRow, VariantReport
from apps.contrib.lab.experiments.spec import LONGEST_EXPERIMENT_NAME, MOST_VARIANTS
from apps.contrib.lab.experiments.traces import MOST_TRACE_BYTES, list_traces, remove_trace, trace_row, upload_trace
from apps.core import clock
from apps.core.tables import Column
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedDictField, BoundedListField
from apps.web.rest.deprecations import old_names
from apps.web.rest.inputs import field_refusal, read_body, read_query
from apps.web.rest.records import serializer_of
from apps.web.rest.shapes import TABLE_ANSWERS, TableFormatField, list_response, list_schema, table_response
from apps.web.rest.views import APIView

READ_WRITE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
EstimateSerializer = serializer_of(Estimate)
TraceSerializer = serializer_of(TraceRow)
PresetSerializer = serializer_of(Preset)
ExperimentSerializer = serializer_of(ExperimentRow)
ExperimentDetailSerializer = serializer_of(ExperimentDetail)
VariantReportSerializer = serializer_of(VariantReport)
GroupWaitSerializer = serializer_of(GroupWait)

COLUMNS = (
    Column("path"),
    *(
        Column(name, "number")
        for name in (
            "target",
            "target_was",
            "n_jobs",
            "n_waiting",
            "wait_mean_s",
            "wait_mean_was_s",
            "wait_median_s",
            "wait_median_was_s",
            "wait_p90_s",
            "wait_p90_was_s",
            "core_h",
            "core_h_was",
            "rms_points",
            "rms_was_points",
            "settled_h",
            "settled_was_h",
        )
    ),
)
_OLD_NAMES = old_names("EntryNumbers")
_FILE_COLUMNS = (*COLUMNS, *(Column(name, "number") for name in _OLD_NAMES))


class EstimatedExperimentSerializer(serializers.Serializer[Any]):
    """What is simulated: the body of `make_experiment`, in which the name may be missing.

    The parts are checked together, and each wrong field is named.
    """

    workload = BoundedDictField(help_text="kind: synthetic, trace or replay; and its fields, see docs/lab.md")
    base = BoundedDictField(required=False, help_text="What differs from the policy as published")
    variants = BoundedListField(
        child=BoundedDictField(), required=False, max_length=MOST_VARIANTS, help_text="What each of them changes"
    )
    seed = serializers.IntegerField(required=False, min_value=0, max_value=bounds.ROW, help_text="Default: 1")
    scenario = serializers.CharField(
        required=False,
        max_length=LONGEST_EXPERIMENT_NAME,
        help_text="A shipped scenario whose tree is the base, not the policy",
    )

    name = serializers.CharField(max_length=LONGEST_EXPERIMENT_NAME, required=False)


class NewExperimentSerializer(EstimatedExperimentSerializer):
    """What is simulated. The parts are checked together, and each wrong field is named."""

    name = serializers.CharField(max_length=LONGEST_EXPERIMENT_NAME)


class EvidenceSerializer(serializers.Serializer[Any]):
    change_set = serializers.IntegerField(min_value=1, allow_null=True, help_text="null: detach it")


class ReportQuerySerializer(serializers.Serializer[Any]):
    format = TableFormatField()


class PresetQuerySerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(
        max_length=bounds.ENTRY,
        required=False,
        allow_blank=True,
        default="",
        help_text="Path or uid of the project that doubles",
    )


class NewTraceSerializer(serializers.Serializer[Any]):
    """A log in Standard Workload Format: as text, or packed by gzip in base64."""

    name = serializers.CharField(max_length=bounds.FILE_NAME)
    text = serializers.CharField(max_length=MOST_TRACE_BYTES, required=False, trim_whitespace=False)
    gzip = serializers.CharField(max_length=2 * MOST_TRACE_BYTES, required=False, help_text="base64")


class TraceListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    def before_body(self, request: Request, *, policy: str) -> None:
        policy_to_manage(slug=policy, at=clock.now(), actor=actor_of(request))

    @extend_schema(operation_id="list_traces", responses=list_schema(TraceSerializer))
    def get(self, request: Request, policy: str) -> Response:
        """Logs that were uploaded for experiments, newest first."""
        rows = list_traces(policy_slug=policy, at=clock.now(), actor=actor_of(request))
        return list_response(TraceSerializer(rows, many=True).data)

    @extend_schema(operation_id="upload_trace", request=NewTraceSerializer, responses={201: TraceSerializer})
    def post(self, request: Request, policy: str) -> Response:
        """Upload a log, which a worker then reads: its `state` in the list is `waiting`, then `read` or `refused`.

        An equal log is returned as it is, or read again if it was refused. What is too large is refused at once.
        """
        body, at, actor = read_body(NewTraceSerializer, request), clock.now(), actor_of(request)
        trace = upload_trace(policy_slug=policy, name=body["name"], data=_log_in(body), at=at, actor=actor)
        return Response(TraceSerializer(trace_row(trace.policy, trace, at)).data, status=201)


def _log_in(body: dict[str, Any]) -> bytes:
    if ("text" in body) == ("gzip" in body):
        raise field_refusal("text", "or gzip is required, one of the two")
    if "text" in body:
        return str(body["text"]).encode()
    try:
        return b64decode(body["gzip"], validate=True)
    except ValueError:
        raise field_refusal("gzip", "must be base64") from None


class TraceDetailView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="remove_trace", responses={204: None})
    def delete(self, request: Request, policy: str, trace: int) -> Response:
        """Remove a log. Experiments that were prepared keep its jobs."""
        remove_trace(policy_slug=policy, trace_id=trace, at=clock.now(), actor=actor_of(request))
        return Response(status=204)


class PresetListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_WRITE})}

    @extend_schema(
        operation_id="list_presets_of_experiments",
        parameters=[PresetQuerySerializer],
        responses=list_schema(PresetSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """Classic questions as experiments on this policy, ready to be made. For managers of the whole policy."""
        query = read_query(PresetQuerySerializer, request)
        presets = list_presets(policy_slug=policy, entry=query["entry"], at=clock.now(), actor=actor_of(request))
        return list_response(PresetSerializer(presets, many=True).data)


class ExperimentListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    def before_body(self, request: Request, *, policy: str) -> None:
        policy_to_manage(slug=policy, at=clock.now(), actor=actor_of(request))

    @extend_schema(operation_id="list_experiments", responses=list_schema(ExperimentSerializer))
    def get(self, request: Request, policy: str) -> Response:
        """The newest 200 experiments, newest first. For readers of all numbers of the policy."""
        rows = selectors.list_experiments(policy_slug=policy, at=clock.now(), actor=actor_of(request))
        return list_response(ExperimentSerializer(rows, many=True).data)

    @extend_schema(
        operation_id="make_experiment", request=NewExperimentSerializer, responses={201: ExperimentDetailSerializer}
    )
    def post(self, request: Request, policy: str) -> Response:
        """Make an experiment; its simulations run in the background. For managers of the whole policy."""
        body, at, actor = read_body(NewExperimentSerializer, request), clock.now(), actor_of(request)
        name = body.pop("name")
        made = services.create_experiment(policy_slug=policy, name=name, spec=body, at=at, actor=actor)
        detail = selectors.get_experiment(policy_slug=policy, experiment_id=made.pk, at=at, actor=actor)
        return Response(ExperimentDetailSerializer(detail).data, status=201)


class ExperimentEstimateView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE
    on_repeat = "work"  # it reads

    def before_body(self, request: Request, *, policy: str) -> None:
        policy_to_manage(slug=policy, at=clock.now(), actor=actor_of(request))

    @extend_schema(
        operation_id="estimate_experiment", request=EstimatedExperimentSerializer, responses=EstimateSerializer
    )
    def post(self, request: Request, policy: str) -> Response:
        """What an experiment would need: takes and refuses what making it does. Stores nothing."""
        body = read_body(EstimatedExperimentSerializer, request)
        name = body.pop("name", None)
        estimate = selectors.estimate_experiment(
            policy_slug=policy, name=name, spec=body, at=clock.now(), actor=actor_of(request)
        )
        return Response(EstimateSerializer(estimate).data)


class ExperimentDetailView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_experiment", responses=ExperimentDetailSerializer)
    def get(self, request: Request, policy: str, experiment: int) -> Response:
        """An experiment: what it is, how far its variants are, and their headline numbers."""
        return _detail(request, policy, experiment)

    @extend_schema(operation_id="remove_experiment", responses={204: None})
    def delete(self, request: Request, policy: str, experiment: int) -> Response:
        """Remove an experiment with its results. Not while it is evidence of a change set."""
        services.remove_experiment(
            policy_slug=policy, experiment_id=experiment, at=clock.now(), actor=actor_of(request)
        )
        return Response(status=204)


class ExperimentCancelView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="cancel_experiment", request=None, responses=ExperimentDetailSerializer)
    def post(self, request: Request, policy: str, experiment: int) -> Response:
        """End its simulations. Results that are there stay. Once more, or after the end, it changes nothing."""
        services.cancel_experiment(
            policy_slug=policy, experiment_id=experiment, at=clock.now(), actor=actor_of(request)
        )
        return _detail(request, policy, experiment)


class ExperimentEvidenceView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    def before_body(self, request: Request, *, policy: str, experiment: int) -> None:
        policy_to_manage(slug=policy, at=clock.now(), actor=actor_of(request))

    @extend_schema(operation_id="attach_experiment", request=EvidenceSerializer, responses=ExperimentDetailSerializer)
    def post(self, request: Request, policy: str, experiment: int) -> Response:
        """Show the experiment on the review of a change set, or no longer."""
        services.attach_experiment(
            policy_slug=policy,
            experiment_id=experiment,
            change_set_id=read_body(EvidenceSerializer, request)["change_set"],
            at=clock.now(),
            actor=actor_of(request),
        )
        return _detail(request, policy, experiment)


class VariantReportView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(
        operation_id="get_report_of_variant",
        parameters=[ReportQuerySerializer],
        responses={200: VariantReportSerializer, **TABLE_ANSWERS},
    )
    def get(self, request: Request, policy: str, experiment: int, variant: int) -> Response:
        """Waits, core-hours and shares by entry, beside those of the base. As a table: its entries."""
        query = read_query(ReportQuerySerializer, request)
        report = selectors.get_variant_report(
            policy_slug=policy, experiment_id=experiment, index=variant, at=clock.now(), actor=actor_of(request)
        )
        return _report(report, f"experiment-{experiment}-{variant}", query)


class HistoryReportView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(
        operation_id="get_history_of_experiment",
        parameters=[ReportQuerySerializer],
        responses={200: VariantReportSerializer, **TABLE_ANSWERS},
    )
    def get(self, request: Request, policy: str, experiment: int) -> Response:
        """The replay of the policy as published beside what happened in fact (`_was`): the error of the model."""
        query = read_query(ReportQuerySerializer, request)
        report = selectors.get_history_report(
            policy_slug=policy, experiment_id=experiment, at=clock.now(), actor=actor_of(request)
        )
        return _report(report, f"experiment-{experiment}-history", query)


class GroupWaitsView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="list_waits_of_variant", responses=list_schema(GroupWaitSerializer))
    def get(self, request: Request, policy: str, experiment: int, variant: int) -> Response:
        """Median waits of the top groups in a variant of a replay, beside how far the replay was off in the past."""
        waits = selectors.list_group_waits(
            policy_slug=policy, experiment_id=experiment, index=variant, at=clock.now(), actor=actor_of(request)
        )
        return list_response(GroupWaitSerializer(waits, many=True).data)


def _report(report: VariantReport, name: str, query: dict[str, Any]) -> Response:
    if "format" in query:
        return table_response(name, _FILE_COLUMNS, _rows_of(report), query["format"])  # type: ignore[return-value]
    return Response(VariantReportSerializer(report).data)


def _rows_of(report: VariantReport) -> Iterator[list[Any]]:
    """The entries of a report, as rows of the file."""
    for each in report.entries:
        yield [getattr(each, _OLD_NAMES.get(column.name, column.name)) for column in _FILE_COLUMNS]


def _detail(request: Request, policy: str, experiment: int) -> Response:
    detail = selectors.get_experiment(
        policy_slug=policy, experiment_id=experiment, at=clock.now(), actor=actor_of(request)
    )
    return Response(ExperimentDetailSerializer(detail).data)
