"""Allocations to entries, the table of their use, and their conversion to shares."""

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
from apps.contrib.allocations.board import AllocationBoard, BoardRow, ToGive, get_allocation_board
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
from apps.contrib.allocations.terms import LONGEST_ALLOCATION_REASON
from apps.core import clock
from apps.core.errors import FieldProblem, Invalid
from apps.mapping.permissions import load_visibility
from apps.policies.access.scope import WRITE
from apps.policies.models import Allocation
from apps.policies.operations.allocation_edits import MOST_ALLOCATED_AMOUNT
from apps.policies.selectors import READ
from apps.policies.tree.terms import AT_END
from apps.policies.units import CORE_HOUR, LONGEST_SYMBOL
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, SELF_READ, Scopes, actor_of
from apps.web.rest.cursors import read_cursor
from apps.web.rest.if_match import if_match_header, require_if_match
from apps.web.rest.inputs import read_body, read_query, require_seen_tree, visible_entry_uid
from apps.web.rest.reasons import ReasonFilterSerializer
from apps.web.rest.records import keeps_old_names, record_serializer
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema, with_etag
from apps.web.rest.views import APIView

READ_WRITE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "PATCH": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
ENTRY: dict[str, Any] = {"max_length": 9000, "help_text": "uid or path"}


@keeps_old_names
class AllocationSerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.CharField()
    starts_on = serializers.DateField()
    ends_on = serializers.DateField(help_text="Last day")
    amount = serializers.FloatField(help_text="In hours of the unit")
    unit = serializers.CharField(help_text="Symbol of a unit of the policy, such as core-h")
    reason = serializers.CharField()
    author = serializers.CharField(source="author_name")
    created_at = UtcTimeField()
    etag = serializers.SerializerMethodField(help_text="Value for If-Match")

    def get_etag(self, allocation: Allocation) -> str:
        return f'"{services.tag_of(allocation)}"'


AMOUNT: dict[str, Any] = {"min_value": 0, "max_value": MOST_ALLOCATED_AMOUNT, "required": False}


class NewAllocationSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(**ENTRY)
    starts_on = serializers.DateField()
    ends_on = serializers.DateField()
    amount = serializers.FloatField(**AMOUNT, help_text="In hours of the unit; required")
    core_h = serializers.FloatField(**AMOUNT, help_text="The former name of `amount`")
    unit = serializers.CharField(max_length=LONGEST_SYMBOL, required=False, default=CORE_HOUR.symbol)
    reason = serializers.CharField(max_length=LONGEST_ALLOCATION_REASON)


class ChangedAllocationSerializer(serializers.Serializer[Any]):
    starts_on = serializers.DateField(required=False)
    ends_on = serializers.DateField(required=False)
    amount = serializers.FloatField(**AMOUNT, help_text="In hours of the unit")
    core_h = serializers.FloatField(**AMOUNT, help_text="The former name of `amount`")
    reason = serializers.CharField(max_length=LONGEST_ALLOCATION_REASON)


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


UNIT: dict[str, Any] = {
    "max_length": LONGEST_SYMBOL,
    "required": False,
    "default": CORE_HOUR.symbol,
    "help_text": "Symbol of a unit of the policy",
}


class TableFilterSerializer(DaysSerializer):
    of = serializers.CharField(**ENTRY, required=False, default="/")
    unit = serializers.CharField(**UNIT)
    cursor = serializers.CharField(required=False, default="", allow_blank=True)


class BoardFilterSerializer(serializers.Serializer[Any]):
    of = serializers.CharField(**ENTRY, required=False, default="/")
    unit = serializers.CharField(**UNIT)
    cursor = serializers.CharField(required=False, default="", allow_blank=True)


class ConversionFilterSerializer(DaysSerializer):
    of = serializers.CharField(**ENTRY, required=False, default="/")
    rest = serializers.ChoiceField(RESTS, required=False, default="spread")
    unit = serializers.CharField(**UNIT)


class NewDraftSerializer(serializers.Serializer[Any]):
    of = serializers.CharField(**ENTRY, required=False, default="/")
    starts_on = serializers.DateField()
    ends_on = serializers.DateField()
    rest = serializers.ChoiceField(RESTS, required=False, default="spread")
    unit = serializers.CharField(**UNIT)
    at_end = serializers.ChoiceField(
        AT_END,
        required=False,
        allow_null=True,
        default=None,
        help_text="What happens to the shares after the last day of their allocation; null: they have no end",
    )
    reason = serializers.CharField(max_length=bounds.REASON)


class DraftSerializer(serializers.Serializer[Any]):
    change_set = serializers.IntegerField(source="id")
    version = serializers.IntegerField()
    operations = serializers.ListField(child=serializers.DictField())
    effective_at = UtcTimeField(allow_null=True)


