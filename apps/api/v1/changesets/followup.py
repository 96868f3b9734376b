"""What follows a publication: whose rank it changes, notices to them, and watches of what was edited."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.analytics.publish_followup import FOLLOWED_FOR, Followup, RankMove, followup_of, sentence_of
from apps.analytics.review import get_review_page
from apps.api.authentication import Scopes, actor_of
from apps.api.shapes import UtcTimeField, list_of, listed, sent
from apps.api.v1.changesets.views import READ_WRITE, found_for
from apps.api.views import APIView
from apps.core import clock
from apps.core.errors import NotFound
from apps.notices.rank_notices import RankNotice, preview_rank_notices, send_rank_notices, sent_notices
from apps.notices.watches import DAYS, LONGEST_DAYS, watch_entry

MOST_MOVES = 1_000


class RankMoveSerializer(serializers.Serializer[Any]):
    entry = serializers.UUIDField(source="uid")
    path = serializers.CharField()
    rank_before = serializers.IntegerField(source="before")
    rank_after = serializers.IntegerField(source="after")
    rank_expected = serializers.IntegerField(
        source="expected", allow_null=True, help_text="As the preview had it; null until the recompute"
    )
    reason = serializers.SerializerMethodField()

    def get_reason(self, move: RankMove) -> str:
        return sentence_of(move.reason, move.step, move.targets, move.places)


class FollowupSerializer(serializers.Serializer[Any]):
    state = serializers.ChoiceField(["waiting", "running", "slow", "failed", "done"])
    revision = serializers.IntegerField()
    published_at = UtcTimeField()
    due_at = UtcTimeField(help_text="When priorities follow, by the usual time of a recompute")
    served_snapshot = serializers.IntegerField(
        allow_null=True, help_text="The first one of this revision; null before, when ranks are predicted"
    )
    n_ranked = serializers.IntegerField()
    n_compared = serializers.IntegerField(help_text="Leaves with a rank before and after, visible to the caller")
    n_moved = serializers.IntegerField()
    moves = RankMoveSerializer(many=True, help_text="Those that move furthest, the first 1,000")
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
        """For 14 days after the publication: whether priorities follow, and who moved of those the caller sees."""
        found = _followup(request, policy, change_set)
        if found.now > found.revision.published_at + FOLLOWED_FOR:
            raise NotFound(f"Nothing follows change set {change_set} any more.")
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
        responses=list_of(RankNoticeSerializer),
    )
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """What each person would read, for those who may publish the change."""
        found = _followup(request, policy, change_set)
        given = NewRankNoticesSerializer(data=request.query_params)
        given.is_valid(raise_exception=True)
        prepared: list[RankNotice] = preview_rank_notices(found, **given.validated_data)
        return listed(RankNoticeSerializer(prepared, many=True).data)

    @extend_schema(operation_id="send_rank_notices", request=NewRankNoticesSerializer, responses=SentSerializer)
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Send them. Of one revision nobody gets a second one."""
        found, given = _followup(request, policy, change_set), sent(NewRankNoticesSerializer, request)
        return Response({"n_notified": send_rank_notices(found, **given, at=found.now, actor=actor_of(request))})


class FollowupWatchView(APIView):
    scopes: ClassVar[Scopes] = {}  # a person's own rule

    @extend_schema(
        operation_id="watch_entry_of_change_set", request=NewWatchSerializer, responses={201: WatchSerializer}
    )
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Watch an entry for some days: a notice of mine when it leaves or reaches its target."""
        found_for(request, policy, change_set)
        given = sent(NewWatchSerializer, request)
        made = watch_entry(
            policy_slug=policy, uid=given["entry"], days=given["days"], at=clock.now(), actor=actor_of(request)
        )
        return Response(WatchSerializer(made).data, status=201)


def _followup(request: Request, policy: str, change_set: int) -> Followup:
    found = found_for(request, policy, change_set)
    return followup_of(get_review_page(id=found.pk, actor=actor_of(request), at=clock.now()))
