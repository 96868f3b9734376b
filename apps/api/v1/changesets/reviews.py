"""The review of a change set: its checks, its effect, comments; and its steps from proposed to reverted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.analytics.review import LeafLine, ReviewPage, get_review_page
from apps.api.authentication import Scopes, actor_of
from apps.api.records import serializer_of
from apps.api.shapes import UtcTimeField, list_of, listed, sent
from apps.api.v1.changesets.views import (
    IF_MATCH_OF_STEP,
    READ_WRITE,
    ChangeSetDetailSerializer,
    answer,
    found_for,
    version_of,
)
from apps.api.v1.priorities import AskedRunSerializer
from apps.api.views import APIView
from apps.core import clock
from apps.policies import services
from apps.policies.changesets import lifecycle
from apps.policies.changesets.checks import Check
from apps.policies.changesets.conflicts import Side
from apps.policies.models import ChangeSet, Revision
from apps.policies.publishing import revert
from apps.priorities import change_effect_runs

# --- Checks, effect and comments --------------------------------------------------------------------------------------
MOST_LEAVES = 1_000
_STATES = ("ready", "stale", "asked", "failed", "absent", "no_snapshot", "conflict", "decided")


CheckSerializer = serializer_of(Check)


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
    as_of = UtcTimeField(allow_null=True)
    head_revision = serializers.IntegerField(allow_null=True)
    horizons_days = serializers.ListField(child=serializers.IntegerField())
    n_moving = serializers.IntegerField(help_text="Leaves that the caller sees and that move at any horizon")
    leaves = LeafEffectSerializer(many=True, help_text="Those that move furthest, the first 1,000")


class CommentSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    operation = serializers.IntegerField(allow_null=True, help_text="The number of the edit it is about, from 0")
    author = serializers.CharField(source="author_name")
    text = serializers.CharField()
    created_at = UtcTimeField()


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
        effect = page.effect if page.review.is_open else change_effect_runs.Effect("decided")
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
        run = change_effect_runs.request_effect(change_set_id=found.pk, at=clock.now(), actor=actor_of(request))
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


# --- Steps ------------------------------------------------------------------------------------------------------------
class ReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=4000, required=False, allow_blank=True)


class PublicationSerializer(ReasonSerializer):
    effective_at = UtcTimeField(
        required=False,
        allow_null=True,
        help_text="Later, or null for now, whatever was set before. Left out: as the change set says",
    )


class ChoiceSerializer(serializers.Serializer[Any]):
    entry = serializers.UUIDField(allow_null=True, help_text="As the conflict names it; null for settings")
    field = serializers.CharField(max_length=64)
    take = serializers.ChoiceField(["mine", "theirs"])


class RebaseSerializer(serializers.Serializer[Any]):
    choices = ChoiceSerializer(
        many=True, required=False, help_text="One for each conflict; without conflicts none is needed"
    )


class EmptySerializer(serializers.Serializer[Any]):
    """No members."""


def _step(request: Any = ReasonSerializer) -> Any:
    return {"parameters": [IF_MATCH_OF_STEP], "request": request, "responses": ChangeSetDetailSerializer}


class ProposalView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="propose_change_set", **_step())
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Ask the people who may publish it to decide."""
        return _take(services.propose_change_set, request, policy, change_set)


class ApprovalView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="approve_change_set", **_step(EmptySerializer))
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """A second person's approval of this version; authors can't approve their own."""
        return _take(lifecycle.approve_change_set, request, policy, change_set, EmptySerializer)


class ReturnView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="request_changes", **_step())
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Back to its author, as a draft; `reason` says what should change, and becomes a comment."""

        def send_back(*, reason: str = "", **more: Any) -> ChangeSet:
            return lifecycle.request_changes(text=reason, **more)

        return _take(send_back, request, policy, change_set)


class PublicationView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="publish_change_set", **_step(PublicationSerializer))
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Publish it on the head as it is now, or schedule it.

        409 lists changes by others since its base, or says that a second person is needed first (`needs_approval`).
        """
        planned = found_for(request, policy, change_set).effective_at

        def publish(*, at: datetime, effective_at: datetime | None = planned, **more: Any) -> ChangeSet | Revision:
            if effective_at is not None and effective_at > at:
                return lifecycle.schedule_change_set(effective_at=effective_at, at=at, **more)
            return services.publish_change_set(at_once=True, at=at, **more)

        return _take(publish, request, policy, change_set, PublicationSerializer)


class WithdrawalView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="withdraw_change_set", **_step())
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Give it up; it stays readable."""
        return _take(services.withdraw_change_set, request, policy, change_set)


class RebaseView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="rebase_change_set", **_step(RebaseSerializer))
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Set it upon the head. 409 names conflicts that need a choice: `theirs` drops the edit, `mine` keeps it."""

        def rebase(*, choices: list[dict[str, Any]] | None = None, **more: Any) -> ChangeSet:
            chosen: dict[str, Side] = {
                f"{each['entry'] or 'policy'}:{each['field']}": each["take"] for each in choices or ()
            }
            return lifecycle.rebase_change_set(choices=chosen, **more)

        return _take(rebase, request, policy, change_set, RebaseSerializer)


class RevertView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(
        operation_id="revert_change_set", request=ReasonSerializer, responses={201: ChangeSetDetailSerializer}
    )
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """A new draft that undoes the revision it became; what changed since is a conflict when that is published."""
        number = revert.current_number(found_for(request, policy, change_set))
        given = sent(ReasonSerializer, request) if request.data else {}
        draft = revert.revert_revision(
            policy_slug=policy, number=number, **given, at=clock.now(), actor=actor_of(request)
        )
        return answer(request, draft, 201)


def _take(
    step: Callable[..., ChangeSet | Revision],
    request: Request,
    policy: str,
    change_set: int,
    kind: type[serializers.Serializer[Any]] = ReasonSerializer,
) -> Response:
    """If-Match is optional here: with it, only the version that the caller has read goes on."""
    found, version = found_for(request, policy, change_set), version_of(request)
    given = sent(kind, request) if request.data else {}
    seen = found.version if version is None else version
    done = step(id=found.pk, version=seen, **given, at=clock.now(), actor=actor_of(request))
    # Not asked for again: what was sent back is its author's alone.
    return answer(request, done.change_set if isinstance(done, Revision) else done)