_NOT_SENT = ("parent_uid", "name", "level", "n_allocations", "beyond", "target_global", "expected_whole")
_RIGHTS = ("has_sub_allocations", "may_allocate", "sees_all_children")
AllocationRowSerializer = record_serializer(
    AllocationRow,
    doc="One entry in hours of the unit. null: not known, or hidden from the caller.",
    exclude=(*_NOT_SENT, *_RIGHTS, "pace_part"),
)
OnAllocationsSerializer = record_serializer(
    OnAllocations,
    doc="Sum over the topmost entries below the group with an allocation, on the days of these allocations.",
    exclude=("pace_part",),
)


AllocationTableSerializer = record_serializer(
    AllocationTable,
    only="policy starts_on ends_on as_of unit capacity unmapped on_allocations group results next",
    renamed={
        "policy": "policy_slug",
        "starts_on": "period.starts_on",
        "ends_on": "period.ends_on",
        "as_of": "now",
        "unit": "unit.symbol",
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
        "available": "Of the parent; null: not known",
        "allocated": "Allocated to its children",
        "unallocated": "What the parent has beyond its children’s allocations",
        "over_committed": "Allocated beyond what the parent has",
        "divided": "What is converted to shares",
    },
    lines=ConvertedLineSerializer(many=True),
)


BoardRowSerializer = record_serializer(
    BoardRow,
    doc="The current allocations of one entry, in hours of the unit. null: not known, or hidden from the caller.",
    exclude=("n_allocations", "name", "level", "may_allocate", "has_sub_allocations"),
)
ToGiveSerializer = record_serializer(
    ToGive,
    doc="What the group can still allocate on these days, of its own allocation or of the capacity.",
    only="amount of starts_on ends_on of_capacity",
    renamed={"starts_on": "days.starts_on", "ends_on": "days.ends_on"},
)
BoardSerializer = record_serializer(
    AllocationBoard,
    only="policy as_of unit group own results n_rows unused held jobs to_give unmapped next",
    renamed={
        "policy": "policy_slug",
        "as_of": "now",
        "unit": "unit.symbol",
        "group": "group_uid",
        "next": "next_cursor",
    },
    texts={
        "n_rows": "Entries below the group with a current allocation",
        "unused": "Unused at their end, of the topmost of those that won’t use theirs",
        "held": "By open jobs of the whole group, also of entries without an allocation",
        "jobs": "Open jobs of the whole group",
        "unmapped": "Used by unmapped accounts; null unless the caller sees the whole policy",
    },
    own=BoardRowSerializer(allow_null=True, help_text="The group’s own allocation"),
    to_give=ToGiveSerializer(allow_null=True, help_text="null: no capacity or allocation, or hidden from the caller"),
    results=BoardRowSerializer(source="rows", many=True),
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
        """Allocate to an entry, by a manager above it. Over-allocation is allowed; the table flags it."""
        body, at, actor = read_body(NewAllocationSerializer, request), clock.now(), actor_of(request)
        body["amount"] = read_renamed(body, "amount", "core_h", is_required=True)
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
        body["amount"] = read_renamed(body, "amount", "core_h", is_required=False)
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
        """A group and its children in a unit: allocated, sub-allocated, reserved, expected and delivered."""
        query = read_query(TableFilterSerializer, request)
        table: AllocationTable = get_allocation_table(
            policy_slug=policy,
            of=visible_entry_uid(request, policy, query["of"]),
            zone=zone(),
            period=read_period(query, default=this_year()),
            cursor=query["cursor"] or None,
            actor=actor_of(request),
            unit=query["unit"],
        )
        return Response(AllocationTableSerializer(table).data)


class AllocationBoardView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ_WRITE["GET"] | {SELF_READ}}

    @extend_schema(operation_id="get_allocation_board", parameters=[BoardFilterSerializer], responses=BoardSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Current allocations at and below a group: used, held by open jobs, and at their end if use continues."""
        query, actor = read_query(BoardFilterSerializer, request), actor_of(request)
        scope = READ if actor.has_scope(READ) or actor.has_scope(WRITE) else SELF_READ
        board = get_allocation_board(
            policy_slug=policy,
            of=visible_entry_uid(request, policy, query["of"], scope),
            zone=zone(),
            cursor=query["cursor"] or None,
            actor=actor,
            unit=query["unit"],
            scope=scope,
        )
        return Response(BoardSerializer(board).data)


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
                unit=query["unit"],
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
                unit=body["unit"],
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


def read_renamed(body: dict[str, Any], name: str, former: str, *, is_required: bool) -> float | None:
    """A number of a body, by its name or its former one; takes both out of the body."""
    values = [value for value in (body.pop(name, None), body.pop(former, None)) if value is not None]
    if len(values) > 1:
        raise _refusal(name, f"is there twice, as {former} too: send {name} alone")
    if is_required and not values:
        raise _refusal(name, "is required")
    return values[0] if values else None


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
