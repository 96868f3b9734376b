"""Schedulers: settings for managers, orders and reports for agents, queue and waiting reasons for users."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from io import BytesIO
from typing import IO, Any, ClassVar

import numpy as np
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.schedulers import selectors, services
from apps.contrib.schedulers.api.serializers import (
    AgentOrdersSerializer,
    ChangedSchedulerSerializer,
    NewSchedulerSerializer,
    PassFilterSerializer,
    PassSerializer,
    PolicyWhyFilterSerializer,
    QueuedJobStartSerializer,
    QueueFilterSerializer,
    QueueSerializer,
    ReportedSerializer,
    ReportSerializer,
    SchedulerSerializer,
    WaitingSerializer,
    WhyFilterSerializer,
    scheduler_json,
)
from apps.contrib.schedulers.orders import orders_of, tag_of
from apps.contrib.schedulers.passes import record_pass
from apps.contrib.schedulers.permissions import require_role
from apps.contrib.schedulers.selectors import SchedulerView
from apps.contrib.schedulers.waiting import find_waiting, with_starts
from apps.core import clock
from apps.core.errors import FieldProblem
from apps.core.packing import MOST_UNPACKING, Bounds, Damaged, Expands, unpack_gzip
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, SCHEDULERS, SELF_READ, Scopes, actor_of
from apps.web.rest.body_limits import MB
from apps.web.rest.cursors import encode_cursor, read_cursor
from apps.web.rest.errors import Refusal
from apps.web.rest.if_match import if_match_header, require_if_match
from apps.web.rest.inputs import field_refusal, read_body, read_query
from apps.web.rest.parsing import StrictJSONParser, limit_in, read_bounded, read_json
from apps.web.rest.reasons import ReasonFilterSerializer
from apps.web.rest.rendering import dumps, is_known
from apps.web.rest.shapes import list_response, list_schema, utc_text, with_etag
from apps.web.rest.views import KEY_PARAMETER, APIView, key_of

READ = frozenset({POLICIES_READ, POLICIES_WRITE})
WRITE = frozenset({POLICIES_WRITE})
AGENT = frozenset({SCHEDULERS})
OWN = frozenset({POLICIES_READ, SELF_READ})


class SchedulerListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": READ, "POST": WRITE}

    def before_body(self, request: Request) -> None:
        require_role(actor_of(request), clock.now())

    @extend_schema(operation_id="list_schedulers", responses=list_schema(SchedulerSerializer))
    def get(self, request: Request) -> Response:
        """Schedulers of policies that the caller manages, by name."""
        schedulers = selectors.list_schedulers(at=clock.now(), actor=actor_of(request))
        return list_response([_json(view) for view in schedulers])

    @extend_schema(
        operation_id="connect_scheduler", request=NewSchedulerSerializer, responses={201: SchedulerSerializer}
    )
    def post(self, request: Request) -> Response:
        """Connect a scheduler to a policy. It is off by default (`mode`). For managers of the whole policy."""
        body, at, actor = read_body(NewSchedulerSerializer, request), clock.now(), actor_of(request)
        name, policy = body.pop("name"), body.pop("policy")
        services.connect_scheduler(policy_slug=policy, name=name, settings=body, at=at, actor=actor)
        return _answer(request, name, 201)


class SchedulerDetailView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}

    @extend_schema(operation_id="get_scheduler", responses=SchedulerSerializer)
    def get(self, request: Request, scheduler: str) -> Response:
        """Settings and state of a scheduler, with the last pass and the checks of its agent."""
        return _answer(request, scheduler)

    @extend_schema(
        operation_id="change_scheduler",
        parameters=[if_match_header("the scheduler")],
        request=ChangedSchedulerSerializer,
        responses=SchedulerSerializer,
    )
    def patch(self, request: Request, scheduler: str) -> Response:
        """Change the given settings. Limits that are not given stay."""
        at, actor = clock.now(), actor_of(request)
        selectors.get_scheduler(name=scheduler, at=at, actor=actor)
        tag, body = require_if_match(request, "scheduler"), read_body(ChangedSchedulerSerializer, request)
        services.change_scheduler(name=scheduler, tag=tag, settings=body, at=at, actor=actor)
        return _answer(request, scheduler)

    @extend_schema(
        operation_id="remove_scheduler",
        parameters=[if_match_header("the scheduler"), ReasonFilterSerializer],
        responses={204: None},
    )
    def delete(self, request: Request, scheduler: str) -> Response:
        """Disconnect a scheduler. Values that its agent has set stay there: use `reset_values` first."""
        at, actor = clock.now(), actor_of(request)
        selectors.get_scheduler(name=scheduler, at=at, actor=actor)
        tag, query = require_if_match(request, "scheduler"), read_query(ReasonFilterSerializer, request)
        services.remove_scheduler(name=scheduler, tag=tag, reason=query["reason"], at=at, actor=actor)
        return Response(status=204)


class OrdersView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": AGENT}

    @extend_schema(
        operation_id="get_scheduler_orders",
        parameters=[
            OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER, description="ETag of the last answer")
        ],
        responses={200: AgentOrdersSerializer, 304: None},
    )
    def get(self, request: Request, scheduler: str) -> Response:
        """Orders for the agent. Their ETag changes with them."""
        orders, tag = selectors.get_orders(name=scheduler, at=clock.now(), actor=actor_of(request))
        return with_etag(Response(status=304) if is_known(request._request, tag) else Response(orders), tag)


MOST_UNPACKED = 32 * MB


class ReportParser(StrictJSONParser):
    """JSON, optionally compressed with gzip. The size is limited before and after decompression."""

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        request: Request = (parser_context or {})["request"]
        encoding = request.headers.get("Content-Encoding", "").strip().lower()
        if encoding != "gzip":
            return super().parse(stream, media_type, parser_context)
        limit = limit_in(parser_context)
        plain = _unpacked(read_bounded(stream, limit))
        return self.load(read_json(BytesIO(plain), limit._replace(n_bytes=MOST_UNPACKED)))


def _unpacked(body: bytes) -> bytes:
    try:
        return unpack_gzip(body, Bounds(n_bytes=MOST_UNPACKED))
    except Expands as error:
        message = f"The unpacked body is over {MOST_UNPACKED // MB} MB, or {MOST_UNPACKING} times its size."
        raise Refusal(message, code="too_large", status=413) from error
    except Damaged as error:
        raise Refusal(
            f"The body is no whole gzip: at byte {error.position}, {error.why}.",
            code="bad_gzip",
            fields=[FieldProblem("body", f"at byte {error.position}, {error.why}")],
        ) from error


class PassListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": READ | AGENT, "POST": AGENT}
    on_repeat = "work"  # the id of the pass makes reports idempotent
    parser_classes = (ReportParser,)

    def before_body(self, request: Request, *, scheduler: str) -> None:
        selectors.get_orders(name=scheduler, at=clock.now(), actor=actor_of(request))

    @extend_schema(
        operation_id="list_scheduler_passes", parameters=[PassFilterSerializer], responses=list_schema(PassSerializer)
    )
    def get(self, request: Request, scheduler: str) -> Response:
        """Passes of the scheduler's agent, newest first."""
        query = read_query(PassFilterSerializer, request)
        passes = selectors.list_passes(
            name=scheduler, before_id=read_cursor(query), limit=query["limit"], at=clock.now(), actor=actor_of(request)
        )
        last = passes[-1].pk if len(passes) == query["limit"] else None
        return list_response(PassSerializer(passes, many=True).data, last)

    @extend_schema(
        operation_id="report_scheduler_pass",
        parameters=[KEY_PARAMETER],
        request=ReportSerializer,
        responses=ReportedSerializer,
    )
    def post(self, request: Request, scheduler: str) -> Response:
        """Report one pass of an agent; gzip is accepted. Repeated reports of a pass are ignored.

        `Idempotency-Key`, if sent, must be the id of the pass.
        """
        actor, at = actor_of(request), clock.now()
        report, key = read_body(ReportSerializer, request), key_of(request)
        if key is not None and key != str(report["pass"]):
            raise field_refusal("Idempotency-Key", "must be the id of the pass")
        digest = hashlib.sha256(dumps(request.data)).hexdigest()
        updated_scheduler, _pass = record_pass(name=scheduler, report=report, body_sha256=digest, at=at, actor=actor)
        return Response({"orders_revision": updated_scheduler.revision})


