"""Review of a change set: checks, effect on ranks, comments; and its steps from proposal to revert."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.core.errors import NotAllowed
from apps.core.periods import DEFAULT_DAYS
from apps.pages.changes.api.views import READ_WRITE, ChangeSetDetailSerializer, answer, found_for
from apps.pages.changes.review.back_test import MovedLeaf, TargetDays, back_test_of
from apps.pages.changes.review.reviewed_change import LeafLine, ReviewPage, get_review_page
from apps.policies import services
from apps.policies.changesets import lifecycle
from apps.policies.changesets.checks import Check
from apps.policies.changesets.conflicts import Side
from apps.policies.changesets.quotas import MOST_OPEN_OPERATIONS
from apps.policies.models import ChangeSet, Revision
from apps.policies.operations.apply import MOST_APPLIED_OPERATIONS
from apps.policies.publishing import revert
from apps.priorities import change_effect_runs
from apps.series.back_test_runs import DAYS as BACK_TEST_DAYS
from apps.series.back_test_runs import request_back_test
from apps.web import bounds
from apps.web.rest.authentication import Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedListField
from apps.web.rest.if_match import if_match_header, read_version
from apps.web.rest.inputs import read_body
from apps.web.rest.records import record_serializer, serializer_of
from apps.web.rest.runs import AskedRunSerializer, RunWaitingSerializer
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema
from apps.web.rest.views import APIView

MOST_REVIEWED_LEAVES = 1_000
_STATES = ("ready", "stale", "asked", "failed", "absent", "no_snapshot", "conflict", "decided")


CheckSerializer = serializer_of(Check)


LeafEffectSerializer = record_serializer(
    LeafLine,
    component="LeafEffect",
    only="entry path ranks_without ranks_with factor_before factor_after reason",
    renamed={"entry": "uid", "ranks_without": "without", "reason": "reason_text"},
    texts={
        "ranks_without": "Rank at each horizon without the change",
        "ranks_with": "Rank at each horizon with the change",
    },
)


_WAITS = "Behind what the run waits; null: it doesn't"


class AheadSerializer(serializers.Serializer[Any]):
    """Ranks now and later if demand stays as in the last 14 days."""

    state = serializers.ChoiceField(_STATES, help_text="absent: not computed; request it by POST")
    problem = serializers.CharField()
    waiting = RunWaitingSerializer(allow_null=True, help_text=_WAITS)
    as_of = UtcTimeField(allow_null=True)
    head_revision = serializers.IntegerField(allow_null=True)
    horizons_days = serializers.ListField(child=serializers.IntegerField())
    n_moving = serializers.IntegerField(help_text="Number of visible leaves that move at any horizon")
    leaves = LeafEffectSerializer(many=True, help_text="The 1,000 leaves that move furthest")


_CURRENT = "The same by the current policy"
TargetDaysSerializer = record_serializer(
    TargetDays,
    component="TargetDays",
    only="entry path off off_was n_days days_on days_on_was target target_was actual actual_was"
    " mean_rank mean_rank_was changed_points changed_places",
    renamed={"entry": "uid"},
    texts={
        "changed_points": "How far its actual share differs on average, in points; null: not known",
        "changed_places": "How far the mean rank of its users differs on average; null: not known",
        "off": "Mean distance of the actual share from the target, in points",
        "off_was": _CURRENT,
        "n_days": "Days with an actual share",
        "days_on": "Of these, on target",
        "days_on_was": _CURRENT,
        "target": "By day, as all that follow; null where unknown",
        "mean_rank": "Of the leaves below the entry, or of the leaf itself",
    },
)
MovedLeafSerializer = record_serializer(
    MovedLeaf,
    component="MovedLeaf",
    only="entry path rank rank_was",
    renamed={"entry": "uid"},
    texts={"rank": "Mean rank of these days", "rank_was": _CURRENT},
)


class BackTestSerializer(serializers.Serializer[Any]):
    """Past days with the change, beside the current policy. Usage is as it was."""

    state = serializers.ChoiceField(
        ("ready", "stale", "asked", "failed", "absent", "no_days", "hidden", "decided"),
        help_text="absent: not computed; request it by POST. hidden: for readers of all numbers only. stale: a day has "
        "ended, or the policy, mapping or usage has changed since; request it again",
    )
    problem = serializers.CharField()
    waiting = RunWaitingSerializer(allow_null=True, help_text=_WAITS)
    computed_at = UtcTimeField(allow_null=True)
    head_revision = serializers.IntegerField(allow_null=True, help_text="The current policy")
    days = serializers.ListField(child=serializers.DateField())
    deviation = serializers.ListField(
        child=serializers.FloatField(allow_null=True),
        help_text="By day: mean distance of `entries` from their targets, weighted by these, in points",
    )
    deviation_was = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text=_CURRENT)
    n_ranked = serializers.IntegerField(help_text="Leaves with a rank on one of the days")
    entries = TargetDaysSerializer(
        many=True, help_text="The 100 entries whose targets change most; if none does, shares or else ranks"
    )
    leaves = MovedLeafSerializer(many=True, help_text="The 1,000 leaves whose mean rank moves furthest")


class BackTestDaysSerializer(serializers.Serializer[Any]):
    days = serializers.ChoiceField(BACK_TEST_DAYS, default=DEFAULT_DAYS, help_text="The last days that have ended")


class CommentSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    operation = serializers.IntegerField(
        allow_null=True, help_text="Index of the operation, from 0; null: the whole change set"
    )
    author = serializers.CharField(source="author_name")
    text = serializers.CharField()
    created_at = UtcTimeField()


class NewCommentSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(max_length=bounds.REASON)
    operation = serializers.IntegerField(
        min_value=0, max_value=MOST_OPEN_OPERATIONS, required=False, default=None, allow_null=True
    )


class ChangeSetCheckListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="list_checks_of_change_set", responses=list_schema(CheckSerializer))
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """Checks of the change set for the caller: passed, warning or blocking."""
        return list_response(CheckSerializer(_page(request, policy, change_set).checks, many=True).data)


class ChangeSetEffectView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_effect_of_change_set", responses=AheadSerializer)
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """Ranks with and without the change, now and after 1, 7 and 30 days. Empty for decided change sets."""
        page = _page(request, policy, change_set)
        effect = page.effect if page.review.is_open else change_effect_runs.Effect("decided")
        projection = effect.projection
        return Response(
            AheadSerializer(
                {
                    "state": effect.state,
                    "problem": effect.problem,
                    "waiting": effect.waiting,
                    "as_of": effect.as_of,
                    "head_revision": effect.head_number or None,
                    "horizons_days": list(projection.horizons_days) if projection is not None else [],
                    "n_moving": page.n_moving if projection is not None else 0,
                    "leaves": page.leaves(MOST_REVIEWED_LEAVES) if projection is not None else [],
                }
            ).data
        )

    @extend_schema(operation_id="compute_effect_of_change_set", request=None, responses={202: AskedRunSerializer})
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Compute the effect in the background, as necessary for large policies."""
        row = found_for(request, policy, change_set)
        run = change_effect_runs.request_effect(change_set_id=row.pk, at=clock.now(), actor=actor_of(request))
        return Response({"run": run.pk}, status=202)


