"""Follow-up of a publication: changed ranks, notices to the people concerned, and watches of edited entries."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.analytics.publish_followup import FOLLOWED_FOR, Followup, RankMove, followup_of
from apps.analytics.review import get_review_page
from apps.api.authentication import Scopes, actor_of
from apps.api.inputs import read_body
from apps.api.records import record_serializer
from apps.api.shapes import UtcTimeField, list_response, list_schema
from apps.api.v1.changesets.views import READ_WRITE, found_for
from apps.api.views import APIView
from apps.core import clock
from apps.core.errors import NotFound
from apps.notices.rank_notices import RankNotice, preview_rank_notices, send_rank_notices, sent_notices
from apps.notices.watches import DAYS, LONGEST_DAYS, watch_entry

MOST_MOVES = 1_000


RankMoveSerializer = record_serializer(
    RankMove,
    only=("entry", "path", "rank_before", "rank_after", "rank_expected", "reason"),
    renamed={
        "entry": "uid",
        "rank_before": "before",
        "rank_after": "after",
        "rank_expected": "expected",
        "reason": "sentence",
    },
    texts={"rank_expected": "Rank in the preview; null until the recompute", "reason": "The reason in words"},
)


class FollowupSerializer(serializers.Serializer[Any]):
    state = serializers.ChoiceField(["waiting", "running", "slow", "failed", "done"])
    revision = serializers.IntegerField()
    published_at = UtcTimeField()
    due_at = UtcTimeField(help_text="Expected time of the recompute")
    served_snapshot = serializers.IntegerField(
        allow_null=True, help_text="First snapshot of this revision; null: not yet, and ranks are predicted"
    )
    n_ranked = serializers.IntegerField()
    n_compared = serializers.IntegerField(help_text="Number of visible leaves with a rank before and after")
    n_moved = serializers.IntegerField()
    moves = RankMoveSerializer(many=True, help_text="The 1,000 leaves that move furthest")
    n_notified = serializers.IntegerField()


class RankNoticeSerializer(serializers.Serializer[Any]):
    user = serializers.CharField(source="user.username")
    entry = serializers.UUIDField(source="move.uid")
    text = serializers.CharField()


class NewRankNoticesSerializer(serializers.Serializer[Any]):
    only_down = serializers.BooleanField(required=False, default=False, help_text="Only people whose rank gets worse")
    group = serializers.UUIDField(
        required=False, default=None, allow_null=True, help_text="Only people below this entry of the first level"
    )


class SentSerializer(serializers.Serializer[Any]):
    n_notified = serializers.IntegerField()


class NewWatchSerializer(serializers.Serializer[Any]):
    entry = serializers.UUIDField()
    days = serializers.IntegerField(required=False, default=DAYS, min_value=1, max_value=LONGEST_DAYS)


class WatchSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    entry = serializers.UUIDField(source="entry_uid")
    begins_at = UtcTimeField()
    ends_at = UtcTimeField()


class FollowupView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_followup_of_change_set", responses=FollowupSerializer)
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """State of the recompute after a publication, and leaves whose rank changed, for 14 days."""
        found = _followup(request, policy, change_set)
        if found.now > found.revision.published_at + FOLLOWED_FOR:
            raise NotFound(f"The follow-up of change set {change_set} has ended.")
        after = found.after
        return Response(
            FollowupSerializer(
                {
                    "state": found.state,
                    "revision": found.revision.number,
                    "published_at": found.revision.published_at,
                    "due_at": found.due_at,
                    "served_snapshot": None if after is None else after.snapshot_id,
                    "n_ranked": found.n_ranked,
                    "n_compared": found.n_compared,
                    "n_moved": len(found.moves),
                    "moves": found.moves[:MOST_MOVES],
                    "n_notified": sent_notices(found).n,
                }
            ).data
        )


class RankNoticesView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(
        operation_id="preview_rank_notices",
        parameters=[OpenApiParameter("only_down", bool), OpenApiParameter("group", str)],
        responses={
            200: list_schema(RankNoticeSerializer),
            409: OpenApiResponse(description="Priorities are not recomputed yet (`not_recomputed`)"),
        },
    )
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """Preview the notice to each person whose rank changed, for callers who may publish the change set."""
        found = _followup(request, policy, change_set)
        given = NewRankNoticesSerializer(data=request.query_params)
        given.is_valid(raise_exception=True)
        prepared: list[RankNotice] = preview_rank_notices(found, **given.validated_data)
        return list_response(RankNoticeSerializer(prepared, many=True).data)

    @extend_schema(operation_id="send_rank_notices", request=NewRankNoticesSerializer, responses=SentSerializer)
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Send notices to people whose rank changed. Each person gets at most one notice about a revision."""
        found, given = _followup(request, policy, change_set), read_body(NewRankNoticesSerializer, request)
        return Response({"n_notified": send_rank_notices(found, **given, at=found.now, actor=actor_of(request))})


class FollowupWatchView(APIView):
    scopes: ClassVar[Scopes] = {}  # sessions only: the watch is a rule of the person

    @extend_schema(
        operation_id="watch_entry_of_change_set", request=NewWatchSerializer, responses={201: WatchSerializer}
    )
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Watch an entry for some days: the caller gets a notice when it leaves or reaches its target."""
        found_for(request, policy, change_set)
        given = read_body(NewWatchSerializer, request)
        made = watch_entry(
            policy_slug=policy, uid=given["entry"], days=given["days"], at=clock.now(), actor=actor_of(request)
        )
        return Response(WatchSerializer(made).data, status=201)


def _followup(request: Request, policy: str, change_set: int) -> Followup:
    found = found_for(request, policy, change_set)
    return followup_of(get_review_page(id=found.pk, actor=actor_of(request), at=clock.now()))
