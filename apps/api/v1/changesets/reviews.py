"""What a reviewer asks of a change set: its checks, its effect now and later, and what people said about it."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.analytics.review import LeafLine, ReviewPage, get_review_page
from apps.api.authentication import Scopes, actor_of
from apps.api.v1.changesets.views import READ_WRITE, found_for
from apps.api.v1.lists import list_of, listed, sent
from apps.api.v1.priorities import AskedRunSerializer
from apps.core import clock
from apps.policies.changesets import lifecycle
from apps.priorities.change_effects import runs as effect_runs

MOST_LEAVES = 1_000
_STATES = ("ready", "stale", "asked", "failed", "absent", "no_snapshot", "conflict", "decided")


class CheckSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    state = serializers.ChoiceField(["ok", "warn", "block"])
    title = serializers.CharField()
    text = serializers.CharField()
    remedy = serializers.CharField(help_text="What to do where it doesn't pass")


class LeafEffectSerializer(serializers.Serializer[Any]):
    entry = serializers.UUIDField()
    path = serializers.CharField()
    ranks_without = serializers.ListField(
        child=serializers.IntegerField(allow_null=True), help_text="At each horizon, as things are"
    )
    ranks_with = serializers.ListField(
        child=serializers.IntegerField(allow_null=True), help_text="At each horizon, with the change"
    )
    factor_before = serializers.FloatField(allow_null=True)
    factor_after = serializers.FloatField(allow_null=True)
    reason = serializers.CharField()


class AheadSerializer(serializers.Serializer[Any]):
    """Ranks now and later, if demand stays as in the last 14 days."""

    state = serializers.ChoiceField(_STATES, help_text="`absent`: POST here to have it worked out")
    problem = serializers.CharField()
    as_of = serializers.DateTimeField(allow_null=True)
    head_revision = serializers.IntegerField(allow_null=True)
    horizons_days = serializers.ListField(child=serializers.IntegerField())
    n_moving = serializers.IntegerField(help_text="Leaves that the caller sees and that move at any horizon")
    leaves = LeafEffectSerializer(many=True, help_text="Those that move furthest, the first 1,000")


class CommentSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    operation = serializers.IntegerField(allow_null=True, help_text="The number of the edit it is about, from 0")
    author = serializers.CharField(source="author_name")
    text = serializers.CharField()
    created_at = serializers.DateTimeField()


class NewCommentSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(max_length=4000)
    operation = serializers.IntegerField(min_value=0, max_value=100_000, required=False, default=None, allow_null=True)


class ChangeSetCheckListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="list_checks_of_change_set", responses=list_of(CheckSerializer))
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """What passes, warns or blocks, for the caller now."""
        return listed(CheckSerializer(_page(request, policy, change_set).checks, many=True).data)


class ChangeSetEffectView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_effect_of_change_set", responses=AheadSerializer)
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """Ranks with and without it, now and after 1, 7 and 30 days; of a decided change set there is nothing."""
        page = _page(request, policy, change_set)
        effect = page.effect if page.review.is_open else effect_runs.Effect("decided")
        found = effect.projection
        return Response(
            AheadSerializer(
                {
                    "state": effect.state,
                    "problem": effect.problem,
                    "as_of": effect.as_of,
                    "head_revision": effect.head_number or None,
                    "horizons_days": list(found.horizons_days) if found is not None else [],
                    "n_moving": page.n_moving if found is not None else 0,
                    "leaves": [_leaf(line) for line in page.leaves(MOST_LEAVES)] if found is not None else [],
                }
            ).data
        )

    @extend_schema(operation_id="work_out_effect_of_change_set", request=None, responses={202: AskedRunSerializer})
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Have it worked out in the background, as large policies need."""
        found = found_for(request, policy, change_set)
        run = effect_runs.request_effect(change_set_id=found.pk, at=clock.now(), actor=actor_of(request))
        return Response({"run": run.pk}, status=202)


class ChangeSetCommentListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="list_comments_of_change_set", responses=list_of(CommentSerializer))
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """In the order in which they were made."""
        return listed(CommentSerializer(found_for(request, policy, change_set).comments.all(), many=True).data)

    @extend_schema(
        operation_id="comment_on_change_set", request=NewCommentSerializer, responses={201: CommentSerializer}
    )
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Plain text, about the whole or about one edit; it stays there when the change set is rebased."""
        found, given = found_for(request, policy, change_set), sent(NewCommentSerializer, request)
        comment = lifecycle.comment_on(id=found.pk, **given, at=clock.now(), actor=actor_of(request))
        return Response(CommentSerializer(comment).data, status=201)


def _page(request: Request, policy: str, change_set: int) -> ReviewPage:
    found = found_for(request, policy, change_set)
    return get_review_page(id=found.pk, actor=actor_of(request), at=clock.now())


def _leaf(line: LeafLine) -> dict[str, Any]:
    return {
        "entry": line.uid,
        "path": f"{line.above.rstrip('/')}/{line.name}",
        "ranks_without": line.without,
        "ranks_with": line.with_it,
        "factor_before": line.factors[0],
        "factor_after": line.factors[1],
        "reason": f"{line.reason}: {line.reason_name}" if line.reason_name else line.reason,
    }
