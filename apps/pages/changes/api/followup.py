"""Follow-up of a publication: the recompute that activates it, and the ranks that it changed."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.core.errors import NotFound
from apps.pages.changes.api.views import READ_WRITE, found_for
from apps.pages.changes.review.moved_ranks import FOLLOWED_FOR, MOST_RANK_MOVES, Followup, RankMove, followup_of
from apps.pages.changes.review.reviewed_change import get_review_page
from apps.web.rest.authentication import Scopes, actor_of
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import UtcTimeField
from apps.web.rest.views import APIView

RankMoveSerializer = record_serializer(
    RankMove,
    only="entry path rank_before rank_after rank_expected reason",
    renamed={
        "entry": "uid",
        "rank_before": "before",
        "rank_after": "after",
        "rank_expected": "expected",
        "reason": "sentence",
    },
    texts={"rank_expected": "Rank in the preview; null until the recompute", "reason": "The reason in words"},
)


FollowupSerializer = record_serializer(
    Followup,
    only="state revision published_at due_at snapshot n_ranked n_compared n_moved moves",
    renamed={"snapshot": "after.snapshot_id"},
    texts={
        "due_at": "Expected time of the recompute",
        "snapshot": "First snapshot of this revision; null: not yet, and ranks are predicted",
        "n_compared": "Number of visible leaves with a rank before and after",
    },
    revision=serializers.IntegerField(source="revision.number"),
    published_at=UtcTimeField(source="revision.published_at"),
    moves=RankMoveSerializer(
        source="furthest_moves", many=True, help_text=f"The {MOST_RANK_MOVES:,} leaves that move furthest"
    ),
)


class FollowupView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_followup_of_change_set", responses=FollowupSerializer)
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """State of the recompute after a publication, and leaves whose rank changed, for 14 days."""
        followup = _followup(request, policy, change_set)
        if followup.now > followup.revision.published_at + FOLLOWED_FOR:
            raise NotFound(f"The follow-up of change set {change_set} has ended.")
        return Response(FollowupSerializer(followup).data)


def _followup(request: Request, policy: str, change_set: int) -> Followup:
    row = found_for(request, policy, change_set)
    return followup_of(get_review_page(id=row.pk, actor=actor_of(request), at=clock.now()))
