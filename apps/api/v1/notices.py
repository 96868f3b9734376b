"""The caller's notices, read and snoozed; the rules that open them; monthly statements."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actor import Actor
from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, SELF_READ, Scopes, actor_of
from apps.api.errors import Refusal
from apps.api.records import record_serializer, serializer_of
from apps.api.shapes import UtcTimeField, asked, decode_cursor, entry_uid, list_of, listed, sent
from apps.api.views import APIView
from apps.core import clock
from apps.core.errors import FieldProblem
from apps.notices import rules, selectors
from apps.notices.kinds import kinds
from apps.notices.models import Notice
from apps.notices.rules import NEW, Place, RuleLine
from apps.notices.selectors import NoticeLine
from apps.notices.statements.selectors import (
    AMOUNTS,
    Figures,
    ShareChange,
    StatementLine,
    StatementPage,
    get_statements,
)

# --- Notices and rules ------------------------------------------------------------------------------------------------
_READ = frozenset({POLICIES_READ, POLICIES_WRITE, SELF_READ})
_TAG = re.compile(r'(?:W/)?"([0-9]{1,9})"')
_IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, description="The rule's ETag; left out where a new one is made"
)


class NoticeSentenceSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    values = serializers.DictField(child=serializers.JSONField())
    text = serializers.CharField()


class NoticeSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="notice.pk")
    kind = serializers.CharField(source="notice.kind")
    level = serializers.ChoiceField(Notice.Level.choices, source="notice.level")
    sentence = NoticeSentenceSerializer()
    policy = serializers.CharField(source="notice.policy.slug", default=None, allow_null=True)
    entry = serializers.UUIDField(source="notice.entry_uid", allow_null=True)
    source = serializers.CharField(source="notice.source.slug", default=None, allow_null=True)  # type: ignore[assignment]  # a name of ours
    opened_at = UtcTimeField(source="notice.opened_at")
    news_at = UtcTimeField(source="notice.news_at", help_text="Opened, or became worse")
    closed_at = UtcTimeField(source="notice.closed_at", allow_null=True)
    is_unread = serializers.BooleanField()
    snoozed_until = UtcTimeField(allow_null=True)


class NoticeFilterSerializer(serializers.Serializer[Any]):
    state = serializers.ChoiceField(selectors.STATES, required=False, default="open")
    kind = serializers.CharField(max_length=32, required=False, default="")
    policy = serializers.CharField(max_length=64, required=False, default="")
    cursor = serializers.CharField(max_length=200, required=False)
    limit = serializers.IntegerField(min_value=1, max_value=200, required=False, default=50)


class NoticeChangeSerializer(serializers.Serializer[Any]):
    is_unread = serializers.BooleanField(required=False)
    snoozed_until = UtcTimeField(required=False, allow_null=True, help_text="null: shown again")


class RuleSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="rule.pk")
    kind = serializers.CharField(source="rule.kind")
    title = serializers.SerializerMethodField()
    policy = serializers.CharField(source="rule.policy.slug", default=None, allow_null=True)
    entry = serializers.UUIDField(source="rule.entry_uid", allow_null=True, help_text="It decides about what is below")
    path = serializers.CharField()
    source = serializers.CharField(source="rule.source.slug", default=None, allow_null=True)  # type: ignore[assignment]  # a name of ours
    is_on = serializers.BooleanField(source="rule.is_on")
    terms = serializers.DictField(child=serializers.FloatField())
    may_change = serializers.BooleanField()
    etag = serializers.SerializerMethodField(help_text="What If-Match asks for")

    @extend_schema_field(serializers.CharField())
    def get_title(self, line: RuleLine) -> str:
        return str(line.kind.title)

    @extend_schema_field(serializers.CharField())
    def get_etag(self, line: RuleLine) -> str:
        return f'"{line.rule.version}"'


class RuleFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=64, required=False, default="")


class NewRuleSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(max_length=32, help_text="One of the kinds that the list of rules shows")
    policy = serializers.CharField(max_length=64, required=False, default="")
    entry = serializers.CharField(max_length=9000, required=False, default="", help_text="Its uid, or its path")
    source = serializers.CharField(max_length=64, required=False, default="")  # type: ignore[assignment]  # a name of ours
    is_on = serializers.BooleanField()
    terms = serializers.DictField(child=serializers.JSONField(), required=False, default=dict)


class RuleChangeSerializer(serializers.Serializer[Any]):
    is_on = serializers.BooleanField(required=False)
    terms = serializers.DictField(child=serializers.JSONField(), required=False)


class NoticeListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": _READ}

    @extend_schema(
        operation_id="list_notices", parameters=[NoticeFilterSerializer], responses=list_of(NoticeSerializer)
    )
    def get(self, request: Request) -> Response:
        """The caller's notices, newest first. A notice contains nothing that its reader couldn't see on a page."""
        given = asked(NoticeFilterSerializer, request)
        before = decode_cursor(given["cursor"], int) if "cursor" in given else None
        limit = given["limit"]
        found = selectors.list_notices(
            state=given["state"],
            kind=given["kind"],
            policy=given["policy"],
            before=before,
            limit=limit + 1,
            at=clock.now(),
            actor=actor_of(request),
        )
        following = found[limit - 1].notice.pk if len(found) > limit else None
        return listed(NoticeSerializer(found[:limit], many=True).data, following)


class NoticeDetailView(APIView):
    scopes: ClassVar[Scopes] = {"GET": _READ}  # what one reads oneself is nothing for a token

    @extend_schema(operation_id="read_notice", responses=NoticeSerializer)
    def get(self, request: Request, notice: int) -> Response:
        return _notice(notice, actor_of(request))

    @extend_schema(operation_id="mark_notice", request=NoticeChangeSerializer, responses=NoticeSerializer)
    def patch(self, request: Request, notice: int) -> Response:
        """Mark it as read or unread, put it off, or show it again: for the caller alone."""
        given, actor, now = sent(NoticeChangeSerializer, request), actor_of(request), clock.now()
        if "snoozed_until" in given:
            selectors.snooze(id=notice, until=given["snoozed_until"], at=now, actor=actor)
        if given.get("is_unread") is True:
            selectors.mark_unread(id=notice, at=now, actor=actor)
        elif given.get("is_unread") is False:
            selectors.mark_read(ids=[notice], at=now, actor=actor)
        return _notice(notice, actor)


class NoticeRuleListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": _READ, "POST": frozenset({POLICIES_WRITE})}

    @extend_schema(
        operation_id="list_notice_rules", parameters=[RuleFilterSerializer], responses=list_of(RuleSerializer)
    )
    def get(self, request: Request) -> Response:
        """The site's rules, and those of policies and entries that the caller sees."""
        given = asked(RuleFilterSerializer, request)
        found = rules.list_rules(policy_slug=given["policy"], at=clock.now(), actor=actor_of(request))
        return listed(RuleSerializer(found, many=True).data)

    @extend_schema(operation_id="make_notice_rule", request=NewRuleSerializer, responses={201: RuleSerializer})
    def post(self, request: Request) -> Response:
        """A new rule; for managers of that place."""
        given, actor, now = sent(NewRuleSerializer, request), actor_of(request), clock.now()
        uid = entry_uid(request, given["policy"], given["entry"]) if given["entry"] and given["policy"] else None
        place = rules.place_of(policy_slug=given["policy"], entry_uid=uid, source_slug=given["source"], actor=actor)
        made = rules.set_rule(
            kind=given["kind"],
            place=place,
            is_on=given["is_on"],
            terms=given["terms"],
            version=NEW,
            at=now,
            actor=actor,
        )
        return Response(_rule(made.pk, actor), status=201)


