"""Notices of the caller, rules that open notices, and monthly statements of entries."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actor import Actor
from apps.contrib.notices import rules, selectors
from apps.contrib.notices.kinds import KINDS
from apps.contrib.notices.models import LONGEST_NOTICE_KIND, Notice
from apps.contrib.notices.places import Place, place_of, require_place
from apps.contrib.notices.rules import NEW, RuleRow
from apps.contrib.notices.selectors import NoticeLine
from apps.contrib.notices.statements.selectors import (
    Figures,
    StatementLine,
    get_statements,
)
from apps.core import clock
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, SELF_READ, Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedDictField
from apps.web.rest.cursors import read_cursor
from apps.web.rest.if_match import if_match_header, require_version
from apps.web.rest.inputs import entry_uid, read_body, read_query
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import SentenceSerializer, UtcTimeField, first_page, list_response, list_schema
from apps.web.rest.views import APIView

_READ = frozenset({POLICIES_READ, POLICIES_WRITE, SELF_READ})
_IF_MATCH = if_match_header("the rule")
FiguresSerializer = record_serializer(
    Figures,
    doc="Usage of a month in the policy's metric (core-seconds if only cores have a weight), over the days on which "
    "the entry competes.\n\nentitled = used + lent + missed + unclear − borrowed.",
)
StatementSerializer = record_serializer(
    StatementLine,
    component="Statement",
    only="entry path month figures suppressed rounded adjusted is_closed corrections missing_days share_changes "
    "in_units",
    renamed={"entry": "uid", "month": "month.text"},
    texts={
        "suppressed": "The figures are hidden from the caller",
        "rounded": "Figures are sums rounded to two digits",
        "adjusted": "Adjustments of usage in the month",
        "is_closed": "The month is closed: figures are stored and do not change; later findings are in `corrections`",
        "corrections": "Amounts that would differ if the month were closed now: new − stored",
        "missing_days": "Past days without daily series",
        "share_changes": "With `month`: changes of the entry's shares",
        "in_units": "With `month`, in a policy with several units: its usage in each of them",
    },
    figures=FiguresSerializer(allow_null=True),
)


class NoticeSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="notice.id")
    kind = serializers.CharField(source="notice.kind")
    level = serializers.ChoiceField(Notice.Level.choices, source="notice.level")
    sentence = SentenceSerializer()
    policy = serializers.CharField(source="notice.policy.slug", default=None, allow_null=True)
    entry = serializers.UUIDField(source="notice.entry_uid", allow_null=True)
    source = serializers.CharField(source="notice.source.slug", default=None, allow_null=True)  # type: ignore[assignment]  # a name of ours
    opened_at = UtcTimeField(source="notice.opened_at")
    news_at = UtcTimeField(source="notice.news_at", help_text="When it was opened or last became worse")
    closed_at = UtcTimeField(source="notice.closed_at", allow_null=True)
    is_unread = serializers.BooleanField()
    snoozed_until = UtcTimeField(allow_null=True)


class NoticeFilterSerializer(serializers.Serializer[Any]):
    state = serializers.ChoiceField(selectors.STATES, required=False, default="open")
    kind = serializers.CharField(max_length=LONGEST_NOTICE_KIND, required=False, default="", allow_blank=True)
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG, required=False, default="", allow_blank=True)
    cursor = serializers.CharField(max_length=bounds.CURSOR, required=False)
    limit = serializers.IntegerField(min_value=1, max_value=bounds.PAGE_ROWS, required=False, default=50)


class NoticeChangeSerializer(serializers.Serializer[Any]):
    is_unread = serializers.BooleanField(required=False)
    snoozed_until = UtcTimeField(required=False, allow_null=True, help_text="null: end the snooze")


class RuleSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="rule.id")
    kind = serializers.CharField(source="rule.kind")
    title = serializers.SerializerMethodField()
    policy = serializers.CharField(source="rule.policy.slug", default=None, allow_null=True)
    is_on = serializers.BooleanField(source="rule.is_on")
    terms = serializers.DictField(child=serializers.FloatField())
    may_change = serializers.BooleanField()
    etag = serializers.SerializerMethodField(help_text="Value for If-Match")

    @extend_schema_field(serializers.CharField())
    def get_title(self, line: RuleRow) -> str:
        return str(line.kind.title)

    @extend_schema_field(serializers.CharField())
    def get_etag(self, line: RuleRow) -> str:
        return f'"{line.rule.version}"'


class RuleFilterSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField(max_length=bounds.POLICY_SLUG, required=False, default="", allow_blank=True)


class NewRuleSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(max_length=LONGEST_NOTICE_KIND, help_text="Name of a notice kind")
    policy = serializers.CharField(
        max_length=bounds.POLICY_SLUG, required=False, default="", allow_blank=True, help_text="Empty: for the site"
    )
    is_on = serializers.BooleanField()
    terms = BoundedDictField(child=serializers.JSONField(), required=False, default=dict)


class RuleChangeSerializer(serializers.Serializer[Any]):
    is_on = serializers.BooleanField(required=False)
    terms = BoundedDictField(child=serializers.JSONField(), required=False)


class NoticeListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": _READ}

    @extend_schema(
        operation_id="list_notices", parameters=[NoticeFilterSerializer], responses=list_schema(NoticeSerializer)
    )
    def get(self, request: Request) -> Response:
        """The caller's notices, newest first. Notices contain only data that the caller may see."""
        query = read_query(NoticeFilterSerializer, request)
        before = read_cursor(query)
        limit = query["limit"]
        notices = selectors.list_notices(
            state=query["state"],
            kind=query["kind"],
            policy=query["policy"],
            before=before,
            limit=limit + 1,
            at=clock.now(),
            actor=actor_of(request),
        )
        page, last = first_page(notices, limit, lambda line: line.notice.pk)
        return list_response(NoticeSerializer(page, many=True).data, last)


