"""Schedulers for managers and agents; queue and reasons for everyone who has jobs there."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from typing import IO, Any, ClassVar

import numpy as np
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import (
    POLICIES_READ,
    POLICIES_WRITE,
    SCHEDULERS,
    SELF_READ,
    Scopes,
    actor_of,
)
from apps.api.errors import Refusal
from apps.api.parsing import BODY_BYTES, StrictJSONParser, read_bounded
from apps.api.rendering import dumps
from apps.api.shapes import UtcTimeField, asked, decode_cursor, encode_cursor, list_of, listed, sent
from apps.api.v1.allocations.views import IF_MATCH, ReasonFilterSerializer, seen_tag
from apps.api.v1.schedulers.serializers import (
    AgentOrdersSerializer,
    ChangedSchedulerSerializer,
    NewSchedulerSerializer,
    PassFilterSerializer,
    PassSerializer,
    PolicyWhyFilterSerializer,
    QueuedJobSerializer,
    QueueFilterSerializer,
    QueueSerializer,
    ReportedSerializer,
    ReportSerializer,
    SchedulerSerializer,
    WaitingSerializer,
    WhyFilterSerializer,
    scheduler_json,
)
from apps.api.views import KEY_PARAMETER, APIView, key_of
from apps.core import clock
from apps.core.errors import FieldProblem
from apps.schedulers import selectors, services
from apps.schedulers.orders import orders_of, tag_of
from apps.schedulers.passes import record_pass
from apps.schedulers.selectors import SchedulerView
from apps.schedulers.waiting import find_waiting

READ = frozenset({POLICIES_READ, POLICIES_WRITE})
WRITE = frozenset({POLICIES_WRITE})
AGENT = frozenset({SCHEDULERS})
OWN = frozenset({POLICIES_READ, SELF_READ})


class SchedulerListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ, "POST": WRITE}

    @extend_schema(operation_id="list_schedulers", responses=list_of(SchedulerSerializer))
    def get(self, request: Request) -> Response:
        """Schedulers of the policies that the caller manages, by name."""
        found = selectors.list_schedulers(at=clock.now(), actor=actor_of(request))
        return listed([_json(view) for view in found])

    @extend_schema(
        operation_id="connect_scheduler", request=NewSchedulerSerializer, responses={201: SchedulerSerializer}
    )
    def post(self, request: Request) -> Response:
        """Connect a scheduler to a policy, off unless `mode` says otherwise. For managers of the whole policy."""
        given, at, actor = sent(NewSchedulerSerializer, request), clock.now(), actor_of(request)
        name, policy = given.pop("name"), given.pop("policy")
        services.connect_scheduler(policy_slug=policy, name=name, given=given, at=at, actor=actor)
        return _answer(request, name, 201)


class SchedulerDetailView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ, "PATCH": WRITE, "DELETE": WRITE}

    @extend_schema(operation_id="get_scheduler", responses=SchedulerSerializer)
    def get(self, request: Request, scheduler: str) -> Response:
        """Its settings, its state, the last pass and the checks of its agent."""
        return _answer(request, scheduler)

    @extend_schema(
        operation_id="change_scheduler",
        parameters=[IF_MATCH],
        request=ChangedSchedulerSerializer,
        responses=SchedulerSerializer,
    )
    def patch(self, request: Request, scheduler: str) -> Response:
        """Replace what is given; of `limits`, the given ones."""
        at, actor = clock.now(), actor_of(request)
        selectors.get_scheduler(name=scheduler, at=at, actor=actor)
        tag, given = seen_tag(request, "scheduler"), sent(ChangedSchedulerSerializer, request)
        services.change_scheduler(name=scheduler, tag=tag, given=given, at=at, actor=actor)
        return _answer(request, scheduler)

    @extend_schema(
        operation_id="remove_scheduler", parameters=[IF_MATCH, ReasonFilterSerializer], responses={204: None}
    )
    def delete(self, request: Request, scheduler: str) -> Response:
        """Disconnect it. What its agent set in the scheduler stays there: hand back first."""
        at, actor = clock.now(), actor_of(request)
        selectors.get_scheduler(name=scheduler, at=at, actor=actor)
        tag, given = seen_tag(request, "scheduler"), asked(ReasonFilterSerializer, request)
        services.remove_scheduler(name=scheduler, tag=tag, reason=given["reason"], at=at, actor=actor)
        return Response(status=204)


class OrdersView(APIView):
    scopes: ClassVar[Scopes] = {"GET": AGENT}

    @extend_schema(
        operation_id="get_scheduler_orders",
        parameters=[
            OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER, description="ETag of the last one")
        ],
        responses={200: AgentOrdersSerializer, 304: None},
    )
    def get(self, request: Request, scheduler: str) -> Response:
        """What the agent has to do. The ETag changes with them."""
        orders, tag = selectors.get_orders(name=scheduler, at=clock.now(), actor=actor_of(request))
        known = {one.strip().removeprefix("W/") for one in request.headers.get("If-None-Match", "").split(",")}
        is_known = bool({f'"{tag}"', "*"} & known)
        response = Response(status=304) if is_known else Response(orders)
        response["ETag"] = f'"{tag}"'
        return response


class ReportParser(StrictJSONParser):
    """JSON, perhaps in gzip: both the sent and the unpacked size are bounded."""

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        request = (parser_context or {}).get("request")
        encoding = "" if request is None else request.headers.get("Content-Encoding", "").strip().lower()
        if encoding != "gzip":
            return super().parse(stream, media_type, parser_context)
        return self.load(_unpacked(read_bounded(stream)))


def _unpacked(body: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(body, BODY_BYTES + 1)
    except zlib.error as error:
        raise Refusal("The body is no gzip.", code="bad_gzip", fields=[FieldProblem("body", "is no gzip")]) from error
    if len(plain) > BODY_BYTES or unpacker.unconsumed_tail:
        raise Refusal("The unpacked body is over 32 MB.", code="too_large", status=413)
    if not unpacker.eof or unpacker.unused_data:
        raise Refusal("The body is no whole gzip.", code="bad_gzip", fields=[FieldProblem("body", "is cut off")])
    return plain


class PassListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ | AGENT, "POST": AGENT}
    on_repeat = "work"  # the pass has an id of its own
    parser_classes = (ReportParser,)

    @extend_schema(
        operation_id="list_scheduler_passes", parameters=[PassFilterSerializer], responses=list_of(PassSerializer)
    )
    def get(self, request: Request, scheduler: str) -> Response:
        """Newest first."""
        given = asked(PassFilterSerializer, request)
        before = decode_cursor(given["cursor"], int) if "cursor" in given else None
        found = selectors.list_passes(
            name=scheduler, before_id=before, limit=given["limit"], at=clock.now(), actor=actor_of(request)
        )
        last = found[-1].pk if len(found) == given["limit"] else None
        return listed(PassSerializer(found, many=True).data, last)

    @extend_schema(
        operation_id="report_scheduler_pass",
        parameters=[KEY_PARAMETER],
        request=ReportSerializer,
        responses=ReportedSerializer,
    )
    def post(self, request: Request, scheduler: str) -> Response:
        """Report one pass of an agent, perhaps as gzip. The same pass twice counts once; Idempotency-Key is its id."""
        actor, at = actor_of(request), clock.now()
        selectors.get_orders(name=scheduler, at=at, actor=actor)  # before a long body is read
        given, key = sent(ReportSerializer, request), key_of(request)
        if key is not None and key != str(given["pass"]):
            problem = FieldProblem("Idempotency-Key", "must be the id of the pass")
            raise Refusal(f"{problem.where} {problem.message}.", code="invalid", fields=[problem])
        digest = hashlib.sha256(dumps(request.data)).hexdigest()
        found, _one = record_pass(name=scheduler, report=given, body_sha256=digest, at=at, actor=actor)
        return Response({"orders_revision": found.revision})


class QueueView(APIView):
    scopes: ClassVar[Scopes] = {"GET": OWN}

    @extend_schema(operation_id="list_scheduler_queue", parameters=[QueueFilterSerializer], responses=QueueSerializer)
    def get(self, request: Request, scheduler: str) -> Response:
        """Waiting jobs of the last listing: own ones, and those of entries whose numbers the caller sees."""
        given = asked(QueueFilterSerializer, request)
        after = decode_cursor(given.pop("cursor"), int) if "cursor" in given else -1
        queue, places = selectors.list_queue(
            name=scheduler, after=after, **given, at=clock.now(), actor=actor_of(request)
        )
        if queue is None or queue.table.taken_at is None:
            return Response({"taken_at": None, "jobs": 0, "results": [], "next": None})
        jobs = [QueuedJobSerializer(queue.job(i)).data for i in places]
        following = encode_cursor(places[-1]) if len(places) == given["limit"] else None
        taken_at = UtcTimeField().to_representation(queue.table.taken_at)
        n_seen = int(np.count_nonzero(queue.seen))
        return Response({"taken_at": taken_at, "jobs": n_seen, "results": jobs, "next": following})


class SchedulerWhyView(APIView):
    scopes: ClassVar[Scopes] = {"GET": OWN}

    @extend_schema(operation_id="explain_scheduler_job", parameters=[WhyFilterSerializer], responses=WaitingSerializer)
    def get(self, request: Request, scheduler: str) -> Response:
        """Why one job waits in this scheduler: reason, terms of its priority, jobs ahead."""
        given = asked(WhyFilterSerializer, request)
        found = find_waiting(job=given["job"], scheduler=scheduler, at=clock.now(), actor=actor_of(request))
        return Response(WaitingSerializer(found).data)


class PolicyWhyView(APIView):
    scopes: ClassVar[Scopes] = {"GET": OWN}

    @extend_schema(
        operation_id="explain_waiting_job", parameters=[PolicyWhyFilterSerializer], responses=WaitingSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """Why one job waits, in whichever scheduler of the policy it is."""
        given = asked(PolicyWhyFilterSerializer, request)
        found = find_waiting(**given, policy_slug=policy, at=clock.now(), actor=actor_of(request))
        return Response(WaitingSerializer(found).data)


def _json(view: SchedulerView) -> dict[str, Any]:
    return scheduler_json(view, orders_of(view.scheduler), tag_of(view.scheduler))


def _answer(request: Request, name: str, status: int = 200) -> Response:
    view = selectors.get_scheduler(name=name, at=clock.now(), actor=actor_of(request))
    response = Response(_json(view), status=status)
    response["ETag"] = f'"{tag_of(view.scheduler)}"'
    return response