class QueueView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": OWN}

    @extend_schema(operation_id="list_scheduler_queue", parameters=[QueueFilterSerializer], responses=QueueSerializer)
    def get(self, request: Request, scheduler: str) -> Response:
        """Waiting jobs of the last queue listing: the caller's, and those at entries whose numbers the caller sees."""
        query = read_query(QueueFilterSerializer, request)
        position = read_cursor(query)
        query.pop("cursor", None)
        at = clock.now()
        queue, rows = selectors.list_queue(
            name=scheduler,
            after=-1 if position is None else position,
            **query,
            at=at,
            actor=actor_of(request),
        )
        if queue is None or queue.table.taken_at is None:
            return Response({"taken_at": None, "jobs": 0, "results": [], "next": None})
        return Response(
            {
                "taken_at": utc_text(queue.table.taken_at),
                "jobs": int(np.count_nonzero(queue.seen)),
                "results": QueuedJobStartSerializer(with_starts(queue, rows, at), many=True).data,
                "next": encode_cursor(rows[-1]) if len(rows) == query["limit"] else None,
            }
        )


class SchedulerWhyView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": OWN}

    @extend_schema(operation_id="explain_scheduler_job", parameters=[WhyFilterSerializer], responses=WaitingSerializer)
    def get(self, request: Request, scheduler: str) -> Response:
        """Why a job waits in this scheduler: the scheduler's reason, terms of its priority, and jobs ahead."""
        query = read_query(WhyFilterSerializer, request)
        waiting = find_waiting(job=query["job"], scheduler=scheduler, at=clock.now(), actor=actor_of(request))
        return Response(WaitingSerializer(waiting).data)


class PolicyWhyView(APIView):
    scopes: ClassVar[Scopes] = {"GET": OWN}

    @extend_schema(
        operation_id="explain_waiting_job", parameters=[PolicyWhyFilterSerializer], responses=WaitingSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """Why a job waits, for a job in any scheduler of the policy."""
        query = read_query(PolicyWhyFilterSerializer, request)
        waiting = find_waiting(**query, policy_slug=policy, at=clock.now(), actor=actor_of(request))
        return Response(WaitingSerializer(waiting).data)


def _json(view: SchedulerView) -> dict[str, Any]:
    return scheduler_json(view, orders_of(view.scheduler), tag_of(view.scheduler))


def _answer(request: Request, name: str, status: int = 200) -> Response:
    view = selectors.get_scheduler(name=name, at=clock.now(), actor=actor_of(request))
    return with_etag(Response(_json(view), status=status), tag_of(view.scheduler))
