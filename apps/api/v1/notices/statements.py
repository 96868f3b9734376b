"""Monthly statements: what an entry was entitled to, used, lent and borrowed."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.v1.lists import asked, list_of, listed
from apps.api.v1.policies.places import entry_uid
from apps.notices.statements.arithmetic import AMOUNTS
from apps.notices.statements.selectors import StatementLine, StatementPage, get_statements


class StatementFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=9000, help_text="Its uid, or its path")
    month = serializers.CharField(
        max_length=7,
        required=False,
        default="",
        help_text="2026-10: that month of the entry and of its children. Left out: twelve months of the entry",
    )


class FiguresSerializer(serializers.Serializer[Any]):
    """In the policy's metric (core-seconds where it weights cores alone), over the days on which the entry competes.

    entitled = used + lent + missed + unclear − borrowed.
    """

    entitled = serializers.FloatField(help_text="Σ target · what all that compete with it used on the day")
    used = serializers.FloatField()
    lent = serializers.FloatField(help_text="Σ max(0, entitled − used) over days without demand above use")
    missed = serializers.FloatField(help_text="That over days on which its jobs waited")
    unclear = serializers.FloatField(help_text="That over days on which no source reports whether jobs waited")
    borrowed = serializers.FloatField(help_text="Σ max(0, used − entitled), day by day")
    n_days = serializers.IntegerField()
    n_before_first = serializers.IntegerField(help_text="Of these, from before anything was published")
    n_unclear = serializers.IntegerField()
    target_first = serializers.FloatField(allow_null=True)
    target_last = serializers.FloatField(allow_null=True)


class ShareChangeSerializer(serializers.Serializer[Any]):
    revision = serializers.IntegerField()
    on = serializers.DateField()
    before = serializers.FloatField(allow_null=True, help_text="null: inherited, or the entry was not there")
    after = serializers.FloatField(allow_null=True)


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
