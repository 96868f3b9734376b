"""Allocations of core-hours to entries, the table of their use, and their conversion to shares."""

from __future__ import annotations

from datetime import date
from typing import Any, ClassVar
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.contrib.allocations import services
from apps.contrib.allocations.conversion import (
    RESTS,
    Conversion,
    ConversionQuery,
    ConvertedLine,
    draft_shares,
    get_conversion,
)
from apps.contrib.allocations.periods import FIRST_DAY, LAST_DAY, Period, day_of, whole_year
from apps.contrib.allocations.services import AllocationChange, AllocationTerms
from apps.contrib.allocations.table import (
    PAGE,
    AllocationRow,
    AllocationTable,
    OnAllocations,
    get_allocation_table,
)
from apps.contrib.allocations.terms import LONGEST_TEXT
from apps.core import clock
from apps.core.errors import FieldProblem, Invalid
from apps.mapping.permissions import load_visibility
from apps.policies.models import Allocation
from apps.policies.tree.terms import AT_END
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.cursors import read_cursor
from apps.web.rest.if_match import if_match_header, require_if_match
from apps.web.rest.inputs import read_body, read_query, require_seen_tree, visible_entry_uid
from apps.web.rest.reasons import ReasonFilterSerializer
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema, with_etag
from apps.web.rest.views import APIView

READ_WRITE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "PATCH": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
ENTRY: dict[str, Any] = {"max_length": 9000, "help_text": "uid or path"}


class AllocationSerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.CharField()
    starts_on = serializers.DateField()
    ends_on = serializers.DateField(help_text="Last day")
    core_h = serializers.FloatField()
    reason = serializers.CharField()
    author = serializers.CharField(source="author_name")
    created_at = UtcTimeField()
    etag = serializers.SerializerMethodField(help_text="Value for If-Match")

    def get_etag(self, allocation: Allocation) -> str:
        return f'"{services.tag_of(allocation)}"'


class NewAllocationSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(**ENTRY)
    starts_on = serializers.DateField()
    ends_on = serializers.DateField()
    core_h = serializers.FloatField(min_value=0, max_value=services.MOST_CORE_H)
    reason = serializers.CharField(max_length=LONGEST_TEXT)


class ChangedAllocationSerializer(serializers.Serializer[Any]):
    starts_on = serializers.DateField(required=False)
    ends_on = serializers.DateField(required=False)
    core_h = serializers.FloatField(min_value=0, max_value=services.MOST_CORE_H, required=False)
    reason = serializers.CharField(max_length=LONGEST_TEXT)


