"""Steps of a change set: proposed, approved, sent back, published now or later, withdrawn, rebased, reverted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.api.authentication import Scopes, actor_of
from apps.api.v1.changesets.views import (
    IF_MATCH_OF_STEP,
    READ_WRITE,
    ChangeSetDetailSerializer,
    answer,
    found_for,
    version_of,
)
from apps.api.v1.lists import sent
from apps.core import clock
from apps.policies import services
from apps.policies.changesets import lifecycle
from apps.policies.changesets.rebase import Side
from apps.policies.models import ChangeSet, Revision
from apps.policies.publishing import revert


class ReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=4000, required=False, allow_blank=True)


class PublicationSerializer(ReasonSerializer):
    effective_at = serializers.DateTimeField(
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