class NoticeDetailView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": _READ}  # marking is for sessions only: it is a person's own list

    def before_body(self, request: Request, *, notice: int) -> None:
        _notice(notice, actor_of(request))

    @extend_schema(operation_id="read_notice", responses=NoticeSerializer)
    def get(self, request: Request, notice: int) -> Response:
        """One notice of the caller."""
        return _notice(notice, actor_of(request))

    @extend_schema(operation_id="mark_notice", request=NoticeChangeSerializer, responses=NoticeSerializer)
    def patch(self, request: Request, notice: int) -> Response:
        """Mark a notice as read or unread, snooze it, or end the snooze, for the caller only."""
        body, actor, now = read_body(NoticeChangeSerializer, request), actor_of(request), clock.now()
        if "snoozed_until" in body:
            selectors.snooze(id=notice, until=body["snoozed_until"], at=now, actor=actor)
        if body.get("is_unread") is True:
            selectors.mark_unread(id=notice, at=now, actor=actor)
        elif body.get("is_unread") is False:
            selectors.mark_read(ids=[notice], at=now, actor=actor)
        return _notice(notice, actor)


class NoticeRuleListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": _READ, "POST": frozenset({POLICIES_WRITE})}

    def before_body(self, request: Request) -> None:
        rules.require_set_anywhere(at=clock.now(), actor=actor_of(request))

    @extend_schema(
        operation_id="list_notice_rules", parameters=[RuleFilterSerializer], responses=list_schema(RuleSerializer)
    )
    def get(self, request: Request) -> Response:
        """Rules of the site, and of the policies that the caller may see."""
        query = read_query(RuleFilterSerializer, request)
        rule_rows = rules.list_rules(policy_slug=query["policy"], at=clock.now(), actor=actor_of(request))
        return list_response(RuleSerializer(rule_rows, many=True).data)

    @extend_schema(operation_id="make_notice_rule", request=NewRuleSerializer, responses={201: RuleSerializer})
    def post(self, request: Request) -> Response:
        """Make the rule of a policy, which applies there in place of the site's. For its managers."""
        body, actor, now = read_body(NewRuleSerializer, request), actor_of(request), clock.now()
        made = rules.set_rule(
            kind=body["kind"],
            policy=place_of(policy_slug=body["policy"], actor=actor).policy,
            is_on=body["is_on"],
            terms=body["terms"],
            version=NEW,
            at=now,
            actor=actor,
        )
        return Response(_rule(made.pk, actor), status=201)


