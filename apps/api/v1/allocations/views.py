"""Core-hours allocated to entries: created, changed, withdrawn; their use; and the shares they convert to."""

from __future__ import annotations

import re
from datetime import date
from typing import Any, ClassVar
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.errors import Refusal
from apps.api.records import record_serializer
from apps.api.shapes import UtcTimeField, asked, decode_cursor, list_of, listed, sent
from apps.api.views import APIView
from apps.core import clock
from apps.core.errors import FieldProblem, Invalid
from apps.mapping.permissions import see
from apps.policies.allocations import services
from apps.policies.allocations.conversion import RESTS, ConvertedLine, draft_shares, get_conversion
from apps.policies.allocations.records import FIRST_DAY, LAST_DAY, LONGEST_TEXT, Period, day_of, whole_year
from apps.policies.models import Allocation
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import AT_END
from apps.priorities.selectors.allocations import (
    PAGE,
    AllocationRow,
    AllocationTable,
    OnAllocations,
    get_allocation_table,
)

READ_WRITE: Scopes = {
    "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
    "POST": frozenset({POLICIES_WRITE}),
    "PATCH": frozenset({POLICIES_WRITE}),
    "DELETE": frozenset({POLICIES_WRITE}),
}
IF_MATCH = OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, description="Its ETag", required=True)
_TAG = re.compile(r'(?:W/)?"([^"]{1,80})"')
ENTRY: dict[str, Any] = {"max_length": 9000, "help_text": "Its uid, or its path"}


class AllocationSerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    entry = serializers.UUIDField(source="entry_uid")
    path = serializers.CharField()
    starts_on = serializers.DateField()
    ends_on = serializers.DateField(help_text="The last day")
    core_h = serializers.FloatField()
    reason = serializers.CharField()
    author = serializers.CharField(source="author_name")
    created_at = UtcTimeField()
    etag = serializers.SerializerMethodField(help_text="What If-Match asks for")

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


class ReasonFilterSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=LONGEST_TEXT)


class DaysSerializer(serializers.Serializer[Any]):
    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """`from` is no name that Python lets a class have."""
        days = {"from": "First day", "to": "Last day"}
        more: dict[str, serializers.Field[Any, Any, Any, Any]] = {
            name: serializers.DateField(required=False, help_text=text) for name, text in days.items()
        }
        return {**super().get_fields(), **more}


class AllocationFilterSerializer(DaysSerializer):
    entry = serializers.CharField(**ENTRY, required=False)
    below = serializers.BooleanField(required=False, default=False, help_text="Also of what lies below it")
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
        help_text="Also give the shares the allocations' last days",
    )
    reason = serializers.CharField(max_length=4000)


class DraftSerializer(serializers.Serializer[Any]):
    change_set = serializers.IntegerField(source="pk")
    version = serializers.IntegerField()
    operations = serializers.ListField(child=serializers.DictField())
    effective_at = UtcTimeField(allow_null=True)


_NOT_SENT = ("parent_uid", "name", "level", "n_allocations", "beyond", "target_global", "expected_whole_core_h")
_RIGHTS = ("hands_out", "may_give", "sees_all_children")
AllocationRowSerializer = record_serializer(
    AllocationRow,
    doc="Core-hours. null: not known, or not for the caller to know.",
    exclude=(*_NOT_SENT, *_RIGHTS, "pace_part"),
)
OnAllocationsSerializer = record_serializer(
    OnAllocations,
    doc="Of the topmost entries below the group that have an allocation, on the days of these.",
    exclude=("pace_part",),
)


class AllocationTableSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(source="policy_slug")
    starts_on = serializers.DateField(source="period.starts_on")
    ends_on = serializers.DateField(source="period.ends_on")
    as_of = UtcTimeField(source="now")
    capacity_core_h = serializers.FloatField(allow_null=True)
    unmapped_core_h = serializers.FloatField(allow_null=True)
    on_allocations = OnAllocationsSerializer(
        allow_null=True, help_text="null: no allocations, no usage, or not for the caller to know"
    )
    group = AllocationRowSerializer()
    results = AllocationRowSerializer(many=True, source="rows")
    next = serializers.CharField(source="next_cursor", allow_null=True)