class DaysSerializer(serializers.Serializer[Any]):
    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add `from` and `to`: `from` is a keyword of Python."""
        days = {"from": "First day", "to": "Last day"}
        more: dict[str, serializers.Field[Any, Any, Any, Any]] = {
            name: serializers.DateField(required=False, help_text=text) for name, text in days.items()
        }
        return {**super().get_fields(), **more}


class AllocationFilterSerializer(DaysSerializer):
    entry = serializers.CharField(**ENTRY, required=False)
    below = serializers.BooleanField(required=False, default=False, help_text="Also allocations of entries below it")
    cursor = serializers.CharField(required=False, default="", allow_blank=True)


class TableFilterSerializer(DaysSerializer):
    of = serializers.CharField(**ENTRY, required=False, default="/")
    cursor = serializers.CharField(required=False, default="", allow_blank=True)


class ConversionFilterSerializer(DaysSerializer):
    of = serializers.CharField(**ENTRY, required=False, default="/")
    rest = serializers.ChoiceField(RESTS, required=False, default="spread")


class NewDraftSerializer(serializers.Serializer[Any]):
    of = serializers.CharField(**ENTRY, required=False, default="/")
    starts_on = serializers.DateField()
    ends_on = serializers.DateField()
    rest = serializers.ChoiceField(RESTS, required=False, default="spread")
    at_end = serializers.ChoiceField(
        AT_END,
        required=False,
        allow_null=True,
        default=None,
        help_text="What happens to the shares after the last day of their allocation; null: they have no end",
    )
    reason = serializers.CharField(max_length=4000)


class DraftSerializer(serializers.Serializer[Any]):
    change_set = serializers.IntegerField(source="pk")
    version = serializers.IntegerField()
    operations = serializers.ListField(child=serializers.DictField())
    effective_at = UtcTimeField(allow_null=True)


_NOT_SENT = ("parent_uid", "name", "level", "n_allocations", "beyond", "target_global", "expected_whole_core_h")
_RIGHTS = ("has_sub_allocations", "may_allocate", "sees_all_children")
AllocationRowSerializer = record_serializer(
    AllocationRow,
    doc="One entry in core-hours. null: not known, or hidden from the caller.",
    exclude=(*_NOT_SENT, *_RIGHTS, "pace_part"),
)
OnAllocationsSerializer = record_serializer(
    OnAllocations,
    doc="Sum over the topmost entries below the group with an allocation, on the days of these allocations.",
    exclude=("pace_part",),
)


AllocationTableSerializer = record_serializer(
    AllocationTable,
    only="policy starts_on ends_on as_of capacity_core_h unmapped_core_h on_allocations group results next",
    renamed={
        "policy": "policy_slug",
        "starts_on": "period.starts_on",
        "ends_on": "period.ends_on",
        "as_of": "now",
        "next": "next_cursor",
    },
    on_allocations=OnAllocationsSerializer(
        allow_null=True, help_text="null: no allocations, no usage, or hidden from the caller"
    ),
    group=AllocationRowSerializer(),
    results=AllocationRowSerializer(source="rows", many=True),
)
ConvertedLineSerializer = record_serializer(ConvertedLine, exclude=("ends_on",))


ConversionSerializer = record_serializer(
    Conversion,
    exclude=("parent_name", "rest"),
    texts={
        "of": "uid of the parent",
        "has_core_h": "Core-hours of the parent; null: not known",
        "allocated_core_h": "Core-hours allocated to its children",
        "rest_core_h": "Unallocated core-hours",
        "over_committed_core_h": "Core-hours allocated beyond those of the parent",
        "divided_core_h": "Core-hours that are converted to shares",
    },
    lines=ConvertedLineSerializer(many=True),
)


class AllocationListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    def before_body(self, request: Request, *, policy: str) -> None:
        require_seen_tree(request, policy)

    @extend_schema(
        operation_id="list_allocations",
        parameters=[AllocationFilterSerializer],
        responses=list_schema(AllocationSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """Allocations of entries that the caller may see, by path; with `from` and `to` those of the period."""
        query, at, actor = read_query(AllocationFilterSerializer, request), clock.now(), actor_of(request)
        entry = visible_entry_uid(request, policy, query["entry"]) if "entry" in query else None
        period = read_period(query, default=Period(FIRST_DAY, LAST_DAY))
        allocations = services.list_allocations(
            policy_slug=policy,
            entry_uid=entry,
            below=query["below"],
            period=period,
            at=at,
            actor=actor,
            visibility=load_visibility,
        )
        start = max(read_cursor(query) or 0, 0)
        next_start = start + PAGE if len(allocations) > start + PAGE else None
        return list_response([_json(*each) for each in allocations[start : start + PAGE]], next_start)

    @extend_schema(
        operation_id="create_allocation", request=NewAllocationSerializer, responses={201: AllocationSerializer}
    )
    def post(self, request: Request, policy: str) -> Response:
        """Allocate core-hours to an entry, by a manager above it. Over-allocation is allowed; the table flags it."""
        body, at, actor = read_body(NewAllocationSerializer, request), clock.now(), actor_of(request)
        entry = visible_entry_uid(request, policy, body.pop("entry"))
        made = services.create_allocation(
            policy_slug=policy,
            entry_uid=entry,
            terms=AllocationTerms(**body),
            at=at,
            actor=actor,
            visibility=load_visibility,
        )
        return _answer(request, policy, made.uid, 201)


class AllocationDetailView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_allocation", responses=AllocationSerializer)
    def get(self, request: Request, policy: str, allocation: UUID) -> Response:
        """One allocation."""
        return _answer(request, policy, allocation)

    @extend_schema(
        operation_id="change_allocation",
        parameters=[if_match_header("the allocation")],
        request=ChangedAllocationSerializer,
        responses=AllocationSerializer,
    )
    def patch(self, request: Request, policy: str, allocation: UUID) -> Response:
        """Change the given fields of an allocation."""
        at, actor = clock.now(), actor_of(request)
        _read_allocation(request, policy, allocation)
        tag, body = require_if_match(request, "allocation"), read_body(ChangedAllocationSerializer, request)
        services.change_allocation(
            policy_slug=policy,
            allocation_uid=allocation,
            tag=tag,
            change=AllocationChange(**body),
            at=at,
            actor=actor,
            visibility=load_visibility,
        )
        return _answer(request, policy, allocation)

    @extend_schema(
        operation_id="withdraw_allocation",
        parameters=[if_match_header("the allocation"), ReasonFilterSerializer],
        responses={204: None},
    )
    def delete(self, request: Request, policy: str, allocation: UUID) -> Response:
        """Withdraw an allocation. The audit log keeps it."""
        at, actor = clock.now(), actor_of(request)
        _read_allocation(request, policy, allocation)
        tag, query = require_if_match(request, "allocation"), read_query(ReasonFilterSerializer, request)
        services.withdraw_allocation(
            policy_slug=policy,
            allocation_uid=allocation,
            tag=tag,
            **query,
            at=at,
            actor=actor,
            visibility=load_visibility,
        )
        return Response(status=204)


class AllocationTableView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ_WRITE["GET"]}

    @extend_schema(
        operation_id="get_allocation_table", parameters=[TableFilterSerializer], responses=AllocationTableSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """A group and its children in core-hours: allocated, sub-allocated, reserved, expected and delivered."""
        query = read_query(TableFilterSerializer, request)
        table: AllocationTable = get_allocation_table(
            policy_slug=policy,
            of=visible_entry_uid(request, policy, query["of"]),
            zone=zone(),
            period=read_period(query, default=this_year()),
            cursor=query["cursor"] or None,
            actor=actor_of(request),
        )
        return Response(AllocationTableSerializer(table).data)


class AllocationSharesView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ_WRITE["GET"], "POST": READ_WRITE["POST"]}

    def before_body(self, request: Request, *, policy: str) -> None:
        require_seen_tree(request, policy)

    @extend_schema(
        operation_id="convert_allocations", parameters=[ConversionFilterSerializer], responses=ConversionSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """Convert allocations of an entry's children to shares. Nothing is stored."""
        query = read_query(ConversionFilterSerializer, request)
        conversion = get_conversion(
            policy_slug=policy,
            query=ConversionQuery(
                parent_uid=visible_entry_uid(request, policy, query["of"]),
                rest=query["rest"],
                zone=zone(),
                period=read_period(query, default=this_year()),
            ),
            at=clock.now(),
            actor=actor_of(request),
            visibility=load_visibility,
        )
        return Response(ConversionSerializer(conversion).data)

    @extend_schema(operation_id="draft_allocations", request=NewDraftSerializer, responses={201: DraftSerializer})
    def post(self, request: Request, policy: str) -> Response:
        """Make a draft of the conversion. For a future period, it takes effect on the first day."""
        body = read_body(NewDraftSerializer, request)
        draft = draft_shares(
            policy_slug=policy,
            query=ConversionQuery(
                parent_uid=visible_entry_uid(request, policy, body["of"]),
                rest=body["rest"],
                zone=zone(),
                period=period_of(body["starts_on"], body["ends_on"], "starts_on", "ends_on"),
            ),
            at_end=body["at_end"],
            reason=body["reason"],
            at=clock.now(),
            actor=actor_of(request),
            visibility=load_visibility,
        )
        return Response(DraftSerializer(draft).data, status=201)