class NoticeRuleDetailView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {
        "GET": _READ,
        "PATCH": frozenset({POLICIES_WRITE}),
        "DELETE": frozenset({POLICIES_WRITE}),
    }

    def before_body(self, request: Request, *, rule: int) -> None:
        actor, now = actor_of(request), clock.now()
        require_place(Place(rules.get_rule(id=rule, at=now, actor=actor).rule.policy), now, actor)

    @extend_schema(operation_id="read_notice_rule", responses=RuleSerializer)
    def get(self, request: Request, rule: int) -> Response:
        """One rule with its thresholds."""
        return Response(_rule(rule, actor_of(request)))

    @extend_schema(
        operation_id="change_notice_rule",
        request=RuleChangeSerializer,
        responses=RuleSerializer,
        parameters=[_IF_MATCH],
    )
    def patch(self, request: Request, rule: int) -> Response:
        """Turn a rule on or off, or change its thresholds. Omitted values do not change."""
        body, actor, now = read_body(RuleChangeSerializer, request), actor_of(request), clock.now()
        line = rules.get_rule(id=rule, at=now, actor=actor)
        rules.set_rule(
            kind=line.kind.name,
            policy=line.rule.policy,
            is_on=body.get("is_on", line.rule.is_on),
            terms={**line.terms, **body.get("terms", {})},
            version=require_version(request, "rule"),
            at=now,
            actor=actor,
        )
        return Response(_rule(rule, actor))

    @extend_schema(operation_id="remove_notice_rule", responses={204: None}, parameters=[_IF_MATCH])
    def delete(self, request: Request, rule: int) -> Response:
        """Remove the rule of a policy. The site's rule applies there again."""
        actor, now = actor_of(request), clock.now()
        rules.get_rule(id=rule, at=now, actor=actor)
        rules.remove_rule(id=rule, version=require_version(request, "rule"), at=now, actor=actor)
        return Response(status=204)


class NoticeKindListView(APIView):
    reach = "objects"
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
        """All kinds of notices, with their thresholds."""
        rows = [
            {
                "kind": each.name,
                "title": str(each.title),
                "about": str(each.about),
                "watches": each.watches,
                "terms": [asdict(term) for term in each.terms],
            }
            for each in KINDS
        ]
        return list_response(rows)


def _notice(id: int, actor: Actor) -> Response:
    line: NoticeLine = selectors.get_notice(id=id, at=clock.now(), actor=actor)
    return Response(NoticeSerializer(line).data)


def _rule(id: int, actor: Actor) -> Any:
    return RuleSerializer(rules.get_rule(id=id, at=clock.now(), actor=actor)).data


class StatementFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=bounds.ENTRY, help_text="uid or path")
    month = serializers.CharField(
        max_length=bounds.MONTH,
        required=False,
        default="",
        allow_blank=True,
        help_text="Such as 2026-10: that month of the entry and its children; omitted: twelve months of the entry",
    )


class StatementListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE})}

    @extend_schema(
        operation_id="list_statements",
        parameters=[StatementFilterSerializer],
        responses=list_schema(StatementSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """Monthly statements of an entry: stored for closed months, computed now for others."""
        query = read_query(StatementFilterSerializer, request)
        uid = entry_uid(request, policy, query["entry"])
        page = get_statements(policy_slug=policy, uid=uid, month=query["month"], actor=actor_of(request))
        statements = [page.chosen, *page.children] if query["month"] else list(page.months)
        return list_response(StatementSerializer(statements, many=True).data)