class ChangeSetBackTestView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="get_back_test_of_change_set", responses=BackTestSerializer)
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """Targets and ranks of the past days with the change, by the usage that there was."""
        tested = back_test_of(_page(request, policy, change_set))
        days = [] if tested.result is None else tested.result.days
        return Response(
            BackTestSerializer(
                {
                    "state": tested.state,
                    "problem": tested.stored.problem if tested.state == "failed" else "",
                    "waiting": None if tested.is_hidden else tested.stored.waiting,
                    "computed_at": None if tested.result is None else tested.stored.computed_at,
                    "head_revision": tested.stored.head_number or None if tested.result is not None else None,
                    "days": days,
                    "deviation": tested.deviation[0],
                    "deviation_was": tested.deviation[1],
                    "n_ranked": tested.n_ranked,
                    "entries": tested.targets,
                    "leaves": tested.furthest(MOST_REVIEWED_LEAVES),
                }
            ).data
        )

    @extend_schema(
        operation_id="compute_back_test_of_change_set",
        request=BackTestDaysSerializer,
        responses={202: AskedRunSerializer},
    )
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Compute the past days in the background."""
        page = _page(request, policy, change_set)
        if not page.sees_all_numbers:
            raise NotAllowed(_("A back-test ranks all users of the policy: it is for readers of all numbers."))
        n_days = read_body(BackTestDaysSerializer, request)["days"]
        run = request_back_test(
            change_set_id=page.review.change_set.pk, n_days=n_days, at=clock.now(), actor=actor_of(request)
        )
        return Response({"run": run.pk}, status=202)


class ChangeSetCommentListView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="list_comments_of_change_set", responses=list_schema(CommentSerializer))
    def get(self, request: Request, policy: str, change_set: int) -> Response:
        """Comments, oldest first."""
        return list_response(CommentSerializer(found_for(request, policy, change_set).comments.all(), many=True).data)

    @extend_schema(
        operation_id="comment_on_change_set", request=NewCommentSerializer, responses={201: CommentSerializer}
    )
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Comment on the change set or on one operation, in plain text. A rebase keeps comments in place."""
        row, body = found_for(request, policy, change_set), read_body(NewCommentSerializer, request)
        comment = lifecycle.comment_on(id=row.pk, **body, at=clock.now(), actor=actor_of(request))
        return Response(CommentSerializer(comment).data, status=201)


