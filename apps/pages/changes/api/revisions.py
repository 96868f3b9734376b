"""Entries and differences of revisions."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.mapping.rules.rule_set import member_rules
from apps.policies.models import ChangeSet
from apps.policies.selectors import get_policy
from apps.policies.tree.revision_diff import EntryDifference
from apps.priorities.selectors import HistoryLine, diff_revisions, get_entry_history, open_view
from apps.priorities.selectors.revision_differences import RevisionDiff
from apps.priorities.selectors.rows import PolicyView
from apps.web import bounds
from apps.web.listings.tree_listing import EntrySerializer, entry_of
from apps.web.rest.authentication import POLICIES_READ, Scopes, actor_of
from apps.web.rest.cursors import CursorField, encode_cursor, read_cursor
from apps.web.rest.inputs import moment_of, read_query
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import UtcTimeField, reach_json
from apps.web.rest.views import APIView

READ: Scopes = {"GET": frozenset({POLICIES_READ})}


EntryDifferenceSerializer = record_serializer(
    EntryDifference,
    renamed={"entry": "uid", "changes": "fields"},
    texts={
        "path": "Empty: the entry was removed",
        "path_before": "Empty: the entry was added",
        "n_below": "Number of entries that were added or removed together with it",
    },
)


_FROM: dict[str, Any] = {"from": serializers.IntegerField(source="before.number")}  # a keyword of Python
DiffSerializer = record_serializer(
    RevisionDiff,
    component="Diff",
    only="policy from to settings entries n_entries next effective counts corrections n_outside_view",
    texts={
        "n_entries": "Number on all pages; a subtree that was added or removed counts once",
        "counts": "Entries by kind of change",
        "n_outside_view": "Number of changes that the caller may not see",
    },
    policy=serializers.CharField(source="policy.slug"),
    **_FROM,
    to=serializers.IntegerField(source="after.number"),
    entries=EntryDifferenceSerializer(source="rows", many=True),
    next=CursorField(source="next_cursor"),
    effective=EntryDifferenceSerializer(
        source="kept",
        many=True,
        help_text="Entries that were not edited but have another target: the 100 largest changes",
    ),
)


class DiffFilterSerializer(serializers.Serializer[Any]):
    to = serializers.IntegerField(
        min_value=1, max_value=bounds.REVISION, required=False, help_text="Default: the head revision"
    )
    cursor = serializers.CharField(required=False, max_length=bounds.CURSOR)


class RevisionDiffView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="diff_revisions", parameters=[DiffFilterSerializer], responses=DiffSerializer)
    def get(self, request: Request, policy: str, revision: int) -> Response:
        """Differences between two revisions. Changes that the caller may not see are only counted."""
        query, actor = read_query(DiffFilterSerializer, request), actor_of(request)
        position = read_cursor(query)
        cursor = None if position is None else str(position)
        to = query.get("to") or get_policy(slug=policy, actor=actor, is_past=True).head_number
        diff = diff_revisions(policy_slug=policy, before=revision, after=to, cursor=cursor, at=clock.now(), actor=actor)
        return Response(DiffSerializer(diff).data)


HistoryLineSerializer = record_serializer(
    HistoryLine,
    exclude=("may_see_change_set",),
    renamed={"changes": "fields"},
    texts={"reverted_by": "Revision that reverted it; null: none"},
    origin=serializers.ChoiceField(ChangeSet.Origin.choices),
)


class MemberRuleSerializer(serializers.Serializer[Any]):
    source = serializers.CharField(help_text="Slug of a usage source")  # type: ignore[assignment]
    group = serializers.CharField()
    fqan = serializers.CharField()
    people = serializers.CharField(help_text="Group of the identity provider")
    shares = serializers.FloatField()
    kind = serializers.CharField()
    archive_after_days = serializers.IntegerField(allow_null=True)
    reach = serializers.UUIDField(
        allow_null=True, help_text="Entry below which the rule may move accounts; null: the whole policy"
    )
    reach_path = serializers.CharField(allow_null=True)


class EntryDetailSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    revision = serializers.IntegerField()
    as_of = UtcTimeField(allow_null=True)
    entry = EntrySerializer(allow_null=True, help_text="null: the entry is archived")
    member_rules = MemberRuleSerializer(many=True, help_text="Rules by which accounts become children of the entry")
    history = HistoryLineSerializer(many=True, help_text="Newest first; a move lists the names of both parents")
    next = serializers.CharField(allow_null=True)


class EntryFilterSerializer(serializers.Serializer[Any]):
    at = serializers.CharField(max_length=bounds.INSTANT, required=False, help_text="Revision number or instant")
    cursor = serializers.CharField(
        required=False, max_length=bounds.CURSOR, help_text="`next` of the history's previous page"
    )


class EntryDetailView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="get_entry", parameters=[EntryFilterSerializer], responses=EntryDetailSerializer)
    def get(self, request: Request, policy: str, entry: UUID) -> Response:
        """One entry, also an archived one, with its numbers and its history: who changed which field, when and why."""
        query, actor = read_query(EntryFilterSerializer, request), actor_of(request)
        at = moment_of(query.get("at"))
        history = get_entry_history(policy_slug=policy, uid=entry, before=read_cursor(query), actor=actor)
        view = open_view(policy_slug=policy, actor=actor, at=at, is_past=True)
        i = None if history.is_archived and at is None else view.require(entry)
        return Response(
            {
                "policy": view.policy.slug,
                "revision": view.revision,
                "as_of": view.as_of,
                "entry": None if i is None else entry_of(view, i),
                "member_rules": [] if i is None else _member_rules(view, i),
                "history": HistoryLineSerializer(history.lines, many=True).data,
                "next": None if history.next_before is None else encode_cursor(history.next_before),
            }
        )


def _member_rules(view: PolicyView, i: int) -> list[dict[str, Any]]:
    rules = member_rules(view.tree, i)
    return [{**rule.to_json(), **reach_json(view.tree, reach)} for rule, reach in rules]