def zone() -> ZoneInfo:
    """The site's time zone, which defines days."""
    return ZoneInfo(settings.TIME_ZONE)


def period_of(starts_on: date, ends_on: date, first: str = "from", last: str = "to") -> Period:
    if not FIRST_DAY <= starts_on <= LAST_DAY:
        raise _refusal(first, f"must be a day from {FIRST_DAY} to {LAST_DAY}")
    if not starts_on <= ends_on <= LAST_DAY:
        raise _refusal(last, f"must be a day from {first} to {LAST_DAY}")
    return Period(starts_on, ends_on)


def read_period(query: dict[str, Any], *, default: Period) -> Period:
    return period_of(query.get("from", default.starts_on), query.get("to", default.ends_on))


def _refusal(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])


def this_year() -> Period:
    return whole_year(day_of(clock.now(), zone()))


def _read_allocation(request: Request, policy: str, allocation: UUID) -> tuple[Allocation, str]:
    return services.get_allocation(
        policy_slug=policy,
        allocation_uid=allocation,
        at=clock.now(),
        actor=actor_of(request),
        visibility=load_visibility,
    )


def _json(allocation: Allocation, path: str) -> Any:
    allocation.path = path  # type: ignore[attr-defined]
    return AllocationSerializer(allocation).data


def _answer(request: Request, policy: str, uid: UUID, status: int = 200) -> Response:
    allocation, path = _read_allocation(request, policy, uid)
    return with_etag(Response(_json(allocation, path), status=status), services.tag_of(allocation))