class NoticeRuleDetailView(APIView):
    scopes: ClassVar[Scopes] = {
        "GET": _READ,
        "PATCH": frozenset({POLICIES_WRITE}),
        "DELETE": frozenset({POLICIES_WRITE}),
    }

    @extend_schema(operation_id="read_notice_rule", responses=RuleSerializer)
    def get(self, request: Request, rule: int) -> Response:
        return Response(_rule(rule, actor_of(request)))

    @extend_schema(
        operation_id="change_notice_rule",
        request=RuleChangeSerializer,
        responses=RuleSerializer,
        parameters=[_IF_MATCH],
    )
    def patch(self, request: Request, rule: int) -> Response:
        """Turn it on or off, or give it other limits; what is left out stays."""
        given, actor, now = sent(RuleChangeSerializer, request), actor_of(request), clock.now()
        line = rules.get_rule(id=rule, at=now, actor=actor)
        rules.set_rule(
            kind=line.kind.name,
            place=Place(line.rule.policy, line.rule.entry_uid, line.rule.source),
            is_on=given.get("is_on", line.rule.is_on),
            terms={**line.terms, **given.get("terms", {})},
            version=_version(request),
            at=now,
            actor=actor,
        )
        return Response(_rule(rule, actor))

    @extend_schema(operation_id="remove_notice_rule", responses={204: None}, parameters=[_IF_MATCH])
    def delete(self, request: Request, rule: int) -> Response:
        """The rule above it decides again."""
        actor, now = actor_of(request), clock.now()
        rules.get_rule(id=rule, at=now, actor=actor)
        rules.remove_rule(id=rule, version=_version(request), at=now, actor=actor)
        return Response(status=204)


class NoticeKindListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": _READ}

    @extend_schema(
        operation_id="list_notice_kinds",
        responses=inline_serializer(
            "NoticeKindList",
            {
                "results": serializers.ListField(child=serializers.DictField()),
                "next": serializers.CharField(allow_null=True),
            },
        ),
    )
    def get(self, request: Request) -> Response:
        """What can be watched for, with its limits."""
        rows = [
            {
                "kind": each.name,
                "title": str(each.title),
                "about": str(each.about or each.title),
                "watches": each.watches,
                "terms": [asdict(term) for term in each.terms],
            }
            for each in kinds().values()
        ]
        return listed(rows)


def _notice(id: int, actor: Actor) -> Response:
    line: NoticeLine = selectors.get_notice(id=id, at=clock.now(), actor=actor)
    return Response(NoticeSerializer(line).data)


def _rule(id: int, actor: Actor) -> Any:
    return RuleSerializer(rules.get_rule(id=id, at=clock.now(), actor=actor)).data


def _version(request: Request) -> int:
    """Of the rule that the caller has read."""
    text = request.headers.get("If-Match", "").strip()
    if not text:
        problem = FieldProblem("If-Match", "is missing")
        message = "Send If-Match with the ETag of the rule that you have read."
        raise Refusal(message, code="precondition_required", status=428, fields=[problem])
    match = _TAG.fullmatch(text)
    return int(match[1]) if match else 0


# --- Statements -------------------------------------------------------------------------------------------------------
class StatementFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=9000, help_text="Its uid, or its path")
    month = serializers.CharField(
        max_length=7,
        required=False,
        default="",
        help_text="2026-10: that month of the entry and of its children. Left out: twelve months of the entry",
    )


FiguresSerializer = record_serializer(
    Figures,
    doc="In the policy's metric (core-seconds where it weights cores alone), over the days on which the entry "
    "competes.\n\nentitled = used + lent + missed + unclear − borrowed.",
)
ShareChangeSerializer = serializer_of(ShareChange)


class StatementSerializer(serializers.Serializer[Any]):
    entry = serializers.UUIDField(source="uid")
    path = serializers.CharField()
    month = serializers.CharField(source="month.text")
    figures = FiguresSerializer(allow_null=True)
    suppressed = serializers.BooleanField(source="is_suppressed", help_text="There are figures that are hidden")
    rounded = serializers.BooleanField(source="is_rounded", help_text="Shown as sums only, in two digits")
    adjusted = serializers.FloatField(allow_null=True, help_text="Corrections of usage that count in the month")
    is_closed = serializers.BooleanField(help_text="Kept as they were; what is found later is in corrections")
    corrections = serializers.SerializerMethodField(help_text="By amount: what it would be now − what was kept")
    missing_days = serializers.IntegerField(help_text="Over, and not in the daily series")
    share_changes = serializers.SerializerMethodField(help_text="Of the entry asked for, with a month")

    @extend_schema_field(serializers.DictField(child=serializers.FloatField()))
    def get_corrections(self, line: StatementLine) -> dict[str, float]:
        return {name: line.corrections[name] for name in AMOUNTS if name in line.corrections}

    @extend_schema_field(ShareChangeSerializer(many=True))
    def get_share_changes(self, line: StatementLine) -> Any:
        page: StatementPage = self.context["page"]
        is_chosen = line.uid == page.uid and line.month == page.chosen.month
        return ShareChangeSerializer(page.changes if is_chosen else (), many=True).data


class StatementListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE})}

    @extend_schema(
        operation_id="list_statements", parameters=[StatementFilterSerializer], responses=list_of(StatementSerializer)
    )
    def get(self, request: Request, policy: str) -> Response:
        """Kept where the month is closed, else as of now."""
        given = asked(StatementFilterSerializer, request)
        uid = entry_uid(request, policy, given["entry"])
        page = get_statements(policy_slug=policy, uid=uid, month=given["month"], actor=actor_of(request))
        found = [page.chosen, *page.children] if given["month"] else list(page.months)
        return listed(StatementSerializer(found, many=True, context={"page": page}).data)