ConvertedLineSerializer = record_serializer(ConvertedLine, exclude=("ends_on",))


class ConversionSerializer(serializers.Serializer[Any]):
    of = serializers.UUIDField()
    has_core_h = serializers.FloatField(allow_null=True)
    allocated_core_h = serializers.FloatField()
    rest_core_h = serializers.FloatField()
    over_committed_core_h = serializers.FloatField()
    divided_core_h = serializers.FloatField()
    sum_of_shares = serializers.FloatField()
    lines = ConvertedLineSerializer(many=True)


class AllocationListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(
        operation_id="list_allocations",
        parameters=[AllocationFilterSerializer],
        responses=list_of(AllocationSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """Those of entries that I see, by path; with `from` and `to` those that have a day between them."""
        given, at, actor = asked(AllocationFilterSerializer, request), clock.now(), actor_of(request)
        entry = asked_entry(request, policy, given["entry"]) if "entry" in given else None
        period = asked_period(given, usual=Period(FIRST_DAY, LAST_DAY))
        found = services.list_allocations(
            policy_slug=policy, entry_uid=entry, below=given["below"], period=period, at=at, actor=actor, visibility=see
        )
        start = decode_cursor(given["cursor"], int) if given["cursor"] else 0
        shown = found[max(start, 0) : max(start, 0) + PAGE]
        more = max(start, 0) + PAGE if len(found) > max(start, 0) + PAGE else None
        return listed([_said(*each) for each in shown], more)

    @extend_schema(
        operation_id="give_allocation", request=NewAllocationSerializer, responses={201: AllocationSerializer}
    )
    def post(self, request: Request, policy: str) -> Response:
        """Allocate core-hours. By a manager above the entry; over-allocation isn't refused, the table flags it."""
        given, at, actor = sent(NewAllocationSerializer, request), clock.now(), actor_of(request)
        entry = asked_entry(request, policy, given.pop("entry"))
        made = services.give_allocation(
            policy_slug=policy, entry_uid=entry, **given, at=at, actor=actor, visibility=see
        )
        return _answer(request, policy, made.uid, 201)


class AllocationDetailView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_allocation", responses=AllocationSerializer)
    def get(self, request: Request, policy: str, allocation: UUID) -> Response:
        return _answer(request, policy, allocation)

    @extend_schema(
        operation_id="change_allocation",
        parameters=[IF_MATCH],
        request=ChangedAllocationSerializer,
        responses=AllocationSerializer,
    )
    def patch(self, request: Request, policy: str, allocation: UUID) -> Response:
        """Replace what is given."""
        at, actor = clock.now(), actor_of(request)
        _found(request, policy, allocation)
        tag, given = seen_tag(request, "allocation"), sent(ChangedAllocationSerializer, request)
        services.change_allocation(
            policy_slug=policy, allocation_uid=allocation, tag=tag, **given, at=at, actor=actor, visibility=see
        )
        return _answer(request, policy, allocation)

    @extend_schema(
        operation_id="withdraw_allocation", parameters=[IF_MATCH, ReasonFilterSerializer], responses={204: None}
    )
    def delete(self, request: Request, policy: str, allocation: UUID) -> Response:
        """Withdraw it; the log keeps it."""
        at, actor = clock.now(), actor_of(request)
        _found(request, policy, allocation)
        tag, given = seen_tag(request, "allocation"), asked(ReasonFilterSerializer, request)
        services.withdraw_allocation(
            policy_slug=policy, allocation_uid=allocation, tag=tag, **given, at=at, actor=actor, visibility=see
        )
        return Response(status=204)


class AllocationTableView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ_WRITE["GET"]}

    @extend_schema(
        operation_id="get_allocation_table", parameters=[TableFilterSerializer], responses=AllocationTableSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """A group, its children, and the allocations below them: sub-allocated, kept, expected, delivered."""
        given = asked(TableFilterSerializer, request)
        table: AllocationTable = get_allocation_table(
            policy_slug=policy,
            of=asked_entry(request, policy, given["of"]),
            zone=zone(),
            period=asked_period(given, usual=this_year()),
            cursor=given["cursor"] or None,
            actor=actor_of(request),
        )
        return Response(AllocationTableSerializer(table).data)


class AllocationSharesView(APIView):
    scopes: ClassVar[Scopes] = {"GET": READ_WRITE["GET"], "POST": READ_WRITE["POST"]}

    @extend_schema(
        operation_id="convert_allocations", parameters=[ConversionFilterSerializer], responses=ConversionSerializer
    )
    def get(self, request: Request, policy: str) -> Response:
        """Allocations of the children of an entry, as shares; nothing is saved."""
        given = asked(ConversionFilterSerializer, request)
        found = get_conversion(
            policy_slug=policy,
            parent_uid=asked_entry(request, policy, given["of"]),
            rest=given["rest"],
            zone=zone(),
            period=asked_period(given, usual=this_year()),
            at=clock.now(),
            actor=actor_of(request),
            visibility=see,
        )
        return Response(ConversionSerializer(found).data)

    @extend_schema(operation_id="draft_allocations", request=NewDraftSerializer, responses={201: DraftSerializer})
    def post(self, request: Request, policy: str) -> Response:
        """The conversion as a draft. For a future period it takes effect on its first day."""
        given = sent(NewDraftSerializer, request)
        draft = draft_shares(
            policy_slug=policy,
            parent_uid=asked_entry(request, policy, given["of"]),
            rest=given["rest"],
            zone=zone(),
            period=period_of(given["starts_on"], given["ends_on"], "starts_on", "ends_on"),
            at_end=given["at_end"],
            reason=given["reason"],
            at=clock.now(),
            actor=actor_of(request),
            visibility=see,
        )
        return Response(DraftSerializer(draft).data, status=201)


def zone() -> ZoneInfo:
    """In which days begin and end."""
    return ZoneInfo(settings.TIME_ZONE)


def seen_tag(request: Request, what: str) -> str:
    """The state that the caller has read."""
    text = request.headers.get("If-Match", "").strip()
    if not text:
        message = f"Send If-Match with the ETag of the {what} that you have read."
        problem = FieldProblem("If-Match", "is missing")
        raise Refusal(message, code="precondition_required", status=428, fields=[problem])
    match = _TAG.fullmatch(text)
    return match[1] if match else ""


def period_of(starts_on: date, ends_on: date, first: str = "from", last: str = "to") -> Period:
    if not FIRST_DAY <= starts_on <= LAST_DAY:
        raise _refusal(first, f"must be a day from {FIRST_DAY} to {LAST_DAY}")
    if not starts_on <= ends_on <= LAST_DAY:
        raise _refusal(last, f"must be a day from {first} to {LAST_DAY}")
    return Period(starts_on, ends_on)


def asked_period(given: dict[str, Any], *, usual: Period) -> Period:
    return period_of(given.get("from", usual.starts_on), given.get("to", usual.ends_on))


def _refusal(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])


def this_year() -> Period:
    return whole_year(day_of(clock.now(), zone()))


def asked_entry(request: Request, policy_slug: str, text: str) -> UUID:
    """An entry by uid or path, if the caller sees it."""
    actor = actor_of(request)
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    try:
        i = tree.index_of_uid(UUID(text))
    except ValueError:
        i = tree.index_of_path(text)
    return tree.uuid(see(policy=policy, tree=tree, at=clock.now(), actor=actor).require(i))


def _found(request: Request, policy: str, allocation: UUID) -> tuple[Allocation, str]:
    return services.get_allocation(
        policy_slug=policy, allocation_uid=allocation, at=clock.now(), actor=actor_of(request), visibility=see
    )


def _said(allocation: Allocation, path: str) -> Any:
    allocation.path = path  # type: ignore[attr-defined]
    return AllocationSerializer(allocation).data


def _answer(request: Request, policy: str, uid: UUID, status: int = 200) -> Response:
    allocation, path = _found(request, policy, uid)
    response = Response(_said(allocation, path), status=status)
    response["ETag"] = f'"{services.tag_of(allocation)}"'
    return response