def _page(request: Request, policy: str, change_set: int) -> ReviewPage:
    row = found_for(request, policy, change_set)
    return get_review_page(id=row.pk, actor=actor_of(request), at=clock.now())


class ReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=bounds.REASON, required=False, allow_blank=True)


class PublicationSerializer(ReasonSerializer):
    effective_at = UtcTimeField(
        required=False,
        allow_null=True,
        help_text="When it takes effect; null: now. Default: `effective_at` of the change set",
    )


class ChoiceSerializer(serializers.Serializer[Any]):
    entry = serializers.UUIDField(allow_null=True, help_text="`entry` of the conflict; null for settings")
    field = serializers.CharField(max_length=bounds.FIELD)
    take = serializers.ChoiceField(["mine", "theirs"])


class RebaseSerializer(serializers.Serializer[Any]):
    choices = BoundedListField(
        child=ChoiceSerializer(),
        max_length=MOST_APPLIED_OPERATIONS,
        required=False,
        help_text="One choice for each conflict; not needed without conflicts",
    )


class EmptySerializer(serializers.Serializer[Any]):
    """No members."""


def _step(request: Any = ReasonSerializer) -> Any:
    header = if_match_header("the change set", is_required=False)
    return {"parameters": [header], "request": request, "responses": ChangeSetDetailSerializer}


class ProposalView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="propose_change_set", **_step())
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Propose a draft to the people who may publish it."""
        return _run_step(services.propose_change_set, request, policy, change_set)


class ApprovalView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="approve_change_set", **_step(EmptySerializer))
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Approve this version as a second person. Authors can't approve their own change sets."""
        return _run_step(lifecycle.approve_change_set, request, policy, change_set, EmptySerializer)


class ReturnView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="request_changes", **_step())
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Return a proposal to its author as a draft. `reason` becomes a comment."""

        def send_back(*, reason: str = "", **more: Any) -> ChangeSet:
            return lifecycle.request_changes(text=reason, **more)

        return _run_step(send_back, request, policy, change_set)


class PublicationView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="publish_change_set", **_step(PublicationSerializer))
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Publish the change set on the current head, or schedule it.

        409 lists conflicts with revisions published since its base, or requires a second person (`needs_approval`).
        """
        planned = found_for(request, policy, change_set).effective_at

        def publish(*, at: datetime, effective_at: datetime | None = planned, **more: Any) -> ChangeSet | Revision:
            if effective_at is not None and effective_at > at:
                return lifecycle.schedule_change_set(effective_at=effective_at, at=at, **more)
            return services.publish_change_set(at_once=True, at=at, **more)

        return _run_step(publish, request, policy, change_set, PublicationSerializer)


class WithdrawalView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(operation_id="withdraw_change_set", **_step())
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Withdraw the change set. It stays readable."""
        return _run_step(services.withdraw_change_set, request, policy, change_set)


class RebaseView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    def before_body(self, request: Request, *, policy: str, change_set: int) -> None:
        found_for(request, policy, change_set)

    @extend_schema(operation_id="rebase_change_set", **_step(RebaseSerializer))
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Rebase the change set onto the head.

        409 lists conflicts that need a choice: `theirs` drops the operation, `mine` keeps it.
        """

        def rebase(*, choices: list[dict[str, Any]] | None = None, **more: Any) -> ChangeSet:
            chosen: dict[str, Side] = {
                f"{each['entry'] or 'policy'}:{each['field']}": each["take"] for each in choices or ()
            }
            return lifecycle.rebase_change_set(choices=chosen, **more)

        return _run_step(rebase, request, policy, change_set, RebaseSerializer)


class RevertView(APIView):
    scopes: ClassVar[Scopes] = READ_WRITE

    @extend_schema(
        operation_id="revert_change_set", request=ReasonSerializer, responses={201: ChangeSetDetailSerializer}
    )
    def post(self, request: Request, policy: str, change_set: int) -> Response:
        """Make a draft that reverts the published change set. Later changes of the same fields are conflicts."""
        number = revert.current_number(found_for(request, policy, change_set))
        body = read_body(ReasonSerializer, request) if request.data else {}
        draft = revert.revert_revision(
            policy_slug=policy, number=number, **body, at=clock.now(), actor=actor_of(request)
        )
        return answer(request, draft, 201)


def _run_step(
    step: Callable[..., ChangeSet | Revision],
    request: Request,
    policy: str,
    change_set: int,
    kind: type[serializers.Serializer[Any]] = ReasonSerializer,
) -> Response:
    """Run a step on the version in If-Match, or on the current version without the header."""
    row, version = found_for(request, policy, change_set), read_version(request)
    body = read_body(kind, request) if request.data else {}
    seen = row.version if version is None else version
    done = step(id=row.pk, version=seen, **body, at=clock.now(), actor=actor_of(request))
    # The returned object is used: after a return to its author, the caller may no longer read the change set.
    return answer(request, done.change_set if isinstance(done, Revision) else done)
